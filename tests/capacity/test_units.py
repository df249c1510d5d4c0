"""Rates and sizes with their units, read and written."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kfast.capacity.loads.units import (
    format_bytes,
    format_rate,
    parse_bytes,
    parse_rate,
    parse_seconds,
)
from kfast.errors import ArgumentError


@pytest.mark.parametrize(("text", "amount"), [
    ("60MB/s", 60_000_000), ("60 MB/s", 60_000_000), ("57.2MiB/s", 59_978_547), ("1KiB/s", 1024),
    ("1kB/s", 1000), ("1KB/s", 1000), ("10Gbps", 1_250_000_000), ("10Gbit/s", 1_250_000_000),
    ("1Gibit/s", 134_217_728), ("8bps", 1), ("4bps", 0), ("12bps", 2), ("62914560", 62_914_560),
    (62_914_560, 62_914_560), ("0", 0), ("2.5B/s", 2), ("3.5B/s", 4), ("1PB/s", 10**15),
])
def test_rates(text, amount):
    """Rounded half to even; eight bits are a byte."""
    assert parse_rate("throttle", text) == amount


@pytest.mark.parametrize(("text", "amount"), [
    ("2TB", 2 * 10**12), ("1.5TiB", 3 << 39), ("4096", 4096), ("1 B", 1), ("7PiB", 7 << 50),
])
def test_sizes(text, amount):
    assert parse_bytes("disk", text) == amount


@pytest.mark.parametrize("text", [
    "", "MB/s", "-1MB/s", "60mb/s", "60MB", "60M", "60Mb", "1e9", "nan", "inf", "60MB/h", "6,5MB/s",
    "60 60MB/s", "1.B/s", "9e99MB/s", "1YB/s", None,
])
def test_what_is_no_rate_is_refused(text):
    """A size is none: it says no time."""
    with pytest.raises(ArgumentError, match=r"throttle is .*: a rate is needed, as in 60MB/s"):
        parse_rate("throttle", text)


@pytest.mark.parametrize("text", ["2TB/s", "10Gbit", "10Gb", "ten", "2 tb"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ArgumentError, match=r"disk is .*: a size is needed, as in 2TB"):
        parse_bytes("disk", text)


def test_what_is_too_large_is_refused():
    assert parse_rate("throttle", str((1 << 53) - 1)) == (1 << 53) - 1
    with pytest.raises(ArgumentError, match="throttle is '9007199254740992': at most 90071992547"):
        parse_rate("throttle", str(1 << 53))
    with pytest.raises(ArgumentError, match="disk is '9000PiB': at most 9223372036854775807 bytes"):
        parse_bytes("disk", "9000PiB")


@pytest.mark.parametrize(("amount", "text"), [
    (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (62_914_560, "62.9 MB"), (-1500, "-1.5 kB"),
    (999_949, "999.9 kB"), (999_950, "1.0 MB"), (1_250_000_000, "1.2 GB"), (10**15, "1.0 PB"),
    (1 << 62, "4611.7 PB"), (1_350_000_000, "1.4 GB"),
])
def test_amounts_are_shown_with_their_unit(amount, text):
    """In powers of 1000, halves to even."""
    assert format_bytes(amount) == text
    assert format_rate(amount) == f"{text}/s"


def test_what_is_shown_is_near_what_it_shows():
    """Read back, it is within a twentieth of the unit."""
    for power in range(54):
        for amount in ((1 << power) - 1, 1 << power, (1 << power) + 1):
            text = format_bytes(amount)
            unit = parse_bytes("unit", f"1{text.split()[1]}")
            assert abs(parse_bytes("size", text) - amount) <= Fraction(unit, 20) + 1


@pytest.mark.parametrize(("text", "seconds"), [
    ("600", 600), ("10min", 600), ("1.5 h", 5400), ("2d", 172_800), ("0.5ms", Fraction(1, 2000)),
    ("0.25s", Fraction(1, 4)),
])
def test_times_have_a_unit_or_are_seconds(text, seconds):
    assert parse_seconds("--down-for", text) == seconds


@pytest.mark.parametrize("text", ["", "ten", "-5", "5m", "1e3", "nan", "5 min 3 s"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ArgumentError, match=r"--down-for is .*: a time is needed, as in 600"):
        parse_seconds("--down-for", text)
