"""kfast: what a Kafka cluster does when something fails, before it happens."""

from kfast.state import Assignment, ClusterState, Leadership, Replicas, generate

__all__ = ["Assignment", "ClusterState", "Leadership", "Replicas", "generate"]
