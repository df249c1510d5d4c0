"""Functions of `kfast.spark` on KRaft clusters say what one machine says.

Sections are those of docs/kraft.md.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kfast
from kfast.controllers import QuorumEvents
from kfast.journal.quorum_outcome import QuorumCounts
from kfast.state.census import take_census
from tests.support.long_tests import share_of
from tests.support.sharded import joined, split, without_session

pytestmark = pytest.mark.spark


@pytest.fixture
def cluster():
    """Five topics, ELR on, one broker fenced."""
    state = kfast.generate(
        brokers=7, partitions=200, topics=5, racks=3, seed=3, min_insync_replicas=2
    )
    state = kfast.with_controller(state, "kraft-4.1", elr=True)
    kfast.QuorumController(state).fence_broker(6)
    return state


@pytest.fixture
def fail(monkeypatch, tmp_path):
    """`kfast.spark.fail` of a cluster in so many files, without a session."""
    from kfast.spark import sharded

    without_session(monkeypatch)

    def run(state, events, shards=3, **options):
        folder = tmp_path / f"in-{len(list(tmp_path.iterdir()))}"
        split(state, folder, shards)
        return sharded.fail(
            None, folder, events=events, output=folder.with_name(f"out-{folder.name}"), **options
        )

    return run


class Alone:
    """Events of a KRaft cluster on one machine, written as for `kfast.spark.fail`."""

    def __init__(self, state, events=()):
        self.state = state.copy()
        self.events = QuorumEvents(kfast.QuorumController(self.state, journal="full"))
        self.outcomes = []
        for event in events:
            self.happen(event)

    def happen(self, event):
        """Let one more event happen."""
        name, *argument = (event,) if isinstance(event, str) else event
        if name == "elect_leaders":
            outcomes = [self.events.controller.elect_leaders(**dict(*argument))]
        else:
            outcomes = [e.outcome for e in getattr(self.events, name)(*argument)]
        self.outcomes.append(outcomes)

    def first(self, attribute):
        """Of each event, the first of an attribute of its outcomes that is not None."""
        values = [[getattr(o, attribute) for o in outcomes] for outcomes in self.outcomes]
        return tuple(next((v for v in each if v is not None), None) for each in values)

    def totals(self):
        """Of each event, the sums of its counts."""
        names = [name for name, value in vars(QuorumCounts()).items() if value == 0]
        return [
            {name: sum(getattr(o.counts, name) for o in outcomes) for name in names}
            for outcomes in self.outcomes
        ]

    def assert_same(self, done):
        """Shards came to what this machine came to."""
        assert done.digest == self.state.digest()
        assert joined(done.state).digest() == self.state.digest()
        assert done.partitions == self.state.n_partitions
        assert done.census.items() <= take_census(self.state).counts.items()
        assert done.errors == self.first("error")
        assert [fault is None for fault in done.faults] == [
            fault is None for fault in self.first("fault")
        ]
        counted = [Counter() for _ in self.outcomes]
        for row in done.counts.to_pylist():
            counted[row["event"]][row["item"]] += row["count"]
        for at, totals in enumerate(self.totals()):
            for item in counted[at]:
                assert counted[at][item] == totals[item], (at, item)
            assert counted[at] or not any(totals.values())


EVENTS = [
    "start", ("brokers_failed", [2, 0]), ("brokers_shut_down_in_order", [5]),
    ("brokers_shut_down_in_order", [4]), ("brokers_returned", [0]), ("brokers_returned", [6]),
    ("elect_leaders", {"type": "preferred"}), ("brokers_returned", [4]), ("caught_up", [0, 4, 6]),
    "elect_leaders",
]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("events", [EVENTS[:2], EVENTS])
def test_shards_of_a_kraft_cluster_end_as_one_machine_does(cluster, events, shards, fail):
    alone = Alone(cluster, events)
    alone.assert_same(fail(cluster, events, shards))
    assert all(o.n_records for o in alone.outcomes[-1])


def test_several_brokers_leave_and_return_one_by_one(cluster, fail):
    events = ["start", ("brokers_shut_down_in_order", [5, 4]), ("brokers_returned", [4, 6, 5])]
    alone = Alone(cluster, events)
    assert fail(cluster, events).digest == alone.state.digest()


@pytest.mark.parametrize(("controller", "elr"), [
    ("kraft-4.1", True), ("kraft-4.1", False), ("kraft-4.0", True), ("kraft-3.3", None),
    ("kraft-4.3", True),
])
@pytest.mark.parametrize(("shards", "tasks"), [(1, 1), (6, 2), (11, 11)])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in share_of(range(1, 8)))]
)
def test_random_events(fail, controller, elr, shards, tasks, seed):
    state = kfast.generate(
        brokers=7, partitions=60, topics=17, racks=3, seed=seed, unclean_topics=0.3,
        min_insync_replicas=2, controller=controller, elr=elr,
    )
    random, alone, events = Random(seed), Alone(state), []
    for _ in range(25):
        ids = state.broker_id[alone.state.up].tolist()
        down = state.broker_id[~alone.state.up].tolist()
        kinds = ["start", "caught_up", "elect_leaders"]
        kinds += ["brokers_failed", "brokers_shut_down_in_order"] * (2 if len(ids) > 2 else 0)
        kinds += ["brokers_returned"] * min(3, len(down))
        name = random.choice(kinds)
        events.append({
            "start": "start",
            "caught_up": (name, random.sample(ids, random.randint(1, len(ids)))),
            "elect_leaders": (name, {"type": random.choice(["preferred", "unclean"])}),
            "brokers_failed": (name, random.sample(ids, min(2, len(ids) - 1))),
            "brokers_shut_down_in_order": (name, random.sample(ids, 1)),
            "brokers_returned": (name, random.sample(down, min(1, len(down)))),
        }[name])
        alone.happen(events[-1])
    alone.assert_same(fail(state, events, shards, tasks=tasks))


def test_what_no_shard_has_an_outcome_of_is_in_step(cluster, fail):
    """Nobody has to catch up, so no leader reports anything: no outcome, and no error."""
    events = [("caught_up", [1]), ("elect_leaders", {"type": "best"}), ("caught_up", [1]), "start"]
    alone = Alone(cluster, events)
    done = fail(cluster, events)
    assert done.errors == (None, "INVALID_REQUEST", None, None)
    alone.assert_same(done)


@pytest.mark.parametrize(("controller", "partitions", "error"), [
    ("kraft-4.1", 10_001, "POLICY_VIOLATION"), ("kraft-4.1", 10_000, None),
    ("kraft-3.4", 10_001, None),
])
def test_an_election_writes_at_most_10_000_records_in_all_shards(
    fail, controller, partitions, error
):
    """Section 7.5: the operation fails as a whole; before 3.5 there is no limit."""
    state = kfast.generate(
        brokers=4, partitions=partitions, topics=3, replication_factor=2, controller=controller,
        placement="ring",
    )
    alone = Alone(state)
    # Nobody is led by its first replica: all have to move.
    alone.state.records["leader"][:] = alone.state.replicas[:, 1]
    moved = kfast.ClusterState.from_tables(*vars(alone.state.to_tables()).values())
    alone = Alone(moved, ["elect_leaders", "start"])
    assert alone.first("error") == (error, None)
    alone.assert_same(fail(moved, ["elect_leaders", "start"], 3))


FAULTS = {
    "while brokers fail": [("brokers_failed", [5, 1, 2]), ("caught_up", [3]), "elect_leaders"],
    "before a shutdown": [("brokers_shut_down_in_order", [1]), ("brokers_failed", [4])],
    "at the end": ["start", ("brokers_failed", [4, 3])],
    "at a registration": [("brokers_returned", [6]), ("brokers_failed", [4])],
    "until another controller starts": [
        ("brokers_failed", [1]), ("brokers_failed", [4]), "start", ("brokers_failed", [5]),
        ("brokers_shut_down_in_order", [3]), "start", ("brokers_returned", [5]),
        ("caught_up", [5]),
    ],
}


def with_faults(state):
    """Topics of one partition, each of which cannot be built when one broker goes, or comes.

    Its leader is no replica, for which Kafka asks in vain (section 3).
    """
    tables = state.to_tables()
    row = tables.partitions.slice(0, 1).to_pylist()[0] | {"partition": 0, "leader": 0}
    faulty = [
        row | {"topic": "fault-1", "replicas": [1, 2], "isr": [0, 1], "elr": []},
        row | {"topic": "fault-3", "replicas": [3, 2], "isr": [0, 3], "elr": []},
        row | {"topic": "fault-6", "replicas": [6, 2], "isr": [0], "elr": [6]},
    ]
    added = pa.Table.from_pylist(faulty, tables.partitions.schema)
    partitions = pa.concat_tables([tables.partitions, added])
    return kfast.ClusterState.from_tables(tables.brokers, None, partitions, tables.cluster)


@pytest.mark.parametrize("elections", [False, True])
@pytest.mark.parametrize("shards", [1, 8])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_one_shard_ends_the_event_in_all(cluster, fail, name, shards, elections):
    """Nothing of that step is written anywhere, and the controller has resigned."""
    events = [*FAULTS[name], *["elect_leaders"] * elections]
    alone = Alone(with_faults(cluster), events)
    assert any(alone.first("fault"))
    done = fail(with_faults(cluster), events, shards)
    alone.assert_same(done)
    [text, *_] = [fault for fault in done.faults if fault is not None]
    assert text.endswith("cannot be built")


def test_the_full_journal_has_every_change(cluster, fail, monkeypatch, tmp_path):
    """Rows of all shards are the PartitionChange records of one machine, by partition in order."""
    from kfast.schema import SHARDED_RECORDS
    from kfast.spark import sharded

    class Session:
        class read:  # noqa: N801 - of a session
            parquet = staticmethod(lambda path: pq.read_table(path))
            schema = staticmethod(lambda _: Session.read)

    run = sharded._combine
    monkeypatch.setattr(sharded, "_combine", lambda _, *rest: run(Session, *rest))
    events = [event for event in EVENTS if event != ("brokers_shut_down_in_order", [4])][:5]
    alone = Alone(cluster, events)
    done = fail(cluster, events, journal="full")
    alone.assert_same(done)
    assert (done.transitions, done.elections) == (None, None)
    assert done.records.schema.equals(SHARDED_RECORDS.schema)
    keys = ["topic", "partition", "partition_epoch"]
    own = ["event", "shard", "partition_row"]
    expected = []
    for at, outcomes in enumerate(alone.outcomes):
        for outcome in outcomes:
            rows = outcome.records.filter(pa.compute.equal(
                outcome.records["type"], "PartitionChangeRecord"
            ))
            expected += [{"event": at} | row for row in rows.to_pylist()]
    names = [name for name in SHARDED_RECORDS.schema.names if name not in own]
    wanted = [[row["event"], *(row[name] for name in names)] for row in expected]
    seen = [
        [row["event"], *(row[name] for name in names)]
        for row in done.records.sort_by([(key, "ascending") for key in keys]).to_pylist()
    ]
    places = [1 + names.index(key) for key in keys]
    assert seen == sorted(wanted, key=lambda row: [row[place] for place in places])
    assert len(seen) > 100


@pytest.mark.parametrize(("controller", "elr"), [
    ("kraft-4.3", True), ("kraft-3.9", None), ("zk-3.9", None), (None, False),
])
def test_the_controller_may_be_told(cluster, fail, controller, elr):
    told = kfast.with_controller(cluster, controller or cluster.controller, elr=elr)
    failure = kfast.fail_brokers(told, [1, 3])
    start = ["start", ("brokers_failed", [1, 3])] if told.is_kraft else [
        "on_controller_failover", ("on_broker_failure", [1, 3])
    ]
    done = fail(cluster, start, controller=controller, elr=elr)
    assert done.digest == failure.state.digest()
    after = joined(done.state)
    assert (after.controller, after.digest()) == (told.controller, done.digest)


def test_a_zookeeper_cluster_may_be_run_by_kraft(fail):
    state = kfast.generate(brokers=6, partitions=60, topics=9, seed=4, unclean_topics=0.5)
    failure = kfast.fail_brokers(kfast.with_controller(state, "kraft-4.1", elr=True), [2, 5])
    events = ["start", ("brokers_failed", [2, 5])]
    done = fail(state, events, controller="kraft-4.1", elr=True)
    assert done.digest == failure.state.digest() == joined(done.state).digest()


def test_brokers_that_fail_are_events_of_the_clusters_own_controller(
    cluster, tmp_path, monkeypatch
):
    from kfast.spark import sharded

    without_session(monkeypatch)
    split(cluster, tmp_path / "shards", 2)
    done = sharded.fail(None, tmp_path / "shards", [1, 3], output=tmp_path / "out")
    failure = kfast.fail_brokers(cluster, [1, 3])
    assert done.digest == failure.state.digest()
    for event, message in (
        ("on_controller_failover", "kraft-4.1"), ("delete_topics", "names topics"),
        (("brokers_failed", [6]), "down already"),
        (("elect_leaders", {"trigger": "AdminClient"}), "has a trigger in ZooKeeper mode alone"),
    ):
        with pytest.raises(kfast.ArgumentError, match=message):
            sharded.fail(None, tmp_path / "shards", events=[event], output=tmp_path / "other")
    for options, message in (
        ({"controller": "kraft-9"}, "controller 'kraft-9' is unknown"),
        ({"controller": "zk-3.9", "elr": True}, "zk-3.9 has no eligible leader replicas"),
    ):
        with pytest.raises(kfast.ArgumentError, match=message):
            sharded.fail(None, tmp_path / "none", [1], output=tmp_path / "other", **options)


# --- describe texts ----------------------------------------------------------------------------

def text(topic, topic_id, configs, *partitions):
    """What `kafka-topics --describe` of Kafka 4.1 prints of a topic."""
    header = [
        f"Topic: {topic}", f"TopicId: {topic_id}", f"PartitionCount: {len(partitions)}",
        "ReplicationFactor: 3", f"Configs: {configs}",
    ]
    lines = ["\t".join(header)]
    for number, (leader, replicas, isr, elr) in enumerate(partitions):
        lines.append("\t".join([
            f"\tTopic: {topic}", f"Partition: {number}", f"Leader: {leader}",
            f"Replicas: {replicas}", f"Isr: {isr}", f"Elr: {elr}", "LastKnownElr: ",
        ]))
    return "\n".join(lines) + "\n"


TEXT_A = text(
    "a", "AAAAAAAAAAAAAAAAAAAAAA", "min.insync.replicas=2,unclean.leader.election.enable=true",
    (1, "1,2,3", "1,2,3", ""), (2, "2,3,1", "2", "3"),
)
TEXT_B = text("b", "BAAAAAAAAAAAAAAAAAAAAA", "min.insync.replicas=3", (1, "1,2,3", "1,2", ""))


@pytest.mark.parametrize("defaults", [None, {"min.insync.replicas": 2}])
def test_texts_keep_configurations_of_their_topics_from_run_to_run(
    tmp_path, monkeypatch, defaults
):
    """Only one text names an ELR; the configurations of each topic stand in its own text."""
    from kfast.spark import sharded

    without_session(monkeypatch)
    (tmp_path / "in").mkdir()
    for name, text in (("a", TEXT_A), ("b", TEXT_B)):
        (tmp_path / "in" / f"{name}.txt").write_text(text, encoding="utf-8")
    state = kfast.read(("both", (TEXT_A + TEXT_B).encode()), defaults=defaults)
    assert (state.controller, state.quorum.elr_on) == ("kraft-4.1", True)
    assert len(state.quorum.configurations) == 2 + bool(defaults)
    folder, failed = tmp_path / "in", state
    for number, broker in enumerate([1, 2, 3]):
        done = sharded.fail(
            None, folder, [broker], output=tmp_path / f"out-{number}",
            defaults=defaults if number == 0 else None,
        )
        failed = kfast.fail_brokers(failed, [broker]).state
        assert done.digest == failed.digest() == joined(done.state).digest()
        folder = done.state
    assert failed.quorum.configurations == joined(done.state).quorum.configurations


def test_texts_beside_a_cluster_file_keep_configurations_of_their_topics(tmp_path, monkeypatch):
    """`_cluster.arrow` has brokers and settings, and knows nothing of these topics."""
    from kfast.io import read_tables
    from kfast.spark import dataset, sharded

    without_session(monkeypatch)
    state = kfast.read(("both", (TEXT_A + TEXT_B).encode()), defaults={"min.insync.replicas": 3})
    dataset.split(state, tmp_path / "in", shards=1)
    (tmp_path / "in" / "shard-000000.parquet").unlink()
    path = tmp_path / "in" / dataset.CLUSTER_FILE
    settings = dataset._replace_topic_configurations(read_tables(path).cluster, [])
    assert len(settings["configurations"][0]) == 1
    brokers_only = kfast.ClusterState.from_tables(
        state.to_tables().brokers, None, None, settings
    )
    kfast.write(brokers_only, path)
    for name, text in (("a", TEXT_A), ("b", TEXT_B)):
        (tmp_path / "in" / f"{name}.txt").write_text(text, encoding="utf-8")
    done = sharded.fail(None, tmp_path / "in", [1], output=tmp_path / "out")
    assert done.digest == kfast.fail_brokers(state, [1]).state.digest()


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_ranges_of_a_kraft_file_are_rows_of_the_whole(cluster, form, tmp_path):
    """A large file is read by many tasks, a range of rows each, with the cluster's controller."""
    from kfast.spark.frames import row_tables
    from kfast.spark.source import FileRange, _read_range

    path = str(tmp_path / f"cluster.{form}")
    kfast.write(cluster, path)
    ranges = [FileRange(path, 0, start, start + 40) for start in range(0, 200, 40)]
    for table in ("partitions", "replicas"):
        pieces = [piece for part in ranges for piece in _read_range(part, table)]
        assert pa.concat_tables(pieces) == pa.concat_tables(row_tables(cluster, table))
