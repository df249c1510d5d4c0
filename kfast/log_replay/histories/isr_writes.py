"""ISRs that leaders wrote into the store and no line names, told by the records that follow.

Every write of a controller raises both the leader epoch and the version of a record; a leader that
writes an ISR raises the version alone. So where the version runs ahead of the epoch between two
records of a partition, a leader has written in between; so it has where a replica is back in the
ISR. The next record tells which ISR it was. All such writes of a stretch are put into the script
at once; each partition keeps those that explain more lines than they cost, or one that the next
record of the partition, or one of another partition, confirms.

Source: docs/controller.md, sections 1.4 and 6.10, for who writes what.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from kfast.log_replay.comparison.facts import WRITTEN
from kfast.log_replay.comparison.worlds import World
from kfast.log_replay.engine.handlers import MOST_WRITES
from kfast.log_replay.engine.predictions import Item
from kfast.log_replay.engine.simulation import DECIDED
from kfast.log_replay.events.events import LogEvent, is_hole
from kfast.log_replay.histories.explorer import Explorer, Troubled
from kfast.log_replay.histories.stretches import COST, Stretch, before_balancing, go_through
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Partition

TIMES = 3
"""So often the writes are simulated, each time without those that did not help."""

KINDS = frozenset({
    "partition_led", "shrunk", "sent_leader_and_isr_partition", "sent_update_metadata_partition",
    "isr_record", "all_leaders", "sent_reassignment", "election", "received", "send_failed",
    "preferred_done", "partition_failed", "shrunk_old", "store_record", "selects_leader",
    "not_sent",
})
"""Lines that tell a record with its ISR, an ISR, or whether one replica is in it."""


SAME_EPOCH = -1
"""Leader epoch of a mention that does not say it: that of the one before."""


class Mention(NamedTuple):
    """A record that a line tells.

    `ahead` is its version less its leader epoch, None where the line does not say both; `left` are
    replicas that its event took out of the ISR. `recovers` says that its leader was not in the ISR,
    `is_stored` that the controller had just read it.
    """

    number: int
    isr: frozenset[int]
    leader_epoch: int
    ahead: int | None
    left: frozenset[int] = frozenset()
    created: bool = False
    leader: int | None = None
    recovers: bool = False
    is_stored: bool = False

    @property
    def record(self) -> tuple[int, frozenset[int]]:
        """What tells it from other records, as far as every line says it."""
        return self.leader_epoch, self.isr


@dataclass
class Write:
    """An ISR that a leader wrote, and the place of the event that it comes before.

    `seen` are leader epoch and version of the record that tells it, where it says both;
    `is_confirmed`: the next record has its version at least as far ahead. `within`: lines of the
    event tell the record from before it; it is made after the first reading.
    """

    partition: Partition
    isr: frozenset[int]
    times: int
    place: int
    seen: tuple[int, int] | None
    is_confirmed: bool
    within: bool = False


def find_writes(explorer: Explorer, before: World, troubled: Troubled) -> Troubled:
    """Put the writes that records tell of into a stretch; returns what they do not explain."""
    first, stretch = explorer.first, explorer.stretch
    born = {p for p in troubled if explorer.cluster.births.get(p) is stretch.point}
    simulation = explorer.world.simulation
    in_isr = simulation.controller.profile.rebalances_in_isr
    writes: list[Write] = []
    for partition, mentions in _mentions(explorer, stretch, set(troubled), in_isr).items():
        decided = _decided(explorer, stretch, partition)
        if partition not in born:
            mentions = _with_base(before, stretch, partition, mentions, decided)
        assigned = [simulation.state.assignment(row) for row in simulation.rows_of(partition)]
        replicas = assigned[0].replicas if assigned else ()
        writes += writes_of(stretch, partition, mentions, in_isr, decided, replicas)
    earlier = explorer.cluster.events[first - 1] if first and not is_hole(stretch.point) else None
    if earlier is None:
        writes = [write for write in writes if write.place > 0]
    unnamed = [event for event in stretch.events if "supposed" in event.fields]
    doubted = {p for event in unnamed for p in event.fields["supposed"]} & set(troubled)
    for _ in range(TIMES):
        some = {write.partition for write in writes} | doubted
        if not some:
            return troubled
        world = explorer.begin_anew(before, some, some & born)
        trial = stretch.with_events(_with_writes(stretch.events, writes, earlier))
        with _left_out(unnamed, doubted):
            go_through(world, trial, trial.lines_about(some), some, leave_behind=True)
        explorer.keep_cheapest(world, some & born)
        wrong, left = explorer.n_wrong(explorer.world, some), explorer.n_wrong(world, some)
        alike = Counter((write.isr, write.times, write.place) for write in writes)
        certain = doubted | some - {
            write.partition for write in writes if not write.is_confirmed
            and alike[write.isr, write.times, write.place] == 1
            and not any(event.kind == "hidden_isr" for event in stretch.events[: write.place])
        }  # Of a partition that no line names an ISR change has been announced.
        helped = {p for p in some if wrong[p] - left[p] > (0 if p in certain else COST[WRITTEN])}
        if helped == some:
            last = first + len(stretch.events)
            explorer.cluster.events[first:last] = trial.events
            for event in unnamed:
                event.fields["supposed"] -= doubted
            explorer.take(world, some, WRITTEN, troubled)
            break
        writes = [write for write in writes if write.partition in helped | doubted]
        doubted &= helped
    return explorer.unexplained(troubled)


@contextmanager
def _left_out(events: Sequence[LogEvent], partitions: AbstractSet[Partition]) -> Iterator[None]:
    """Leave partitions out of what is supposed of ISR changes that no line names."""
    before = [event.fields["supposed"] for event in events]
    for event in events:
        event.fields["supposed"] -= partitions
    try:
        yield
    finally:
        for event, supposed in zip(events, before, strict=True):
            event.fields["supposed"] = supposed


# --- what the lines tell ------------------------------------------------------------------------


def _mentions(
    explorer: Explorer, stretch: Stretch, partitions: set[Partition], in_isr: bool
) -> dict[Partition, list[Mention]]:
    """Records of some partitions, in the order of the log."""
    simulation = explorer.world.simulation
    preferred = {p: simulation.preferred(rows[0]) for p, rows in simulation.rows.items()}
    found: dict[Partition, list[Mention]] = {}
    for number in stretch.lines:
        line = stretch.statements[number]
        is_cached = line.kind == "cached_partition"  # It may be late, so it comes first or never.
        for partition, fields in subjects(line) if is_cached or line.kind in KINDS else ():
            if partition not in partitions or (is_cached and partition in found):
                continue
            mentions = found.setdefault(partition, [])
            if mentions:
                last = mentions[-1]
                isr = _implied_isr(line, last, preferred.get(partition, -1), in_isr)
                if isr != last.isr:
                    mentions.append(last._replace(
                        number=number, isr=isr, ahead=None, created=False, left=frozenset(),
                        is_stored=False,
                    ))
            record = fields.get("record")
            if record is not None and record.replicas:  # They may have been reassigned since.
                preferred[partition] = record.replicas[0]
            mention = _mention(number, line, fields)
            if mention is None:
                continue
            if line.kind == "send_failed" and mention.leader_epoch == SAME_EPOCH:
                mention = mention._replace(number=_deleted(stretch, partition, number))
            elif line.kind == "send_failed" and any(
                earlier.leader_epoch > mention.leader_epoch for earlier in mentions
            ):  # The request was made long ago.
                if any(
                    (earlier.record, earlier.ahead) == (mention.record, mention.ahead)
                    for earlier in mentions
                ):
                    continue
                mention = mention._replace(
                    number=_requested(explorer, partition, mention.leader_epoch, number)
                )
            bisect.insort(mentions, mention, key=attrgetter("number"))
    return found


def _mention(number: int, line: Statement, fields: Mapping[str, Any]) -> Mention | None:
    """What a line tells of a partition's record; None where it tells no ISR."""
    record = fields.get("record")
    isr = fields.get("isr") if record is None else record.isr
    if isr is None:
        return None
    is_cached = record is not None and record.leader == -2
    if record is None or record.leader_epoch is None or is_cached:
        return Mention(number, frozenset(isr), SAME_EPOCH, None, is_stored=not is_cached
                       ) if isr else None
    return Mention(
        number, frozenset(isr), record.leader_epoch, record.ahead,
        left=frozenset({fields["replica"]} if line.kind == "shrunk" else ()),
        created=line.kind == "partition_led" and fields["before"] == "NewPartition",
        leader=record.leader, recovers=bool(record.recovery), is_stored=line.kind == "store_record",
    )


def _deleted(stretch: Stretch, partition: Partition, number: int) -> int:
    """Line of the last event before a line that announced the deletion of a partition."""
    return max((
        event.at for event in stretch.events if event.kind == "delete" and event.at <= number
        and partition[0] in event.fields["topics"]
    ), default=number)


def _requested(explorer: Explorer, partition: Partition, leader_epoch: int, number: int) -> int:
    """Line of the last event before a line that sent requests with a leader epoch."""
    simulation, begin = explorer.world.simulation, explorer.stretch.begin
    return max((
        item.event.at for row in simulation.rows_of(partition)
        for kind in ("leader_and_isr", "update_metadata")
        for item in simulation.items_of(row, kind)
        if item.fields["leader_epoch"] == leader_epoch and begin <= item.event.at <= number
    ), default=number)


def _implied_isr(line: Statement, last: Mention, preferred: int, in_isr: bool) -> frozenset[int]:
    """The ISR that an election implies, after the last record.

    A preferred replica that is elected is in the ISR; so is one that automatic balancing elects
    only there (`in_isr`). Where none is for a leader that shuts down, it is the last member.
    """
    fields = line.fields
    if line.kind == "preferred_done":
        return last.isr | {fields["leader"]}
    if line.kind == "election" and in_isr and fields["trigger"] == "AutoTriggered":
        return last.isr | {preferred} - {-1}
    if line.kind == "partition_failed" and "ControlledShutdown" in line.entry.more:
        return last.isr & {last.leader} or last.isr
    return last.isr


def _decided(explorer: Explorer, stretch: Stretch, partition: Partition) -> list[Item]:
    """Records that the controller writes in a stretch, where the first epoch is known."""
    simulation = explorer.world.simulation
    return [
        item for row in simulation.rows_of(partition)
        if not any(simulation.possibility[row].unknown()[:2])
        for kind in DECIDED for item in simulation.items_of(row, kind)
        if item.event in stretch.events and "leader_epoch" in item.fields
    ]


def _with_base(
    before: World, stretch: Stretch, partition: Partition, mentions: list[Mention],
    decided: Sequence[Item],
) -> list[Mention]:
    """The record at the beginning of the stretch, as far as it is known, and those that follow.

    At INFO no line says the record with which a partition is created.
    """
    base: list[Mention] = []
    created = [
        Mention(item.event.at, frozenset(item.fields["isr"]), item.fields["leader_epoch"],
                item.fields["version"] - item.fields["leader_epoch"], created=True)
        for item in decided if item.key[:2] == ("led", "NewPartition")
    ]
    for row in before.simulation.rows_of(partition):
        leadership = before.simulation.state.leadership(row)
        if leadership is not None and not any(before.simulation.possibility[row].unknown()[:2]):
            base = [Mention(stretch.begin, frozenset(leadership.isr), leadership.leader_epoch,
                            leadership.version - leadership.leader_epoch)]
    return [*base, *sorted([*mentions, *created], key=attrgetter("number"))]


def _before_controller(
    mention: Mention, last: Mention, gone: frozenset[int]
) -> frozenset[int]:
    """The ISR that a leader wrote before a controller took some brokers out of it."""
    isr = mention.isr | (mention.left or gone)
    if mention.recovers and last.leader is not None:
        isr = frozenset({last.leader})
    if mention.leader == -1 and last.leader is not None and not mention.isr <= last.isr:
        isr |= last.isr & {last.leader}  # It wrote the ISR, so it was in it.
    return isr


def writes_of(
    stretch: Stretch, partition: Partition, mentions: Sequence[Mention], in_isr: bool,
    decided: Sequence[Item] = (), replicas: Sequence[int] = (),
) -> list[Write]:
    """Writes of a partition that the lines give away.

    `decided` are the controller's records, as far as is known by now; `replicas` the partition's.
    """
    unclean = partition[0] in stretch.cluster.unclean
    found: list[Write] = []
    last: Mention | None = None
    lead: int | None = None
    last_led: tuple[int, int, frozenset[int]] | None = None
    seen: set[tuple[int, frozenset[int]]] = set()
    for mention, later in zip(mentions, _later_versions(mentions), strict=True):
        if mention.leader_epoch == SAME_EPOCH:
            if last is None or (mention.isr <= last.isr and not mention.is_stored):
                continue  # The controller took replicas out of what it deletes.
            mention = mention._replace(leader_epoch=last.leader_epoch, leader=last.leader)
        stated_by = mention.number
        if later is not None and last is not None and mention.record != last.record:
            stated_by, mention = later.number, mention._replace(ahead=later.ahead)
        if last is not None and mention.leader_epoch < last.leader_epoch and mention.record in seen:
            continue  # Up to 2.3 a raised epoch is not cached, and the old record is sent again.
        seen.add(mention.record)
        if mention.created or last is None:
            last, lead = mention, mention.ahead
            continue
        isr = mention.isr
        moved = mention.leader_epoch > last.leader_epoch
        if moved:  # Else the replica was out of the ISR already, and nothing was written.
            gone = _taken_out(stretch, partition, replicas, mention, last, decided)
            isr = _before_controller(mention, last, gone)
            if mention.leader == -1 != last.leader:
                last_led = last.number, mention.number, isr
        if mention.ahead is not None:
            known = lead if lead is not None else mention.ahead
            times, lead = mention.ahead - known, max(known, mention.ahead)
        else:
            if mention.leader_epoch == last.leader_epoch + (moved and bool(mention.left)):
                times = int(isr != last.isr)  # No controller wrote, or one that says who left.
            else:
                times = int(not isr <= last.isr and not (unclean and len(isr) == 1))
            lead = None if lead is None else lead + times
        if 1 <= times <= MOST_WRITES and (
            times > 1 or not isr <= last.isr or mention.isr < last.isr
        ):
            since, number = last.number, mention.number
            if last.leader == -1 and last_led is not None:
                since, number, isr = last_led  # Since then nobody may write.
            place = _place(stretch, partition, since, number, in_isr)
            found.append(Write(
                partition, isr, times, place, None if mention.ahead is None else
                (mention.leader_epoch, mention.leader_epoch + mention.ahead),
                mention.is_stored or _is_confirmed(stretch, partition, stated_by, lead),
                within=last.is_stored and since > stretch.events[place].at,
            ))
        last = mention
    return found


def _is_confirmed(
    stretch: Stretch, partition: Partition, number: int, ahead: int | None
) -> bool:
    """Whether the next record has its version as far ahead as a line, or more: none is damaged."""
    later = stretch.cluster.next_counts(
        stretch.statements, partition, number + 1, by_brokers=True
    )
    return later is not None and ahead is not None and later[1] - later[0] >= ahead


def _later_versions(mentions: Sequence[Mention]) -> list[Mention | None]:
    """The next line about the same record that says its version, for each line.

    Up to 0.11 a controller does not say versions: the brokers that receive its requests do.
    """
    latest: dict[tuple[int, frozenset[int]], Mention] = {}
    following: list[Mention | None] = []
    for mention in reversed(mentions):
        if mention.ahead is not None:
            latest[mention.record] = mention
        following.append(latest.get(mention.record))
    return following[::-1]


def _taken_out(
    stretch: Stretch, partition: Partition, replicas: Sequence[int], mention: Mention,
    last: Mention, decided: Sequence[Item],
) -> frozenset[int]:
    """Brokers that the event of a line takes out of the ISR, or a deletion before it.

    A deletion raises the leader epoch for each member: for all replicas, where all were members.
    """
    event = stretch.events[max(stretch.place(mention.number), 0)]
    if any(
        last.number < item.event.at < event.at
        and item.fields["leader_epoch"] == mention.leader_epoch for item in decided
    ):
        return frozenset()  # Another event wrote the record, in between.
    if any(
        last.number < other.at <= mention.number and other.kind == "delete"
        and partition[0] in other.fields["topics"] for other in stretch.events
    ):
        n_members = mention.leader_epoch - last.leader_epoch
        return frozenset(replicas if n_members == len(replicas) else ())
    if event.kind == "shutdown":
        return frozenset({event.fields["broker"]})
    if mention.leader == last.leader:
        return event.gone  # Nothing else raised the epoch: its leader had put it into the ISR.
    return last.isr & event.gone


def _place(
    stretch: Stretch, partition: Partition, since: int, number: int, in_isr: bool
) -> int:
    """Place of the event before which a write that shows at a line comes.

    It is the event that the line tells of, or a deletion before it; a check for imbalance has read
    the record before its elections. Where such a check looks for the preferred replica in the ISRs
    (`in_isr`), it looks at what is cached, which a controller that was not notified has read when
    it was elected.
    """
    shown = stretch.place(number)
    for at in range(max(stretch.place(since) + 1, 1), shown + 1):
        event = stretch.events[at]
        if event.kind == "delete" and partition[0] in event.fields["topics"]:
            return at  # It takes all out of the ISR, which nobody writes any more.
    place = before_balancing(stretch.events, shown)
    return 0 if place < shown and in_isr and since <= stretch.begin else place


# --- putting them into the script ---------------------------------------------------------------


def _with_writes(
    events: Sequence[LogEvent], writes: Sequence[Write], earlier: LogEvent | None
) -> list[LogEvent]:
    """Events of a stretch with one more before each that has writes before it.

    Those of one partition are events one after the other. `earlier` is the last event before the
    stretch.
    """
    by_place: dict[tuple[int, bool], list[dict[Partition, Write]]] = {}
    for write in writes:
        turns = by_place.setdefault((write.place, write.within), [])
        turn = next((turn for turn in turns if write.partition not in turn), None)
        if turn is None:
            turns.append(turn := {})
        turn[write.partition] = write
    found: list[LogEvent] = []
    for place, event in enumerate(events):
        first = by_place.get((place, False), ())
        for turn in (*first, *by_place.get((place, True), ())):
            before = found[-1] if found else earlier
            assert before is not None, "what leaders wrote before the log begins is no event"
            found.append(LogEvent(
                "isr_written", max(before.time, event.time - 1), event.at,
                {"updates": {p: tuple(sorted(w.isr)) for p, w in turn.items()},
                 "writes": {p: w.times for p, w in turn.items()},
                 "ahead": {p: w.seen for p, w in turn.items() if w.seen is not None},
                 "within": any(w.within for w in turn.values()),
                 "reason": WRITTEN},
                before.term, inferred=True, number=(before.number + event.number) / 2,
            ))
        found.append(event)
    return found
