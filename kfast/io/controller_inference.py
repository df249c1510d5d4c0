"""Which controller runs the cluster of a file: what the file tells, or else the newest of KRaft.

Source: docs/formats.md, section "Which controller is simulated".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from kfast import schema
from kfast.io.describe.parser import Parsed
from kfast.io.source_tables import SourceTables, set_column
from kfast.kernels.describe import Key
from kfast.state import ClusterState
from kfast.state.controller_change import REASON
from kfast.state.kraft_releases import ELR_VERSION, METADATA_VERSION, find_release
from kfast.state.quorum import NO_LAST_KNOWN

__all__ = [
    "assume_newest", "infer_controller", "infer_elr", "note_controller", "untold_controller",
]

WITH_ELR = "kraft-4.1"
"""Controller of a describe text whose tool was told the eligible leader replicas."""

NEWEST = schema.CONTROLLERS[-1]
ZOOKEEPER = schema.DEFAULT_CONTROLLER


def infer_controller(tables: SourceTables, parsed: Parsed) -> SourceTables:
    """Tables of a describe text with the controller that its columns tell, and the reason."""
    name, line = tables.source, int(parsed.cursor["elr_line"])
    if line >= 0:
        both = (parsed.offsets_of(key) for key in (Key.ELR, Key.LAST_KNOWN_ELR))
        rows = np.flatnonzero(sum(map(np.diff, both)))
        if rows.size:
            line = int(parsed.partitions["line"][rows[0]])
            return _run_by(tables, WITH_ELR, f"inferred: line {line} of {name} names an ELR", True)
        return _run_by(
            tables, WITH_ELR,
            f"inferred: line {line} of {name} has an Elr column; ELR is taken for off, for no line "
            "names one, which --elr overrides",
        )
    if parsed.has(Key.MARKED_FOR_DELETION):
        why = f"{name} shows topics that are marked for deletion"
        return _run_by(tables, ZOOKEEPER, f"inferred: {why}, as only ZooKeeper mode does")
    has_header = bool((parsed.topics["header_line"] >= 0).any()) or parsed.cursor["lower_case"]
    if has_header and not parsed.has(Key.TOPIC_ID):
        return _run_by(
            tables, ZOOKEEPER,
            f"inferred: {name} has no topic ids, as before Kafka 2.8; --controller overrides",
        )
    return assume_newest(tables)


def untold_controller(state: ClusterState) -> str:
    """What the describe text of a KRaft cluster does not tell of its controller; empty if nothing.

    The text has Elr columns where ELR is on or a partition has one (`write_describe`).
    """
    quorum = state.quorum
    if quorum is None:
        return ""
    named = quorum.elr is not None and bool((quorum.elr != 0).any())
    named |= quorum.last_known_elr is not None and bool(
        (quorum.last_known_elr != NO_LAST_KNOWN).any())
    has_columns = quorum.elr_on or named
    if (state.controller, quorum.elr_on) == ((WITH_ELR, named) if has_columns else (NEWEST, False)):
        return ""
    return (
        "a describe text does not tell which controller runs the cluster: read it with --controller"
        f" {state.controller}" + f" --elr {'on' if quorum.elr_on else 'off'}"
        * (quorum.elr_on or named)
    )


def assume_newest(tables: SourceTables) -> SourceTables:
    """Tables of a source that tells nothing of its controller."""
    return _run_by(
        tables, NEWEST,
        f"assumed, the newest: nothing in {tables.source} tells it; --controller overrides",
    )


def infer_elr(tables: SourceTables) -> SourceTables:
    """Tables of a source whose partitions name eligible leader replicas."""
    return _run_by(tables, WITH_ELR, f"inferred: {tables.source} names an ELR", True)


def _run_by(
    tables: SourceTables, controller: str, why: str, elr: bool = False
) -> SourceTables:
    """The same tables with another controller; only KRaft needs a column to say it."""
    notes = (f"{REASON}{why}", *tables.notes)
    if controller == ZOOKEEPER:
        return replace(tables, notes=notes)
    features = [{
        "name": METADATA_VERSION, "level": find_release(controller).latest_metadata_version,
    }]
    if elr:
        features.append({"name": ELR_VERSION, "level": 1})
    kind = schema.CLUSTER_SCHEMA.field("features").type
    cluster = set_column(tables.cluster, "controller", pa.array([controller]))
    cluster = set_column(cluster, "features", pa.array([features], kind))
    return replace(tables, notes=notes, cluster=cluster)


def note_controller(tables: SourceTables) -> SourceTables:
    """Say where the controller comes from, unless a reader has said it."""
    if any(note.startswith(REASON) for note in tables.notes):
        return tables
    cluster = tables.cluster
    if cluster is not None and "controller" in cluster.column_names:
        why = f"read from {tables.source}"
    else:
        why = f"assumed: {tables.source} does not tell it; --controller overrides"
    return replace(tables, notes=(f"{REASON}{why}", *tables.notes))
