"""Who stays in an ISR whose members all go at once.

The last member of an ISR stays in it without leading. Where several members are taken out by one
event, the controller takes brokers in the order of a map (`broker_groups`), which depends on
the Scala that Kafka was built with, and before 1.1 on the names of partitions. Where the records
that the lines tell after the event say that another member stayed, they are believed. Nothing else
depends on it: every order raises epochs and versions equally often.

Source: docs/controller.md, sections 2.3 and 2.5.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Sequence

from kfast.log_replay.events.events import MOVES, POINTS, TAKES_OUT, LogEvent, is_hole
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Partition

LEADERLESS = (-1, -2)
"""What lines say for a leader where there is none; the last while the topic is being deleted."""


def note_survivors(
    statements: Sequence[Statement], lines: Sequence[int], events: Sequence[LogEvent]
) -> None:
    """Give each event that takes replicas out the last members of ISRs that lines tell after it.

    Most lines decide, so one that differs from the others is contradicted. Lines after a hole tell
    nothing of what was before it.
    """
    starts = [event.at for event in events]
    resumed = [-1, *(event.at for event in events if event.kind in POINTS and is_hole(event))]
    votes: dict[int, dict[Partition, Counter[int]]] = {}
    led: dict[Partition, int] = {}
    for number in lines:
        line = statements[number]
        for partition, fields in subjects(line):
            record = fields.get("record")
            if line.kind == "shrunk":
                event = events[max(bisect.bisect_right(starts, number) - 1, 0)]
                if event.kind in MOVES:  # The order in which it takes replicas out.
                    order = event.fields.setdefault("order", {})
                    order.setdefault(partition, []).append(fields["replica"])
            if record is None or not record.isr:
                continue
            if record.leader not in LEADERLESS or len(record.isr) != 1:
                led[partition] = number
                continue
            last = resumed[bisect.bisect_right(resumed, number) - 1]
            since = bisect.bisect_right(starts, max(led.get(partition, number), last)) - 1
            for at in range(max(since, 0), bisect.bisect_right(starts, number)):
                if events[at].kind in TAKES_OUT:
                    counted = votes.setdefault(at, {}).setdefault(partition, Counter())
                    counted[record.isr[0]] += 1
    for at, counts in votes.items():
        events[at].fields["survivors"] = {
            partition: counted.most_common(1)[0][0] for partition, counted in counts.items()
        }
