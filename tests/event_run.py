"""Runs events on the twin and on kfast, and compares them after each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from kfast import ClusterState, invariants
from kfast.schema import Code

from . import reference
from .event_compare import TwinView, counts_differ, journals_differ
from .kfast_run import SETTINGS, KfastRun, Setting
from .random_clusters import random_context, store_like
from .random_events import Event, Generator
from .reference_outcome import Happened
from .twin_run import TwinRun
from .twin_state import difference, store_differs

FAULTY = frozenset({
    "on_broker_change", "on_broker_failure", "on_broker_startup", "controlled_shutdown",
    "on_topic_change", "on_partition_modifications", "elect_leaders", "rebalance_leaders",
    "on_log_dir_failure", "on_leader_and_isr_response", "on_broker_log_dir_failure",
    "enable_unclean_leader_election", "move_replicas", "move_partitions", "alter_partition",
})
"""Events before which faults are injected: those that ask the store through the machines."""


@dataclass
class Coverage:
    """How often each thing that can happen did happen."""

    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    elections: Counter[tuple[str, str]] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    alter_codes: Counter[str] = field(default_factory=Counter)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)

    def add(self, event: Event, happened: Happened, twin: TwinRun) -> None:
        """Count what one event did."""
        journal = happened.journal
        self.events[event.name] += 1
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
    settings: tuple[Setting, ...] = SETTINGS
    coverage: Coverage = field(default_factory=Coverage)
    log: list[str] = field(default_factory=list)
    undisturbed: bool = True

    def run(self, events: int) -> Coverage:
        """Run events; `DifferenceError` says where the twin and kfast part."""
        generator = Random(self.seed)
        ctx = random_context(generator)
        store = store_like(ctx) if self.with_store else None
        self.kfast = [KfastRun(ctx, store, setting) for setting in self.settings]
        self.twin = TwinRun(ctx, store)
        source = Generator(generator, ctx, store, self.twin.controller)
        self.step(source.failover(), 0)
        for number in range(1, events + 1):
            event = source.next()
            for fault in source.faults(event) if event.name in FAULTY else ():
                self.step(fault, number)
            self.step(event, number)
            self.step(Event("heal"), number)
        return self.coverage

    def step(self, event: Event, number: int) -> None:
        """Do one event to all, and compare."""
        if event.name != "heal":
            self.log.append(f"{number:4} {event}")
        before = self.kfast[0].state.copy()
        happened = self.twin.apply(event)
        self.coverage.add(event, happened, self.twin)
        outcomes = [run.apply(event) for run in self.kfast]
        for run, outcome in zip(self.kfast, outcomes, strict=True):
            wrong = self.wrong(happened, run, outcome)
            if wrong is not None:
                raise DifferenceError(self.report(number, run, wrong))
        self.check_invariants(event, before, outcomes[0])

    def check_invariants(self, event: Event, before: ClusterState, outcome: Any) -> None:
        """Section 9: what is true of every state, and of every step of an undisturbed controller.

        The rules that compare two states assume that nobody else writes to the store, and that a
        leader asks only for ISRs that it is in.
        """
        first = self.kfast[0]
        invariants.check(first.state)
        self.undisturbed &= event.name not in ("store_put", "store_delete")
        asked = event.args.get("records", {})
        if outcome is None or not self.undisturbed or any(
            event.args["broker"] not in record.isr for record in asked.values()
        ):
            return
        invariants.check_step(before, first.state, outcome, first.store)
        done = outcome.error is None and outcome.failure is None
        if event.name == "on_broker_failure" and done and not outcome.refusals.num_rows:
            invariants.after_broker_failure(first.state, event.args["brokers"])

    def wrong(self, happened: Happened, run: KfastRun, outcome: Any) -> str | None:
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
        if wrong is not None or outcome is None:
            return wrong
        return answers_differ(happened, run, outcome) or self.journal_wrong(happened, run, outcome)

    def journal_wrong(self, happened: Happened, run: KfastRun, outcome: Any) -> str | None:
        """Where the journal differs, at the level that it was kept at."""
        if run.setting.journal == "full":
            return journals_differ(TwinView(happened.journal), outcome)
        if run.setting.journal == "counts":
            return counts_differ(happened.journal, outcome)
        return None

    def report(self, number: int, run: KfastRun, wrong: str) -> str:
        """What differs, what happened before, and the command that repeats it."""
        before = "\n".join(self.log[-6:])
        store = "" if self.with_store else " --no-store"
        return (
            f"seed {self.seed}, event {number} ({run.setting}): {wrong}\nlast events:\n{before}\n"
            f"repeat with: python -m tests.test_random_events --seed {self.seed} "
            f"--events {number}{store}"
        )


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
        (run.state.topic[int(t)].as_py(), int(p))
        for t, p in zip(run.state.topic_row, run.state.partition, strict=True)
    ]
    found: dict[str, Any] = {
        "failure": outcome.failure, "error": outcome.error,
        "remaining": sorted(names[row] for row in outcome.remaining),
        "replies": replies_of(outcome),
        "alter_codes": [int(code) for code in outcome.alter_codes],
    }
    wanted = {
        "failure": happened.failure, "error": happened.error,
        "remaining": sorted(happened.remaining), "replies": happened.replies,
        "alter_codes": [int(code) for code in happened.alter_codes.values()],
    }
    if happened.event in ("move_replicas", "move_partitions") and happened.failure is None:
        found["codes"] = [Code(code).name for code in outcome.codes]
        wanted["codes"] = [code.name for code in in_row_order(happened, names)]
    if happened.event == "catch_up":
        del found["alter_codes"], wanted["alter_codes"]
    if happened.event == "move_partitions" and happened.failure is None:
        found["results"] = int(np.count_nonzero(outcome.in_result))
        wanted["results"] = len(happened.results)
    for key, value in wanted.items():
        if found[key] != value:
            return f"{key}: the twin has {value}, kfast has {found[key]}"
    return None
