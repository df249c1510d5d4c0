"""Topics and partitions are created or vanish (docs/controller.md, section 6.4)."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from kfast import ArgumentError, Controller, Store, take_census
from tests.support.states import QUIET, assert_reads, read_state

ONE = """
    partition  ar  isr  leader  epoch  state
    t-0        1   1    1       7      ONLINE
"""


def test_a_new_topic_gets_its_leaders():
    """`new_partitions`: the first online replica leads; all online ones are in sync."""
    state = read_state(ONE, brokers=[2, 3], down=[3])
    Controller(state).on_topic_change({"n": {0: [1, 2], 1: [3, 2], 2: [3]}})
    assert_reads(state, """
        partition  ar   isr  leader  epoch  controller  state   replicas
        t-0        1    1    1       7      3           ONLINE  1:ONLINE
        n-0        1,2  1,2  1       0      3           ONLINE  1:ONLINE,2:ONLINE
        n-1        3,2  2    2       0      3           ONLINE  2:ONLINE,3:ONLINE
        n-2        3    -    -       -      -           NEW     3:ONLINE
    """)
    assert state.preferred_imbalance_count == 1
    assert state.offline_partition_count == 0


def test_only_the_third_step_sends():
    """Section 6.4: LeaderAndIsr as new to the online replicas, UpdateMetadata to all."""
    state = read_state(ONE, brokers=[2, 3], down=[3])
    outcome = Controller(state, journal="full").on_topic_change({"n": {0: [1, 3]}})
    sent = [
        (r["step"], r["kind"], r["broker_id"], r["is_new"]) for r in outcome.requests.to_pylist()
    ]
    assert sent == [(2, "LeaderAndIsr", 1, True)]
    assert outcome.update_metadata_brokers.to_pylist() == [
        {"step": 2, "broker_id": 1}, {"step": 2, "broker_id": 2},
    ]
    assert [r["code"] for r in outcome.refusals.to_pylist()] == []


def test_a_topic_that_comes_back_meets_its_old_states():
    """Section 6.4, note: its transitions to New are refused, and it gets no leader."""
    state = read_state(QUIET)
    controller = Controller(state, journal="full")
    controller.on_topic_change(gone=["u"])
    assert (state.topic_exists.tolist(), state.leadership(2)) == ([True, False], None)
    assert state.replica_states_of(2) != {}
    assert controller.gauges()["GlobalTopicCount"] == 1
    outcome = controller.on_topic_change({"u": {0: [2, 3]}})
    errors = {(r["broker_id"], r["error"]) for r in outcome.refusals.to_pylist()}
    assert (None, "IllegalState") in errors
    assert state.leadership(2) is None
    assert state.topic_exists.all()


def test_partitions_are_added_to_a_topic():
    """Topic node modified: only partitions without cached replicas are set up."""
    state = read_state(ONE, brokers=[2])
    Controller(state).on_partition_modifications("t", {0: [2], 1: [2, 1]})
    assert_reads(state, """
        partition  ar   isr  leader  epoch  state
        t-0        1    1    1       7      ONLINE
        t-1        2,1  1,2  2       0      ONLINE
    """)


def test_nothing_is_added_to_a_queued_topic():
    """Topic node modified, queued topic: only the store is written back."""
    state = read_state(ONE, brokers=[2], queued=["t"])
    before = state.copy()
    outcome = Controller(state).on_partition_modifications("t", {1: [2, 1]})
    assert state == before
    assert outcome.steps.num_rows == 0


def test_new_topics_may_come_as_a_table():
    """A table has columns topic, partition and replicas, of whatever integers."""
    state = read_state(ONE, brokers=[2])
    table = pa.table({"topic": ["n", "m"], "partition": [0, 0], "replicas": [[2], [1, 2]]})
    Controller(state).on_topic_change(table)
    assert state.topic.to_pylist() == ["t", "n", "m"]
    assert [state.leadership(row).leader for row in (1, 2)] == [2, 1]


UNCLEAN, MIN_ISR = "unclean.leader.election.enable", "min.insync.replicas"


@pytest.mark.parametrize("with_store", [False, True], ids=["cache", "store"])
@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize("configured", [None, False, True])
def test_a_new_topic_elects_by_its_own_configuration(configured, default, with_store):
    """Unclean elections: the topic's word, else the brokers' (sections 4.2 and 6.4)."""
    state = read_state(ONE, brokers=[2, 3])
    state.set_unclean_leader_election(default)
    controller = Controller(state, store=Store(state) if with_store else None)
    configs = {} if configured is None else {"n": {UNCLEAN: configured}}
    controller.on_topic_change({"n": {0: [2, 3]}}, configs=configs)
    controller.on_broker_failure([3])       # the ISR is 2 alone
    controller.on_broker_failure([2])
    controller.on_broker_startup([3])       # which is not in it
    elected = default if configured is None else configured
    assert state.leadership(1).leader == (3 if elected else -1)
    assert state.unclean_elections == elected


def test_a_new_topic_has_its_min_isr_from_the_start():
    """Of two live replicas three are needed, of the other topic's as the brokers say."""
    state = read_state(ONE, brokers=[2, 3], down=[3])
    Controller(state).on_topic_change(
        {"n": {0: [1, 2, 3]}, "m": {0: [1, 2, 3]}}, configs={"n": {MIN_ISR: 3}}
    )
    census = take_census(state)
    assert census.flags("under_min_isr").tolist() == [False, True, False]
    assert state.to_tables().topics.select(["topic", "min_insync_replicas"]).to_pylist() == [
        {"topic": "t", "min_insync_replicas": None}, {"topic": "n", "min_insync_replicas": 3},
        {"topic": "m", "min_insync_replicas": None},
    ]


def test_configurations_change_nothing_else():
    """The same rows, and the same state but for the two columns."""
    created = {"b": {1: [2, 1], 0: [1]}, "a": {0: [1, 2]}}
    plain, configured = read_state(ONE, brokers=[2]), read_state(ONE, brokers=[2])
    Controller(plain).on_topic_change(created)
    Controller(configured).on_topic_change(created, configs={"a": {MIN_ISR: 2, UNCLEAN: True}})
    assert configured.topic.to_pylist() == plain.topic.to_pylist() == ["t", "b", "a"]
    assert plain.difference(configured) is not None
    plain.topic_min_insync_replicas[2] = 2
    plain.set_unclean_leader_election(True, ["a"])
    assert plain == configured


def test_a_topic_that_comes_back_has_its_new_configuration_only():
    """Kafka writes all of it when it creates a topic; without any, what was there stays."""
    state = read_state(ONE, brokers=[2])
    controller = Controller(state)
    controller.on_topic_change({"n": {0: [2]}}, configs={"n": {MIN_ISR: 2, UNCLEAN: True}})

    def come_back(**configs):
        controller.on_topic_change(gone=["n"])
        controller.on_topic_change({"n": {0: [2]}}, **configs)
        row = state.find_topics(["n"])[0]
        return (
            int(state.topic_min_insync_replicas[row]), int(state.topic_unclean_leader_election[row])
        )

    assert come_back() == (2, 1)
    assert come_back(configs={"n": {UNCLEAN: False}}) == (-1, 0)
    assert come_back(configs={"n": {}}) == (-1, -1)


@pytest.mark.parametrize("values", [(2, True), ("2", "true"), (np.int64(2), np.True_)])
def test_values_may_be_text_as_in_kafka(values):
    state = read_state(ONE, brokers=[2])
    config = dict(zip((MIN_ISR, UNCLEAN), values, strict=True))
    Controller(state).on_topic_change({"n": {0: [2]}}, configs={"n": config})
    assert state.topic_min_insync_replicas.tolist() == [-1, 2]
    assert state.topic_unclean_leader_election.tolist() == [-1, 1]


NO_CONFIGS = {
    "a list": (["n"], "configs is ['n']: a mapping of topics to mappings of configs to values"),
    "a value": ({"n": 2}, "configs is {'n': 2}: a mapping of topics to mappings of configs"),
    "another topic": ({"x": {}}, "configs names topic 'x', which this call does not create"),
    "an old topic": ({"t": {UNCLEAN: True}}, "configs names topic 't', which this call does not"),
    "no name": ({1: {}}, "configs names topic 1, which this call does not create"),
    "another config": (
        {"n": {"retention.ms": 1}},
        f"has 'retention.ms', which kfast does not use; these are: {MIN_ISR}, {UNCLEAN}",
    ),
    "a column's name": (
        {"n": {"min_insync_replicas": 2}}, "configs of topic 'n' has 'min_insync_replicas'",
    ),
    "none": ({"n": {MIN_ISR: 0}}, f"{MIN_ISR} of topic 'n': found 0; right is an integer of at"),
    "a fraction": ({"n": {MIN_ISR: 1.0}}, f"{MIN_ISR} of topic 'n': found 1.0; right is an"),
    "a truth": ({"n": {MIN_ISR: True}}, f"{MIN_ISR} of topic 'n': found True; right is an"),
    "too many": ({"n": {MIN_ISR: 2**31}}, f"{MIN_ISR} of topic 'n': found 2147483648; right is"),
    "far too many": ({"n": {MIN_ISR: 10**5000}}, "found an integer of 16610 bits"),
    "digits without end": ({"n": {MIN_ISR: "9" * 5000}}, f"{MIN_ISR} of topic 'n': found '999"),
    "null": ({"n": {MIN_ISR: None}}, f"{MIN_ISR} of topic 'n': found None; right is an"),
    "a number": ({"n": {UNCLEAN: 1}}, f"{UNCLEAN} of topic 'n': found 1; right is true or false"),
    "a word": ({"n": {UNCLEAN: "yes"}}, f"{UNCLEAN} of topic 'n': found 'yes'; right is true or"),
}


@pytest.mark.parametrize("name", NO_CONFIGS)
def test_configurations_that_cannot_be_are_refused_by_name(name):
    """Before anything changes: a vanished topic is still there."""
    configs, message = NO_CONFIGS[name]
    state = read_state(ONE)
    before = state.copy()
    with pytest.raises(ArgumentError, match=re.escape(message)):
        Controller(state).on_topic_change({"n": {0: [1]}}, gone=["t"], configs=configs)
    assert state == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.on_topic_change({"t": {3: [1]}}), "topic 't' exists already"),
        (lambda c: c.on_topic_change(gone=["x"]), "topic 'x' is unknown"),
        (lambda c: c.on_topic_change({"n": {0: [1, 1]}}), "replicas of n-0 names a broker twice"),
        (lambda c: c.on_topic_change({"n": {0: [-2]}}), "replicas names broker -2"),
        (lambda c: c.on_partition_modifications("x", {0: [1]}), "topic 'x' is unknown"),
    ],
)
def test_what_cannot_be_created_is_refused(call, message):
    """A caller's mistake: raised before anything changes."""
    state = read_state(ONE)
    before = state.copy()
    with pytest.raises(ArgumentError, match=message):
        call(Controller(state))
    assert state == before
