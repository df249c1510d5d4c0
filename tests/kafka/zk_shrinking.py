"""Shrinking for ZooKeeper mode, and a test of what is left, which needs neither Java nor Maven."""

from __future__ import annotations

import pprint
from typing import Any

from tests.kafka.kafka_classes import KafkaProcess
from tests.kafka.shrinking import Mode
from tests.kafka.zk_cases import smaller_starts
from tests.kafka.zk_comparison import ZkLockstep, ZkStep
from tests.kafka.zk_events import absolute, relative, smaller_events
from tests.support.kraft_cases import Json

TABLES = ("partitions", "records")
"""Tables of which a test has what changed; a row that is gone is None."""


class NoKafka:
    """Kafka's answers are written down."""

    def start(self, given: Json) -> str:
        """Nothing starts."""
        return ""


def changed(before: Json, after: Json) -> Json:
    """What of an answer's tables is new."""
    return {
        name: after.get(name) for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    }


def applied(before: Json, change: Json) -> Json:
    """A table after a change."""
    rows = {**before, **change}
    return {name: row for name, row in rows.items() if row is not None}


def tables_of(expected: Json) -> dict[str, Json]:
    """Tables of an answer."""
    return {
        "partitions": expected.get("state", {}).get("partitions", {}),
        "records": expected.get("records", {}),
    }


def shortened(expected: Json, known: dict[str, Json]) -> Json:
    """An answer with what changed of its tables since another one."""
    now = tables_of(expected)
    state = expected.get("state", {})  # an exception of Kafka's side has none
    rest = {key: value for key, value in state.items() if key != "partitions"}
    return {
        **{key: value for key, value in expected.items() if key not in ("state", "records")},
        "state": rest, **{key: changed(known[key], now[key]) for key in TABLES},
    }


def completed(short: Json, known: dict[str, Json]) -> Json:
    """The answer that was shortened."""
    now = {key: applied(known[key], short[key]) for key in TABLES}
    state = {**short["state"], "partitions": now["partitions"]}
    return {**short, "state": state, "records": now["records"]}


def run_zk_case(case: Json) -> list[str]:
    """What differs from Kafka's answers that are written down, at the first event that does."""
    kafka: Any = NoKafka()
    pair = ZkLockstep(kafka, case, {"settings": case["settings"]})
    known: dict[str, Json] = {key: {} for key in TABLES}
    for event, short in case["events"]:
        expected = completed(short, known)
        known = tables_of(expected)
        step = pair.compare(ZkStep(event, expected))
        if step.differences:
            return step.differences
    return []


def test_text(kafka: KafkaProcess, case: Json, steps: list[ZkStep]) -> str:
    """A test of these steps, with what Kafka answered."""
    version = kafka.start(case["given"])
    name = steps[-1].event["op"]
    known: dict[str, Json] = {key: {} for key in TABLES}
    events = []
    for step in steps:
        events.append((step.event, shortened(step.expected, known)))
        known = tables_of(step.expected)
    shown = pprint.pformat({**case, "events": events}, width=96, compact=True, sort_dicts=False)
    body = "\n    ".join(f"case = {shown}".splitlines())
    return (
        f"def test_{name}_{case['seed']}():\n"
        f'    """Answers of Kafka {version}; seed {case["seed"]}."""\n'
        f"    {body}\n"
        "    assert run_zk_case(case) == []\n"
    )


ZK_MODE = Mode(ZkLockstep, relative, absolute, smaller_events, smaller_starts, test_text)
