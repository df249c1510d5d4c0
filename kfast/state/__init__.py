"""The cluster's state: its columns, how they are made, compared and handed out."""

from kfast.state.cluster import ClusterState
from kfast.state.generate import generate
from kfast.state.records import Assignment, Leadership, Replicas, Tables
from kfast.state.saving import open

__all__ = ["Assignment", "ClusterState", "Leadership", "Replicas", "Tables", "generate", "open"]
