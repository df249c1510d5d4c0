"""Columns of kept effects, made when they are first asked for and shared by the tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kfast.journal import columns
from kfast.journal.columns import Column, Number
from kfast.journal.effects import KIND_STOP
from kfast.journal.memory import room
from kfast.kernels import journal_columns
from kfast.state.records import EMPTY_ROWS, Rows

if TYPE_CHECKING:
    from kfast.journal.kept import EffectTable

NUMBERS = (
    "topic", "partition", "broker", "from_state", "to_state", "code", "leader_before", "leader",
    "leader_epoch", "version", "controller_epoch", "stop_epoch", "recovery", "kinds", "row",
)
LISTS = ("isr", "replicas", "recipients", "offline", "isr_before", "adding", "removing")
"""Numbers and lists that an effect has, as `kernels/journal_columns.pyx` counts them."""
KEY = ("topic", "partition", "row")
"""What tells of which partition an effect is."""
SAID = ("leader", "leader_epoch", "version", "controller_epoch", "recovery")
SAID_LISTS = ("isr", "replicas", "recipients", "offline")
"""What requests say of an effect."""
NO_ID = np.full(1, -1, np.int32)


@dataclass(frozen=True, eq=False)
class Ids:
    """A column of lists of broker ids.

    Attributes
    ----------
    n : int
    values : (v,) int32
    length : int
        Of every list, where there are no offsets.
    offsets : (n + 1,) int32, or (0,)
    """

    n: int
    values: Rows
    length: int
    offsets: Rows

    @cached_property
    def column(self) -> Column:
        """The same for Arrow."""
        if self.offsets.size:
            return columns.lists(self.offsets, self.values)
        return columns.same_lengths(self.length, self.values, self.n)

    def take(self, places: Rows) -> Ids:
        """Some of the lists, each at most once."""
        values = room(self.values.size)
        offsets = room(places.size + 1) if self.offsets.size else EMPTY_ROWS
        end = journal_columns.take_lists(
            self.offsets, self.length, self.values, places, offsets, values
        )
        return Ids(places.size, values[:end], self.length, offsets)


class Spread:
    """Columns of some effects.

    Numbers that are the same everywhere come as one int. Broker rows come as ids.

    Parameters
    ----------
    kept : EffectTable
        At least one effect.
    """

    def __init__(self, kept: EffectTable) -> None:
        # Not the kept effects themselves: they hold this, and a circle would outlive its use.
        self.n = len(kept)
        self._effects, self._wide, self._n_slots = kept.as_bytes, kept.wide, kept.n_slots
        self._rows, self._seen = kept.records["row"], kept.seen
        # Slots that are not in use name the first broker, of which a cluster may have none.
        self._ids = self._seen.broker_id if self._seen.broker_id.size else NO_ID
        self._all_lead, self._stops = kept.all_lead, bool(kept.kinds & KIND_STOP)
        self._numbers: dict[str, Number] = {}
        self._lists: dict[tuple[str, bool], Ids] = {}

    def ask(
        self, numbers: Collection[str] = (), lists: Collection[str] = (), *, leads: bool = True
    ) -> None:
        """Make the columns that are not there yet, all in one pass.

        With `leads` the lists of effects that add no LeaderAndIsr are empty. Where every effect
        adds one, all that requests say is made at once: effects come from memory once for it.
        """
        leads = leads and not self._all_lead
        if self._all_lead and lists and not self._lists:
            numbers = dict.fromkeys([*numbers, *self._said_numbers])
            lists = dict.fromkeys([*lists, *SAID_LISTS])
        names = [name for name in numbers if name not in self._numbers]
        list_names = [name for name in lists if (name, leads) not in self._lists]
        if not names and not list_names:
            return
        n = self.n
        numbered = room((len(names), n))
        offsets = room((len(list_names), n + 1))
        values = room((len(list_names), max(n * self._n_slots, 1)))
        found = np.zeros((len(names) + len(list_names), 3), np.int64)
        journal_columns.spread(
            self._effects, self._wide, self._n_slots, self._ids, leads,
            _numbered(names, NUMBERS), _numbered(list_names, LISTS), numbered, offsets, values,
            found,
        )
        for name, row, (same, value, _) in zip(names, numbered, found.tolist(), strict=False):
            self._numbers[name] = value if same else row
        for at, name in enumerate(list_names):
            same, length, end = found[len(names) + at].tolist()
            ids = values[at, : n * length if same else end]
            where = EMPTY_ROWS if same else offsets[at]
            if not same:
                where[0] = 0
            if name in ("adding", "removing"):
                self._order(name, where if where.size else np.arange(n + 1) * length, ids)
            self._lists[name, leads] = Ids(n, ids, length, where)

    @property
    def _said_numbers(self) -> Sequence[str]:
        """Numbers that requests say of effects."""
        return (*KEY, *SAID) + (
            ("stop_epoch", "broker") if self._stops else ()
        )

    def number(self, name: str) -> Number:
        """One number of each effect."""
        self.ask([name])
        return self._numbers[name]

    def array(self, name: str) -> Rows:
        """The same as an array in any case."""
        said = self.number(name)
        return np.full(self.n, said, np.int32) if isinstance(said, int) else said

    def numbers(
        self, names: Sequence[str], places: Rows | None = None
    ) -> tuple[int, list[Number]]:
        """How many effects there are, and numbers of them; with `places` of these only."""
        self.ask(names)
        found = [self._numbers[name] for name in names]
        if places is None:
            return self.n, found
        written = [said for said in found if not isinstance(said, int)]
        taken = room((len(written), places.size))
        journal_columns.take_numbers(written, places, taken)
        rows = iter(taken)
        return places.size, [said if isinstance(said, int) else next(rows) for said in found]

    def ids(self, name: str, places: Rows | None = None, *, leads: bool = True) -> Ids:
        """One list of each effect; with `places` of these only."""
        self.ask(lists=[name], leads=leads)
        found = self._lists[name, leads and not self._all_lead]
        return found if places is None else found.take(places)

    def _order(self, name: str, offsets: npt.NDArray[Any], values: Rows) -> None:
        """Put lists into the order they were given in, where it is not that of the slots."""
        orders = self._seen.odd_orders
        odd = {row: order for (field, row), order in orders.items() if field == name}
        if not odd:
            return
        rows = self._rows
        for at in np.flatnonzero(np.isin(rows, list(odd))).tolist():
            order = odd[int(rows[at])]
            part = values[offsets[at] : offsets[at + 1]].tolist()
            part.sort(key=lambda b: order.index(b) if b in order else len(order))
            values[offsets[at] : offsets[at + 1]] = part


def _numbered(names: Sequence[str], all_names: Sequence[str]) -> Rows:
    return np.fromiter((all_names.index(name) for name in names), np.int32, len(names))
