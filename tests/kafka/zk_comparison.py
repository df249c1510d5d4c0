"""One cluster of ZooKeeper mode in Kafka's controller, in kfast and in the twin, event by event.

Compared after each event: who leads, ISRs, epochs and versions, assignments, the states of
partitions and replicas, topics being deleted, brokers, counters, the stored records, what was
answered, and every request with its recipients and in the order of sends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.kafka.comparison import ERRORS, Step
from tests.kafka.kafka_classes import KafkaProcess
from tests.kafka.zk_cases import (
    KafkaState,
    KnownStates,
    Seen,
    ZkKfast,
    ZkTwin,
    answers_of,
    requests_differ,
    rows_of_kafka,
    view_of,
)
from tests.kafka.zk_events import partition_of, to_json
from tests.support.event_compare import View
from tests.support.kfast_run import Setting
from tests.support.kraft_cases import Json
from tests.support.reference_controller import catch_up_requests
from tests.support.reference_core import Happened

FAILOVER: Json = {"op": "on_controller_failover", "reassignments": {}}
"""What every sequence begins with."""

RAISED = ("IllegalState", "NoSuchElement", "StateChangeFailed", "StoreError")
"""What ends a handler half way."""

REFUSING = ("controlled_shutdown", "elect_leaders")
"""Events that ask first whether they can be handled."""

RESUMING = ("on_controller_failover", "on_broker_startup", "on_broker_change")
"""Events that go on with all reassignments that wait for them."""

UNCHANGED_BY_ORDER = "rebalance_leaders"
"""Kafka goes through the brokers in the order of a hash table, kfast by ascending id."""


@dataclass
class ZkStep(Step):
    """What one event did."""

    unanswered: tuple[str, ...] = ()
    is_incomparable: bool = False
    """Whether the sides may differ, so that the sequence ends: see `ZkLockstep.is_incomparable`."""

    def answer_names(self) -> set[str]:
        """Kinds of answers, for the counts of a run."""
        answer = self.expected.get("answer", {})
        codes = {answer["error"]} if answer.get("error") else set()
        for key in ("replies", "alter_codes", "reassignment_codes"):
            codes |= {str(c) for c in answer.get(key, {}).values() if isinstance(c, str)}
        return codes

    def record_names(self) -> list[str]:
        """Kinds of requests, for the counts of a run."""
        kinds = {"leader_and_isr": "LeaderAndIsr", "stop_replica": "StopReplica",
                 "update_metadata_brokers": "UpdateMetadata"}
        return [
            name for send in self.expected.get("sends", ()) for key, name in kinds.items()
            for _ in send.get(key, ())
        ]

    @property
    def is_last(self) -> bool:
        """Whether nothing may follow: a difference, or what cannot be compared."""
        return bool(self.differences) or self.is_incomparable


def state_differences(expected: Json, seen: Json) -> list[str]:
    """What differs between two states, key by key, partition by partition."""
    wrong = []
    for key in sorted({*expected, *seen}):
        want, have = expected.get(key), seen.get(key)
        if want == have or (key == "legacy_node" and key not in seen):
            continue
        if isinstance(want, dict) and isinstance(have, dict):
            wrong += [
                f"{key} {name}: expected {want.get(name)}, seen {have.get(name)}"
                for name in sorted({*want, *have}) if want.get(name) != have.get(name)
            ]
        else:
            wrong.append(f"{key}: expected {want}, seen {have}")
    return wrong


@dataclass
class Expected:
    """Kafka's answer in the form that is compared."""

    state: Json
    answer: Json
    apart: bool
    sent: View


@dataclass
class Sides:
    """What the twin and kfast answered to an event; a text is an exception that one raised."""

    twin: Seen | str
    happened: Happened | None = None
    several: bool = False
    """Whether several partitions were being reassigned or topics deleted; before 2.5 Kafka deletes
    one topic after another, in the order of a hash table."""
    moving: bool = False
    """Whether several partitions of queued topics were being reassigned."""
    kfast: Sequence[Seen | str] = ()


class ZkLockstep:
    """A cluster that starts as a case says, in Kafka's controller, in kfast and in the twin."""

    n_first_steps = 1
    """Steps before the first event."""

    def __init__(
        self, kafka: KafkaProcess, case: Json, options: Json | None = None
    ) -> None:
        self.kafka, self.case = kafka, case
        kafka.start(case["given"])
        self.twin = ZkTwin(case)
        settings = [Setting(*setting) for setting in (options or {}).get("settings", ())]
        known: KnownStates = {}
        self.kfast = [ZkKfast(case, setting, known) for setting in settings or [Setting()]]
        self.kafka_state = KafkaState(case["with_store"])

    def steps(self, events: Iterator[Json]) -> Iterator[ZkStep]:
        """Start the controller, then run events up to a difference."""
        step = self.run(FAILOVER)
        yield step
        if step.is_last:
            return
        for event in events:
            step = self.run(event)
            yield step
            if step.is_last:
                return

    def run(self, event: Json) -> ZkStep:
        """Give an event to all, and compare; Kafka handles it while kfast and the twin do."""
        events = list(self.kafka_events(event))
        self.kafka.send(events)
        sides = self.run_sides(event)
        answers = [self.kafka.answer() for _ in events]
        expected: Json = {"sends": [], "answer": {}, "state": {"active": False}}
        for answer in answers:
            if "failed" in answer:
                step = ZkStep(event, answer)
                step.differences.append(f"kafka failed: {answer['failed']}")
                return step
            moved = expected.get("moved_at_other_node") or answer.get("moved_at_other_node")
            expected = {
                **answer, "sends": expected["sends"] + answer["sends"],
                "answer": expected["answer"] | answer["answer"],
                "moved_at_other_node": bool(moved),
            }
        return self.judge(ZkStep(event, expected), sides)

    def compare(self, step: ZkStep) -> ZkStep:
        """Run kfast and the twin, and note where they differ from Kafka."""
        return self.judge(step, self.run_sides(step.event))

    def run_sides(self, event: Json) -> Sides:
        """Run the twin, then kfast in each of its settings."""
        several, moving = self.has_several(), self.moves_what_is_queued()
        try:
            self.twin.twin.controller.rank = self.kfast[0].rank
            seen, happened = self.twin.run(event)
        except ERRORS as error:
            return Sides(f"twin raised: {type(error).__name__}: {error}")
        several |= self.has_several()
        kfast: list[Seen | str] = []
        for run in self.kfast:
            try:
                kfast.append(run.run(event))
            except ERRORS as error:
                kfast.append(f"kfast raised: {type(error).__name__}: {error}")
        return Sides(seen, happened, several, moving, kfast)

    def judge(self, step: ZkStep, sides: Sides) -> ZkStep:
        """Note where kfast and the twin differ from Kafka."""
        happened = sides.happened
        if isinstance(sides.twin, str) or happened is None:
            step.differences.append(str(sides.twin))
            return step
        reassigned = any(mark.startswith("reassignment") for mark in +happened.marks)
        step.is_incomparable = (sides.moving and reassigned) or self.is_incomparable(
            step, happened, sides.several
        )
        if step.is_incomparable:
            return step
        if happened.failure is not None:  # another controller is in charge: nobody is answered
            step.unanswered = ("reassignment_codes",)
        apart = happened.apart or step.event["op"] == UNCHANGED_BY_ORDER or (
            sides.several and not self.twin.ctx.profile.batches_deletions
        )
        expected = self.expected(step, apart)
        self.compare_side("twin", step, expected, sides.twin)
        for seen in sides.kfast:
            if isinstance(seen, str):
                step.differences.append(seen)
            else:
                self.compare_side("kfast", step, expected, seen)
        return step

    def expected(self, step: ZkStep, apart: bool) -> Expected:
        """Kafka's answer in the form that is compared."""
        sent = rows_of_kafka(step.expected["sends"])
        with_store, profile = self.case["with_store"], self.case["profile"]
        return Expected(
            self.kafka_state.comparable(step.expected), self.answered(step), apart,
            view_of(sent, apart, profile, with_store),
        )

    def has_several(self) -> bool:
        """Whether several partitions are being reassigned, or several topics deleted."""
        ctx = self.twin.ctx
        moving = sum(a.being_reassigned for a in ctx.assignments.values())
        return moving > 1 or len(ctx.being_reassigned) > 1 or len(ctx.topics_to_delete) > 1

    def moves_what_is_queued(self) -> bool:
        """Whether several partitions of queued topics are being reassigned.

        The first that completes lets deletions go on, and what the others do depends on that: in
        Kafka the first is that of a hash table.
        """
        ctx = self.twin.ctx
        moving = sum(
            ctx.is_queued(p) and a.being_reassigned for p, a in ctx.assignments.items()
        )
        return moving > 1

    def is_incomparable(self, step: ZkStep, happened: Happened, several: bool) -> bool:
        """Whether Kafka's answer is one of several that are right.

        Where a handler fails half way, which of several reassignments or deletions came first
        decides what is left: in Kafka that follows from the order of a hash table. So does, up to
        2.5, the order of few brokers of one bucket, and which reassignments are resumed where one
        of several completes meanwhile (docs/deviations.md). A controller
        that was replaced finds out when it writes a record or an assignment; Kafka also at other
        nodes, such as a marker that it removes: docs/deviations.md.
        """
        if happened.journal.shares_a_bucket:
            return True
        reassigned = any(mark.startswith("reassignment") for mark in +happened.marks)
        if several and reassigned and step.event["op"] in RESUMING and (
            self.twin.ctx.profile.group_order == "scala-2.12"
        ):
            return True
        if several and happened.error in RAISED and step.event["op"] not in REFUSING:
            return True
        return bool(step.expected.get("moved_at_other_node", False))

    def compare_side(self, side: str, step: ZkStep, expected: Expected, seen: Seen) -> None:
        """Note what one side has differently."""
        with_store, profile = self.case["with_store"], self.case["profile"]
        for text in state_differences(expected.state, seen.state):
            step.differences.append(f"{side}: {text}")
        for key in expected.answer.keys() - set(step.unanswered):
            if expected.answer[key] != seen.answer[key]:
                step.differences.append(
                    f"{side}: {key}: expected {expected.answer[key]}, seen {seen.answer[key]}"
                )
        if seen.sent is None:
            return
        view = view_of(seen.sent, expected.apart, profile, with_store)
        wrong = requests_differ(expected.sent, view)
        if wrong is not None:
            step.differences.append(f"{side}: {wrong}")

    def answered(self, step: ZkStep) -> Json:
        """What Kafka answered, in the form that is compared."""
        answer = step.expected["answer"]
        error = answer.get("error")
        out = answers_of(
            None if error is None else error.removesuffix("Exception"),
            [partition_of(name) for name in answer.get("remaining", ())],
            answer.get("replies", {}), {}, {},
        )
        for key in ("alter_codes", "reassignment_codes"):
            out[key] = answer.get(key, {})
        if step.event["op"] == "catch_up":
            del out["alter_codes"], out["error"]
        if step.event["op"] == "reassign_partitions":
            del out["reassignment_codes"]
        if step.event["op"] == "elect_leaders" and step.event["trigger"] != "AdminClient":
            del out["replies"]
        return out

    def kafka_events(self, event: Json) -> Iterator[Json]:
        """What brokers and tools do in Kafka, where one event of kfast's is several of Kafka's."""
        op = event["op"]
        registered = {str(b): epoch for b, epoch in self.twin.ctx.live_broker_epochs.items()}
        empty: dict[str, Any] = {"op": "on_broker_change", "started": {}, "bounced": {},
                                 "failed": [], "registered": registered}
        if op == "on_broker_startup":
            yield {**empty, "started": event["brokers"]}
        elif op == "on_broker_failure":
            yield {**empty, "failed": event["brokers"]}
        elif op in ("on_broker_change", "on_controller_failover"):
            yield {**event, "registered": registered}
        elif op == "catch_up":
            yield {"op": "describe"}
            for request in catch_up_requests(self.twin.ctx, event["brokers"]):
                yield {
                    "op": "alter_partition", "broker": request.broker,
                    "epoch": request.broker_epoch, "records": to_json(request.records),
                }
        else:
            yield event
