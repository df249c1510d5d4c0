"""Topics whose unclean elections are enabled by their own configuration, which no line says.

An election that takes a leader from outside the ISR gives it away; not so where the version has run
ahead of the leader epoch since the ISR was told, for then a leader has written another one. Up to
1.0 so does an ISR without members: elsewhere the last one stays in it. Where an earlier election of
the topic has failed, or a line says that the last member stays, it was enabled after that.

Source: docs/controller.md, section 4, for which elections may leave the ISR.
"""

from __future__ import annotations

from collections.abc import Sequence

from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Partition

SAME_EVENT_MS = 2_000
"""Elections that are farther apart are not of one event."""

ASKED_MS = 30_000
"""An unclean election that somebody asked for takes no longer than this."""


def unclean_topics(statements: Sequence[Statement], lines: Sequence[int]) -> dict[str, int]:
    """Topics with a partition that got a leader from outside its last known ISR; since which line.

    From the line on that says that a topic's unclean elections, or all topics', are enabled, that
    line is the event which explains them.
    """
    isr: dict[Partition, frozenset[int]] = {}
    leads: dict[Partition, int] = {}
    leaders: dict[Partition, int | None] = {}
    elected: dict[str, int] = {}
    failed: dict[str, list[int]] = {}
    disabled: dict[str, int] = {}
    announced: set[str] = set()
    asked: dict[Partition, int] = {}
    for number in lines:
        line = statements[number]
        if line.kind in ("unclean_enabled_topic", "unclean_enabled"):
            announced.add(line.fields.get("topic", ""))
        if line.kind == "elects_unclean":  # Up to 1.0, only where it is allowed.
            elected.setdefault(line.fields["partition"][0], number)
        if line.kind == "last_isr_kept" and line.fields["partition"][0] not in elected:
            disabled[line.fields["partition"][0]] = number
        if line.kind == "election" and line.fields["type"] == "UNCLEAN":
            asked.update(dict.fromkeys(line.fields["partitions"], line.entry.time))
        if line.actor != "controller":
            continue
        for partition, fields in subjects(line):
            record = fields.get("record")
            members = record.isr if record is not None else fields.get("isr")
            if not members:
                if record is not None and record.leader == -1:  # Up to 1.0, only where it may.
                    elected.setdefault(partition[0], number)
                elif line.kind == "partition_failed" and fields["before"] == "OfflinePartition":
                    failed.setdefault(partition[0], []).append(number)
                continue
            known, written = isr.get(partition), False
            if record is not None and record.ahead is not None:
                written = leaders.get(partition) != -1 and (  # Without a leader nobody writes.
                    leads.get(partition, record.ahead) != record.ahead
                )
                leads[partition] = record.ahead
            if line.kind == "partition_led" and (
                known is not None and fields["before"] == "OfflinePartition"
                and list(members) == [fields["record"].leader]
                and not known & set(members) and not written
                and line.entry.time - asked.get(partition, -ASKED_MS) >= ASKED_MS
                and not announced & {partition[0], ""}
            ):
                elected.setdefault(partition[0], number)
            isr[partition] = frozenset(members)
            leaders[partition] = None if record is None else record.leader
    return {topic: 1 + max(disabled.get(topic, -1), -1, *(
        number for number in failed.get(topic, ())
        if statements[first].entry.time - statements[number].entry.time > SAME_EVENT_MS
    )) for topic, first in elected.items()}
