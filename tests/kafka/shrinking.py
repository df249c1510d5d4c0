"""The fewest events that still show a difference, and a test of them that can be pasted.

Events carry numbers that depend on those before them: broker epochs, leader epochs, offsets. To
leave an event out, they are noted relative to the live state, and made absolute again where the
rest is run from the start.
"""

from __future__ import annotations

import copy
import json
import pprint
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.kafka.comparison import Lockstep, Step
from tests.kafka.kafka_classes import KafkaProcess
from tests.support.kraft_cases import Json, TwinRun

LIVE = "live"
"""Key of a number that is relative to the live state."""

OPTIONAL = ("mistake", "configs", "validate_only", "allow_rf_change", "request_version",
            "want_fence", "types")
"""Fields of events that can be left out; without a rack, kfast keeps the one that it knows."""


# ------------------------------------------------------------------------------------ live numbers


def map_numbers(event: Json, run: TwinRun, change: Callable[[Any, int | None], Any]) -> Json:
    """Copy an event with `change(number, live number)` of each number that follows the state."""
    out: Json = json.loads(json.dumps(event))  # a mistake may name one member, as one object, twice
    state = run.controller.state

    def epoch_of(broker: Any) -> int | None:
        known = state.brokers.get(broker)
        return None if known is None else int(known.epoch)

    for name in ("broker_epoch", "previous_broker_epoch"):
        if out.get(name, -1) != -1:
            out[name] = change(out[name], epoch_of(out["broker"]))
    if "metadata_offset" in out:
        out["metadata_offset"] = change(out["metadata_offset"], run.controller.next_offset)
    if out["op"] == "alter_partition":
        for topic in out["topics"]:
            known = state.topics.get(state.topics_by_name.get(topic["topic"], ""))
            for row in topic["partitions"]:
                partition = None if known is None else dict(known.partitions.items()).get(
                    row["partition"]
                )
                for name in ("leader_epoch", "partition_epoch"):
                    live = None if partition is None else getattr(partition, name)
                    row[name] = change(row[name], live)
                for member in row["isr"]:
                    if member[1] != -1:
                        member[1] = change(member[1], epoch_of(member[0]))
    return out


def leader_of(event: Json, run: TwinRun) -> int | None:
    """Leader of the first partition of an AlterPartition request."""
    state, topic = run.controller.state, event["topics"][0]
    known = state.topics.get(state.topics_by_name.get(topic["topic"], ""))
    if known is None or not topic["partitions"]:
        return None
    partition = dict(known.partitions.items()).get(topic["partitions"][0]["partition"])
    return None if partition is None else partition.leader


def relative(event: Json, run: TwinRun) -> Json:
    """An event whose numbers are relative to the state before it."""
    out = map_numbers(
        event, run, lambda number, live: number if live is None else {LIVE: number - live}
    )
    if event["op"] == "alter_partition" and event["broker"] == leader_of(event, run):
        out["broker"] = LIVE
    return out


def absolute(event: Json, run: TwinRun) -> Json:
    """The same event where the state is another one."""
    if event.get("broker") == LIVE:
        leader = leader_of(event, run)
        event = {**event, "broker": -1 if leader is None else leader}

    def change(number: Any, live: int | None) -> Any:
        return number[LIVE] + (live or 0) if isinstance(number, dict) else number

    return map_numbers(event, run, change)


# --------------------------------------------------------------------------------------- shrinking


@dataclass(frozen=True)
class Mode:
    """How the controllers of one kind are run side by side, and a difference is made smaller."""

    make: Callable[[KafkaProcess, Json, Json], Any]
    relative: Callable[[Json, Any], Json]
    absolute: Callable[[Json, Any], Json]
    smaller_events: Callable[[Json], Iterator[Json]]
    smaller_starts: Callable[[Json], Iterator[Json]]
    test_text: Callable[[KafkaProcess, Json, list[Any]], str]


class Shrinking:
    """Runs parts of a sequence from the start, and keeps those that show the same difference."""

    def __init__(
        self, kafka: KafkaProcess, case: Json, step: Step, options: Json, most_seconds: float,
        mode: Mode,
    ) -> None:
        self.kafka, self.case, self.options, self.mode = kafka, case, options, mode
        self.op, self.kinds = step.event["op"], step.kinds
        self.deadline = time.process_time() + most_seconds
        self.n_runs = 0

    def run(self, events: list[Json], given: Json | None = None) -> list[Step]:
        """All steps, up to one that ends the sequence."""
        self.n_runs += 1
        case = {**self.case, "given": given or self.case["given"]}
        pair = self.mode.make(self.kafka, case, self.options)
        return list(pair.steps(self.mode.absolute(event, pair.twin) for event in events))

    def shows(self, events: list[Json], given: Json | None = None) -> bool:
        """Whether these events end in a difference of the same kind."""
        steps = self.run(events, given)
        if not steps:
            return False
        last = steps[-1]
        return bool(last.differences) and last.event["op"] == self.op and last.kinds <= self.kinds

    @property
    def has_time(self) -> bool:
        """Whether to go on: processor time, so that other work does not make a test longer."""
        return time.process_time() < self.deadline

    def keep_one_setting(self, events: list[Json]) -> None:
        """Run kfast in one of its settings, where that shows the difference: a run takes less."""
        for setting in self.options.get("settings", ()):
            several, self.options = self.options, {**self.options, "settings": [setting]}
            if self.shows(events):
                return
            self.options = several

    def fewest(self, events: list[Json], given: Json | None = None) -> list[Json]:
        """Delta debugging: leave out as many events as possible (Zeller, Hildebrandt 2002)."""
        n_parts = 2
        while len(events) > 1 and self.has_time:
            size = -(-len(events) // n_parts)
            for first in range(0, len(events), size):
                rest = events[:first] + events[first + size :]
                if self.has_time and self.shows(rest, given):
                    events, n_parts = rest, max(n_parts - 1, 2)
                    break
            else:
                if size == 1:
                    break
                n_parts = min(2 * n_parts, len(events))
        return [] if len(events) == 1 and self.shows([], given) else events

    def simplest(self, events: list[Json]) -> list[Json]:
        """Leave out parts of the events and of what the cluster starts from."""
        smaller = True
        while smaller and self.has_time:
            smaller = False
            for at, event in enumerate(events):
                for part in self.mode.smaller_events(event):
                    candidate = [*events[:at], part, *events[at + 1 :]]
                    if self.has_time and self.shows(candidate):
                        events, smaller = candidate, True
                        break
            for given in self.mode.smaller_starts(self.case["given"]):
                if self.has_time and self.shows(events, given):
                    self.case["given"], smaller = given, True
                    break
        return events


def smaller_events(event: Json) -> Iterator[Json]:
    """An event without one of its optional fields, or one item of one of its lists."""
    for name in OPTIONAL:
        if name in event:
            yield {key: value for key, value in event.items() if key != name}
    for path, size in list_paths(event, ()):
        for at in reversed(range(size)):
            out = copy.deepcopy(event)
            place: Any = out
            for key in path:
                place = place[key]
            del place[at]
            yield out


def list_paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Path and size of each list that can lose an item; a pair is no such list."""
    if isinstance(value, list):
        is_row = bool(value) and not isinstance(value[0], (dict, list)) and any(
            isinstance(item, (dict, list)) or item is None for item in value
        )
        if len(value) > 1 and not is_row and not (path and path[-2:-1] == ("isr",)):
            yield path, len(value)
        for at, item in enumerate(value):
            yield from list_paths(item, (*path, at))
    elif isinstance(value, dict) and LIVE not in value:
        for key, item in value.items():
            if key != "ops":
                yield from list_paths(item, (*path, key))


def smaller_starts(given: Json) -> Iterator[Json]:
    """A start without one of its records, or without the static configuration."""
    for at in reversed(range(1, len(given["records"]))):
        yield {**given, "records": given["records"][:at] + given["records"][at + 1 :]}
    for name in given["static_config"]:
        rest = {key: value for key, value in given["static_config"].items() if key != name}
        yield {**given, "static_config": rest}


def shrink(
    kafka: KafkaProcess, case: Json, events: list[Json], step: Step, options: Json,
    mode: Mode, most_seconds: float = 120,
) -> tuple[Json, list[Step]]:
    """Shrink a sequence of relative events: the case with its options, and its steps."""
    case = copy.deepcopy(case)
    shrinking = Shrinking(kafka, case, step, options, most_seconds, mode)
    if shrinking.shows(events):
        shrinking.keep_one_setting(events)
        events = shrinking.simplest(shrinking.fewest(events))
        events = shrinking.fewest(events)
    return {**case, **shrinking.options}, shrinking.run(events)


# ------------------------------------------------------------------------------------ as a test


def test_text(kafka: KafkaProcess, case: Json, steps: list[Step]) -> str:
    """A test of these steps, with what Kafka answered."""
    version = kafka.start(case["given"])
    name = steps[-1].event["op"]
    whole = {
        "id": case["id"], "profile": case["profile"], "given": case["given"], "setup": [],
        "start": kafka.ask({"op": "describe_all"}),
        "events": [{"event": step.event, "expect": step.expected} for step in steps],
    }
    if "fault" not in steps[-1].expected and "replay_fault" not in steps[-1].expected:
        for step in steps:
            kafka.ask(step.event)
        whole["end"] = kafka.ask({"op": "describe_all"})
    shown = pprint.pformat(whole, width=96, compact=True, sort_dicts=False)
    body = "\n    ".join(f"case = {shown}".splitlines())
    return (
        f"def test_{name}_{case['seed']}():\n"
        f'    """Answers of Kafka {version}; seed {case["seed"]}."""\n'
        f"    {body}\n"
        "    assert run_case(case, KfastController)[1] == []\n"
    )


KRAFT_MODE = Mode(Lockstep, relative, absolute, smaller_events, smaller_starts, test_text)
