"""The kernels of KRaft beside the rule in plain Python: the same records, the same partitions.

Random clusters of every release go through random updates and requests; whether these reach every
line of the rule is checked too.

Source: docs/kraft.md, sections 2 to 5 and 11.
"""

from __future__ import annotations

import dis
import inspect
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random
from types import CodeType

import numpy as np
import pytest

from kfast.kernels import hosting, partition_changes
from kfast.kernels.change_log import ChangeLog
from kfast.schema import NO_LEADER
from kfast.state.changes import BuildResult, ChangeKind, Missing, Visited
from kfast.state.kraft_releases import METADATA_VERSION, RELEASES
from kfast.state.metadata_records import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    uuid_text,
)
from tests.support.kraft_clusters import RandomCluster
from tests.support.kraft_kernels import KernelCluster
from tests.support.kraft_reference import partition_change
from tests.support.kraft_reference.broker_events import generate_leader_and_isr_updates
from tests.support.kraft_reference.errors import FaultError
from tests.support.kraft_reference.hash_orders import TopicIdPartition
from tests.support.kraft_reference.partition_change import (
    Election,
    PartitionChangeBuilder,
    plan_reassignment,
    revert_reassignment,
)
from tests.support.kraft_reference.state import ClusterState

pytestmark = pytest.mark.kernels

MODES = (Election.PREFERRED, Election.ONLINE, Election.UNCLEAN)


class Comparison:
    """One cluster, in both, that goes through the same changes."""

    def __init__(self, release: str, seed: int, layout: str, more_ids: tuple[int, ...] = ()):
        self.random = Random(f"changes {release} {seed}")
        drawn = RandomCluster(seed, release, most_replicas=5 + len(more_ids))
        drawn.ids += more_ids
        drawn.directories |= dict.fromkeys(more_ids, ())
        self.twin = drawn.controller().state
        self.cluster = KernelCluster(self.twin, layout, allocated=self.random.random() < 0.5)
        self.cluster.check()
        self.faults = 0
        self.n_at_once = 0
        self.kinds = ChangeKind(0)

    def step(self) -> None:
        """One event: an update of many partitions, or requests for some."""
        log = ChangeLog(keeps_all=self.random.random() < 0.7)
        before = [self.cluster.records["leader"].copy(), self.cluster.replicas[:, 0].copy()]
        expected = self._update(log) if self.random.random() < 0.5 else self._build(log)
        if expected is None:
            return
        found = [self.cluster.record(log, i) for i in range(len(log))]
        if log.n_counted:
            assert not log.keeps_all
            assert len(found) + log.n_counted == len(expected) == log.counts()["changes"]
            assert [record for record in expected if record in found] == found
            self._check_counts(log, expected)
            self.n_at_once += log.n_counted
        else:
            assert found == expected
        kinds = log.changes["kinds"]
        self.kinds |= ChangeKind(int(np.bitwise_or.reduce(kinds, initial=0)))
        for record in expected:
            self.twin.replay(record, 0)
        self.cluster.apply(log)
        self.cluster.check()
        after = [self.cluster.records["leader"], self.cluster.replicas[:, 0]]
        assert log.take_deltas() == (
            (after[0] < 0).sum() - (before[0] < 0).sum(),
            (after[0] != after[1]).sum() - (before[0] != before[1]).sum(),
        )
        assert log.take_deltas() == (0, 0)

    def _check_counts(self, log: ChangeLog, expected: list[PartitionChangeRecord]) -> None:
        """Counts of changes that were applied at once are those of the records."""
        before = [
            self.twin.partition(TopicIdPartition(r.topic_id, r.partition_id)) for r in expected
        ]
        elected = [
            p for r, p in zip(expected, before, strict=True)
            if r.leader not in (None, NO_LEADER, p.leader)
        ]
        counts = log.counts()
        assert counts["elections"] == len(elected)
        assert counts["leaders_moved"] == sum(p.leader != NO_LEADER for p in elected)
        assert counts["isr_shrinks"] == sum(
            r.isr is not None and not set(p.isr) <= set(r.isr)
            for r, p in zip(expected, before, strict=True)
        )

    # ----------------------------------------------------------------------------- bulk updates

    def _update(self, log: ChangeLog) -> list[PartitionChangeRecord] | None:
        random, cluster, twin = self.random, self.cluster, self.twin
        broker = random.choice(cluster.ids)
        role = random.choice(["remove", "remove", "add", "unclean_shutdown"])
        visited = random.choice(list(Visited)) if role != "add" else Visited.EVERY_ROW
        before = [cluster.registration(row) for row in range(len(cluster.places))]
        rows = random.sample(range(len(cluster.places)), len(cluster.places))
        if role == "add":
            rows = leaderless_rows(cluster)
        members = {
            Visited.IN_ISR: "isr", Visited.IN_ELR: "elr", Visited.IN_ISR_AT_ONCE: "isr",
        }
        places = [
            cluster.places[row] for row in rows
            if visited is Visited.EVERY_ROW
            or broker in getattr(twin.partition(cluster.places[row]), members[visited])
        ]
        expected: list[PartitionChangeRecord] = []
        fault = -1
        try:
            generate_leader_and_isr_updates(twin, expected, places, **{role: broker})
        except FaultError:
            fault = 0
        row = cluster.rows_of([broker])[0]
        arguments = [row if role == name else -1 for name in ("remove", "add", "unclean_shutdown")]
        found = partition_changes.update(
            cluster.columns, cluster.rules, np.array(rows, np.int32), visited, *arguments, log
        )
        assert (found >= 0) == (fault >= 0)
        self.faults += found >= 0
        if not log.n_counted:
            assert [cluster.registration(row) for row in range(len(before))] == before
        return None if found >= 0 else expected

    # --------------------------------------------------------------------------------- requests

    def _build(self, log: ChangeLog) -> list[PartitionChangeRecord]:
        cluster, requests = self.cluster, ChangeLog()
        expected, outcomes = [], []
        rows = self.random.choices(range(len(cluster.places)), k=3)
        for row in rows:
            builder, fields = self._request(row, alone=rows.count(row) == 1)
            requests.append(row, **fields)
            try:
                record = builder.build()
            except FaultError:
                outcomes.append(BuildResult.FAULT)
                continue
            outcomes.append(BuildResult.NOTHING if record is None else len(expected))
            expected += [record] if record is not None else []
        results = np.empty(len(outcomes), np.int32)
        n = partition_changes.build(cluster.columns, cluster.rules, requests, log, results)
        assert (n, results.tolist()) == (len(expected), outcomes)
        self.faults += outcomes.count(BuildResult.FAULT)
        made = [i for i, outcome in enumerate(outcomes) if outcome >= 0]
        assert log.changes["request"].tolist() == made
        return expected

    def _request(self, row: int, alone: bool) -> tuple[PartitionChangeBuilder, dict]:
        """A builder of the twin, and the same request for a log."""
        random, cluster = self.random, self.cluster
        place = cluster.places[row]
        partition = self.twin.partition(place)
        mode = random.choice(MODES)
        builder = PartitionChangeBuilder(self.twin, place, partition, election=mode)
        kind = random.choice(["elect", "alter"])
        if alone and random.random() < 0.7:
            kind = random.choice(["reassign", "reassign", "cancel", "directories"])
        if kind == "alter":
            builder.isr = tuple(random.sample(
                partition.replicas, random.randint(1, len(partition.replicas))
            ))
            builder.recovery = random.choice([None, 0, 1])
        elif kind == "reassign":
            target = random.sample(cluster.ids, random.randint(1, min(5, len(cluster.ids))))
            if random.random() < 0.3:
                target = list(partition.replicas)
                random.shuffle(target)
            plan = plan_reassignment(partition.replicas, tuple(target))
            builder.replicas = plan.replicas
            builder.removing, builder.adding = plan.removing or None, plan.adding or None
        elif kind == "cancel":
            replicas, isr, _ = revert_reassignment(partition)
            if replicas:
                builder.replicas, builder.isr = replicas, isr
                builder.removing = builder.adding = ()
        elif kind == "directories":
            broker = random.choice(partition.replicas)
            builder.directories = {broker: random.choice(cluster.directories)}
            builder.elr_on = random.choice([None, False])
        return builder, self._fields(builder)

    def _fields(self, builder: PartitionChangeBuilder) -> dict:
        cluster = self.cluster
        fields: dict = {
            name: cluster.rows_of(value)
            for name in ("isr", "replicas", "removing", "adding")
            if (value := getattr(builder, name)) is not None
        }
        if builder.recovery is not None:
            fields["recovery"] = builder.recovery
        if builder.directories:
            fields["directories"] = [
                cluster.number_of(builder.directories[b]) if b in builder.directories else -1
                for b in builder.partition.replicas
            ]
        return fields | {"mode": MODES.index(builder.election), "elr_off": builder.elr_on is False}


def leaderless_rows(cluster: KernelCluster) -> list[int]:
    """Rows whose bit says that nobody leads."""
    rows = np.empty(len(cluster.places), np.int32)
    topic_row, topic_flags = np.zeros(rows.size, np.int32), np.zeros(1, np.uint8)
    n = hosting.list_marked(cluster.leader_offline, topic_row, topic_flags, False, rows)
    return rows[:n].tolist()


# ---------------------------------------------------------------------------------------- coverage

UNREACHED = {
    # A true last-known ELR, which Kafka's unit tests alone use.
    "record.last_known_elr = self.target_last_known_elr",
}

TRACED = [(f"kraft-{release}", "narrow") for release in ("3.5", "3.9", "4.0", "4.1", "4.3")]
"""Releases and layouts of which it is noted which lines of the rule they reach."""


def lines_of(code: CodeType) -> set[int]:
    """Lines of all functions below a code object that run when they are called."""
    found: set[int] = set()
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found |= lines_of(inner)
            if inner.co_flags & inspect.CO_OPTIMIZED:
                found |= {line for _, line in dis.findlinestarts(inner) if line}
                found -= {inner.co_firstlineno}
    return found


class Coverage:
    """What the random changes of this file met: lines of the rule, kinds of change, faults."""

    def __init__(self) -> None:
        self.path = Path(partition_change.__file__)
        self.reached: set[int] = set()
        self.kinds = ChangeKind(0)
        self.faults = self.n_at_once = self.n_runs = 0

    def add(self, comparison: Comparison) -> None:
        """Count what a cluster met."""
        self.kinds |= comparison.kinds
        self.faults += comparison.faults
        self.n_at_once += comparison.n_at_once

    @contextmanager
    def traced(self):
        """Note which lines of the rule run."""
        rule = str(self.path)

        def trace(frame, event, _):
            if frame.f_code.co_filename != rule:
                return None
            if event == "line":
                self.reached.add(frame.f_lineno)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def missed(self) -> set[str]:
        """Lines of the rule that did not run."""
        text = self.path.read_text(encoding="utf-8")
        wanted = lines_of(compile(text, str(self.path), "exec"))
        return {text.splitlines()[line - 1].strip() for line in wanted - self.reached}


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    """Summed over the tests of this file."""
    return Coverage()


@pytest.mark.parametrize("layout", ["narrow", "wide"])
@pytest.mark.parametrize("release", RELEASES)
def test_random_changes_are_those_of_the_twin(release, layout, coverage):
    """Every record, every partition after it, and the counters."""
    with coverage.traced() if (release, layout) in TRACED else nullcontext():
        for seed in range(20):
            comparison = Comparison(release, seed, layout)
            for _ in range(12):
                comparison.step()
            coverage.add(comparison)
    coverage.n_runs += 1


def test_random_changes_reach_every_line_of_the_rule(coverage):
    """Every step of sections 3 and 4 was compared above, and every kind of change occurred."""
    if coverage.n_runs < 2 * len(RELEASES):
        pytest.skip("only meaningful after all random changes of this file")
    assert coverage.missed() == UNREACHED
    assert coverage.kinds == ChangeKind(255)
    assert coverage.faults
    assert coverage.n_at_once


def test_partitions_of_many_replicas_are_those_of_the_twin():
    """Rows outgrow the narrow layout, and the hash of an id is more than its low bits."""
    widened = 0
    more_ids = (41, 57, 1000, 65_537, 70_000, 131_072, 2_000_000_000)
    for seed in range(40):
        comparison = Comparison("kraft-4.3", seed, "narrow", more_ids)
        for _ in range(12):
            comparison.step()
        widened += comparison.cluster.layout == "wide"
    assert widened


# ------------------------------------------------------------------------------- the whole cluster


@pytest.mark.parametrize("layout", ["narrow", "wide"])
def test_what_a_new_controller_counts_is_what_the_indexes_of_the_twin_say(layout):
    """Leaderless and imbalanced partitions; what each broker leads, and whether anything."""
    for seed in range(40):
        twin = RandomCluster(seed, "kraft-4.1").controller().state
        cluster = KernelCluster(twin, layout)
        rows = np.arange(len(cluster.places), dtype=np.int32)
        cluster.leader_offline[:] = 2**64 - 1
        counts = np.zeros((2, 2), np.int64)
        partition_changes.activate(cluster.columns, counts)
        leaderless = twin.isr_index.partitions(NO_LEADER)
        assert counts.sum(axis=0).tolist() == [len(list(leaderless)), len(twin.imbalanced)]
        cluster.check()
        for row, broker in enumerate(cluster.ids):
            led = np.empty_like(rows)
            n = partition_changes.select_led(cluster.columns, rows, row, led)
            leaders = [twin.partition(place).leader for place in cluster.places]
            assert led[:n].tolist() == [i for i, leader in enumerate(leaders) if leader == broker]
            leads = partition_changes.leads_any(cluster.columns, rows, row)
            orders = np.zeros(cluster.replicas.shape, np.uint8)
            partition_changes.order_members(cluster.columns, orders)
            cluster.orders = None
            cluster._add(Missing.ORDERS)
            assert np.array_equal(orders, cluster.orders)
            assert leads == twin.isr_index.has_leaderships(broker)


# ------------------------------------------------------------------------------------------- edges


def one_partition(n_brokers: int = 3) -> KernelCluster:
    """A partition on brokers 0, 1, ..., all active, led by the first."""
    twin = ClusterState(RELEASES["kraft-4.1"])
    topic, brokers = uuid_text(1, 1), tuple(range(n_brokers))
    twin.replay(FeatureLevelRecord(0, METADATA_VERSION, 27), 0)
    for broker in range(80):
        twin.replay(RegisterBrokerRecord(3, broker, uuid_text(9, broker), 1, fenced=False), 0)
    twin.replay(TopicRecord(0, "t", topic), 0)
    twin.replay(PartitionRecord(2, 0, topic, brokers, brokers, (), (), 0, 0, 0, 0), 0)
    return KernelCluster(twin)


def test_a_cap_leaves_the_rest_unbuilt():
    """Of three preferred elections that are due, one is allowed."""
    cluster = one_partition()
    requests, log, results = ChangeLog(), ChangeLog(), np.zeros(3, np.int32)
    for _ in range(3):
        requests.append(0, isr=[0, 1])
    assert partition_changes.build(cluster.columns, cluster.rules, requests, log, results, 1) == 1
    assert results.tolist() == [0, BuildResult.CAPPED, BuildResult.CAPPED]


def test_more_than_64_slots_are_refused():
    """A reassignment from 3 to 61 other brokers has no room for one more member of the ISR."""
    cluster, requests, log = one_partition(), ChangeLog(), ChangeLog()
    added, results = list(range(10, 71)), np.zeros(2, np.int32)
    targets = {"replicas": [*added, 0, 1, 2], "removing": [0, 1, 2], "adding": added}
    requests.append(0, isr=[79], **targets)
    requests.append(0, **targets)
    partition_changes.build(cluster.columns, cluster.rules, requests, log, results)
    assert results.tolist() == [BuildResult.TOO_MANY_SLOTS, 0]
    cluster.apply(log)
    assert (cluster.layout, int(cluster.records["n_slots"][0])) == ("wide", 64)
    assert np.array_equal(log.take_tracked(), ([0] * 61, added))
    assert log.take_tracked() is None
    log = ChangeLog()
    log.append(0, isr=[79])
    assert partition_changes.apply(cluster.columns, log) == Missing.SLOTS
    assert log.slots_needed == 65


def test_changes_are_applied_up_to_a_stop():
    """Then from there."""
    cluster, log = one_partition(), ChangeLog()
    for isr in ([0], [1, 0], []):
        log.append(0, isr=isr)
    columns = cluster.columns
    assert partition_changes.apply(columns, log, 1) == 0
    assert cluster.registration(0).isr == (0,)
    assert partition_changes.apply(columns, log) == Missing.ORDERS
    cluster.apply(log)
    assert (cluster.registration(0).isr, cluster.registration(0).partition_epoch) == ((), 3)


def test_a_broker_in_both_lists_stays_in_both():
    """Two changes of one partition in one request can do that; neither list loses its order."""
    cluster, log = one_partition(), ChangeLog()
    log.append(0, isr=[2, 0, 1], elr=[1, 2])
    cluster.apply(log)
    assert (cluster.registration(0).isr, cluster.registration(0).elr) == ((2, 0, 1), (1, 2))


def test_a_log_is_not_its_own_request():
    """And there is room for every result."""
    cluster, log = one_partition(), ChangeLog()
    log.append(0)
    with pytest.raises(ValueError, match="two logs"):
        partition_changes.build(cluster.columns, cluster.rules, log, log, np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="0 results"):
        partition_changes.build(
            cluster.columns, cluster.rules, log, ChangeLog(), np.zeros(0, np.int32)
        )
