"""Parameters of the time model: what each costs, between which bounds, and where that comes from.

Costs of one item are integer nanoseconds, all else integer microseconds. A caller's parameters
replace the defaults one by one; what was not given keeps the default, and says so.

Source: docs/timeline.md, section "Parameters".
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa

from kfast.arguments import check_instance, shown
from kfast.errors import ArgumentError
from kfast.io.files import check_utf8
from kfast.io.json_documents import decode_with
from kfast.schema import TIMELINE_PARAMETERS

__all__ = ["PARAMETERS", "PROFILES", "Parameter", "Parameters", "parse_time", "read_params"]

LARGEST = 10**12
"""Of a parameter, in its own unit."""

LARGEST_SUM_NS = 2**58
"""Of one cost over every replica of a cluster: a sum of all costs is below 2^63."""

_TIME = re.compile(r"\s*(-?\d{1,15}(?:\.\d{1,9})?)\s*(ns|us|ms|s|min|h)\s*")
_NANOSECONDS = {
    "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9,
}


@dataclass(frozen=True)
class Parameter:
    """One cost of the model.

    Attributes
    ----------
    name : str
    unit : {"us", "ns"}
        Microseconds, or nanoseconds an item.
    value, low, high : int
        The central value, and what was seen.
    meaning : str
    source : str
        Where the value comes from.
    overridden : bool
        Whether a caller or a profile replaced the default.
    """

    name: str
    unit: str
    value: int
    low: int
    high: int
    meaning: str
    source: str
    overridden: bool = False

    def with_values(self, text: object, source: str) -> Parameter:
        """The same parameter with other values: "800us", or "800us,500us,2ms" with its range.

        A value without a range is taken as known exactly.
        """
        values = [parse_time(self.name, one, self.unit) for one in str(text).split(",")]
        if len(values) not in (1, 3):
            raise ArgumentError(
                f"{self.name} is {shown(text)}; right is a time, as 800us, or value,low,high, as "
                "800us,500us,2ms"
            )
        value, low, high = values if len(values) == 3 else values * 3
        return self.checked(value, low, high, source)

    def checked(self, value: int, low: int, high: int, source: str) -> Parameter:
        """The same parameter with other values, in its unit."""
        if not 0 <= low <= value <= high <= LARGEST:
            raise ArgumentError(
                f"{self.name} is {value} {self.unit} with a range of {low} to {high}; right is "
                f"0 <= low <= value <= high <= {LARGEST}"
            )
        return replace(self, value=value, low=low, high=high, source=source, overridden=True)


def parse_time(name: str, text: str, unit: str = "us") -> int:
    """A time such as 800us, 2ms or 1.5h in microseconds, or in nanoseconds.

    Raises
    ------
    ArgumentError
        It is no time with its unit, is negative, or is finer than the unit.
    """
    match = _TIME.fullmatch(str(text))
    if match is None:
        raise ArgumentError(
            f"{name} is {shown(text)}; right is a time with its unit, one of "
            f"{', '.join(_NANOSECONDS)}: 800us"
        )
    amount = Fraction(match[1]) * _NANOSECONDS[match[2]] / _NANOSECONDS[unit]
    if amount < 0:
        raise ArgumentError(f"{name} is {shown(text)}; a time cannot be negative")
    if amount.denominator != 1:
        raise ArgumentError(f"{name} is {shown(text)}; it is kept in whole {unit}")
    return int(amount)


def _us(name: str, value: int, low: int, high: int, meaning: str, source: str) -> Parameter:
    return Parameter(name, "us", value, low, high, meaning, source)


def _ns(name: str, value: int, low: int, high: int, meaning: str, source: str) -> Parameter:
    return Parameter(name, "ns", value, low, high, meaning, source)


_ROWS = "fit on published measurements"
_CLASSES = "Kafka's own classes, measured"
_LIVE = "live clusters of three to five brokers on one slow machine"
_KNOWN = "general knowledge, to be measured"
_SOURCE = "Kafka's default"

PARAMETERS: Mapping[str, Parameter] = MappingProxyType({one.name: one for one in (
    _us("zk_expire_event", 4_000, 3_000, 58_000,
        "from the deletion of a broker's node to the controller's event", _LIVE),
    _us("zk_rtt", 1_000, 300, 3_000, "round trip to ZooKeeper", _KNOWN),
    _ns("zk_read", 90_000, 46_000, 140_000, "one read, pipelined", _ROWS),
    _ns("zk_write", 210_000, 140_000, 310_000, "one write, pipelined", _ROWS),
    _ns("zk_read_serial", 290_000, 203_000, 435_000, "one read, before 1.1", _ROWS),
    _ns("zk_write_serial", 2_700_000, 1_890_000, 4_050_000, "one write, before 1.1", _ROWS),
    _ns("zk_scan", 150, 100, 430, "CPU of a broker's failure, per partition", _CLASSES),
    _ns("zk_replica", 23_000, 8_000, 38_000, "CPU, per replica that changes", _CLASSES),
    _ns("zk_entry", 28_000, 25_000, 51_000, "CPU of requests, per LeaderAndIsr entry", _CLASSES),
    _ns("zk_start", 15_300, 6_000, 17_000, "CPU of a controller's start, per partition", _CLASSES),
    _us("failover_fixed", 400_000, 185_000, 1_400_000, "a controller's start, fixed part", _LIVE),
    _us("lisr_fixed", 1_000, 200, 20_000, "a broker's LeaderAndIsr, fixed part", _LIVE),
    _us("um_fixed", 1_000, 200, 20_000, "a broker's UpdateMetadata, fixed part", _LIVE),
    _ns("um_entry", 2_000, 1_000, 5_000, "UpdateMetadata, per partition", _CLASSES),
    _ns("image_entry", 2_000, 1_000, 5_000, "a metadata image, per partition", _CLASSES),
    _ns("epoch_sync", 2_000_000, 100_000, 29_000_000,
        "fsync of a leader epoch: per partition that a broker begins to lead", _LIVE),
    _ns("follow", 300_000, 50_000, 6_700_000, "per partition that a broker follows", _LIVE),
    _ns("isr_only", 50_000, 10_000, 1_400_000, "per partition led on with its epoch", _LIVE),
    _us("kr_fixed", 300, 150, 1_100, "a KRaft controller's operation, fixed part", _CLASSES),
    _ns("kr_record", 7_000, 3_500, 84_000, "a KRaft controller's operation, per record", _CLASSES),
    _us("linger", 25_000, 25_000, 25_000, "controller.quorum.append.linger.ms", _SOURCE),
    _us("log_sync", 2_400, 1_100, 14_000, "fsync of the metadata log", _LIVE),
    _us("metadata_fetch", 13_000, 5_000, 110_000, "from commit to a broker's fetch of it", _LIVE),
    _us("load_fixed", 2_000, 500, 20_000, "a broker's metadata load, fixed part", _KNOWN),
    _us("net", 500, 100, 2_000, "one way between two machines", _KNOWN),
    _us("activate", 100_000, 3_000, 3_000_000, "activation of a KRaft controller", _LIVE),
    _us("stop", 2_000_000, 380_000, 3_500_000, "from a broker's leave to stop to its end", _LIVE),
    _us("boot", 8_000_000, 2_000_000, 22_500_000, "from a broker's start to its registration",
        _LIVE),
    _us("recover", 2_500_000, 80_000, 17_400_000, "from a broker's registration to its return",
        _LIVE),
    _us("isr_join", 700_000, 200_000, 6_600_000,
        "from a broker's return, or its catching up, to the last ISR that it joins", _LIVE),
)})
"""Every parameter with its default, in the order in which samples are drawn."""

PROFILES: Mapping[str, Mapping[str, tuple[int, int, int]]] = MappingProxyType({
    "default": {},
    "live-2core": {
        "epoch_sync": (7_800_000, 1_800_000, 29_000_000), "follow": (1_800_000, 50_000, 6_700_000),
        "isr_only": (500_000, 50_000, 1_400_000), "kr_record": (84_000, 13_000, 300_000),
        "zk_read": (130_000, 50_000, 250_000), "zk_write": (300_000, 80_000, 600_000),
    },
})
"""Named sets of parameters: central value, low and high of what differs from the default."""


@dataclass(frozen=True)
class Parameters:
    """All parameters, each by its name.

    Attributes
    ----------
    by_name : mapping of str to Parameter
        In the order of `PARAMETERS`.
    """

    by_name: Mapping[str, Parameter]

    @classmethod
    def of(cls, values: Any = None, *, profile: str = "default") -> Parameters:
        """The defaults, or those of a profile, with some replaced.

        Parameters
        ----------
        values : Parameters, or mapping of str to str, optional
            By name: "800us", or with its range "800us,500us,2ms".
        profile : str
            One of `PROFILES`.

        Raises
        ------
        ArgumentError
            A name or the profile is unknown, or a value is none.
        """
        if isinstance(values, cls):
            return values
        if profile not in PROFILES:
            raise ArgumentError(f"profile is {shown(profile)}; right is {', '.join(PROFILES)}")
        by_name = dict(PARAMETERS)
        for name, numbers in PROFILES[profile].items():
            by_name[name] = by_name[name].checked(*numbers, f"profile {profile}")
        return cls(by_name).replaced({} if values is None else values)

    def replaced(self, values: Mapping[str, str]) -> Parameters:
        """The same parameters with some replaced, as by `of`."""
        check_instance("params", values, Mapping)
        by_name = dict(self.by_name)
        for name, text in values.items():
            _known(name)
            by_name[name] = by_name[name].with_values(text, "given")
        return Parameters(by_name)

    def __getitem__(self, name: str) -> Parameter:
        return self.by_name[name]

    def check_sums(self, n_replicas: int) -> None:
        """Refuse a cost of one item that a sum over a cluster's replicas could overflow.

        Raises
        ------
        ArgumentError
            Names the parameter, and the most that it may be on this cluster.
        """
        most = LARGEST_SUM_NS // max(n_replicas, 1)
        for one in self.by_name.values():
            if one.unit == "ns" and one.high > most:
                raise ArgumentError(
                    f"{one.name} is up to {one.high} ns; right is at most {most} ns with "
                    f"{n_replicas} replicas, because sums are below 2^58 ns"
                )

    @property
    def table(self) -> pa.Table:
        """Table of every parameter (`schema.TIMELINE_PARAMETERS`)."""
        rows = list(self.by_name.values())
        return TIMELINE_PARAMETERS.table({
            name: pa.array([getattr(row, name) for row in rows])
            for name in TIMELINE_PARAMETERS.schema.names
        })


def _known(name: object) -> None:
    if name in PARAMETERS:
        return
    near = difflib.get_close_matches(str(name), PARAMETERS, n=1, cutoff=0.0)
    raise ArgumentError(f"parameter {shown(name)} is unknown; the nearest is {near[0]}")


class _Entry(msgspec.Struct):
    """One parameter of a file."""

    name: str
    value: int | str
    unit: str | None = None
    low: int | None = None
    high: int | None = None
    rows: int | None = None
    source: str = "given"


class _Entries(msgspec.Struct):
    """What a file of parameters has to have."""

    parameters: list[_Entry]


def read_params(path: str | os.PathLike[str], *, profile: str = "default") -> Parameters:
    """Read parameters from a file of JSON, as `kfast timeline --calibrate` writes it.

    It is an object whose `parameters` are a list of objects with a `name` and a `value`: a text as
    of `Parameters.of`, or an integer beside its `unit`, and perhaps `low` and `high`. What the file
    does not name, or says to have fitted on no rows, keeps its default.

    Raises
    ------
    InputError
        The file cannot be read, or is no such JSON.
    ArgumentError
        A name is unknown or comes twice, or a value is none.
    """
    name, data = str(path), Path(path).read_bytes()
    check_utf8(name, data)
    right = '; right is {"parameters": [{"name": "epoch_sync", "value": "800us,500us,2ms"}]}'
    entries = decode_with(
        name, data, msgspec.json.Decoder(_Entries), memoryview(data), f"{name}: no parameters: ",
        right,
    ).parameters
    by_name = dict(Parameters.of(profile=profile).by_name)
    seen = set[str]()
    for entry in entries:
        _known(entry.name)
        if entry.name in seen:
            raise ArgumentError(f"{name}: {entry.name} comes twice")
        seen.add(entry.name)
        if entry.rows != 0:
            by_name[entry.name] = _taken(by_name[entry.name], entry)
    return Parameters(by_name)


def _taken(one: Parameter, entry: _Entry) -> Parameter:
    """A parameter with the values of a file."""
    if isinstance(entry.value, str):
        if entry.low is not None or entry.high is not None:
            raise ArgumentError(
                f"{one.name}: a text has its range with it, as 800us,500us,2ms; low and high go "
                "with an integer"
            )
        return one.with_values(entry.value, entry.source)
    if entry.unit != one.unit:
        raise ArgumentError(
            f"{one.name} is {entry.value} with the unit {shown(entry.unit)}; right is "
            f"{shown(one.unit)}"
        )
    low = entry.value if entry.low is None else entry.low
    high = entry.value if entry.high is None else entry.high
    return one.checked(entry.value, low, high, entry.source)
