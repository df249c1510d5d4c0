"""Intervals of a ZooKeeper-mode controller's logs, read line by line in plain Python.

Nothing of it is shared with `kfast/timelines` or `kfast/log_replay`. It knows the lines of 2.8 and
later, and logs of one controller after another that begin with an election.

Source: docs/timeline.md, section "Calibration".
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

LINE = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] [A-Z]+ (.*) \([\w.$]+\)$")
BEGINS = (
    "Newly added brokers", "Initializing controller context", "New topics: [",
    "Shutting down broker",
    "Processing automatic preferred", "Starting replica leader election", "Ready to serve",
    "Updating assignment", "Handling deletion", "Updating ISR", "ISR for partition", "Resigned",
    "New broker startup callback",
)
"""What begins an event, or ends the one before."""
LEADER_AND_ISR = re.compile(
    r"Sending LeaderAndIsr request to broker (\d+) with (\d+) become-leader and (\d+) become-foll"
)
SHRUNK = re.compile(r"Partition (\S+) state changed to .*LeaderEpoch:(\d+),")
LED = re.compile(
    r"Changed partition (\S+) from \w+ to OnlinePartition with state .*leaderEpoch=(\d+)"
)
MOVED = re.compile(r"Changed state of replica .* to OfflineReplica$")


def lines_of(folder):
    """(milliseconds, text) of the files of one broker, in their order."""
    found = []
    for name in ("controller.log", "state-change.log"):
        for line in (folder / name).read_text().splitlines():
            if match := LINE.match(line):
                at = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
                found.append((int(at.timestamp()) * 1000 + int(match[2]), match[3].strip()))
    return sorted(found, key=lambda one: one[0])


def events_of(lines):
    """The lines of each event, cut where another one begins."""
    cuts = [i for i, (_, text) in enumerate(lines) if any(begin in text for begin in BEGINS)]
    return [lines[i:j] for i, j in zip(cuts, [*cuts[1:], len(lines)], strict=True)]


def batches_of(event):
    """(lines before, requests, lines after) again and again."""
    before, sent = [], []
    for line in event:
        if LEADER_AND_ISR.search(line[1]):
            sent.append(line)
        elif "Sending UpdateMetadata request to brokers" in line[1]:
            yield before, sent, line
            before, sent = [], []
        else:
            before.append(line)


def twin_rows(folder, n_topics, n_partitions):
    """(kind, start, end, counts) in milliseconds; the sizes are those of the cluster throughout."""
    rows, epochs = [], {}
    for event in events_of(lines_of(folder)):
        begin, first = event[0]
        gone = re.search(r"deleted brokers: ([\d,]+),", first)
        starts = "Initializing controller context" in first
        since, is_first, elected, entries = begin, True, set(), 0
        if starts:
            since = next(at for at, text in event if "Sending update metadata request" in text)
            rows.append(("context", begin, since, {
                "failover_fixed": 1, "zk_rtt": 2, "zk_read": n_topics + n_partitions,
            }))
        for before, sent, metadata in batches_of(event):
            for at, text in before:
                if starts and "Triggering offline replica state changes" in text:
                    if entries:
                        rows.append(("all replicas", since, at,
                                     {"zk_start": n_partitions, "zk_entry": entries}))
                    since = at
            led = [match for _, text in before if (match := LED.search(text))]
            elected |= {match[1] for match in led}
            failed = sum("failed to change state for partition" in text for _, text in before)
            shrunk = [match for _, text in before if (match := SHRUNK.search(text))]
            written = sum(
                match[1] not in elected and epochs.get(match[1]) != match[2] for match in shrunk
            )
            epochs |= {match[1]: match[2] for match in (*led, *shrunk)}
            offline = sum(bool(MOVED.search(text)) for _, text in before)
            end = sent[0][0] if sent else metadata[0]
            reads, writes = len(led) + failed, len(led)
            kind = "elections" if reads else "offline replicas"
            if not reads:
                reads, writes = max(offline, len(shrunk)), written
            if reads and (gone or starts):
                counts = {"zk_rtt": 1 + bool(writes), "zk_read": reads, "zk_write": writes}
                if gone:
                    counts |= {"zk_replica": reads}
                    counts |= {"zk_scan": n_partitions} if is_first else {}
                rows.append((kind, since, end, counts))
                is_first = False
            sizes = [sum(map(int, LEADER_AND_ISR.search(text).groups()[1:])) for _, text in sent]
            entries += sum(sizes)
            if len(sent) > 1 and (gone or starts):
                rows.append(("requests", end, sent[-1][0], {"zk_entry": sum(sizes[1:])}))
            if sent or reads:
                since = sent[-1][0] if sent else end
            if gone and kind == "offline replicas" and reads:
                break
    return [(kind, start, end, {name: n for name, n in counts.items() if n})
            for kind, start, end, counts in rows]
