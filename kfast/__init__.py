"""kfast: what a Kafka cluster does when something fails, before it happens.

A public name is loaded when it is first asked for, with what it needs and nothing else: a worker
that counts scenarios, or a command that prints its version, does not load the whole library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfast.lazily import load_lazily

if TYPE_CHECKING:
    from kfast.analysis.explain import explain
    from kfast.analysis.impact import fail_brokers, impact
    from kfast.analysis.risk import loss_probability, risk
    from kfast.build import build_digest
    from kfast.census import take_census
    from kfast.changes import delete_topics, execute_plan
    from kfast.controller import Controller
    from kfast.errors import (
        ArgumentError,
        InputError,
        InvariantError,
        KfastError,
        MissingExtraError,
        PolicyError,
        RowError,
    )
    from kfast.io import read, read_plan, write
    from kfast.journal import Outcome
    from kfast.log_replay import replay
    from kfast.machines import PartitionStateMachine, ReplicaStateMachine
    from kfast.planning import restart_plan
    from kfast.readiness import may_restart
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
    from kfast.settings import override_settings
    from kfast.state import Assignment, ClusterState, Leadership, Replicas, Tables
    from kfast.state import open as open
    from kfast.state.generation import generate
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
    "MissingExtraError",
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
    "build_digest",
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
    "override_settings",
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
    "analysis.explain": "explain",
    "analysis.impact": "fail_brokers impact",
    "analysis.risk": "loss_probability risk",
    "build": "build_digest",
    "census": "take_census",
    "changes": "delete_topics execute_plan",
    "controller": "Controller",
    "errors": (
        "ArgumentError InputError InvariantError KfastError MissingExtraError PolicyError RowError"
    ),
    "io": "read read_plan write",
    "journal": "Outcome",
    "log_replay": "replay",
    "machines": "PartitionStateMachine ReplicaStateMachine",
    "planning": "restart_plan",
    "readiness": "may_restart",
    "scenarios": (
        "Scenarios bursts every_broker every_rack every_rack_and_broker independent_brokers "
        "independent_racks random_brokers scenarios_from_table"
    ),
    "schema": "AlterCode Code PartitionState ReassignmentCode ReplicaState Strategy",
    "settings": "override_settings",
    "state": "Assignment ClusterState Leadership Replicas Tables open",
    "state.generation": "generate",
    "store": "UNDECODABLE Store",
    "sweeps": "SweepPlan prepare_sweep sweep sweep_brokers sweep_partitions sweep_reader",
})
