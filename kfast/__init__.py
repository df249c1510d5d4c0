"""kfast: what a Kafka cluster does when something fails, before it happens."""

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
from kfast.state import Assignment, ClusterState, Leadership, Replicas, Tables, generate, open
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
