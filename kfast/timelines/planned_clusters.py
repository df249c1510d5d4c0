"""How a failover grows with a cluster that is planned: `kfast.timeline_growth`.

Each cluster is generated with Kafka's own placement, so that leaders and replicas are spread
evenly; the controller then decides on it as on any other.

Source: docs/timeline.md, section "Growth".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from kfast import arguments
from kfast.arguments import shown
from kfast.errors import ArgumentError
from kfast.schema import (
    CONTROLLERS,
    TIMELINE_GROWTH,
    TIMELINE_GROWTH_SENSITIVITY,
    WAITS,
)
from kfast.state.cluster import with_controller
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.generation import generate
from kfast.timelines.failover import (
    Answered,
    FailureTimeline,
    Question,
    rows_table,
    summary_row,
    timeline,
)
from kfast.timelines.parameters import Parameters
from kfast.timelines.settings import Settings

__all__ = ["FAILURES", "NEWEST", "SIZES", "TimelineGrowth", "timeline_growth"]

Row = dict[str, Any]

FAILURES = ("broker", "controller")
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
NEWEST = tuple(
    next(name for name in reversed(CONTROLLERS) if name.startswith(mode))
    for mode in ("zk", "kraft")
)
"""The newest controller of each mode."""


class _Planned(NamedTuple):
    """One cluster that is planned, and who fails there."""

    controller: str
    failure: str
    partitions: int


@dataclass(frozen=True, eq=False)
class TimelineGrowth(Answered):
    """Failovers of planned clusters.

    Attributes
    ----------
    question : Question
    table : pa.Table
        A row for each controller, failure and size (`schema.TIMELINE_GROWTH`).
    sensitivity : pa.Table
        What each row's `led_max_us` depends on (`schema.TIMELINE_GROWTH_SENSITIVITY`).
    """

    question: Question
    table: pa.Table
    sensitivity: pa.Table

    def _summary(self) -> Summary:
        rows = self.table.to_pylist()
        return "Growth of failovers", {
            f"{row['controller']}, {row['failure']}, {row['partitions']} partitions":
            f"led_max_us {row['led_max_us']} [{row['led_max_us_low']}, {row['led_max_us_high']}]"
            for row in rows
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def timeline_growth(
    partitions: Sequence[int] = SIZES,
    *,
    brokers: int = 100,
    replication_factor: int = 3,
    topics: int | None = None,
    controllers: Sequence[str] = NEWEST,
    elr: bool | None = None,
    failures: Sequence[str] = FAILURES,
    params: Parameters | Mapping[str, str] | None = None,
    settings: Settings | Mapping[str, int] | None = None,
    profile: str = "default",
    samples: int = 200,
    seed: int = 0,
    horizon: str = "1h",
    loss: str = "process",
    progress: Callable[[int, int], None] | None = None,
) -> TimelineGrowth:
    """How long a failover takes on planned clusters, and what that depends on.

    Parameters
    ----------
    partitions : sequence of int
        Sizes of the clusters.
    brokers, replication_factor : int
    topics : int, optional
        By default one for every 100 partitions.
    controllers : sequence of str
        Those of `schema.CONTROLLERS` that may run the clusters.
    elr : bool, optional
        Whether eligible leader replicas are on; by default they are not.
    failures : sequence of {"broker", "controller"}
        One broker fails; or one broker and the active controller, which in ZooKeeper mode is it.
    params, settings, profile, samples, seed, horizon, loss
        As of `kfast.timeline`. All rows have the same samples.
    progress : callable, optional
        Is given the failures that are done, and all.

    Raises
    ------
    ArgumentError
        An argument has another value, or a list is empty.
    """
    sizes = [arguments.whole("partitions", one, 1, 2**31 - 1) for one in _listed(
        "partitions", partitions)]
    brokers = arguments.whole("brokers", brokers, 2, 2**31 - 1)
    names, kinds = _listed("controllers", controllers), _listed("failures", failures)
    for what, chosen, right in (("controllers", names, CONTROLLERS), ("failures", kinds, FAILURES)):
        for one in chosen:
            if one not in right:
                raise ArgumentError(f"{what} has {shown(one)}; right is one of {', '.join(right)}")
    options = {
        "params": Parameters.of(params, profile=profile), "settings": Settings.of(settings),
        "samples": samples, "seed": seed, "horizon": horizon, "loss": loss,
    }
    rows, levers, failure_timeline = list[Row](), list[Row](), None
    total = len(sizes) * len(names) * len(kinds)
    for planned, failure_timeline in _failures(
        sizes, names, elr, kinds, options,
        {"brokers": brokers, "replication_factor": replication_factor, "topics": topics},
    ):
        row = _row(planned, replication_factor, failure_timeline)
        rows.append(row)
        levers += [row | lever for lever in failure_timeline.sensitivity.to_pylist()]
        if progress is not None:
            progress(len(rows), total)
    assert failure_timeline is not None, "no list is empty"

    def place(row: Mapping[str, Any]) -> tuple[int, ...]:
        return names.index(row["controller"]), kinds.index(row["failure"]), row["partitions"]

    return TimelineGrowth(
        failure_timeline.question, rows_table(TIMELINE_GROWTH, sorted(rows, key=place)),
        rows_table(TIMELINE_GROWTH_SENSITIVITY, sorted(levers, key=place)),
    )


def _listed(name: str, values: Any) -> list[Any]:
    """Values of a list, each once."""
    if isinstance(values, (str, int)) or not (listed := [*dict.fromkeys(values)]):
        raise ArgumentError(f"{name} is {shown(values)}; right is a list that is not empty")
    return listed


def _failures(
    sizes: Sequence[int], controllers: Sequence[str], elr: bool | None, failures: Sequence[str],
    options: Mapping[str, Any], cluster: Mapping[str, Any],
) -> Iterator[tuple[_Planned, FailureTimeline]]:
    """Every failure; one cluster at a time is in memory, for large ones take gigabytes."""
    for size in sizes:
        made = generate(partitions=size, **cluster)
        for controller in controllers:
            state = with_controller(made, controller, elr=elr)
            for failure in failures:
                yield _Planned(controller, failure, size), timeline(
                    state, state.broker_id[:1].tolist(), controller_fails=failure == "controller",
                    **options,
                )


def _row(planned: _Planned, replication_factor: int, failure_timeline: FailureTimeline) -> Row:
    """Row of one failure (`schema.TIMELINE_GROWTH`)."""
    waits = dict.fromkeys(WAITS, 0) | failure_timeline.waits
    return {
        **planned._asdict(), "n_brokers": failure_timeline.state.n_brokers,
        "replication_factor": replication_factor, "topics": failure_timeline.state.n_topics,
        **{f"{name}_us": span for name, span in waits.items()},
        **summary_row(0, failure_timeline.broker_ids, failure_timeline.measures),
    }
