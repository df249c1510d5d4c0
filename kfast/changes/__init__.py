"""What somebody asks of the controller: a reassignment plan is executed, topics are deleted."""

from kfast.changes.deletion import DELETION_METRICS, Deletion, delete_topics
from kfast.changes.reassignment import REASSIGNMENT_METRICS, Reassignment, execute_plan

__all__ = [
    "DELETION_METRICS",
    "REASSIGNMENT_METRICS",
    "Deletion",
    "Reassignment",
    "delete_topics",
    "execute_plan",
]
