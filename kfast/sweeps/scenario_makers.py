"""How scenarios are made of a cluster: all of a kind, at random, or from a table."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kfast.arguments import (
    MAX_LONG,
    check_instance,
    is_whole,
    number,
    shown,
    whole,
    whole_numbers,
)
from kfast.errors import ArgumentError, InputError, KfastError
from kfast.state.records import Rows
from kfast.sweeps.scenarios import (
    Bursts,
    Combinations,
    Groups,
    Independent,
    Listed,
    Offsets,
    Samples,
    Scenarios,
)

if TYPE_CHECKING:
    from kfast.state import ClusterState

__all__ = [
    "brokers_by_rack",
    "bursts",
    "every_broker",
    "every_rack",
    "every_rack_and_broker",
    "independent_brokers",
    "independent_racks",
    "random_brokers",
    "read_scenarios",
    "scenarios_from_table",
]

MOST_SCENARIOS = 10**9
"""More scenarios than this are refused: most likely a slip."""

PAIRS_PER_SECOND = 40_000_000_000
"""Partitions times scenarios that one core decides in a second, for the time in a refusal."""

_UNITS_S = (("year", 365 * 86400), ("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


def _check_state(state: ClusterState) -> None:
    # Workers, which only draw scenarios, do not load what holds a cluster.
    from kfast.state import ClusterState

    check_instance("state", state, ClusterState)


def _candidates(state: ClusterState) -> Rows:
    """Rows of the brokers that may fail: those that are up."""
    return np.flatnonzero(state.up).astype(np.int32)


def _common(state: ClusterState, n: int) -> dict[str, Any]:
    """Arguments of all scenarios: whose brokers, and the numbers from 0 to n."""
    return {"broker_id": state.broker_id.copy(), "start": 0, "stop": n + 1}


def _check_count(state: ClusterState, what: str, n: int) -> None:
    if n <= MOST_SCENARIOS:
        return
    raise ArgumentError(
        f"{what} make {Decimal(n):.3g} scenarios, which takes"
        f" {_about(n * state.n_partitions // PAIRS_PER_SECOND)} on one core for these"
        f" {state.n_partitions} partitions; at most {MOST_SCENARIOS} are allowed;"
        " random_brokers draws as many as are asked for"
    )


def _about(seconds: int) -> str:
    """The time in the largest unit that it fills, for one who reads: about 4 minutes."""
    for unit, unit_s in _UNITS_S:
        if seconds >= unit_s:
            count = seconds // unit_s
            amount = str(count) if count < 1_000_000 else f"{Decimal(count):.3g}"
            return f"about {amount} {unit}{'s' * (count != 1)}"
    return "less than a second"


def _check_random(state: ClusterState, n: int, seed: int) -> tuple[int, int]:
    n, seed = whole("n", n, 0, MAX_LONG), whole("seed", seed, 0, 2**64 - 1)
    _check_count(state, f"n={n}", n)
    return n, seed


def _check_size(state: ClusterState, k: int, low: int) -> tuple[Rows, int]:
    """The brokers that may fail, and how many of them do."""
    _check_state(state)
    candidates = _candidates(state)
    if is_whole(k) and not low <= k <= candidates.size:
        raise ArgumentError(
            f"k is {shown(k)}; {candidates.size} brokers are up: {low} to that many"
        )
    return candidates, whole("k", k, low, candidates.size)


def brokers_by_rack(state: ClusterState) -> tuple[list[str], Offsets, Rows]:
    """Racks with a broker that may fail, by name, and those brokers, rack by rack.

    Raises
    ------
    ArgumentError
        No broker that is up has a rack.
    """
    _check_state(state)
    members: dict[str, list[int]] = {}
    racks = state.rack.to_pylist()
    for row in _candidates(state).tolist():
        if racks[row] is not None:
            members.setdefault(racks[row], []).append(row)
    if not members:
        raise ArgumentError(
            "no broker that is up has a rack, so no rack can fail; racks that an export does not "
            "name come by a brokers file (--brokers-file)"
        )
    names = sorted(members)
    begin = np.zeros(len(names) + 1, np.int64)
    np.cumsum([len(members[name]) for name in names], out=begin[1:])
    return names, begin, np.concatenate([np.array(members[name], np.int32) for name in names])


def every_broker(state: ClusterState, k: int = 1) -> Scenarios:
    """Every set of k brokers that are up, in lexicographic order of their ids.

    Raises
    ------
    ArgumentError
        k is not within 1..number of brokers that are up, or makes too many scenarios.
    """
    candidates, k = _check_size(state, k, 1)
    n = math.comb(candidates.size, k)
    _check_count(state, f"sets of {k} of {candidates.size} brokers", n)
    return Combinations(**_common(state, n), candidates=candidates, k=k)


def every_rack(state: ClusterState) -> Scenarios:
    """Every rack, by name: all its brokers that are up. Racks without one are left out."""
    names, begin, member = brokers_by_rack(state)
    return Groups(**_common(state, len(names)), begin=begin, member=member)


def every_rack_and_broker(state: ClusterState) -> Scenarios:
    """Every rack and one more broker outside it that is up, by the rack's name and broker id."""
    _, begin, member = brokers_by_rack(state)
    others = _candidates(state)
    n = int((others.size - np.diff(begin)).sum())
    _check_count(state, "racks and one more broker", n)
    return Groups(**_common(state, n), begin=begin, member=member, others=others)


def random_brokers(state: ClusterState, k: int, n: int, seed: int) -> Scenarios:
    """Draw n sets of k brokers that are up, every set with the same probability.

    Raises
    ------
    ArgumentError
        k is not within 0..number of brokers that are up, or n or seed is out of range.
    """
    candidates, k = _check_size(state, k, 0)
    n, seed = _check_random(state, n, seed)
    return Samples(**_common(state, n), candidates=candidates, k=k, seed=seed)


def independent_brokers(state: ClusterState, p: float, n: int, seed: int) -> Scenarios:
    """Draw n scenarios in which every broker that is up fails with probability p on its own.

    The probability is exact to 2**-64; a scenario may be empty.
    """
    _check_state(state)
    p = number("p", p, 0, 1)
    n, seed = _check_random(state, n, seed)
    member = _candidates(state)
    begin = np.arange(member.size + 1, dtype=np.int64)
    return Independent(
        **_common(state, n), begin=begin, member=member, probability=p, seed=seed
    )


def independent_racks(state: ClusterState, p: float, n: int, seed: int) -> Scenarios:
    """Draw n scenarios in which every rack fails with probability p; others stay up."""
    _check_state(state)
    p = number("p", p, 0, 1)
    n, seed = _check_random(state, n, seed)
    _, begin, member = brokers_by_rack(state)
    return Independent(
        **_common(state, n), begin=begin, member=member, probability=p, seed=seed
    )


def bursts(state: ClusterState, share: float, n: int, seed: int) -> Scenarios:
    """Draw n scenarios in which a share of the brokers of one rack fail together.

    The rack is any, and of its brokers the share, rounded up to a whole number, is drawn.
    """
    _check_state(state)
    share = number("share", share, 0, 1)
    n, seed = _check_random(state, n, seed)
    _, begin, member = brokers_by_rack(state)
    exact = Fraction(share)
    failing = np.array([math.ceil(exact * size) for size in np.diff(begin).tolist()], np.int32)
    return Bursts(**_common(state, n), begin=begin, member=member, failing=failing, seed=seed)


def scenarios_from_table(state: ClusterState, table: pa.Table) -> Scenarios:
    """Scenarios of a table with the columns `scenario` (1 or more) and `broker` (an id).

    Numbers stay as they are; a number that the table lacks is an empty scenario.

    Raises
    ------
    InputError
        A column is missing, has another type or nulls.
    ArgumentError
        A number is below 1 or too large; a broker is unknown or not up.
    """
    _check_state(state)
    if not isinstance(table, pa.Table):
        raise InputError(f"scenarios are {shown(table)}: a pyarrow.Table is needed")
    columns = []
    for name in ("scenario", "broker"):
        if name not in table.column_names:
            raise InputError(f"the table has no column {name!r}; it has {table.column_names}")
        column = table.column(name)
        if not pa.types.is_integer(column.type) or column.null_count:
            raise InputError(
                f"column {name!r} is {column.type} with {column.null_count} nulls; right are "
                "integers without nulls"
            )
        columns.append(whole_numbers(f"column {name!r}", column))
    numbers, broker = columns
    if numbers.size and numbers.min() < 1:
        raise ArgumentError(
            f"scenario {numbers.min()} is not allowed: 0 is the baseline, 1 follows"
        )
    n = int(numbers.max(initial=0))
    _check_count(state, f"numbers up to {n}", n)
    rows = state.find_brokers(broker)
    off = ~state.up[rows]
    if off.any():
        at = int(np.flatnonzero(off)[0])
        reason = "fenced" if state.registered[rows[at]] else "not registered"
        raise ArgumentError(
            f"broker {broker[at]} of scenario {numbers[at]} is {reason}: it is down already and "
            "cannot fail"
        )
    pairs = np.unique(np.stack([numbers, rows.astype(np.int64)]), axis=1)
    begin = np.searchsorted(pairs[0], np.arange(n + 2)).astype(np.int64)
    return Listed(**_common(state, n), begin=begin, member=pairs[1].astype(np.int32))


def read_scenarios(state: ClusterState, path: Path) -> Scenarios:
    """Scenarios of a file: Parquet, or CSV with the columns scenario,broker.

    Raises
    ------
    InputError
        It cannot be read, or `scenarios_from_table` refuses it.
    """
    # Workers, which only draw scenarios, do not load what reads files.
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    try:
        parquet = path.suffix.lower() == ".parquet"
        table = pq.read_table(path) if parquet else pa_csv.read_csv(path)
        return scenarios_from_table(state, table)
    except (pa.ArrowInvalid, OSError, KfastError) as error:
        raise InputError(f"{path}: {error}") from error
