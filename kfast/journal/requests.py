"""Tables of one step's request batch: what was added, what was sent to whom.

Source: docs/controller.md, section 5; Kafka 3.9, `AbstractControllerBrokerRequestBatch`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.journal import columns
from kfast.journal.columns import NONE, Column, Nulls, Number
from kfast.journal.effects import (
    KIND_DELETE,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
    KIND_QUEUED,
    KIND_STOP,
)
from kfast.journal.kept import EffectTable
from kfast.journal.memory import room
from kfast.journal.outcome import KINDS
from kfast.journal.spread import KEY, SAID
from kfast.kernels import journal_tables
from kfast.schema import ADDITIONS, LEADER_DURING_DELETE
from kfast.schema import UPDATE_METADATA as METADATA
from kfast.state.records import EMPTY_ROWS, Rows

LEADER_AND_ISR, UPDATE_METADATA, STOP_REPLICA = 0, 1, 2
_LISTS = ("isr", "replicas")
_CHANGING = ("adding", "removing")
_ADDS = KIND_STOP | KIND_LEADER_AND_ISR | KIND_METADATA


def additions(whole: EffectTable, step: int) -> Iterator[pa.Table]:
    """Additions in order; `to` is null for UpdateMetadata, which goes to all registered."""
    for kept in whole.pieces:
        if kept.all_lead and kept.kinds & _ADDS == KIND_LEADER_AND_ISR:
            yield _leads_added(kept, step)
        else:
            yield _added(kept, step)


def _leads_added(kept: EffectTable, step: int) -> pa.Table:
    """Additions of effects that all add a LeaderAndIsr and nothing else."""
    said = kept.spread
    said.ask((*KEY, *SAID), (*_LISTS, "recipients"))
    n, (topic, partition, row, leader, epoch, version, controller, recovery) = said.numbers(
        (*KEY, *SAID)
    )
    kinds = said.number("kinds") if kept.kinds & KIND_IS_NEW else 0
    return pa.table(
        [
            columns.number(step, n), columns.named(LEADER_AND_ISR, n, KINDS),
            columns.named(topic, n, kept.seen.topic), columns.number(partition, n),
            columns.number(row, n), said.ids("recipients").column, columns.number(leader, n),
            columns.number(epoch, n), said.ids("isr").column,
            columns.number(recovery, n, dtype=np.int8),
            columns.number(version, n), columns.number(controller, n),
            said.ids("replicas").column, *(_changing(kept, name) for name in _CHANGING),
            columns.flags(kinds, KIND_IS_NEW, n), columns.all_null(pa.bool_(), n),
        ],
        schema=ADDITIONS.schema,
    )


def _changing(
    kept: EffectTable, name: str, origins: Rows | None = None, nulls: Nulls = NONE,
    leads: npt.NDArray[np.bool_] | None = None,
) -> Column:
    """Replicas that are added or removed: mostly none."""
    n = len(kept) if origins is None else origins.size
    if not kept.changing:
        return columns.no_values(n, nulls)
    found = kept.spread.ids(name).column
    if origins is None:
        return found
    return found.take(pa.array(origins, mask=None if leads is None else ~leads))


class _Added:
    """Additions of any kind: columns of their own, as an effect may add up to three."""

    def __init__(self, kept: EffectTable) -> None:
        said = kept.spread
        kinds = said.number("kinds") if kept.kinds & _ADDS != kept.every_kinds & _ADDS else None
        n = self.n = _count_added(kept.every_kinds if kinds is None else kinds, len(kept))
        said.ask((*KEY, *SAID, "stop_epoch", "broker"), (*_LISTS, "recipients"))
        names = (*KEY, "leader", "version", "controller_epoch", "recovery")
        self.numbers = {name: said.number(name) for name in names}
        written = {k: v for k, v in self.numbers.items() if not isinstance(v, int)}
        self.said, self.epochs = room((2, n))
        numbers, offsets = room((len(written), n)), room((3, n + 1))
        offsets[:, 0] = 0
        recipients, isr, replicas = (said.ids(name) for name in ("recipients", *_LISTS))
        told = room(recipients.values.size + len(kept))
        flagged = bool(kept.kinds & (KIND_IS_NEW | KIND_DELETE))
        self.origins = np.empty(n if kept.changing or flagged else 0, np.int32)
        journal_tables.fill_additions(
            EMPTY_ROWS if kinds is None else said.array("kinds"), kept.every_kinds,
            list(written.values()), said.array("leader_epoch"), said.array("stop_epoch"),
            said.array("broker"),
            [(ids.offsets, ids.length) for ids in (recipients, isr, replicas)],
            recipients.values, self.said, numbers, self.epochs, offsets, told, self.origins,
        )
        self.numbers |= dict(zip(written, numbers, strict=True))
        self.kinds: Number = said.array("kinds")[self.origins] if flagged else 0
        self.leads, self.stops = self.said == LEADER_AND_ISR, self.said == STOP_REPLICA
        self.to_leads, self.to_stops = Nulls(self.leads), Nulls(self.stops)
        self.to_some = Nulls(self.leads | self.stops)
        self.to = columns.lists(offsets[0], told[: offsets[0, n]], self.to_some)
        self.isr = columns.lists(offsets[1], isr.values, self.to_leads)
        self.replicas = columns.lists(offsets[2], replicas.values, self.to_leads)


def _count_added(kinds: Number, n: int) -> int:
    """How many additions effects make."""
    bits = (KIND_STOP, KIND_LEADER_AND_ISR, KIND_METADATA)
    if isinstance(kinds, int):
        return n * sum((kinds & bit) != 0 for bit in bits)
    return sum(int(np.count_nonzero(kinds & bit)) for bit in bits)


def _added(kept: EffectTable, step: int) -> pa.Table:
    """Additions, one after the other; an effect adds StopReplica first."""
    added = _Added(kept)
    n, said, nulls = added.n, added.numbers, added.to_leads
    return pa.table(
        [
            columns.number(step, n), columns.named(added.said, n, KINDS),
            columns.named(said["topic"], n, kept.seen.topic),
            columns.number(said["partition"], n), columns.number(said["row"], n), added.to,
            columns.number(said["leader"], n, nulls), columns.values(added.epochs, added.to_some),
            added.isr, columns.number(said["recovery"], n, nulls, np.int8),
            columns.number(said["version"], n, nulls),
            columns.number(said["controller_epoch"], n, nulls), added.replicas,
            *(
                _changing(kept, name, added.origins if kept.changing else added.said, nulls,
                          added.leads)
                for name in _CHANGING
            ),
            columns.flags(added.kinds, KIND_IS_NEW, n, nulls),
            columns.flags(added.kinds, KIND_DELETE, n, added.to_stops),
        ],
        schema=ADDITIONS.schema,
    )


def metadata(whole: EffectTable, step: int, *, merges: bool) -> Iterator[pa.Table]:
    """The partitions of an UpdateMetadata, with the markers of queued topics (section 5.2).

    With `merges` only the last effect of each partition that tells of it; otherwise every effect.
    """
    for kept in (whole.by_row if merges else whole).pieces:
        places = None
        if merges and not (kept.all_lead and kept.distinct):
            places = kept.metadata_places()
        yield _metadata(kept, places, step, leads=merges)


def _metadata(kept: EffectTable, places: Rows | None, step: int, *, leads: bool) -> pa.Table:
    said = kept.spread
    names = (*KEY, "controller_epoch", "leader", "leader_epoch", "version")
    said.ask(names, (*_LISTS, "offline"), leads=leads)
    n, (topic, partition, row, controller, leader, epoch, version) = said.numbers(names, places)
    if kept.kinds & KIND_QUEUED:
        kinds = said.array("kinds")
        queued = ((kinds if places is None else kinds[places]) & KIND_QUEUED) != 0
        leader = np.where(queued, LEADER_DURING_DELETE, leader).astype(np.int32)
        epoch, version = (
            np.where(queued, 0, number).astype(np.int32) for number in (epoch, version)
        )
    isr, replicas, offline = (
        said.ids(name, places, leads=leads).column for name in (*_LISTS, "offline")
    )
    return pa.table(
        [
            columns.number(step, n), columns.named(topic, n, kept.seen.topic),
            columns.number(partition, n), columns.number(row, n),
            columns.number(controller, n), columns.number(leader, n), columns.number(epoch, n), isr,
            columns.number(version, n), replicas, offline,
        ],
        schema=METADATA.schema,
    )
