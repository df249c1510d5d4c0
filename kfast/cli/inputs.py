"""How the commands read the cluster that they are asked about."""

from __future__ import annotations

from typing import Any

from kfast.cli.output import progress_bar
from kfast.errors import ArgumentError
from kfast.io import SourceTables, read, read_tables
from kfast.state import ClusterState
from kfast.state.settings import override_settings

__all__ = ["take_cluster", "take_tables"]


def take_cluster(source: str, options: dict[str, Any]) -> ClusterState:
    """Read a cluster; take `cluster_options` and `setting_option` out of a command's options."""
    settings = options.pop("settings", ())
    state: ClusterState = _read(read, source, options)
    return override_settings(state, settings) if settings else state


def take_tables(source: str, options: dict[str, Any]) -> SourceTables:
    """Read the tables of a cluster, and take `cluster_options` out of a command's options."""
    tables: SourceTables = _read(read_tables, source, options)
    return tables


def _read(reader: Any, source: str, options: dict[str, Any]) -> Any:
    """Read; a large file shows a progress bar on a terminal."""
    defaults: dict[str, str] = {}
    for name, value in options.pop("defaults"):
        if defaults.setdefault(name, value) != value:
            raise ArgumentError(f"--default {name} is given as {defaults[name]} and as {value}")
    arguments = {name: options.pop(name) for name in ("brokers_file", "add_brokers", "up")}
    with progress_bar("Reading", source) as progress:
        return reader(source, defaults=defaults, progress=progress, **arguments)
