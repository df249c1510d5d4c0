"""Fit the parameters of the time model on intervals of one's own logs: `kfast.fit_times`.

An interval is linear in the parameters, so all of them are one system, solved by non-negative least
squares. Rows are divided by their predicted lengths, so that errors count relative to them.

Source: docs/timeline.md, section "Calibration".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.arguments import check_instance, shown
from kfast.errors import ArgumentError, InputError, require_extra
from kfast.schema import TIMELINE_FITTED, TIMELINE_FITTED_INTERVALS, TIMELINE_INTERVALS
from kfast.state.display import Summary, summary_html, summary_text
from kfast.timelines.intervals import most_verbose, resolution_us
from kfast.timelines.parameters import PARAMETERS, Parameters

__all__ = ["FittedTimes", "fit_times", "predicted_lengths", "within_factor"]

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.bool_]

NS_OF_UNIT = {"us": 1000, "ns": 1}
SETTINGS = frozenset({"linger"})
"""Parameters that are settings of Kafka: they are given, never fitted."""

TOUCHES = 0.05
"""A row tells of a parameter that is so large a part of its length, by the defaults."""
OUTLIER = 5.0
"""A residual of more times the median is an outlier."""
FEWEST_ROWS = 8
"""Of fewer rows the range is no better known than by default."""
ALIKE = 0.99
"""Columns with a higher correlation cannot be told apart."""
RANGE = (0.1, 0.9)
MANY_NEGATIVE = 0.01
"""So large a share of intervals that end before they begin is warned of."""
OUTLIER_ROW, CLOCKS, NO_PARAMETER = "outlier", "clocks", "no parameter"
"""Why a row is not fitted."""


@dataclass(frozen=True, eq=False)
class FittedTimes:
    """Parameters that were fitted, and on what.

    Attributes
    ----------
    params : Parameters
        For `kfast.timeline(..., params=...)`.
    rows : mapping of str to int
        Intervals that each parameter was fitted on; 0: it has its default.
    log_levels : mapping of str to str
        The most verbose level of the logs of these; missing of records and of defaults.
    intervals : pa.Table
        Every interval beside what the parameters give (`schema.TIMELINE_FITTED_INTERVALS`).
    notes : tuple of str
        What a reader should know: sums, verbose logs, clocks that differ.
    """

    params: Parameters
    rows: Mapping[str, int]
    log_levels: Mapping[str, str]
    intervals: pa.Table
    notes: tuple[str, ...]

    @cached_property
    def parameters(self) -> pa.Table:
        """Table of every parameter (`schema.TIMELINE_FITTED`)."""
        parameters = list(self.params.by_name.values())
        columns: dict[str, list[Any]] = {
            name: [getattr(one, name) for one in parameters]
            for name in ("name", "unit", "value", "low", "high", "source")
        }
        columns["rows"] = [self.rows[one.name] for one in parameters]
        columns["log_level"] = [self.log_levels.get(one.name) for one in parameters]
        return TIMELINE_FITTED.table({
            name: pa.array(columns[name], TIMELINE_FITTED.schema.field(name).type)
            for name in columns
        })

    @property
    def fitted(self) -> tuple[str, ...]:
        """Names of the parameters that were fitted."""
        return tuple(name for name, n in self.rows.items() if n)

    @property
    def left_out(self) -> int:
        """Intervals that count for no value."""
        return int(self.intervals.num_rows - self.intervals["left_out"].null_count)

    def _summary(self) -> Summary:
        return "Fitted times", {
            "intervals": self.intervals.num_rows,
            "left out": self.left_out,
            "parameters": len(self.fitted),
            "defaults": len(self.rows) - len(self.fitted),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


@dataclass(frozen=True, eq=False)
class _System:
    """Intervals as a system of equations, in nanoseconds.

    Attributes
    ----------
    names : tuple of str
        Of the parameters.
    counts : (n, p) float64
        How often each is in each row, times its unit.
    lengths, resolution : (n,) float64
    """

    names: tuple[str, ...]
    counts: Floats
    lengths: Floats
    resolution: Floats

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> _System:
        names = tuple(PARAMETERS)
        place = {name: at for at, name in enumerate(names)}
        counts = np.zeros((len(rows), len(names)))
        for at, row in enumerate(rows):
            for name, n in zip(row["parameters"], row["counts"], strict=True):
                if name not in place:
                    raise ArgumentError(f"intervals row {at}: parameter {shown(name)} is unknown")
                if n < 0:
                    raise ArgumentError(f"intervals row {at}: {name} is in it {n} times")
                counts[at, place[name]] += n * NS_OF_UNIT[PARAMETERS[name].unit]
        lengths = [1000.0 * (row["end_us"] - row["start_us"]) for row in rows]
        resolution = [1000.0 * resolution_us(row["kind"]) for row in rows]
        return cls(names, counts, np.array(lengths), np.array(resolution))

    def scales(self, values: Floats) -> Floats:
        """(n,) what an error of a row is measured by: its predicted length, or its resolution."""
        scales: Floats = np.maximum(self.counts @ values, self.resolution)
        return scales

    def residuals(self, values: Floats, scales: Floats) -> Floats:
        """(n,) relative errors."""
        errors: Floats = np.abs(self.lengths - self.counts @ values) / scales
        return errors


def fit_times(intervals: pa.Table, params: Any = None) -> FittedTimes:
    """Fit parameters of the time model on intervals.

    Two rounds: what is more than 5 times the median residual off after the first is left out of
    the second. A fitted parameter ranges from the 10th to the 90th percentile of what single
    intervals make of it, all others held; of fewer than 8 intervals it keeps the range that it had,
    widened to its value. Parameters that no interval tells of keep their values.

    Parameters
    ----------
    intervals : pa.Table
        As of `kfast.read_intervals`; parts of it and joined ones too.
    params : Parameters or mapping of str to str, optional
        What is not fitted, and where the fit begins; by default the defaults.

    Returns
    -------
    FittedTimes

    Raises
    ------
    ArgumentError
        It is no such table.
    InputError
        No interval can be used.
    MissingExtraError
        scipy is not installed.

    Notes
    -----
    Source: docs/timeline.md, section "Calibration".
    """
    check_instance("intervals", intervals, pa.Table)
    if missing := [name for name in TIMELINE_INTERVALS.schema.names
                   if name not in intervals.column_names]:
        raise ArgumentError(f"intervals has no column {missing[0]}; right is the table that "
                            "kfast.read_intervals gives")
    require_extra("stats", "fit_times")
    before = Parameters.of(params)
    rows = intervals.to_pylist()
    system = _System.of(rows)
    usable = (system.lengths >= 0) & system.counts.any(axis=1)
    values = np.array([float(before[name].value) for name in system.names])
    units = np.where(values > 0, values, 1.0)
    groups = _groups(system, units, usable)
    if not groups:
        raise InputError("no interval tells of any parameter of the time model: nothing is fitted")
    # Rows that took far longer than predicted would rule the first round, and hide themselves.
    start = np.maximum(system.scales(values), system.lengths)
    first = _solve(system, groups, units, values, usable, start)
    scales = system.scales(first)
    residuals = system.residuals(first, scales)
    inliers = usable & (residuals <= OUTLIER * np.median(residuals[usable]))
    fitted = _solve(system, groups, units, first, inliers, scales)
    return _finished(intervals, rows, system, groups, before, units, fitted, inliers, usable)


def _touched(system: _System, values: Floats, chosen: Bits) -> Bits:
    """(n, p) which parameters each chosen row tells of."""
    parts = system.counts * values
    large = parts >= TOUCHES * np.maximum(parts.sum(axis=1), system.resolution)[:, None]
    fitted = np.array([name not in SETTINGS for name in system.names])
    touched: Bits = large & (system.counts > 0) & chosen[:, None] & fitted
    return touched


def _groups(system: _System, values: Floats, inliers: Bits) -> list[list[int]]:
    """Parameters that are fitted; those of one group as one: only their sum is known."""
    touched = np.flatnonzero(_touched(system, values, inliers).any(axis=0)).tolist()
    weighted = (system.counts / system.scales(values)[:, None])[inliers]
    lengths = np.sqrt((weighted**2).sum(axis=0))
    group_of = {at: [at] for at in touched}
    for one, other in combinations(touched, 2):
        alike = float(weighted[:, one] @ weighted[:, other]) / float(lengths[one] * lengths[other])
        if alike > ALIKE and group_of[one] is not group_of[other]:
            group_of[one] += group_of[other]
            for at in group_of[other]:
                group_of[at] = group_of[one]
    return [sorted(group) for at, group in group_of.items() if at == min(group)]


def _solve(
    system: _System, groups: list[list[int]], units: Floats, values: Floats, inliers: Bits,
    scales: Floats,
) -> Floats:
    """(p,) values after a fit; those of a group are in the proportion of `units`."""
    from scipy.optimize import nnls

    columns = np.stack([system.counts[:, group] @ units[group] for group in groups], axis=1)
    fitted = sorted(at for group in groups for at in group)
    held = np.delete(system.counts, fitted, axis=1) @ np.delete(values, fitted)
    factors = nnls(
        (columns / scales[:, None])[inliers], ((system.lengths - held) / scales)[inliers]
    )[0]
    solution = values.copy()
    for group, factor in zip(groups, factors, strict=True):
        solution[group] = units[group] * factor
    return solution


def _finished(
    intervals: pa.Table, rows: list[dict[str, Any]], system: _System, groups: list[list[int]],
    before: Parameters, units: Floats, fitted: Floats, inliers: Bits, usable: Bits,
) -> FittedTimes:
    """The answer: values, ranges, and what is said of them."""
    touched, seen = (_touched(system, units, chosen) for chosen in (inliers, usable))
    by_name, notes = dict(before.by_name), list[str]()
    n_rows, levels = dict.fromkeys(by_name, 0), dict[str, str]()
    for group in groups:
        names = [system.names[at] for at in group]
        used = [rows[at] for at in np.flatnonzero(touched[:, group].any(axis=1)).tolist()]
        if not used:
            continue
        source = f"fitted on {len(used)} intervals: {', '.join(sorted({r['kind'] for r in used}))}"
        if len(group) > 1:
            source += f"; only the sum of {' and '.join(names)} is known"
            notes.append(
                f"{' and '.join(names)} stand in the same proportion in all intervals: only their "
                "sum is fitted, in the proportion that they had"
            )
        rows_of_group: Bits = np.asarray(seen[:, group].any(axis=1))
        low, high = _range(system, group, units, fitted, rows_of_group)
        for at, name in zip(group, names, strict=True):
            value, ends = round(fitted[at]), (round(low * units[at]), round(high * units[at]))
            if len(used) < FEWEST_ROWS:
                ends = before[name].low, before[name].high
            by_name[name] = before[name].checked(
                value, min(ends[0], value), max(ends[1], value), source
            )
            n_rows[name] = len(used)
            if level := most_verbose(row["log_level"] for row in used):
                levels[name] = level
    params = Parameters(by_name)
    if verbose := [name for name, level in levels.items() if level == "TRACE"]:
        notes.append(f"logs at TRACE slow Kafka; so these are less at INFO: {', '.join(verbose)}")
    return FittedTimes(
        params, n_rows, levels, _compared(intervals, params, _reasons(system, inliers, usable)),
        (*notes, *_clock_notes(rows, before)),
    )


def _reasons(system: _System, inliers: Bits, usable: Bits) -> list[str | None]:
    """Why each row is not fitted."""
    return [
        None if is_kept else CLOCKS if length < 0 else OUTLIER_ROW if is_usable else NO_PARAMETER
        for is_kept, length, is_usable in zip(
            inliers.tolist(), system.lengths.tolist(), usable.tolist(), strict=True
        )
    ]


def _range(
    system: _System, group: list[int], units: Floats, fitted: Floats, touched: Bits
) -> tuple[float, float]:
    """The 10th and the 90th percentile of what single rows make of a group, in its units.

    Of outliers too: they are no typical values, but they were seen.
    """
    rows = system.counts[touched]
    column = rows[:, group] @ units[group]
    remainder = rows @ fitted - rows[:, group] @ fitted[group]
    single = np.maximum((system.lengths[touched] - remainder) / column, 0.0)
    low, high = np.quantile(single, RANGE).tolist()
    return low, high


def predicted_lengths(
    intervals: pa.Table, params: Parameters
) -> tuple[list[int], list[int], list[int]]:
    """Microseconds of every interval by the values of parameters, and by both ends of ranges."""
    system = _System.of(intervals.to_pylist())
    lengths = []
    for end in ("value", "low", "high"):
        values = np.array([getattr(params[name], end) for name in system.names], np.float64)
        lengths.append(np.rint(system.counts @ values / 1000).astype(np.int64).tolist())
    value, low, high = lengths
    return value, low, high


def within_factor(length: int, predicted: int, resolution: int, factor: int = 3) -> bool:
    """Whether a length is within a factor of its prediction, as far as logs can tell."""
    one, other = max(length, resolution), max(predicted, resolution)
    return one <= factor * other and other <= factor * one


def _compared(intervals: pa.Table, params: Parameters, why: list[str | None]) -> pa.Table:
    """The intervals beside what the parameters give."""
    value, low, high = predicted_lengths(intervals, params)
    return TIMELINE_FITTED_INTERVALS.table({
        **{name: intervals[name] for name in TIMELINE_INTERVALS.schema.names},
        "predicted_us": value, "predicted_low_us": low, "predicted_high_us": high,
        "left_out": pa.array(why, pa.string()),
    })


def _clock_notes(rows: list[dict[str, Any]], params: Parameters) -> Iterator[str]:
    """Pairs of nodes of which too many intervals end before they begin."""
    by_pair: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for row in rows:
        if row["start_broker"] != row["end_broker"]:
            by_pair[row["start_broker"], row["end_broker"]].append(row["end_us"] - row["start_us"])
    for (start, end), lengths in by_pair.items():
        negative = sum(length < 0 for length in lengths)
        if negative > MANY_NEGATIVE * len(lengths):
            behind = params["net"].value - round(median(lengths))
            yield (
                f"clocks: {negative} of {len(lengths)} intervals from {_node(start)} to "
                f"{_node(end)} end before they begin and are left out: the clock of {_node(end)} "
                f"is about {behind / 1000:.1f} ms behind"
            )


def _node(broker: int | None) -> str:
    return "the metadata log" if broker is None else f"broker {broker}"
