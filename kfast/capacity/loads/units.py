"""Rates, sizes and times as people write them, and back: 60MB/s, 2TiB, 10Gbps, 10min.

`k`, `M`, `G`, `T` and `P` are powers of 1000, with `i` powers of 1024. `B` are bytes, `b` and `bit`
bits, eight to a byte. A number without a unit is in bytes, or bytes a second.

Source: docs/capacity.md, section "Units".
"""

from __future__ import annotations

import re
from fractions import Fraction

from kfast.arguments import shown
from kfast.errors import ArgumentError

__all__ = ["format_bytes", "format_rate", "parse_bytes", "parse_rate", "parse_seconds"]

MAX_RATE, MAX_BYTES = (1 << 53) - 1, (1 << 63) - 1
_PREFIXES = ("", "k", "M", "G", "T", "P")
_AMOUNT = re.compile(
    r"\s*(?P<number>\d{1,30}(?:\.\d{1,30})?)\s*"
    r"(?:(?P<prefix>[kKMGTP]?)(?P<binary>i?)(?P<kind>B|bit|b)(?P<rate>/s|ps)?)?\s*"
)
_TIME = re.compile(r"\s*(?P<number>\d{1,12}(?:\.\d{1,12})?)\s*(?P<unit>ms|s|min|h|d)?\s*")
_MS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_rate(name: str, text: str | int) -> int:
    """Bytes a second of a text such as 60MB/s, 57.2MiB/s, 10Gbps or 62914560.

    Parameters
    ----------
    name : str
        Of the argument, for messages.
    text : str or int

    Returns
    -------
    int
        Rounded half to even.

    Raises
    ------
    ArgumentError
        It is no rate, or outside 0 to 2^53 - 1.
    """
    return _parse(name, text, rate=True)


def parse_bytes(name: str, text: str | int) -> int:
    """Bytes of a text such as 2TB, 1.5TiB or 4096; arguments and errors as of `parse_rate`."""
    return _parse(name, text, rate=False)


def parse_seconds(name: str, text: str) -> Fraction:
    """Seconds of a text such as 600, 10min, 1.5h or 0.5ms; a number without a unit is in seconds.

    Raises
    ------
    ArgumentError
        It is no time.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ArgumentError(
            f"{name} is {shown(text)}: a time is needed, as in 600, 10min, 1.5h or 0.5ms"
        )
    return Fraction(match["number"]) * _MS[match["unit"] or "s"] / 1000


def _parse(name: str, text: str | int, *, rate: bool) -> int:
    examples = "60MB/s, 57.2MiB/s, 10Gbps or 60000000" if rate else "2TB, 1.5TiB or 4096"
    match = _AMOUNT.fullmatch(str(text))
    # A size in bits, or a rate that says no time, is more likely a mistake than meant.
    if match is None or (match["kind"] and bool(match["rate"]) != rate) or (
        not rate and match["kind"] in ("b", "bit")
    ):
        right = "a rate" if rate else "a size"
        raise ArgumentError(f"{name} is {shown(text)}: {right} is needed, as in {examples}")
    prefix = (match["prefix"] or "").replace("K", "k")
    factor = (1024 if match["binary"] else 1000) ** _PREFIXES.index(prefix)
    bits = match["kind"] in ("b", "bit")
    amount: int = round(Fraction(match["number"]) * factor / (8 if bits else 1))
    most = MAX_RATE if rate else MAX_BYTES
    if amount > most:
        raise ArgumentError(f"{name} is {shown(text)}: at most {most} bytes are allowed")
    return amount


def format_bytes(amount: int) -> str:
    """A size in the largest unit of which there is at least one, to one decimal: 1.5 TB."""
    size = abs(amount)
    power = 0
    # What would be shown as 1000.0 is one of the next unit.
    while power + 1 < len(_PREFIXES) and _tenths(size, power) >= 10_000:
        power += 1
    sign = "-" if amount < 0 else ""
    if power == 0:
        return f"{sign}{size} B"
    tenths = _tenths(size, power)
    return f"{sign}{tenths // 10}.{tenths % 10} {_PREFIXES[power]}B"


def _tenths(size: int, power: int) -> int:
    return round(Fraction(size * 10, 1000**power))


def format_rate(amount: int) -> str:
    """A rate as `format_bytes` writes a size: 62.9 MB/s."""
    return f"{format_bytes(amount)}/s"
