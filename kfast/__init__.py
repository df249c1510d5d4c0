"""kfast: what a Kafka cluster does when something fails, before it happens."""

from kfast.controller import Controller
from kfast.journal import Outcome
from kfast.machines import PartitionStateMachine, ReplicaStateMachine
from kfast.schema import AlterCode, Code, PartitionState, ReplicaState, Strategy
from kfast.state import Assignment, ClusterState, Leadership, Replicas, generate
from kfast.store import Store

__all__ = [
    "AlterCode",
    "Assignment",
    "ClusterState",
    "Code",
    "Controller",
    "Leadership",
    "Outcome",
    "PartitionState",
    "PartitionStateMachine",
    "ReplicaState",
    "ReplicaStateMachine",
    "Replicas",
    "Store",
    "Strategy",
    "generate",
]
