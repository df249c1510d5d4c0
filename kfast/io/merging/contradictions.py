"""What sources of one cluster contradict each other in, and what was taken from each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.io.files import abbreviate
from kfast.io.merging.keyed_tables import Combined, Part, Places, differing_rows
from kfast.io.source_tables import SourceTables
from kfast.schema import PROVENANCE

__all__ = ["ALL_COLUMNS", "Contradictions", "provenance_of"]

ALL_COLUMNS = "all"
"""Group of columns in the provenance of one source."""

_GROUPS = {
    "replicas": ("replicas",),
    "leaders": ("leader",),
    "ISR": ("isr",),
    "ELR": ("elr", "last_known_elr"),
    "epochs": ("leader_epoch", "version", "controller_epoch", "recovery"),
    "reassignments": ("adding", "removing", "being_reassigned"),
    "log directories": ("directories", "offline_dir"),
    "states": ("partition_state", "has_leadership", "replica_state_broker_ids", "replica_states"),
    "topic ids": ("topic_id",),
    "topic settings": ("min_insync_replicas", "unclean_leader_election"),
    "deletions": ("queued_for_deletion", "deletion_started", "ineligible"),
    "racks": ("rack",),
    "live brokers": ("registered", "up", "fenced", "shutting_down", "in_controlled_shutdown"),
    "registrations": (
        "epoch", "incarnation_id", "cordoned", "registration_offset", "feature_ranges",
    ),
    "broker defaults": ("configurations", "static_configuration"),
}
"""Groups of columns in notes and in the provenance."""
_UNITS = {"rack": "brokers", "up": "brokers", "topic_id": "topics",
          "min_insync_replicas": "topics", "unclean_leader_election": "topics"}
_SETS = ("isr", "elr", "adding", "removing")
"""Lists whose order is not compared."""
_SHOWN = 3


def _group_of(column: str) -> str | None:
    return next((name for name, columns in _GROUPS.items() if column in columns), None)


class Contradictions:
    """What is said of the sources while they are merged.

    Parameters
    ----------
    sources : sequence of str
        Their names, in the order in which they count.
    """

    def __init__(self, sources: Sequence[str]) -> None:
        self.sources = sources
        self.notes: list[str] = []
        self.values: Counter[tuple[str, int]] = Counter()
        """Values that were taken, by group and source."""
        self.counts: Counter[tuple[str, int]] = Counter()
        """Values in which a source differs from what counts, likewise."""

    def count(self, combined: Combined) -> None:
        """Count what was taken from each source: the most of any column in a group."""
        counts: dict[tuple[str, int], int] = {}
        for column, origin in combined.origin.items():
            group = _group_of(column)
            if group is None:
                continue
            for number, n in enumerate(np.bincount(origin[origin >= 0]).tolist()):
                key = group, number
                counts[key] = max(counts.get(key, 0), n)
        self.values.update({key: n for key, n in counts.items() if n})

    def compare(
        self, column: str, parts: Sequence[Part], combined: Combined, row_name: Callable[[int], str]
    ) -> list[tuple[Part, Places]]:
        """Compare a column of each source with what counts.

        Returns
        -------
        list of (Part, (n,) array of int)
            Each source, and the rows in which it differs; of replicas those only in which it names
            other brokers, for another order does not contradict the rest of a row.
        """
        if column not in combined.columns:
            return []
        values, origin = combined.columns[column], combined.origin[column]
        differing = []
        for part in parts:
            at = np.flatnonzero(part.has_value(column) & (origin >= 0) & (origin != part.source))
            if not at.size:
                continue
            ours, theirs = values.take(pa.array(at)), part.values(column, at)
            wrong = differing_rows(ours, theirs, ordered=column not in _SETS)
            self._differ_in(column, part.source, origin[at[wrong]], [
                f"{row_name(int(at[n]))} ({_text(ours[n])}, not {_text(theirs[n])})"
                for n in wrong[:_SHOWN].tolist()
            ], wrong.size)
            if column == "replicas":
                wrong = differing_rows(ours, theirs, ordered=False)
            differing.append((part, at[wrong]))
        return differing

    def _differ_in(
        self, column: str, source: int, winners: npt.NDArray[np.int32], examples: list[str], n: int
    ) -> None:
        if n:
            self.differ(
                _group_of(column) or column, source, _UNITS.get(column, "partitions"), examples, n,
                *dict.fromkeys(winners.tolist()),
                what="" if column == "up" else column.replace("_", " "),
            )

    def differ(
        self, group: str, source: int, unit: str, examples: list[str], n: int, *winners: int,
        what: str = "",
    ) -> None:
        """Note that a source differs from what counts, with up to three examples."""
        if not n:
            return
        self.counts[group, source] += n
        counting = ", ".join(self.sources[winner] for winner in winners) or "another file"
        how_many = f" of {n} {unit if n > 1 else unit.removesuffix('s')}" if unit else ""
        more = f" and {n - len(examples)} more" if n > len(examples) else ""
        self.notes.append(
            f"contradiction: {what or group}{how_many}: {counting} counts, not"
            f" {self.sources[source]}: {', '.join(examples)}{more}"
        )

    def leave_out(self, source: int, topics: Sequence[str]) -> None:
        """Note that topics of a source are in none that could list them."""
        if topics:
            self.counts["topics", source] += len(topics)
            self.notes.append(
                f"contradiction: topics that only {self.sources[source]} names are left out:"
                f" {abbreviate(list(topics), _SHOWN)}"
            )

    def provenance(self, ordered: Sequence[SourceTables]) -> pa.Table:
        """The table `schema.PROVENANCE`, by group and then as sources count."""
        groups = dict.fromkeys([*_GROUPS, *(group for group, _ in (*self.values, *self.counts))])
        return provenance_of([
            (group, source, self.values[group, number], self.counts[group, number])
            for group in groups for number, source in enumerate(ordered)
            if self.values[group, number] or self.counts[group, number]
        ])


def provenance_of(rows: Sequence[tuple[str, SourceTables, int, int]]) -> pa.Table:
    """Make the table `schema.PROVENANCE` of groups, sources, values and contradictions."""
    sources = [source for _, source, _, _ in rows]
    return PROVENANCE.table({
        "columns": [group for group, *_ in rows],
        # A name that is not UTF-8 has surrogates, which Arrow does not take.
        "source": [source.source.encode("utf-8", "replace").decode() for source in sources],
        "kind": [source.kind for source in sources],
        "version": [source.version or None for source in sources],
        "captured": pa.array([source.captured_ms for source in sources], pa.timestamp("ms")),
        "values": [values for _, _, values, _ in rows],
        "contradictions": [counts for *_, counts in rows],
    })


def _text(value: pa.Scalar) -> str:
    """A value as examples show it."""
    shown = value.as_py()
    if isinstance(shown, list):
        return ",".join(map(str, shown)) or "none"
    return str(shown).lower() if isinstance(shown, bool) else str(shown)
