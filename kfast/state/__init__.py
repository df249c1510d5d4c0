"""The cluster's state: its columns, how they are made, compared and handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfast.lazy_names import load_lazily

if TYPE_CHECKING:
    from kfast.state.cluster import ClusterState
    from kfast.state.cluster import open as open
    from kfast.state.generation import generate
    from kfast.state.records import Assignment, Leadership, Replicas, Tables

__all__ = ["Assignment", "ClusterState", "Leadership", "Replicas", "Tables", "generate"]

load_lazily(__name__, {
    "cluster": "ClusterState open",
    "generation": "generate",
    "records": "Assignment Leadership Replicas Tables",
})
