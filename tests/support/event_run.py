"""Runs events on the twin and on kfast, and compares them after each.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from kfast import ClusterState
from kfast.schema import Code, PartitionState
from kfast.testing import invariants
from tests.support.event import Event
from tests.support.event_compare import (
    TwinView,
    counts_differ,
    full_journals_differ,
    journals_differ,
    request_counts_differ,
)
from tests.support.kfast_run import SETTINGS, KfastRun, RowOrder, Setting
from tests.support.random_clusters import random_context, store_like
from tests.support.random_events import Generator, faults
from tests.support.reference_core import Happened
from tests.support.reference_profiles import PROFILES
from tests.support.twin_run import TwinRun
from tests.support.twin_state import difference, store_differs

from . import event_invariants, reference

OF_THE_STORE = ("fault", "heal")
"""Events that only say what the store does later: there is nothing to compare after them."""


@dataclass
class Coverage:
    """How often each thing that can happen did happen."""

    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    elections: Counter[tuple[str, str]] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    alter_codes: Counter[str] = field(default_factory=Counter)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    reassignment_codes: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)

    def add(self, event: Event, happened: Happened, twin: TwinRun) -> None:
        """Count what one event did."""
        journal = happened.journal
        self.events[event.name] += 1
        self.marks.update(happened.marks)
        self.reassignment_codes.update(c.name for c in happened.reassignment_codes.values())
        self.cells.update(reference.matrix_cells(journal))
        for row in journal.elections:
            outcome = "unclean" if row["unclean"] else row["code"]
            self.elections[row["strategy"], outcome] += 1
        self.codes.update(row["code"] for row in journal.refusals)
        self.codes.update(Code(code).name for code in happened.codes.values())
        if happened.failure is not None:
            self.codes[happened.failure.name] += 1
        self.alter_codes.update(code.name for code in happened.alter_codes.values())
        if event.name == "alter_partition" and happened.error is not None:
            self.alter_codes[happened.error] += 1
        if twin.store is not None:
            self.faults.update(twin.store.faults_hit)
            twin.store.faults_hit.clear()


class DifferenceError(AssertionError):
    """The twin and kfast differ after an event."""


@dataclass
class Sequence:
    """One seeded cluster and its events."""

    seed: int
    with_store: bool
    profile: str = "zk-3.9"
    settings: tuple[Setting, ...] = SETTINGS
    policy: Any = None
    rule: Any = None
    coverage: Coverage = field(default_factory=Coverage)
    log: list[str] = field(default_factory=list)
    undisturbed: bool = True
    offline_counted: bool = True

    def run(self, events: int) -> Coverage:
        """Run events; `DifferenceError` says where the twin and kfast part."""
        generator = Random(self.seed)
        ctx = random_context(generator, PROFILES[self.profile])
        store = store_like(ctx) if self.with_store else None
        ctx.rule = self.rule
        self.kfast = [KfastRun(ctx, store, setting, self.policy) for setting in self.settings]
        first = self.kfast[0].state
        ctx.racks = dict(zip(first.broker_id.tolist(), first.rack.to_pylist(), strict=True))
        self.twin = TwinRun(ctx, store)
        source = Generator(generator, ctx, store, self.twin.controller)
        self.step(source.failover(), 0)
        for number in range(1, events + 1):
            event = source.next()
            for fault in faults(source, event):
                self.step(fault, number)
            self.step(event, number)
            self.step(Event("heal"), number)
        return self.coverage

    def step(self, event: Event, number: int) -> None:
        """Do one event to all, and compare."""
        if event.name != "heal":
            self.log.append(f"{number:4} {event}")
        if event.name in OF_THE_STORE:
            for run in (self.twin, *self.kfast):
                run.apply(event)
            return
        before = self.kfast[0].state.copy()
        self.twin.controller.rank = RowOrder(self.kfast[0])
        known = self.twin.ctx.copy()
        happened = self.twin.apply(event)
        self.coverage.add(event, happened, self.twin)
        outcomes = [run.apply(event) for run in self.kfast]
        for run, outcome in zip(self.kfast, outcomes, strict=True):
            wrong = self.wrong(happened, run, outcome, outcomes[0])
            if wrong is not None:
                raise DifferenceError(self.report(number, run, wrong))
        broke = event_invariants.broken(known, self.twin.ctx, event, happened)
        if broke is not None:
            raise DifferenceError(self.report(number, self.kfast[0], broke))
        self.check_invariants(event, before, outcomes[0], happened)

    def check_invariants(
        self, event: Event, before: ClusterState, outcome: Any, happened: Happened
    ) -> None:
        """Section 9: what is true of every state, and of every step of an undisturbed controller.

        The rules that compare two states assume that nobody else writes to the store, and that a
        leader asks only for ISRs that it is in.
        """
        first = self.kfast[0]
        self.offline_counted &= not offline_left_behind(self.twin.ctx)
        invariants.check(first.state, offline=self.offline_counted)
        if event.name == "move_partitions":
            proposals = before.find_partitions(event.args["partitions"])
            invariants.check_call(before, proposals, outcome)
        self.undisturbed &= event.name not in ("store_put", "store_delete")
        proposals = event.args.get("records", {})
        if outcome is None or not self.undisturbed or any(
            event.args["broker"] not in record.isr for record in proposals.values()
        ):
            return
        invariants.check_step(before, first.state, outcome, first.store, self.profile)
        done = outcome.error is None and outcome.failure is None
        if event.name == "on_broker_failure" and done and not happened.journal.refusals:
            invariants.after_broker_failure(first.state, event.args["brokers"])

    def wrong(
        self, happened: Happened, run: KfastRun, outcome: Any, first_outcome: Any
    ) -> str | None:
        """What differs after an event, if anything does."""
        first = self.kfast[0]
        if run is first:
            wrong = difference(self.twin.ctx, run.state)
            if wrong is None and run.store is not None and self.twin.store is not None:
                wrong = store_differs(self.twin.store, run.store)
        else:
            same = run.state.digest() == first.state.digest()
            wrong = None if same else f"digest: {first.state.difference(run.state)}"
        if wrong is None and self.twin.controller.gauges() != run.controller.gauges():
            wrong = (
                f"gauges: the twin has {self.twin.controller.gauges()}, "
                f"kfast has {run.controller.gauges()}"
            )
        if wrong is None and run is first:
            wrong = reassignments_differ(self.twin, run)
        if wrong is not None or outcome is None:
            return wrong
        return answers_differ(happened, run, outcome) or self.journal_wrong(
            happened, run, outcome, first_outcome
        )

    def journal_wrong(
        self, happened: Happened, run: KfastRun, outcome: Any, first_outcome: Any
    ) -> str | None:
        """Where the journal differs, at the level that it was kept at.

        The first run's is compared with the twin's, another full one with the first run's.
        """
        full = run.setting.journal == "full"
        if full and outcome is not first_outcome:
            wrong = full_journals_differ(outcome, first_outcome)
            return wrong and f"{wrong} differs from that of {self.kfast[0].setting}"
        if full:
            view = TwinView(happened.journal, happened.apart, self.twin.ctx.profile)
            return journals_differ(view, outcome)
        if run.setting.journal == "counts":
            wrong = counts_differ(happened.journal, outcome)
            return wrong or request_counts_differ(happened.journal, outcome)
        return None

    def report(self, number: int, run: KfastRun, wrong: str) -> str:
        """What differs, what happened before, and the command that repeats it."""
        before = "\n".join(self.log[-6:])
        store = "" if self.with_store else " --no-store"
        profile = "" if self.profile == "zk-3.9" else f" --profile {self.profile}"
        return (
            f"seed {self.seed}, event {number} ({run.setting}): {wrong}\nlast events:\n{before}\n"
            f"repeat with: python -m tests.rules.test_random_events --seed {self.seed} "
            f"--events {number}{store}{profile}"
        )


def offline_left_behind(ctx: reference.Context) -> bool:
    """Whether a partition is Offline whose topic is gone or started: see `invariants.check`."""
    return any(
        state == PartitionState.OFFLINE
        and (p not in ctx.assignments or p[0] in ctx.topics_deletion_started)
        for p, state in ctx.partition_states.items()
    )


def reassignments_differ(twin: TwinRun, run: KfastRun) -> str | None:
    """Where what is said to be being reassigned differs."""
    actual = {
        (row["topic"], row["partition"]): (
            row["replicas"], sorted(row["adding"]), sorted(row["removing"])
        )
        for row in run.controller.list_partition_reassignments().to_pylist()
    }
    expected = {
        p: (list(a.replicas), sorted(a.adding), sorted(a.removing))
        for p, a in twin.controller.list_partition_reassignments().items()
    }
    if actual == expected:
        return None
    return f"reassignments: the twin has {expected}, kfast has {actual}"


def in_row_order(happened: Happened, names: list[reference.Partition]) -> list[Code]:
    """Codes in kfast's order: of partitions as asked, of replicas by row and broker."""
    if happened.event == "move_partitions":
        return list(happened.codes.values())
    rows = {p: row for row, p in enumerate(names)}
    ordered = sorted(happened.codes, key=lambda r: (rows[r[0]], r[1]))
    return [happened.codes[r] for r in ordered]


def replies_of(outcome: Any) -> dict[reference.Partition, int | str]:
    """Leader or error by partition."""
    if outcome.event != "elect_leaders" or outcome.replies is None or outcome.error is not None:
        return {}
    return {
        (row["topic"], row["partition"]): row["error"] or row["leader"]
        for row in outcome.replies.to_pylist()
    }


def answers_differ(happened: Happened, run: KfastRun, outcome: Any) -> str | None:
    """Where what an event answers differs."""
    names = [
        (run.state.topic[int(t)].as_py() if t >= 0 else "", int(p))
        for t, p in zip(run.state.topic_row, run.state.partition, strict=True)
    ]
    actual: dict[str, Any] = {
        "failure": outcome.failure, "error": outcome.error,
        "remaining": sorted(names[row] for row in outcome.remaining),
        "replies": replies_of(outcome),
        "alter_codes": [int(code) for code in outcome.alter_codes],
        "reassignment_codes": [int(code) for code in outcome.reassignment_codes],
    }
    expected = {
        "failure": happened.failure, "error": happened.error,
        "remaining": sorted(happened.remaining), "replies": happened.replies,
        "alter_codes": [int(code) for code in happened.alter_codes.values()],
        "reassignment_codes": [int(code) for code in happened.reassignment_codes.values()],
    }
    if happened.event in ("move_replicas", "move_partitions") and happened.failure is None:
        actual["codes"] = [Code(code).name for code in outcome.codes]
        expected["codes"] = [code.name for code in in_row_order(happened, names)]
    if happened.failure is not None:
        del actual["reassignment_codes"], expected["reassignment_codes"]
    if happened.event == "catch_up":
        del actual["alter_codes"], expected["alter_codes"]
    if happened.event == "move_partitions" and happened.failure is None:
        actual["results"] = int(np.count_nonzero(outcome.in_result))
        expected["results"] = len(happened.results)
    for key, value in expected.items():
        if actual[key] != value:
            return f"{key}: the twin has {value}, kfast has {actual[key]}"
    return None
