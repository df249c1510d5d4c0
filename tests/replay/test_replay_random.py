"""Logs of random events with faults that kfast's own controller ran: all is predicted."""

from __future__ import annotations

from random import Random

import pytest

from kfast.log_replay import replay
from kfast.schema import FLAG_BEING_REASSIGNED
from tests.support.log_forms import PROFILES, VERSIONS
from tests.support.log_writer import LoggedController
from tests.support.long_tests import share_of
from tests.support.states import read_state

pytestmark = pytest.mark.kernels

BEFORE = """
    partition  ar     isr    leader  epoch  state
    first-0    1,2    1,2    1       4      ONLINE
    first-1    2,3,4  2,3,4  2       2      ONLINE
"""
BROKERS = (1, 2, 3, 4)
N_EVENTS = 14
ONLY_THE_LOG_KNOWS = {
    "decided by a partition's leader", "written before the log begins",
    "given to a broker when it registered", "the number of ISR writes, taken from a later line",
    "the last member of an ISR, taken from a later line",
    "an ISR that a leader wrote, heard of later",
}
SEEDS = (*share_of(range(1, 16)), 38, 57, 65, 70, 83, 112, 127, 151, 701)
"""The last ones have rare cases: a directory that fails in a reassignment, ISRs that are announced
while topics are deleted, reassignments from before the log, deletions that fail, a broker that is
shut down meanwhile."""
ASKED = {"1.1"}
"""Versions whose wording does not tell their profile."""


class RandomStory:
    """Random events of some brokers, one of which is the controller.

    Parameters
    ----------
    version : str
        One of `log_forms.VERSIONS`.
    rng : Random
    n_brokers, n_events : int
    n_most : int
        The most replicas of a partition that is created, and partitions of a topic.
    """

    def __init__(
        self, version: str, rng: Random, n_brokers: int = len(BROKERS), n_events: int = N_EVENTS,
        n_most: int = 3,
    ) -> None:
        self.rng, self.version, self.n_events, self.n_most = rng, version, n_events, n_most
        self.brokers = range(1, n_brokers + 1)
        state = read_state(
            BEFORE, brokers=list(self.brokers), controller_id=-1,
            leader_recovery_supported=version == "3.9",
        )
        self.logged = LoggedController(state, version, trace=True if rng.random() < 0.5 else None)
        self.log = self.logged.log
        self.up = list(self.brokers)
        self.controller = self.brokers[-1]
        self.moving: tuple[tuple[str, int], list[int]] | None = None
        self.logged.fail_over(self.controller)
        self.logged.create_topics({"wide": [[1, 2, 3], [2, 3, 1], [3, 1, 4]]})
        self.n_topics = 0

    def tell(self) -> LoggedController:
        """Some events, one after the other."""
        events = [
            self.fail, self.fail, self.start, self.start, self.catch_up, self.catch_up,
            self.rebalance, self.create, self.create, self.delete, self.fail_over, self.reassign,
            self.elect,
        ]
        if self.log.words.since("2.4"):
            events += [self.bounce, self.cancel, self.fail_dir]  # No line of 1.0 to 2.1 says it.
        for _ in range(self.n_events):
            self.rng.choice(events)()
        return self.logged

    # --- what there is ---------------------------------------------------------------------------

    @property
    def others(self) -> list[int]:
        """Live brokers other than the controller."""
        return [broker for broker in self.up if broker != self.controller]

    @property
    def down(self) -> list[int]:
        """Brokers that are not registered."""
        return [broker for broker in self.brokers if broker not in self.up]

    def partitions(self) -> list[tuple[str, int]]:
        """Partitions of topics that are not to be deleted."""
        queued = set(self.log.queued())
        return [self.log.named(row) for row in self.log.rows() if row not in queued]

    def answer(self) -> None:
        """Brokers answer what they were told to delete."""
        topics = self.log.topics(self.log.queued())
        if not topics:
            return
        if self.rng.random() < 0.3:
            topic = self.rng.choice(topics)
            brokers = {
                broker for row in self.log.rows() if self.log.named(row)[0] == topic
                for broker, state in self.log.state.replica_states_of(row).items()
                if state.name == "DELETION_STARTED" and broker in self.up
            }
            if brokers:
                self.logged.refuse(topic, self.rng.choice(sorted(brokers)))
        self.logged.acknowledge(topics)

    # --- events ----------------------------------------------------------------------------------

    def fail(self) -> None:
        if not self.others:
            return
        broker = self.rng.choice(self.others)
        if self.rng.random() < 0.4:
            self.logged.shut_down(broker)
        failed = [broker]
        if len(self.others) > 1 and self.rng.random() < 0.2:
            failed.append(self.rng.choice([b for b in self.others if b != broker]))
        self.logged.change_brokers(failed=sorted(failed))
        self.up = [b for b in self.up if b not in failed]

    def start(self) -> None:
        if self.down:
            broker = self.rng.choice(self.down)
            self.logged.change_brokers(started=[broker])
            self.up.append(broker)
            self.answer()

    def bounce(self) -> None:
        if self.others:
            self.logged.change_brokers(bounced=[self.rng.choice(self.others)])
            self.answer()

    def catch_up(self) -> None:
        if self.moving is None:
            self.logged.catch_up([self.rng.choice(self.up)])
            return
        self.logged.catch_up(self.up, reassigned=self.moving)
        self.forget_move()

    def forget_move(self) -> None:
        """The reassignment may be complete."""
        if self.moving is not None:
            row = self.log.row(*self.moving[0])
            if not int(self.log.state.records["flags"][row]) & FLAG_BEING_REASSIGNED:
                self.moving = None

    def rebalance(self) -> None:
        self.logged.rebalance()

    def create(self) -> None:
        there = set(self.log.topics())
        gone = [f"t{n}" for n in range(self.n_topics) if f"t{n}" not in there]
        name = self.rng.choice(gone) if gone and self.rng.random() < 0.7 else f"t{self.n_topics}"
        self.n_topics += name == f"t{self.n_topics}"
        n_replicas = min(self.rng.randint(1, self.n_most), len(self.up))
        self.logged.create_topics({
            name: [self.rng.sample(self.up, n_replicas)
                   for _ in range(self.rng.randint(1, self.n_most))]
        })

    def delete(self) -> None:
        topics = {topic for topic, _ in self.partitions()} - {"first"}  # Its past is not known.
        if self.moving is not None:
            topics.discard(self.moving[0][0])
        if topics:
            self.logged.delete([self.rng.choice(sorted(topics))])
            self.answer()

    def fail_over(self) -> None:
        if not self.others:
            return
        after = self.rng.choice(self.others)
        if self.rng.random() < 0.6:
            self.logged.die(self.controller)
            self.up.remove(self.controller)
        self.controller = after
        self.logged.fail_over(after)
        self.forget_move()
        self.answer()

    def reassign(self) -> None:
        partitions = self.partitions()
        if self.moving is not None or not partitions:
            return
        topic, number = self.rng.choice(partitions)
        target = self.rng.sample(self.up, min(self.rng.randint(1, 3), len(self.up)))
        self.moving = (topic, number), target
        self.logged.reassign(topic, number, target)
        self.forget_move()

    def cancel(self) -> None:
        if self.moving is not None:
            self.logged.cancel(*self.moving[0])
            self.moving = None

    def elect(self) -> None:
        partitions = self.partitions()
        if partitions:
            some = self.rng.sample(partitions, min(2, len(partitions)))
            self.logged.elect(sorted(some))

    def fail_dir(self) -> None:
        broker = self.rng.choice(self.up)
        hosted = [p for p in self.partitions() if broker in self.log.assignment(*p).replicas]
        if hosted:
            some = self.rng.sample(hosted, self.rng.randint(1, len(hosted)))
            self.logged.fail_dir(broker, sorted(some))


def tell_at_random(version: str, rng: Random) -> LoggedController:
    """Some random events of four brokers."""
    return RandomStory(version, rng).tell()


def check(version: str, story: RandomStory, directory) -> None:
    """Nothing is contradicted or missing, and only what no rule can tell is adopted."""
    story.tell().log.save(directory)
    found = replay(directory, PROFILES[version] if version in ASKED else None)
    assert [str(one) for one in found.contradictions] == []
    assert set(found.reasons) <= ONLY_THE_LOG_KNOWS


@pytest.mark.parametrize("version", VERSIONS)
def test_what_random_events_wrote_is_predicted(version, tmp_path):
    """One of each version."""
    check(version, RandomStory(version, Random(0)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_many_random_events_wrote_is_predicted(version, seed, tmp_path):
    """More of each version."""
    check(version, RandomStory(version, Random(seed)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("n_brokers", "seed"), [(3, 7001), (4, 5007), (6, 5021), (8, 5020)])
def test_what_longer_stories_of_more_brokers_wrote_is_predicted(
    version, n_brokers, seed, tmp_path
):
    """Topics that are created again, and deletions that meet several controllers."""
    check(version, RandomStory(version, Random(seed), n_brokers, 80, 6), tmp_path)


# --- the smallest log of each fault that random events have found ---------------------------------


def begin(version: str, assignment: str, *, trace: bool = True) -> LoggedController:
    """A cluster with one partition from before the log; its controller has just been elected."""
    leader = assignment[0]
    state = read_state(f"""
        partition  ar            isr           leader    epoch  state
        calm-0     {assignment}  {assignment}  {leader}  2      ONLINE
    """, brokers=list(BROKERS), controller_id=-1, leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version, trace)
    logged.fail_over(4)
    return logged


def wrong(logged: LoggedController, directory) -> list[str]:
    """What a replay of the logs contradicts or misses."""
    logged.log.save(directory)
    found = replay(directory, logged.controller.profile.name)
    return [str(one) for one in found.contradictions]


@pytest.mark.parametrize("version", ["2.4", "2.8", "3.9"])
@pytest.mark.parametrize(("assignment", "target", "trace"), [
    ("2,3,4", [2], True), ("1,2", [1], False),
])
def test_a_count_that_starts_anywhere_tells_no_records_apart(
    version, assignment, target, trace, tmp_path
):
    """A reassignment writes several records: the one that counts from 0 to a logged epoch."""
    logged = begin(version, assignment, trace=trace)
    logged.reassign("calm", 0, target)
    assert wrong(logged, tmp_path) == []


def test_a_new_controller_finds_a_reassignment_that_it_drops(tmp_path):
    """Its replicas are those assigned, in another order: up to 2.3 it does not go on."""
    logged = begin("2.0", "2,3,4")
    logged.create_topics({"swapped": [[1]]})
    logged.reassign("swapped", 0, [2, 1])
    logged.fail_over(3)
    assert wrong(logged, tmp_path) == []


def test_records_that_were_ruled_out_have_no_part_in_what_all_partitions_share(tmp_path):
    """Whether a failed broker led anything decides what is sent of topics that are deleted."""
    logged = begin("2.0", "2,3,4")
    logged.create_topics({"wide": [[1, 2, 3], [3, 1, 4]]})
    logged.delete(["wide"])
    logged.refuse("wide", 2)
    logged.acknowledge(["wide"])
    logged.shut_down(2)
    logged.change_brokers(failed=[2])
    assert wrong(logged, tmp_path) == []


def test_a_leaders_write_after_a_reassignment_is_none_of_its_writes(tmp_path):
    """It raises the version alone, and the next record that says both counts it too."""
    logged = begin("2.8", "2,1", trace=False)
    logged.create_topics({"wide": [[2, 1, 3]]})
    logged.reassign("wide", 0, [2, 4])
    logged.catch_up(BROKERS, reassigned=(("wide", 0), [2, 4]))
    logged.fail_over(1)
    logged.change_brokers(failed=[4])
    logged.change_brokers(started=[4])
    logged.catch_up([2, 3, 4])
    logged.change_brokers(failed=[2])
    assert wrong(logged, tmp_path) == []


def test_a_reassignment_that_is_asked_for_later_is_an_event_of_its_own(tmp_path):
    """Up to 2.3 one node asks for several, whose lines follow each other at once."""
    logged = begin("2.0", "2,3,4")
    logged.create_topics({"wide": [[2, 3, 4]]})
    logged.reassign("wide", 0, [3, 2])
    logged.reassign("wide", 0, [2, 3, 1])
    assert wrong(logged, tmp_path) == []


def test_a_partition_that_an_event_freed_is_not_one_of_its_name_from_before(tmp_path):
    """A topic is created and deleted again and again, each time with fewer replicas."""
    logged = begin("2.4", "2,3,4")
    for assigned in ([[1, 2], [2, 1]], [[2, 1]], [[1]]):
        logged.create_topics({"again": assigned})
        logged.delete(["again"])
        logged.acknowledge(["again"])
    assert wrong(logged, tmp_path) == []


def test_the_record_of_a_deleted_partition_follows_what_its_event_wrote_last(tmp_path):
    """Broker 3 is told the record when it starts; replica 1 then leaves the ISR before it does."""
    logged = begin("2.8", "2,1", trace=False)
    logged.create_topics({"wide": [[1, 3]]})
    logged.change_brokers(failed=[3])
    logged.change_brokers(failed=[1])
    logged.delete(["wide"])
    logged.change_brokers(started=[3])
    assert wrong(logged, tmp_path) == []


def test_a_line_takes_every_order_in_which_replicas_may_have_left_an_isr(tmp_path):
    """Brokers 1 and 2 fail at once; the move to 1 is called off, and it leaves once more."""
    logged = begin("2.8", "2,3,4", trace=False)
    logged.reassign("calm", 0, [2, 1, 3])
    logged.change_brokers(failed=[1, 2])
    logged.cancel("calm", 0)
    assert wrong(logged, tmp_path) == []
