"""kfast: what a Kafka cluster does when something fails, before it happens.

A public name is loaded when it is first asked for, with what it needs and nothing else: a worker
that counts scenarios, or a command that prints its version, does not load the whole library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfast.lazily import load_lazily

if TYPE_CHECKING:
    from kfast.census import take_census
    from kfast.changes import delete_topics, execute_plan
    from kfast.controller import Controller
    from kfast.errors import (
        ArgumentError,
        InputError,
        InvariantError,
        KfastError,
        PolicyError,
        RowError,
    )
    from kfast.explain import explain
    from kfast.impact import fail_brokers, impact
    from kfast.io import read, read_plan, write
    from kfast.journal import Outcome
    from kfast.machines import PartitionStateMachine, ReplicaStateMachine
    from kfast.planning import restart_plan
    from kfast.readiness import may_restart
    from kfast.replay import replay
    from kfast.risk import loss_probability, risk
    from kfast.scenarios import (
        Scenarios,
        bursts,
        every_broker,
        every_rack,
        every_rack_and_broker,
        independent_brokers,
        independent_racks,
        random_brokers,
        scenarios_from_table,
    )
    from kfast.schema import (
        AlterCode,
        Code,
        PartitionState,
        ReassignmentCode,
        ReplicaState,
        Strategy,
    )
    from kfast.state import Assignment, ClusterState, Leadership, Replicas, Tables, open
    from kfast.state.generate import generate
    from kfast.store import UNDECODABLE, Store
    from kfast.sweeps import (
        SweepPlan,
        prepare_sweep,
        sweep,
        sweep_brokers,
        sweep_partitions,
        sweep_reader,
    )

__version__ = "0.1.0"

__all__ = [
    "UNDECODABLE",
    "AlterCode",
    "ArgumentError",
    "Assignment",
    "ClusterState",
    "Code",
    "Controller",
    "InputError",
    "InvariantError",
    "KfastError",
    "Leadership",
    "Outcome",
    "PartitionState",
    "PartitionStateMachine",
    "PolicyError",
    "ReassignmentCode",
    "ReplicaState",
    "ReplicaStateMachine",
    "Replicas",
    "RowError",
    "Scenarios",
    "Store",
    "Strategy",
    "SweepPlan",
    "Tables",
    "bursts",
    "delete_topics",
    "every_broker",
    "every_rack",
    "every_rack_and_broker",
    "execute_plan",
    "explain",
    "fail_brokers",
    "generate",
    "impact",
    "independent_brokers",
    "independent_racks",
    "loss_probability",
    "may_restart",
    "open",
    "prepare_sweep",
    "random_brokers",
    "read",
    "read_plan",
    "replay",
    "restart_plan",
    "risk",
    "scenarios_from_table",
    "sweep",
    "sweep_brokers",
    "sweep_partitions",
    "sweep_reader",
    "take_census",
    "write",
]

load_lazily(__name__, {
    "census": "take_census",
    "changes": "delete_topics execute_plan",
    "controller": "Controller",
    "errors": "ArgumentError InputError InvariantError KfastError PolicyError RowError",
    "explain": "explain",
    "impact": "fail_brokers impact",
    "io": "read read_plan write",
    "journal": "Outcome",
    "machines": "PartitionStateMachine ReplicaStateMachine",
    "planning": "restart_plan",
    "readiness": "may_restart",
    "replay": "replay",
    "risk": "loss_probability risk",
    "scenarios": (
        "Scenarios bursts every_broker every_rack every_rack_and_broker independent_brokers "
        "independent_racks random_brokers scenarios_from_table"
    ),
    "schema": "AlterCode Code PartitionState ReassignmentCode ReplicaState Strategy",
    "state": "Assignment ClusterState Leadership Replicas Tables open",
    "state.generate": "generate",
    "store": "UNDECODABLE Store",
    "sweeps": "SweepPlan prepare_sweep sweep sweep_brokers sweep_partitions sweep_reader",
})
