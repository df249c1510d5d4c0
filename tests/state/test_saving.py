"""A cluster saved in a directory: whole or not at all, and mapped when it is opened."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from random import Random

import numpy as np
import pytest

import kfast
from kfast.state import saved_state
from kfast.state.cluster import with_controller
from tests.support.random_clusters import random_context
from tests.support.states import read_state
from tests.support.twin_state import state_of

TEXT = """
    partition  ar     isr  leader  epoch  state
    t-0        1,2,3  1    1       7      ONLINE
    t-1        2,3    2,3  3       4      ONLINE
"""


@pytest.mark.parametrize("seed", range(12))
def test_a_saved_state_is_the_same_when_opened(tmp_path, seed):
    """Every column, the strings, and what hand-made states have besides."""
    state = state_of(random_context(Random(seed)))
    state.save(tmp_path / "cluster")
    opened = kfast.open(tmp_path / "cluster")
    assert opened.difference(state) is None
    assert opened.digest() == state.digest()
    assert opened.list_orders == state.list_orders
    assert opened.assumptions == state.assumptions


def test_events_on_a_copy_are_those_on_the_state(tmp_path):
    """A copy has memory of its own; what was opened stays as it was."""
    state = kfast.generate(brokers=12, partitions=2000, racks=3)
    kfast.Controller(state).on_controller_failover()
    state.save(tmp_path / "cluster")
    opened = kfast.open(tmp_path / "cluster")
    before, copy = opened.digest(), opened.copy()
    for each in (state, copy):
        kfast.Controller(each).on_broker_failure([3, 4])
    assert copy.digest() == state.digest() != before
    assert opened.digest() == before


def test_an_opened_state_is_read_only_and_can_be_asked(tmp_path):
    """A controller refuses it; questions are answered."""
    state = read_state(TEXT)
    state.save(tmp_path / "cluster")
    opened = kfast.open(tmp_path / "cluster")
    assert opened.is_read_only
    assert not state.is_read_only
    assert isinstance(opened.records.base, np.memmap)
    with pytest.raises(kfast.ArgumentError, match=r"read-only.*state\.copy\(\)"):
        kfast.Controller(opened)
    assert opened.replicas_on_brokers([3]).rows.tolist() == [0, 1]
    assert kfast.take_census(opened).counts == kfast.take_census(state).counts


def test_saving_again_replaces_the_directory(tmp_path):
    """Nothing of the old state, and nothing else, is left."""
    first, second = read_state(TEXT), kfast.generate(brokers=3, partitions=50)
    first.save(tmp_path / "cluster")
    second.save(tmp_path / "cluster")
    assert kfast.open(tmp_path / "cluster").digest() == second.digest()
    assert [path.name for path in tmp_path.iterdir()] == ["cluster"]


@pytest.mark.parametrize("crash", range(1, 22))
def test_a_crash_in_the_middle_leaves_the_old_state_or_none(tmp_path, monkeypatch, crash):
    """Whichever write or move is the last that happens, what is there can be opened."""
    old, new = read_state(TEXT), kfast.generate(brokers=3, partitions=50)
    old.save(tmp_path / "cluster")
    calls = [0]

    def failing(real):
        def call(*args):
            calls[0] += 1
            if calls[0] == crash:
                raise OSError("the machine stops here")
            return real(*args)
        return call

    monkeypatch.setattr(os, "fsync", failing(os.fsync))
    monkeypatch.setattr(os, "rename", failing(os.rename))
    with contextlib.suppress(OSError):
        new.save(tmp_path / "cluster")
    if (tmp_path / "cluster").exists():
        assert kfast.open(tmp_path / "cluster").digest() in (old.digest(), new.digest())


def test_large_columns_go_to_the_disk_piece_by_piece(tmp_path, monkeypatch):
    """Pieces smaller than most columns, and not a divisor of their sizes: every byte is there."""
    monkeypatch.setattr(saved_state, "PIECE_BYTES", 1000)
    state = kfast.generate(brokers=12, partitions=2001, racks=3)
    kfast.Controller(state).on_controller_failover()
    state.save(tmp_path / "cluster")
    assert kfast.open(tmp_path / "cluster").difference(state) is None


SAVER = """
import sys
import kfast
from kfast.state import saved_state
from kfast.state.cluster import with_controller

saved_state.PIECE_BYTES = 1000
new = kfast.generate(brokers=3, partitions=3000)
print("ready", flush=True)
while True:
    new.save(sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_kill_at_any_moment_leaves_the_old_state_the_new_one_or_none(tmp_path, seed):
    """The process is killed while it saves again and again; what is left can be opened."""
    old, new = read_state(TEXT), kfast.generate(brokers=3, partitions=3000)
    place = tmp_path / "cluster"
    old.save(place)
    command = [sys.executable, "-c", SAVER, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as saver:
        assert saver.stdout.readline() == b"ready\n"
        time.sleep(Random(seed).uniform(0, 0.1))
        saver.kill()
    if place.exists():
        assert kfast.open(place).digest() in (old.digest(), new.digest())
    new.save(place)
    assert kfast.open(place).digest() == new.digest()


def test_something_else_in_the_way_is_left_alone(tmp_path):
    """Only a saved state, or an empty directory, is replaced."""
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "thesis.txt").write_text("years of work")
    with pytest.raises(kfast.InputError, match="in the way"):
        read_state(TEXT).save(tmp_path / "cluster")
    assert (tmp_path / "cluster" / "thesis.txt").read_text() == "years of work"


def damage_json(place):
    (place / "state.json").write_text("{")


def damage_column(place):
    file = place / "records.npy"
    file.write_bytes(file.read_bytes()[:-9])


def lose_column(place):
    (place / "replicas.npy").unlink()


def swap_columns(place):
    (place / "topic_row.npy").write_bytes((place / "broker_id.npy").read_bytes())


def damage_names(place):
    (place / "topic.arrow").write_bytes(b"ARROW1")


def come_from_the_future(place):
    file = place / "state.json"
    file.write_text(file.read_text().replace('"format":3', '"format":9'))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (damage_json, r"state\.json is damaged"), (damage_column, r"records\.npy is .*damaged"),
        (lose_column, r"replicas\.npy is missing"), (swap_columns, r"topic_row\.npy is .*checksum"),
        (damage_names, r"topic\.arrow is .*damaged"), (come_from_the_future, "format 9"),
    ],
)
def test_damage_is_named_by_file(tmp_path, damage, said):
    """The file at fault, and what is wrong with it."""
    read_state(TEXT).save(tmp_path / "cluster")
    damage(tmp_path / "cluster")
    with pytest.raises(kfast.InputError, match=said):
        kfast.open(tmp_path / "cluster")


def test_other_columns_are_refused_unverified(tmp_path):
    """What is read of every file shows that it is another one."""
    read_state(TEXT).save(tmp_path / "cluster")
    assert kfast.open(tmp_path / "cluster", verify=False).digest() == read_state(TEXT).digest()
    swap_columns(tmp_path / "cluster")
    with pytest.raises(kfast.InputError, match=r"topic_row\.npy is .* 12 bytes; right .* 8"):
        kfast.open(tmp_path / "cluster", verify=False)
    read_state(TEXT).save(tmp_path / "cluster")
    shutil.copy(tmp_path / "cluster" / "pending.npy", tmp_path / "cluster" / "topic_flags.npy")
    with pytest.raises(kfast.InputError, match=r"topic_flags\.npy is .* 8 bytes; right .* 1"):
        kfast.open(tmp_path / "cluster", verify=False)


def saved_kraft(place):
    """Save a KRaft cluster with all columns that there are."""
    state = kfast.generate(brokers=6, partitions=40, topics=4, racks=3)
    state = with_controller(state, "kraft-4.1", elr=True)
    controller = kfast.QuorumController(state)
    for broker in (0, 1, 2):
        controller.fence_broker(broker)
    state.quorum.allocate_orders()
    assert state.quorum.elr.any()
    state.index_hosting()
    return state


@pytest.mark.parametrize("kraft", [False, True], ids=["zk", "kraft"])
def test_a_file_that_is_cut_or_changed_anywhere_is_refused_by_name(tmp_path, kraft):
    """At 12 random bytes of each file, and at its first and last 8, cut and changed."""
    place = tmp_path / "cluster"
    (saved_kraft(place) if kraft else read_state(TEXT)).save(place)
    random = Random(1)
    for file in sorted(place.iterdir()):
        data = file.read_bytes()
        places = {*range(8), *range(len(data) - 8, len(data))}
        for at in sorted(places | {random.randrange(len(data)) for _ in range(12)}):
            changed = data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
            for damaged in (data[:at], changed):
                file.write_bytes(damaged)
                with pytest.raises(kfast.InputError, match=re.escape(file.name.split(".")[0])):
                    kfast.open(place)
        file.write_bytes(data)
    assert kfast.open(place).n_partitions


def field(name, value):
    return lambda state: state.records[name].__setitem__(1, value)


def entry(name, value, at=(1,)):
    def change(state):
        owner = state if hasattr(state, name) else state.quorum
        getattr(owner, name)[at] = value
    return change


def hosting(name, value, at):
    return lambda state: getattr(state.index_hosting(), name).__setitem__(at, value)


POINTING_OUTSIDE = {
    "leader": field("leader", 600), "leader below": field("leader", -9),
    "leader without a slot": lambda state: state.records["leader"].__setitem__(
        1, np.setdiff1d(np.arange(6), state.replicas[1])[0]),
    "isr": field("isr", 255), "adding": field("adding", 128), "slots": field("n_slots", 200),
    "replicas of a partition": field("n_replicas", 7), "state": field("partition_state", 77),
    "flags": field("flags", 255), "broker": entry("replicas", 6, (1, 0)),
    "broker twice": lambda state: state.replicas.__setitem__((1, 0), state.replicas[1, 1]),
    "replica state": entry("replica_state", 8, (1, 0)), "topic": entry("topic_row", 4),
    "topic below": entry("topic_row", -1), "partition": entry("partition", -7),
    "free": entry("partition", -1), "ids": entry("broker_id", 9, (0,)),
    "bitmap": entry("pending", 1 << 41, (0,)), "offline": entry("leader_offline", 1 << 63, (0,)),
    "hosted": hosting("hosted", 40, 3), "hosted below": hosting("hosted", -1, 0),
    "begin": hosting("begin", 10**9, 2), "begin below": hosting("begin", -5, 1),
    "elr": entry("elr", 200), "last known": entry("last_known_elr", 6),
    "order": entry("member_order", 63, (1, 0)), "order twice": entry("member_order", 0, 1),
    "directory": lambda state: setattr(
        state.quorum, "directory", np.full(state.replicas.shape, 3, np.int32)),
    "cut": lambda state: setattr(state, "topic_flags", state.topic_flags[:1].copy()),
}


@pytest.mark.kernels
@pytest.mark.parametrize("name", POINTING_OUTSIDE)
def test_a_saved_state_that_points_outside_its_tables_is_refused(tmp_path, name):
    """Its checksums are right: whoever made it meant kernels to read and write elsewhere."""
    state = saved_kraft(tmp_path)
    POINTING_OUTSIDE[name](state)
    state.save(tmp_path / "cluster")
    with pytest.raises(kfast.InputError, match=r": right is "):
        kfast.open(tmp_path / "cluster")


def test_a_directory_without_a_state_is_refused(tmp_path):
    """The name of what was asked for is in the message."""
    with pytest.raises(kfast.InputError, match="nothing holds no saved state"):
        kfast.open(tmp_path / "nothing")


def reassigning() -> kfast.ClusterState:
    """Give a cluster in which Kafka 2.0 moves t-0 to a broker that is down."""
    state = kfast.generate(brokers=6, partitions=20, topics=5, seed=1)
    controller = kfast.Controller(state, profile="zk-2.0")
    controller.on_controller_failover()
    controller.on_broker_failure([5])
    controller.reassign_partitions({("topic-0", 0): [0, 1, 5]})
    assert state.n_reassigned == 1
    return state


def test_a_saved_state_knows_where_reassignments_before_2_4_go(tmp_path):
    state = reassigning()
    state.save(tmp_path / "cluster")
    ends = []
    for one in (state, kfast.open(tmp_path / "cluster").copy()):
        controller = kfast.Controller(one, profile="zk-2.0")
        controller.on_broker_startup([5])
        controller.catch_up([1, 5])
        ends.append((one.digest(), one.n_reassigned, one.assignment(0).replicas))
    assert ends[0] == ends[1]
    assert ends[0][1:] == (0, (0, 1, 5))


def test_tables_say_that_partitions_are_reassigned_and_not_where_to():
    """Before 2.4 that is known to the controller alone; the next one forgets it."""
    tables = reassigning().to_tables()
    state = kfast.ClusterState.from_tables(
        tables.brokers, tables.topics, tables.partitions, tables.cluster
    )
    controller = kfast.Controller(state, profile="zk-2.0")
    assert state.n_reassigned == 1
    assert controller.on_broker_startup([5]).error is None
    assert controller.catch_up([5]).error is None
    assert controller.on_partition_reassignment([0]).error == "NoSuchElement"
    assert controller.reassign_partitions({("topic-1", 0): [1]}).error == "REASSIGNMENT_IN_PROGRESS"
    controller.on_controller_failover()
    assert state.n_reassigned == 0
    assert state.assignment(0).replicas == (0, 1, 5, 2)
