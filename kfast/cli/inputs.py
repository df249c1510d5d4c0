"""How the commands read the cluster that they are asked about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kfast.cli.output import progress_bar
from kfast.io import read
from kfast.state import ClusterState

__all__ = ["read_cluster"]


def read_cluster(
    source: str,
    brokers_file: Path | None,
    defaults: Sequence[tuple[str, str]],
    up: tuple[int, ...] | None,
) -> ClusterState:
    """Read a cluster as `input_options` say; a large file shows a progress bar on a terminal."""
    with progress_bar("Reading", source) as progress:
        return read(
            source,
            brokers_file=brokers_file,
            defaults=dict(defaults),
            up=up or (),
            progress=progress,
        )
