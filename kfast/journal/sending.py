"""The table of what one batch sent to whom.

Source: docs/controller.md, section 5; Kafka 3.9, `AbstractControllerBrokerRequestBatch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.errors import InvariantError
from kfast.journal import columns
from kfast.journal.columns import Column, Number
from kfast.journal.effects import KIND_DELETE, KIND_IS_NEW
from kfast.journal.kept import EffectTable, most_rows
from kfast.journal.memory import room
from kfast.journal.outcome import KINDS
from kfast.journal.requests import LEADER_AND_ISR, STOP_REPLICA
from kfast.journal.spread import KEY, SAID, Ids
from kfast.kernels import journal_requests
from kfast.schema import REQUESTS
from kfast.state.records import EMPTY_ROWS, Rows

Counts = npt.NDArray[np.int64]
_LEADS = (*KEY, *SAID)
_STOPS = (*KEY, "stop_epoch")
_LISTS = ("isr", "replicas")


def requests(unordered: EffectTable, step: int) -> Iterator[pa.Table]:
    """What was sent, one row per (kind, broker, partition); unregistered brokers get none."""
    kept = unordered.by_row
    leads, stops = kept.request_counts
    for counts in _ranges(leads, most_rows(kept.n_slots)):
        yield _leads_sent(_Sent(kept, counts, LEADER_AND_ISR, _LEADS, _LISTS), step)
    for counts in _ranges(stops, most_rows(1)):
        yield _stops_sent(_Sent(kept, counts, STOP_REPLICA, _STOPS), step)


def _ranges(counts: Counts, most: int) -> Iterator[Counts]:
    """The counts of brokers that follow each other, of `most` rows if more than one; others 0."""
    begin = 0
    ends = np.cumsum(counts)
    while begin < counts.size and ends[-1] > (before := ends[begin] - counts[begin]):
        end = max(int(np.searchsorted(ends, before + most, "right")), begin + 1)
        part = np.zeros_like(counts)
        part[begin:end] = counts[begin:end]
        if part.any():
            yield part
        begin = end


class _Sent:
    """Requests of one kind.

    Parameters
    ----------
    kept : EffectTable
        Effects in the order of rows.
    counts : (B,) int64
        Rows for each broker; those that get none are left out.
    kind : int
        LeaderAndIsr or StopReplica.
    names, lists : sequence of str
        Numbers and lists that each request says.
    """

    def __init__(
        self, kept: EffectTable, counts: Counts, kind: int, names: Sequence[str],
        lists: Sequence[str] = (),
    ) -> None:
        self.kept, self.counts, self.n = kept, counts, int(counts.sum())
        for piece in kept.pieces:
            piece.spread.ask(names, lists)
        shared = {name: _shared(kept, name) for name in names}
        written = [name for name, said in shared.items() if said is None]
        numbers = room((len(written), self.n))
        flagged = kept.kinds & (KIND_IS_NEW if kind == LEADER_AND_ISR else KIND_DELETE)
        self.origins = np.empty(self.n if kept.changing else 0, np.int32)
        self.flags = np.empty(self.n if flagged else 0, np.uint8)
        self.cursors = np.zeros((3, counts.size), np.int64)
        self.ends = np.cumsum(counts)
        self.cursors[0] = self.ends - counts
        self.lists = self._list_room(lists)
        self._deliver(kind, written, numbers, lists)
        self.numbers: dict[str, Number] = {
            name: said for name, said in shared.items() if said is not None
        }
        self.numbers |= dict(zip(written, numbers, strict=True))

    def _list_room(self, names: Sequence[str]) -> dict[str, Ids]:
        """Memory for lists; where all are of one length, without offsets."""
        found, totals = {}, np.zeros((3, self.counts.size), np.int64)
        for at, name in enumerate(names):
            parts = [piece.spread.ids(name) for piece in self.kept.pieces]
            lengths = {-1 if ids.offsets.size else ids.length for ids in parts}
            length = lengths.pop() if len(lengths) == 1 else -1
            if length >= 0:
                sizes, offsets = self.counts * length, EMPTY_ROWS
            else:
                if not totals.any():
                    self._count_values(totals)
                sizes, offsets = totals[at + 1], room(self.n + 1)
                offsets[0] = 0
            self.cursors[at + 1] = np.cumsum(sizes) - sizes
            values = room(int(sizes.sum()))
            found[name] = Ids(self.n, values, max(length, 0), offsets)
        return found

    @property
    def _told(self) -> npt.NDArray[np.uint8]:
        return (self.counts > 0).view(np.uint8)

    def _count_values(self, totals: Counts) -> None:
        kept = self.kept
        journal_requests.count_values(kept.as_bytes, kept.wide, self._told, totals)

    def _deliver(
        self, kind: int, written: Sequence[str], numbers: Rows, lists: Sequence[str]
    ) -> None:
        kept = self.kept
        most = (journal_requests.block_size() + kept.longest_run) * max(kept.n_slots, 1)
        scratch = room((3, most)), room((2, most), np.uint8)
        begin, begins = 0, np.empty((2, self.counts.size), np.int64)
        for piece in kept.pieces:
            said = piece.spread
            found = [said.ids(name) for name in lists]
            journal_requests.deliver(
                piece.as_bytes, kept.wide, self._told, kind, begin, self.cursors,
                self.ends, [said.array(name) for name in written],
                [(ids.offsets, ids.length, ids.values) for ids in found], numbers,
                [(ids.offsets, ids.values) for ids in self.lists.values()],
                self.origins, self.flags, *scratch, begins,
            )
            begin += len(piece)
        if not np.array_equal(self.cursors[0], self.ends):
            raise InvariantError(
                f"requests of kind {KINDS[kind]} were counted as {self.n}, and more or less sent"
            )

    def changing(self, name: str) -> Column:
        """Replicas that are added or removed: mostly none."""
        if not self.kept.changing:
            return columns.no_values(self.n)
        found = [piece.spread.ids(name).column for piece in self.kept.pieces]
        return columns.joined(found).take(pa.array(self.origins))

    def head(self, step: int, kind: int) -> list[Column]:
        """Columns step, kind, broker_id, broker_epoch, topic, partition, partition_row."""
        n, seen, said = self.n, self.kept.seen, self.numbers
        epochs = seen.broker_epoch[self.counts > 0]
        same = bool((epochs == epochs[0]).all())
        ids, all_epochs = room(n), room(0 if same else n, np.int64)
        journal_requests.fill_brokers(
            self.counts, seen.broker_id, seen.broker_epoch, ids, all_epochs
        )
        return [
            columns.number(step, n), columns.named(kind, n, KINDS), columns.values(ids),
            columns.number(int(epochs[0]) if same else all_epochs, n, dtype=np.int64),
            columns.named(said["topic"], n, seen.topic), columns.number(said["partition"], n),
            columns.number(said["row"], n),
        ]


def _shared(kept: EffectTable, name: str) -> int | None:
    """The number that all effects share; None where they differ."""
    said = {
        number if isinstance(number, int) else None
        for number in (piece.spread.number(name) for piece in kept.pieces)
    }
    return said.pop() if len(said) == 1 else None


def _leads_sent(sent: _Sent, step: int) -> pa.Table:
    n, said = sent.n, sent.numbers
    flags: Number = sent.flags if sent.flags.size else 0
    return pa.table(
        [
            *sent.head(step, LEADER_AND_ISR), columns.number(said["leader"], n),
            columns.number(said["leader_epoch"], n), sent.lists["isr"].column,
            columns.number(said["recovery"], n, dtype=np.int8),
            columns.number(said["version"], n), columns.number(said["controller_epoch"], n),
            sent.lists["replicas"].column, sent.changing("adding"), sent.changing("removing"),
            columns.flags(flags, KIND_IS_NEW, n), columns.all_null(pa.bool_(), n),
        ],
        schema=REQUESTS.schema,
    )


def _stops_sent(sent: _Sent, step: int) -> pa.Table:
    n = sent.n
    flags: Number = sent.flags if sent.flags.size else 0
    record = {column.name: columns.all_null(column.arrow, n) for column in REQUESTS.columns[7:]}
    record["leader_epoch"] = columns.number(sent.numbers["stop_epoch"], n)
    record["delete"] = columns.flags(flags, KIND_DELETE, n)
    return pa.table([*sent.head(step, STOP_REPLICA), *record.values()], schema=REQUESTS.schema)
