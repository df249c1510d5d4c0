"""Parts of sentences: numbers with their nouns and verbs, brokers by name, percents, time spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kfast.arguments import plural

__all__ = [
    "broker_ranges", "brokers_named", "controller_sentence", "count", "first_names", "out_of",
    "percent", "plural", "refusals", "safety_sentence", "signed", "time_span",
]

MOST_BROKERS = 8
"""Brokers that a sentence names; of more it says how many there are."""

SHORTEST_RANGE = 3
"""So many ids in a row are written as a range."""


def count(n: int, noun: str, verb: str, verbs: str) -> str:
    """A number with its noun and verb: "no partition goes", "7 partitions go"."""
    if n == 0:
        return f"no {noun} {verb}"
    return f"{plural(n, noun)} {verb if n == 1 else verbs}"


def out_of(n: int, total: int, noun: str, verb: str, verbs: str) -> str:
    """A share of some with its verb: "none of 10 scenarios takes", "7 of 10 scenarios take"."""
    return f"{n or 'none'} of {plural(total, noun)} {verb if n < 2 else verbs}"


def refusals(n: int, offline: int, total: int) -> str:
    """How many partitions refuse writes with acks=all, besides those that are offline.

    Parameters
    ----------
    n, offline : int
        Partitions that begin to refuse, and those that go offline.
    total : int
        Partitions that refuse afterwards, those that did so before among them.
    """
    if n == total:
        if n == 0:
            return f"no {'other ' if offline else ''}partition refuses acks=all"
        return f"producers with acks=all are refused on {n}{' more' if offline else ''}"
    if n == 0:
        still = "does" if total == 1 else "do"
        return f"no further partition refuses acks=all, {total} still {still}"
    return f"producers with acks=all are refused on {n} more, {total} in all"


def controller_sentence(controller: Mapping[str, Any]) -> str:
    """Which controller was simulated, whether ELR was on, and why: "kraft-4.1, ELR on (told)"."""
    elr = {None: "", True: ", ELR on", False: ", ELR off"}[controller["elr"]]
    why = f" ({controller['why']})" if controller["why"] else ""
    return f"{controller['name']}{elr}{why}"


def brokers_named(
    ids: Sequence[int], racks: Sequence[str] = (),
    rack_of: Mapping[int, str | None] | None = None, verb: tuple[str, str] | None = None,
) -> str:
    """Brokers in a sentence: those of the racks that are named, then the rest; each ascending.

    Without the rack of each broker, all are of the racks that are named.
    """
    within = [broker for broker in ids if rack_of is None or rack_of[broker] in racks]
    parts = within, [broker for broker in ids if broker not in within]
    inside, outside = (", ".join(map(str, sorted(part)[:MOST_BROKERS])) for part in parts)
    more = sum(max(len(part) - MOST_BROKERS, 0) for part in parts)
    of = f" (rack{'' if len(racks) == 1 else 's'} {', '.join(racks)})" if racks else ""
    named = " and ".join(filter(None, (f"{inside}{of}" if within else "", outside)))
    several = len(ids) != 1
    return (
        f"broker{'s' * several} {named}" + (f" and {more} more" if more else "")
        + (f" {verb[several]}" if verb else "")
    )


def broker_ranges(brokers: Sequence[int]) -> str:
    """Ascending broker ids, runs of them as ranges."""
    runs: list[list[int]] = []
    for broker in brokers:
        if runs and runs[-1][-1] + 1 == broker:
            runs[-1].append(broker)
        else:
            runs.append([broker])
    parts: list[str] = []
    for run in runs:
        parts += [f"{run[0]}-{run[-1]}"] if len(run) >= SHORTEST_RANGE else map(str, run)
    return ", ".join(parts)


def first_names(names: Sequence[str], most: int, noun: str = "") -> str:
    """The first of some names, and how many more there are: "a, b and 3 more topics"."""
    more = len(names) - most
    rest = f" and {plural(more, f'more {noun}') if noun else f'{more} more'}" if more > 0 else ""
    return f"{', '.join(names[:most])}{rest}"


def signed(value: int) -> str:
    """A difference, with its sign."""
    return f"{value:+d}" if value else "0"


def percent(probability: float) -> str:
    """A probability in percent, rounded, but never to 0 or 100 unless it is that."""
    if 0.5 < probability < 1:
        digits = 2
        while digits < 14 and float(f"{100 * probability:.{digits}f}") == 100:
            digits += 1
        return f"{100 * probability:.{digits}f}"
    return f"{100 * probability:.4g}"


def time_span(ms: int | None) -> str:
    """A time span for people."""
    if ms is None:
        return "to the end"
    seconds, ms = divmod(ms, 1000)
    if seconds < 60:
        return f"{seconds}.{ms:03} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds // 60 % 60} min"


def safety_sentence(
    document: Mapping[str, Any], what: str, words: Mapping[str, tuple[str, str, str]]
) -> str:
    """Whether a change is safe, and what speaks against it; `words` are those of `count`.

    The brokers that fail meanwhile stand after what happens.
    """
    verdict = {True: "SAFE", False: "NOT SAFE", None: "UNDER WAY"}[document["safe"]]
    if failing := document["scenario"]["brokers"]:
        what += f" while {brokers_named(failing, verb=('fails', 'fail'))}"
    parts = [what, *(count(n, *words[name]) for name, n in document["reasons"].items())]
    return f"{verdict}: {'; '.join(parts)}."
