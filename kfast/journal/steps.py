"""What one step left behind, and its share of each table.

Source: docs/controller.md, sections 2.3, 3.4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kfast.journal import changes, request_table
from kfast.journal.effect_columns import numbers
from kfast.journal.effects import KIND_ADDS, KIND_LEADER_AND_ISR, EffectTable, JournalRules
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

SCHEMAS = {
    table.name.removeprefix("outcome."): table.schema
    for table in (
        TRANSITIONS, ELECTIONS, REFUSALS, ADDITIONS, REQUESTS, UPDATE_METADATA,
        UPDATE_METADATA_BROKERS,
    )
}
CHANGES = ("transitions", "elections", "refusals", "additions")
SENDS = ("requests", "update_metadata")


@dataclass(frozen=True, eq=False)
class Step:
    """One step of an outcome at level `full`.

    Attributes
    ----------
    number : int
    effects : EffectTable
        What became of each target.
    shows : sequence of str
        Tables that have a share of this step.
    rules : JournalRules
        What the version that is simulated logs.
    replicas : bool
        Whether replicas moved: then nobody was elected.
    strategy : Strategy or None
        Of an election.
    announced : EffectTable or None
        What UpdateMetadata says, where LeaderAndIsr says something else.
    merges : bool
        UpdateMetadata says the last effect of each partition, not every one.
    """

    number: int
    effects: EffectTable
    shows: Sequence[str]
    rules: JournalRules
    replicas: bool = False
    strategy: Strategy | None = None
    announced: EffectTable | None = None
    merges: bool = True

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Yield this step's share of a table, in parts; nothing where it has none."""
        effects, number = self.effects, self.number
        announced = effects if self.announced is None else self.announced
        if name not in self.shows or not len(effects if name != "update_metadata" else announced):
            return
        if name == "transitions":
            yield from changes.transitions(effects, number)
        elif name == "elections" and not self.replicas:
            yield from changes.elections(effects, number, self.strategy)
        elif name == "refusals":
            yield from changes.refusals(effects, number, self.strategy, self.rules)
        elif name == "additions" and effects.kinds & KIND_ADDS:
            yield from request_table.additions(effects, number)
        elif name == "requests" and effects.kinds & KIND_ADDS:
            yield from request_table.requests(effects, number)
        elif name == "update_metadata" and announced.kinds & KIND_LEADER_AND_ISR:
            yield from request_table.metadata(announced, number, merges=self.merges)


def make_table(name: str, steps: Iterable[Step], announced: Mapping[int, Rows]) -> pa.Table:
    """One of the tables of an outcome, from the steps that it had.

    `announced` says which broker ids each step's UpdateMetadata went to.
    """
    wanted = SCHEMAS[name]
    if name == "update_metadata_brokers":
        sizes = [ids.size for ids in announced.values()]
        steps = np.repeat(np.fromiter(announced, np.int32, len(announced)), sizes)
        ids = np.concatenate([*announced.values(), np.empty(0, np.int32)])
        return pa.table([numbers(steps), numbers(ids)], schema=wanted)
    parts = [part for step in steps for part in step.tables(name)]
    return pa.concat_tables(parts) if parts else wanted.empty_table()
