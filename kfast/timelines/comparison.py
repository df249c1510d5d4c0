"""One failure under several controllers, stops, settings or parameters: `kfast.timeline_compare`.

All variants have the same samples: what is drawn depends on the seed, the sample and the brokers
that fail, not on the variant (common random numbers). So a difference is made sample by sample, and
its range is that of the differences, which is narrower than the two ranges would tell.

Source: docs/timeline.md, section "Comparison".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.arguments import check_instance, shown
from kfast.errors import ArgumentError
from kfast.schema import (
    CONTROLLERS,
    REFUSED_BYTES,
    TIMELINE_COMPARED,
    TIMELINE_DIFFERENCES,
    TIMES,
    TIMES_IN_SECONDS,
)
from kfast.state import ClusterState
from kfast.state.cluster import with_controller
from kfast.state.display import Summary, summary_html, summary_text
from kfast.timelines.failover import (
    MILLION,
    FailureTimeline,
    percentiles,
    rows_table,
    summary_row,
    timeline,
)
from kfast.timelines.parameters import Parameters
from kfast.timelines.settings import SETTINGS, Settings

__all__ = ["TimelineComparison", "Variant", "parse_variants", "timeline_compare"]

Row = dict[str, Any]

MOST_VARIANTS = 8
MODES = ("zk", "kraft")
STOPS = {"unclean": False, "controlled": True}
"""How the brokers stop: they fail, or they ask for their controlled shutdown."""
JOIN, EQUALS = "+", "="
RIGHT = (
    "zk, kraft, a controller such as kraft-4.1, unclean, controlled, or NAME=VALUE of a setting "
    "or parameter; several of them joined by +"
)


@dataclass(frozen=True)
class Variant:
    """What differs in one of the answers that are compared.

    Attributes
    ----------
    name : str
        As it was given.
    controller : str
        One of `MODES` or of `schema.CONTROLLERS`; empty where it is the cluster's own.
    controlled : bool
        The brokers ask for their controlled shutdown; they do not fail.
    settings : dict of str to int
    params : dict of str to str
    """

    name: str
    controller: str = ""
    controlled: bool = False
    settings: dict[str, int] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Read a variant, as kraft-4.1+broker.session.timeout.ms=6000."""
        controllers, stops = list[str](), list[str]()
        settings, params = dict[str, int](), dict[str, str]()
        for part in str(text).split(JOIN):
            name, equals, value = (piece.strip() for piece in part.partition(EQUALS))
            if not equals and name in (*MODES, *CONTROLLERS):
                controllers.append(name)
            elif not equals and name in STOPS:
                stops.append(name)
            elif not equals or not value:
                raise ArgumentError(f"variant {shown(text)}: {shown(part)} is none of {RIGHT}")
            elif name in settings or name in params:
                raise ArgumentError(f"variant {shown(text)}: {name} is given twice")
            elif name not in SETTINGS:
                params[name] = value
            elif value.isdecimal():
                settings[name] = int(value)
            else:
                raise ArgumentError(f"variant {shown(text)}: {name} is no whole number")
        for words in (controllers, stops):
            if len(words) > 1:
                raise ArgumentError(f"variant {shown(text)}: give one of {' and '.join(words)}")
        return cls(str(text).strip(), "".join(controllers), any(STOPS[name] for name in stops),
                   settings, params)

    def state_of(self, state: ClusterState) -> ClusterState:
        """The cluster under the controller of this variant."""
        if not self.controller or self.controller == state.controller:
            return state
        if state.controller.partition("-")[0] == self.controller:
            return state
        newest = next(
            (name for name in reversed(CONTROLLERS) if name.partition("-")[0] == self.controller),
            self.controller,
        )
        return with_controller(state, newest)


def parse_variants(texts: Iterable[str]) -> tuple[Variant, ...]:
    """Read the variants of a comparison.

    Raises
    ------
    ArgumentError
        A variant is none, two have one name, or there are fewer than two or too many.
    """
    variants = tuple(Variant.parse(text) for text in texts)
    names = [variant.name for variant in variants]
    if not 2 <= len(variants) <= MOST_VARIANTS:
        raise ArgumentError(
            f"variants are {len(variants)}; right are 2 to {MOST_VARIANTS}, each {RIGHT}"
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ArgumentError(f"variant {twice[0]} is given twice")
    return variants


@dataclass(frozen=True, eq=False)
class TimelineComparison:
    """One failure under several variants; the first is what the others are compared with.

    Attributes
    ----------
    variants : tuple of Variant
    failures : tuple of FailureTimeline
        The answer of each variant.
    """

    variants: tuple[Variant, ...]
    failures: tuple[FailureTimeline, ...]

    @property
    def summary(self) -> pa.Table:
        """A row for each variant (`schema.TIMELINE_COMPARED`)."""
        return rows_table(TIMELINE_COMPARED, [
            {"variant": variant.name, "controller": failure.state.controller,
             **summary_row(number, failure.broker_ids, failure.measures)}
            for number, (variant, failure) in enumerate(
                zip(self.variants, self.failures, strict=True))
        ])

    @property
    def differences(self) -> pa.Table:
        """Every measure of every variant but the first (`schema.TIMELINE_DIFFERENCES`)."""
        return rows_table(TIMELINE_DIFFERENCES, list(self._differences()))

    @property
    def parameters(self) -> pa.Table:
        """Every parameter of the first variant with its range and source."""
        return self.failures[0].parameters

    def _differences(self) -> Iterator[Row]:
        first = self.failures[0].measures.values
        for variant, failure in zip(self.variants[1:], self.failures[1:], strict=True):
            for name in (*TIMES, *TIMES_IN_SECONDS, *REFUSED_BYTES):
                values = failure.measures.values.get(name)
                yield {
                    "variant": variant.name, "reference": self.variants[0].name, "measure": name,
                    **_difference(first.get(name), values, in_seconds=name in TIMES_IN_SECONDS),
                }

    def _summary(self) -> Summary:
        rows = self.summary.to_pylist()
        return "Timelines compared", {
            row["variant"]: f"led_max_us {row['led_max_us']} [{row['led_max_us_low']}, "
            f"{row['led_max_us_high']}]" for row in rows
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


Samples = npt.NDArray[np.int64] | None


def _difference(reference: Samples, values: Samples, *, in_seconds: bool) -> Row:
    """One measure of two variants, and what it differs by, sample by sample."""
    row: Row = {"samples": None, "lower_samples": None}
    samples_of: dict[str, Samples] = {
        "reference_value": reference, "value": values, "difference": None,
    }
    if reference is not None and values is not None:
        samples_of["difference"] = values - reference
        row = {
            "samples": values.size - 1,
            "lower_samples": int((values[1:] < reference[1:]).sum()),
        }
    for name, each in samples_of.items():
        numbers: tuple[int | None, ...] = (None,) * 3
        if each is not None:
            numbers = percentiles(each)
            if in_seconds:
                numbers = tuple((one + MILLION // 2) // MILLION for one in numbers)
        row |= dict(zip((name, f"{name}_low", f"{name}_high"), numbers, strict=True))
    return row


def timeline_compare(
    state: ClusterState,
    broker_ids: Iterable[int] = (),
    variants: Sequence[str] = MODES,
    *,
    params: Parameters | Mapping[str, str] | None = None,
    settings: Settings | Mapping[str, int] | None = None,
    profile: str = "default",
    **options: Any,
) -> TimelineComparison:
    """Time one failure, or an orderly stop, under several variants with the same samples.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    broker_ids : iterable of int
        Brokers that are up and fail at one instant.
    variants : sequence of str
        What differs; the first is what the others are compared with. Each is "zk" or "kraft" (the
        cluster's own controller if it is one, else the newest), a controller such as "kraft-4.1",
        "unclean" or "controlled" (the brokers fail, or shut down in order), or NAME=VALUE of a
        setting of Kafka or of a parameter; several of them are joined by "+", as in
        "kraft-4.1+broker.session.timeout.ms=6000".
    params, settings, profile
        As of `kfast.timeline`: what all variants have that do not say otherwise.
    **options
        controller_fails, samples, seed, horizon, loss and load of `kfast.timeline`.

    Raises
    ------
    ArgumentError
        As `kfast.timeline`; a variant is none, two are the same, or there are fewer than two.
    """
    check_instance("state", state, ClusterState)
    if isinstance(variants, str):
        raise ArgumentError(f"variants is {shown(variants)}; right is a list, as ['zk', 'kraft']")
    parsed = parse_variants(variants)
    common, values = Settings.of(settings), Parameters.of(params, profile=profile)
    ids = [*broker_ids]
    questions = [_question(variant, values, common) for variant in parsed]
    return TimelineComparison(parsed, tuple(
        timeline(
            variant.state_of(state), ids, controlled=variant.controlled, **question, **options
        )
        for variant, question in zip(parsed, questions, strict=True)
    ))


def _question(variant: Variant, params: Parameters, settings: Settings) -> Row:
    """Parameters and settings of a variant."""
    try:
        return {
            "params": params.replaced(variant.params),
            "settings": Settings.of({**settings.by_name, **variant.settings}),
        }
    except ArgumentError as error:
        raise ArgumentError(f"variant {variant.name}: {error}") from error
