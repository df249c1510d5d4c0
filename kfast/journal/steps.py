"""What one step left behind, and its share of each table.

Source: docs/controller.md, sections 2.3, 3.4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kfast.journal import changes, columns, requests, sending
from kfast.journal.effects import KIND_LEADER_AND_ISR, KIND_METADATA, KIND_STOP
from kfast.journal.kept import EffectTable
from kfast.schema import (
    ADDITIONS,
    ELECTIONS,
    REFUSALS,
    REQUESTS,
    TRANSITIONS,
    UPDATE_METADATA,
    UPDATE_METADATA_BROKERS,
    Strategy,
)
from kfast.state.records import Rows

if TYPE_CHECKING:
    from kfast.controllers import Profile

SCHEMAS = {
    table.name.removeprefix("outcome."): table.schema
    for table in (
        TRANSITIONS, ELECTIONS, REFUSALS, ADDITIONS, REQUESTS, UPDATE_METADATA,
        UPDATE_METADATA_BROKERS,
    )
}
CHANGES = ("transitions", "elections", "refusals", "additions")
SENDS = ("requests", "update_metadata")
_ADDS = KIND_STOP | KIND_LEADER_AND_ISR | KIND_METADATA


@dataclass(frozen=True, eq=False)
class Step:
    """One step of an outcome at level `full`.

    Attributes
    ----------
    number : int
    kept : EffectTable
        What became of each target.
    shows : sequence of str
        Tables that have a share of this step.
    profile : Profile
        Which controller is simulated.
    replicas : bool
        Whether replicas moved: then nobody was elected.
    strategy : Strategy or None
        Of an election.
    told : EffectTable or None
        What UpdateMetadata says, where LeaderAndIsr says something else.
    merges : bool
        UpdateMetadata tells the last effect of each partition, not every one.
    """

    number: int
    kept: EffectTable
    shows: Sequence[str]
    profile: Profile
    replicas: bool = False
    strategy: Strategy | None = None
    told: EffectTable | None = None
    merges: bool = True

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Yield this step's share of a table, in parts; nothing where it has none."""
        kept, number = self.kept, self.number
        told = kept if self.told is None else self.told
        if name not in self.shows or not len(told if name == "update_metadata" else kept):
            return
        if name == "transitions":
            yield from changes.transitions(kept, number)
        elif name == "elections" and not self.replicas:
            yield from changes.elections(kept, number, self.strategy)
        elif name == "refusals" and changes.refused(kept):
            yield changes.refusals(kept, number, self.strategy, self.profile)
        elif name == "additions" and kept.kinds & _ADDS:
            yield from requests.additions(kept, number)
        elif name == "requests" and kept.kinds & _ADDS:
            yield from sending.requests(kept, number)
        elif name == "update_metadata" and told.kinds & KIND_LEADER_AND_ISR:
            yield from requests.metadata(told, number, merges=self.merges)


def make_table(name: str, steps: Iterable[Step], announced: Mapping[int, Rows]) -> pa.Table:
    """One of the tables of an outcome, from the steps that it had.

    `announced` says which broker ids each step's UpdateMetadata went to.
    """
    wanted = SCHEMAS[name]
    if name == "update_metadata_brokers":
        sizes = [ids.size for ids in announced.values()]
        numbers = np.repeat(np.fromiter(announced, np.int32, len(announced)), sizes)
        ids = np.concatenate([*announced.values(), np.empty(0, np.int32)])
        return pa.table([columns.values(numbers), columns.values(ids)], schema=wanted)
    parts = [part for step in steps for part in step.tables(name)]
    return pa.concat_tables(parts) if parts else wanted.empty_table()
