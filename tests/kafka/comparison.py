"""One cluster in Kafka's classes and in kfast: the same events, and what differs after each.

The plain Python twin runs too: events are drawn by looking at its state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kfast.errors import KfastError
from tests.kafka.kafka_classes import KafkaProcess
from tests.support.kraft_cases import (
    Json,
    TwinRun,
    describe_broker,
    describe_partition,
    differences,
)
from tests.support.kraft_kfast_run import KfastController

MOST_IN_FLIGHT = 16
MOST_CHARACTERS_IN_FLIGHT = 30_000
"""A pipe holds 65 536, and one event has at most half of that."""
RAISED = "raised"
"""Key of an answer that is none."""
ERRORS = (KfastError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError)


class KfastRun(TwinRun):
    """kfast on the events of a sequence; of its state only what an event touches is read."""

    def run_touched(self, event: Json, expected: Json) -> Json:
        """Run an event; what changed of all that it, its records or Kafka's answer name."""
        out = self.answer(event)
        if "fault" in out:
            return out
        records = out["records"] + expected["records"]
        topics: dict[str, set[int]] = {}
        for record in records:
            if "partitionId" in record:
                topics.setdefault(record["topic"], set()).add(record["partitionId"])
        gone = {r["topic"] for r in records if r["type"] == "REMOVE_TOPIC_RECORD"}
        for name in [*expected.get("partitions", ()), *self.last["partitions"]]:
            topic, _, number = name.rpartition("-")
            if topic in gone or name in expected.get("partitions", ()):
                topics.setdefault(topic, set()).add(int(number))
        brokers = {r["brokerId"] for r in records if "brokerId" in r}
        brokers |= {int(name) for name in expected.get("brokers", ())}
        if "broker" in event:
            brokers.add(event["broker"])
        self.add_changes(out, self._with(topics, brokers))
        return out

    def _with(self, topics: dict[str, set[int]], brokers: set[int]) -> dict[str, dict[str, Json]]:
        """The last known state, with some partitions and brokers as they are now."""
        state = self.controller.kfast.state
        now = {table: dict(rows) for table, rows in self.last.items()}
        for topic, numbers in topics.items():
            for number in numbers:
                now["partitions"].pop(f"{topic}-{number}", None)
            for row in state.topic_partitions(topic).tolist():
                number = int(state.partition[row])
                if number in numbers:
                    name = f"{topic}-{number}"
                    now["partitions"][name] = describe_partition(state.registration(row))
        for broker in brokers:
            now["brokers"].pop(str(broker), None)
            found = state.broker_registration(broker)
            if found is not None:
                now["brokers"][str(broker)] = describe_broker(found, self.controller)
        return now


def codes_in(response: object) -> set[str]:
    """Error codes of a response."""
    if isinstance(response, dict):
        return set().union(*map(codes_in, response.values()))
    return {response} if isinstance(response, str) else set()


@dataclass
class Step:
    """What one event did; `differences` name the side that differs from Kafka."""

    event: Json
    expected: Json
    differences: list[str] = field(default_factory=list)

    @property
    def kinds(self) -> set[tuple[str, ...]]:
        """The sides that differ, and in what."""
        return {tuple(text.split(": ")[:2]) for text in self.differences}

    @property
    def is_last(self) -> bool:
        """Whether nothing may follow: a fault, or a difference."""
        return bool(self.differences) or "fault" in self.expected or "replay_fault" in self.expected

    def answer_names(self) -> set[str]:
        """Kinds of Kafka's answer."""
        codes = {self.expected["error"]} if "error" in self.expected else set()
        codes |= {"fault"} & {name.rpartition("_")[2] for name in self.expected}
        return codes | codes_in(self.expected.get("response"))

    def record_names(self) -> list[str]:
        """Kinds of records that Kafka wrote."""
        return [record["type"] for record in self.expected["records"]]

    def compare(self, name: str, seen: Json) -> None:
        """Note what differs between Kafka's answer and another side's."""
        if RAISED in seen:
            self.differences.append(f"{name} raised: {seen[RAISED]}")
        else:
            self.differences += [f"{name}: {text}" for text in differences(self.expected, seen)]


def next_batch(answered: Iterator[tuple[Json, Json]]) -> list[tuple[Json, Json]]:
    """The next events: as many as fit into a pipe together."""
    batch, n_characters = [], 0
    for event, seen in answered:
        batch.append((event, seen))
        n_characters += len(json.dumps(event))
        if len(batch) == MOST_IN_FLIGHT or n_characters > MOST_CHARACTERS_IN_FLIGHT:
            break
    return batch


class Lockstep:
    """A cluster that starts as a case says, in Kafka's classes, in kfast and in the twin."""

    n_first_steps = 0
    """Steps before the first event."""

    def __init__(self, kafka: KafkaProcess, case: Json, options: Json | None = None) -> None:
        kafka.start(case["given"])
        self.kafka = kafka
        self.twin = TwinRun(case)
        self.kfast = KfastRun(case, partial(KfastController, **(options or {})))

    def steps(self, events: Iterator[Json]) -> Iterator[Step]:
        """Run events up to a difference or a fault; compare complete states now and then.

        Kafka answers a batch at a time: the twin runs it first, and events are drawn by its state.
        """
        answered = self._run_twin(events)
        while batch := next_batch(answered):
            self.kafka.send([*(event for event, _ in batch), {"op": "describe_all"}])
            answers = [self.kafka.answer() for _ in batch]
            state = self.kafka.answer()
            for number, (event, seen) in enumerate(batch, start=1):
                step = Step(event, answers[number - 1])
                step.compare("twin", seen)
                step.compare("kfast", self._run_kfast(step))
                if number == len(batch) and not step.is_last:
                    step.differences += self.compare_everything(state)
                yield step
                if step.is_last:
                    return

    def _run_twin(self, events: Iterator[Json]) -> Iterator[tuple[Json, Json]]:
        """Events with the twin's answers, up to a fault."""
        for event in events:
            try:
                seen = self.twin.run(event)
            except ERRORS as error:
                seen = {RAISED: f"{type(error).__name__}: {error}"}
            yield event, seen
            if RAISED in seen or "fault" in seen:
                return

    def _run_kfast(self, step: Step) -> Json:
        try:
            return self.kfast.run_touched(step.event, step.expected)
        except ERRORS as error:
            return {RAISED: f"{type(error).__name__}: {error}"}

    def compare_everything(self, expected: Json) -> list[str]:
        """What differs in the complete state."""
        return [
            f"{name}: complete state: {text}"
            for name, run in (("kfast", self.kfast), ("twin", self.twin))
            for text in row_differences(expected, run.full_state())
        ]


def row_differences(expected: Json, seen: Json) -> list[str]:
    """What differs between two complete states, row by row."""
    wrong = []
    for table, rows in expected.items():
        if not isinstance(rows, dict):
            rows, others = {table: {"": rows}}, {table: {"": seen[table]}}
        else:
            others = seen[table]
        both: dict[str, Any] = {**rows, **others}
        wrong += [
            f"{table} {name}: expected {rows.get(name)}, seen {others.get(name)}"
            for name in sorted(both) if rows.get(name) != others.get(name)
        ]
    return wrong
