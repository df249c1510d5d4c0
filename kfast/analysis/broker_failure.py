"""What the failure of some brokers does: `kfast.fail_brokers`, and the steps that may follow it.

Source: docs/controller.md, sections 6.1 to 6.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kfast.analysis.impact import Impact
from kfast.analysis.surprises import stuck_partitions
from kfast.analysis.whatif import CANNOT, WhatIf, check_brokers, check_order, registrations
from kfast.arguments import check_instance, check_items, shown
from kfast.controllers import EventOutcome, Profile
from kfast.errors import ArgumentError
from kfast.figures.failures import broker_leaders_figure
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["Failure", "FailureStep", "fail_brokers"]


@dataclass(frozen=True)
class FailureStep:
    """One step of a what-if, and what it changed.

    Attributes
    ----------
    kind : {"fail", "start"}
    broker_ids : tuple of int
        Who fails, or starts.
    impact : Impact
        "Before" is after the step before it; for the first, after the controller's start.
    """

    kind: str
    broker_ids: tuple[int, ...]
    impact: Impact

    def _summary(self) -> Summary:
        return f"Step {self.kind}", {
            "broker_ids": ",".join(map(str, self.broker_ids)) or None, **self.impact.summary,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


@dataclass(frozen=True)
class Failure:
    """What the failure of some brokers does.

    Attributes
    ----------
    title : str
        Name of the controller that is simulated.
    broker_ids : tuple of int
        Who fails first.
    controlled : bool
    state : ClusterState
        The cluster in the end.
    start : Impact
        What the controller's start alone did to the cluster as it was given.
    impact : Impact
        What all steps did together; "before" is after the controller's start.
    steps : tuple of FailureStep
        The failure, then what `then` asked for.
    events : tuple of EventOutcome
        The start, then each event.
    order_matters : int
        Partitions whose leader, ISR, ELR or last known leader depends on which of the brokers that
        failed together was fenced first; 0 where the controller takes them in one event.
    surprises : pa.Table
        Partitions of a KRaft cluster that do what operators do not expect (`schema.SURPRISES`).
    """

    title: str
    broker_ids: tuple[int, ...]
    controlled: bool
    state: ClusterState
    start: Impact
    impact: Impact
    steps: tuple[FailureStep, ...]
    events: tuple[EventOutcome, ...]
    order_matters: int
    surprises: pa.Table

    @property
    def remaining(self) -> int:
        """Partitions that brokers still led when their controlled shutdown had been handled."""
        return sum(int(event.outcome.remaining.size) for event in self.events)

    def plot(self) -> Figure:
        """Draw the leaders of every broker before and after all steps, as a figure of plotly.

        Raises
        ------
        MissingExtraError
            plotly is not installed (the extra `report`).
        """
        return broker_leaders_figure(self.impact.brokers)

    def _summary(self) -> Summary:
        return "Failure", {
            "broker_ids": ",".join(map(str, self.broker_ids)) or None,
            "controlled": self.controlled,
            "steps": len(self.steps) if len(self.steps) > 1 else None,
            **self.impact.summary,
            "partitions for which the order of failures matters": self.order_matters or None,
            "surprising partitions": self.surprises.num_rows or None,
            "controller": self.title,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def fail_brokers(
    state: ClusterState,
    broker_ids: Iterable[int],
    *,
    controlled: bool = False,
    then: Iterable[tuple[str, Iterable[int]]] = (),
    journal: str = "counts",
    threads: int = 1,
    profile: str | Profile | None = None,
    order: Sequence[int] | None = None,
) -> Failure:
    """Start a controller on a copy of the cluster, and let brokers fail.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    broker_ids : iterable of int
        Registered brokers. They fail in one event; with `controlled`, one after the other.
    controlled : bool
        Brokers that fail, now or later, ask for their controlled shutdown (section 6.3) before they
        vanish.
    then : iterable of (str, iterable of int)
        Further steps, in order: ("fail", broker ids), or ("start", broker ids) for brokers that
        are down. Those that have started catch up with every leader before the next step.
    journal : {"off", "counts", "full"}
        Requests are counted from "counts" on; `kfast.explain` needs "full".
    threads : int
        Threads to use; results do not depend on it.
    profile : str or Profile, optional
        Another version of the controller that runs the cluster, such as zk-2.4.
    order : sequence of int, optional
        Brokers that fail together are fenced one after another, in the order in which their ids
        stand here, and others after them (KRaft only). By default by ascending id.

    Raises
    ------
    ArgumentError
        A broker is unknown; it is to fail and is not registered then, or to start and is; a step
        is of another kind; `order` names a broker that does not fail.
    """
    check_instance("state", state, ClusterState)
    steps = _check_steps(state, broker_ids, then)
    run = WhatIf(state, journal=journal, threads=threads, profile=profile, order=order)
    check_order(order, (broker for kind, ids in steps if kind == "fail" for broker in ids))
    finished = []
    for kind, ids in steps:
        if kind == "start":
            run.start_brokers(ids)
        else:
            run.fail(ids, controlled=controlled)
        finished.append(FailureStep(kind, ids, run.measure()))
    return Failure(
        run.common.title, steps[0][1], controlled, run.state, run.start, run.impact,
        tuple(finished), tuple(run.events), run.common.order_matters,
        pa.concat_tables([*run.surprises, stuck_partitions(run.state, run.clean_ids)]),
    )


def _check_steps(
    state: ClusterState, broker_ids: Iterable[int], then: Any
) -> list[tuple[str, tuple[int, ...]]]:
    """Every step with its brokers, each once; refuses what cannot happen at its time."""
    registered = registrations(state)
    steps = []
    for at, step in enumerate([("fail", broker_ids), *check_items("then", then)]):
        name = f"then[{at - 1}]" if at else "broker_ids"
        if not isinstance(step, (tuple, list)) or len(step) != 2 or step[0] not in CANNOT:
            raise ArgumentError(
                f"{name} is {shown(step)}; right is (kind, broker ids), kind one of "
                f"{', '.join(CANNOT)}"
            )
        kind, ids = step
        checked = check_brokers(state, ids, kind=kind, name=name, registered=registered)
        registered.update(dict.fromkeys(checked, kind == "start"))
        steps.append((kind, checked))
    return steps
