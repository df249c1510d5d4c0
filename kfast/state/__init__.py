"""The cluster's state: its columns, how they are made, compared and handed out."""

from kfast.state.cluster import ClusterState
from kfast.state.generate import generate
from kfast.state.records import Assignment, Leadership, Replicas, Tables

__all__ = ["Assignment", "ClusterState", "Leadership", "Replicas", "Tables", "generate"]
