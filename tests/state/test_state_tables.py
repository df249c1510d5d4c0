"""From Arrow tables to a state and back: defaults, assumptions, errors, round trips.

Lists become slots by the kernels `fill_slots` and `masks_of` of `kfast.kernels.tables`, and come
back by `measure_lists`, `expand_masks`, `mask_states` and `expand_states`.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from kfast import ArgumentError, ClusterState, InputError
from kfast.schema import BROKERS_SCHEMA, CLUSTER_SCHEMA, PARTITIONS_SCHEMA, TOPICS_SCHEMA
from tests.support.random_clusters import random_context
from tests.support.states import assert_reads
from tests.support.twin_state import state_of

TABLES = ("brokers", "topics", "partitions", "cluster")
SCHEMAS = dict(
    zip(TABLES, (BROKERS_SCHEMA, TOPICS_SCHEMA, PARTITIONS_SCHEMA, CLUSTER_SCHEMA), strict=True)
)


def table(name: str, **columns) -> pa.Table:
    """Some columns of one of the tables; `line` may stand as well."""
    kinds = {**{f.name: f.type for f in SCHEMAS[name]}, "line": pa.int32()}
    return pa.table({key: pa.array(values, kinds[key]) for key, values in columns.items()})


def partitions(**columns) -> pa.Table:
    """A table of partitions of one topic, unless it says otherwise."""
    n = len(next(iter(columns.values())))
    return table("partitions", **{"topic": ["t"] * n, "partition": list(range(n)), **columns})


def load(source=None, **tables) -> ClusterState:
    """A state of some tables."""
    return ClusterState.from_tables(**tables, source=source)


def reloaded(state: ClusterState, **options) -> ClusterState:
    """The state that its tables make."""
    tables = state.to_tables()
    return ClusterState.from_tables(
        tables.brokers, tables.topics, tables.partitions, tables.cluster, **options
    )


# --- defaults and assumptions -------------------------------------------------------------------


def test_what_is_not_said_gets_kafkas_defaults_and_is_listed():
    """`from_tables`: the assignment alone makes a cluster in which all is well."""
    state = load(partitions=partitions(replicas=[[3, 1], [2, 3]]))
    assert_reads(state, """
        partition  ar   isr  leader  epoch  version  controller  recovery  state  replicas
        t-0        3,1  1,3  3       0      0        0           0         -      -
        t-1        2,3  2,3  2       0      0        0           0         -      -
    """)
    assert state.broker_id.tolist() == [1, 2, 3]
    assert state.registered.all()
    assert not state.shutting_down.any()
    assert state.topic_exists.all()
    assert state.topic_min_insync_replicas.tolist() == [-1]
    assert (state.default_min_insync_replicas, state.default_unclean_leader_election) == (1, False)
    assert (state.delete_topic_enabled, state.leader_recovery_supported) == (True, True)
    assert state.rack.null_count == 3
    said = "\n".join(state.assumptions)
    for words in (
        "min.insync.replicas", "unclean.leader.election.enable", "the ISR of 2 partitions",
        "the leader of 2 partitions", "every broker that a partition names is registered",
    ):
        assert words in said


def test_only_what_was_missing_is_assumed():
    """A null is filled; a value is kept, and nothing is said of it."""
    cluster = table(
        "cluster", default_min_insync_replicas=[2], default_unclean_leader_election=[True]
    )
    brokers = table("brokers", broker_id=[2, 1])
    state = load(
        brokers=brokers, cluster=cluster,
        partitions=partitions(
            replicas=[[1, 2], [2, 1]], isr=[None, [2]], leader=[None, -1], leader_epoch=[4, None]
        ),
    )
    assert_reads(state, """
        partition  ar   isr  leader  epoch
        t-0        1,2  1,2  1       4
        t-1        2,1  2    -       0
    """)
    assert state.assumptions == (
        "the ISR of 1 partitions is not given: all assigned replicas are taken",
        "the leader of 1 partitions is not given: the first assigned replica is taken",
    )
    whole = load(brokers=brokers, cluster=cluster, partitions=partitions(
        replicas=[[1, 2]], isr=[[1]], leader=[1]
    ))
    assert whole.assumptions == ()


OWN = "; the others have their own value"


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize(
    ("min_isr", "unclean", "for_min_isr", "for_unclean"),
    [
        ([None, None, None], [True, None, None], "all 3 topics", f"2 of 3 topics{OWN}"),
        ([2, 1, None], [False, False, True], f"1 of 3 topics{OWN}", None),
        ([2, 1, 1], [True, True, True], None, None),
        ([None], [True], "the topic", None),
    ],
)
def test_a_default_is_assumed_for_the_topics_that_have_no_value(
    min_isr, unclean, for_min_isr, for_unclean, flat
):
    """And for no other; where the brokers' value is given nothing is assumed."""
    topics = table(
        "topics", topic=["t", "u", "v"][: len(min_isr)], min_insync_replicas=min_isr,
        unclean_leader_election=unclean,
    )
    tables = load(
        brokers=table("brokers", broker_id=[1, 2]), topics=topics,
        partitions=partitions(replicas=[[1, 2]], isr=[[1]], leader=[1]),
    ).to_tables(flat=flat)
    shown = {"brokers": tables.brokers, "topics": topics, "partitions": tables.partitions}
    assert list(load(**shown).assumptions) == [
        f"{setting} of the brokers is not given: {default}, Kafka's default, is taken for {which}"
        for setting, default, which in (
            ("min.insync.replicas", 1, for_min_isr),
            ("unclean.leader.election.enable", "false", for_unclean),
        )
        if which is not None
    ]
    cluster = table(
        "cluster", default_min_insync_replicas=[1], default_unclean_leader_election=[False]
    )
    assert load(**shown, cluster=cluster).assumptions == ()


def test_a_broker_that_is_not_listed_is_not_registered():
    """Where a table of brokers is given, it says all that are up."""
    state = load(
        brokers=table("brokers", broker_id=[1], rack=["a"], epoch=[7]),
        partitions=partitions(replicas=[[1, 3]], isr=[[1]], leader=[1]),
    )
    assert state.broker_id.tolist() == [1, 3]
    assert state.registered.tolist() == [True, False]
    assert state.broker_epoch.tolist() == [7, 0]
    assert state.rack.to_pylist() == ["a", None]
    assert "not listed are not registered: 3" in state.assumptions[-1]


def test_isr_members_that_are_not_assigned_are_kept_and_reported():
    """Issue: kept, and reported with file and line."""
    state = load("describe.txt", partitions=partitions(
        replicas=[[1, 2], [1]], isr=[[1], [1, 4, 3]], leader=[1, 1], line=[5, 9]
    ))
    assert state.leadership(1).isr == (1, 4, 3)
    assert state.assumptions[-1] == (
        "describe.txt line 9: the ISR of t-1 names 4, 3, which is not assigned; kept"
    )


def test_many_unassigned_isr_members_are_counted():
    """Eight are named, the rest is a number."""
    n = 11
    state = load(partitions=partitions(replicas=[[1]] * n, isr=[[1, 2]] * n, leader=[1] * n))
    said = [line for line in state.assumptions if "not assigned" in line]
    assert len(said) == 9
    assert said[-1].startswith("3 more partitions")


def test_notes_of_a_reader_come_first():
    """What a reader assumed stands before what the tables left open."""
    state = ClusterState.from_tables(partitions=partitions(replicas=[[1]]), notes=["so it is"])
    assert state.assumptions[0] == "so it is"
    assert len(state.assumptions) > 1


def test_an_empty_cluster_is_a_cluster():
    """No table at all, or tables without rows."""
    for state in (load(), load(**{name: SCHEMAS[name].empty_table() for name in TABLES})):
        assert (state.n_brokers, state.n_topics, state.n_partitions) == (0, 0, 0)
        assert state.difference(reloaded(state)) is None
        assert state.copy().digest() == state.digest()


def test_a_row_without_an_assignment_is_not_one_with_an_empty_assignment():
    """Section 1.3: null is unknown, an empty list is known."""
    state = load(partitions=partitions(replicas=[None, []], isr=[[], []], leader=[None, -1]))
    assert state.to_tables().partitions.column("replicas").to_pylist() == [None, []]
    assert [state.leadership(row) is None for row in (0, 1)] == [True, False]


# --- errors -------------------------------------------------------------------------------------

SIX = list(range(65))
ONE, TWO = [[1]], [[1], [1]]
ONCE = "each broker may stand once"
STATES = "replica_states of {} has {} states for 1 brokers; one each is right"
WRONG_PARTITIONS = [
    ({"topic": ["t", "u", "t"], "partition": [1] * 3, "replicas": ONE * 3, "line": [4, 6, 8]},
     " line 8: partition t-1 stands twice, first at line 4; each partition may stand once"),
    ({"replicas": [[1], [2, 3, 2]], "line": [4, 6]},
     f" line 6: Replicas of t-1 names broker 2 twice; {ONCE}"),
    ({"replicas": ONE, "isr": [[1, 1]], "line": [4]},
     f" line 4: Isr of t-0 names broker 1 twice; {ONCE}"),
    ({"replicas": [[1, 2]], "adding": [[2, 2]], "line": [4]},
     f" line 4: adding of t-0 names broker 2 twice; {ONCE}"),
    ({"replicas": [[1], [1, -4]], "line": [4, 6]},
     " line 6: replicas names broker -4; broker ids are 0 or more"),
    ({"partition": [0, -1], "replicas": TWO, "line": [4, 6]}, " line 6: partition -1 is negative"),
    ({"replicas": ONE, "leader": [-7], "line": [4]},
     " line 4: leader -7 is not a broker id; allowed: 0 or more, -1 for none"),
    # -3 is the reader's own null.
    ({"replicas": ONE, "leader": [-3], "line": [4]},
     " line 4: leader -3 is not a broker id; allowed: 0 or more, -1 for none"),
    ({"replicas": [[1], SIX], "line": [4, 6]},
     " line 6: t-1 names more than 64 brokers; at most 64 are allowed"),
    ({"replicas": [SIX[:64]], "leader": [64], "line": [4]},
     " line 4: t-0 names more than 64 brokers; at most 64 are allowed"),
    ({"topic": ["t", None], "replicas": TWO, "line": [4, 6]}, " line 6: topic is missing"),
    ({"partition": [0, None], "replicas": TWO, "line": [4, 6]}, " line 6: partition is missing"),
    ({"partition": [0, -1], "replicas": TWO}, ": partitions row 1: partition -1 is negative"),
    ({"replicas": [[1, None]]}, ": a list of replicas of partitions has an empty place"),
    ({"replicas": ONE, "replica_state_broker_ids": ONE, "replica_states": [[2, 2]]},
     f": partitions row 0: {STATES.format('t-0', 2)}"),
    ({"replicas": TWO, "replica_state_broker_ids": TWO, "replica_states": [[2], []]},
     f": partitions row 1: {STATES.format('t-1', 0)}"),
    # As many states as brokers, but of other rows.
    ({"replicas": TWO, "replica_state_broker_ids": TWO, "replica_states": [[], [2, 2]]},
     f": partitions row 0: {STATES.format('t-0', 0)}"),
]
"""Columns, and the message behind the name of the source."""


@pytest.mark.parametrize(("columns", "message"), WRONG_PARTITIONS)
def test_a_wrong_partition_is_one_clear_line(columns, message):
    """File, line, partition, what was found, what is right."""
    with pytest.raises(InputError) as raised:
        load("f.txt", partitions=partitions(**columns))
    assert str(raised.value) == f"f.txt{message}"


WRONG_OTHERS = [
    ("brokers", table("brokers", broker_id=[1, 2, 1]), "brokers row 2: broker stands twice"),
    ("brokers", table("brokers", broker_id=[1, -2]), "brokers row 1: broker id -2 is negative"),
    ("brokers", table("brokers", broker_id=[1, None]), "brokers row 1: broker_id is missing"),
    ("topics", table("topics", topic=["t", "u", "t"]), "topics row 2: the topic stands twice"),
    ("partitions", pa.table({"topic": ["t"], "partition": [0], "replicas": ["1,2"]}),
     "column replicas of partitions is string; list<item: int32> is right"),
]


@pytest.mark.parametrize(("name", "wrong", "message"), WRONG_OTHERS)
def test_a_wrong_table_is_one_clear_line(name, wrong, message):
    """Without a source, the table itself is named."""
    with pytest.raises(InputError) as raised:
        load(**{name: wrong})
    assert str(raised.value) == f"table {name}: {message}"


def test_an_input_error_is_a_value_error():
    """A caller who knows nothing of kfast can catch it."""
    with pytest.raises(ValueError, match="negative"):
        load(partitions=partitions(partition=[-1], replicas=[[1]]))


# --- round trips --------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["narrow", "wide"])
def test_a_state_is_what_its_tables_say(layout):
    """`from_tables` of `to_tables`: every column, the digest, the counters."""
    for seed in range(15):
        state = state_of(random_context(Random(seed)), layout)
        again = reloaded(state, layout=layout)
        assert all("is not assigned; kept" in said for said in again.assumptions)
        assert state.difference(again) is None
        assert state.digest() == again.digest()
        assert again.preferred_imbalance_count == state.preferred_imbalance_count
        for name in TABLES:
            assert getattr(state.to_tables(), name).equals(getattr(again.to_tables(), name))


def test_damaged_input_comes_back_as_it_was():
    """ISR members and adding brokers that are not assigned; the order of hand-made lists."""
    given = partitions(
        replicas=[[3, 1, 2], [1], [], [5, 4]], isr=[[2, 9], [], [7], [4, 5]],
        adding=[[2, 3], [8, 6], [], [4]], removing=[[1, 3], [], [], []],
        offline_dir=[[9], [1], [2], []], leader=[9, -1, 6, -1], leader_epoch=[1, 2, 3, 4],
        recovery=[1, 0, 1, 0], partition_state=[3, -1, 0, 2],
        being_reassigned=[True, False, True, False],
        replica_state_broker_ids=[[11, 2], [], [2], [5]], replica_states=[[1, 7], [], [6], [2]],
    )
    state = load(partitions=given)
    found = state.to_tables().partitions
    for name in given.column_names:
        wanted, seen = given.column(name).to_pylist(), found.column(name).to_pylist()
        if name in ("isr", "offline_dir"):
            wanted, seen = [[sorted(x) for x in lists] for lists in (wanted, seen)]
        if name in ("replica_state_broker_ids", "replica_states"):
            continue
        assert seen == wanted, name
    assert [state.replica_states_of(row) for row in range(4)] == [
        {11: 1, 2: 7}, {}, {2: 6}, {5: 2}
    ]
    assert state.assignment(0).adding == (2, 3)
    assert state.assignment(0).removing == (1, 3)
    assert state.difference(reloaded(state)) is None
    assert state.difference(state.copy()) is None


def test_tables_may_be_chunked_sliced_dictionary_encoded_and_of_other_integers():
    """What pandas, Polars and Parquet make of the same columns."""
    plain = partitions(replicas=[[1, 2], [2], [3, 1]], isr=[[1], [2], [1]], leader=[1, 2, 1])
    wanted = load(partitions=plain)
    chunked = pa.concat_tables([plain.slice(0, 1), plain.slice(1)])
    padded = pa.concat_tables([plain, plain]).slice(3)
    encoded = plain.set_column(0, "topic", plain.column("topic").dictionary_encode())
    other = plain.set_column(1, "partition", plain.column("partition").cast(pa.int64()))
    for given in (chunked, padded, encoded, other):
        assert load(partitions=given).difference(wanted) is None


def test_tables_speak_the_capsule_protocol():
    """Other libraries take them without kfast importing those."""
    tables = load(partitions=partitions(replicas=[[1]])).to_tables()
    for name in TABLES:
        assert hasattr(getattr(tables, name), "__arrow_c_stream__")
        assert getattr(tables, name).cast(SCHEMAS[name]).schema.equals(SCHEMAS[name])


def test_from_assignment_makes_what_from_tables_makes():
    """The short way for a fresh cluster: the first replica leads, all are in sync."""
    for kind in (np.uint16, np.int32):
        state = ClusterState.from_assignment(
            broker_id=np.array([4, 7, 9], np.int32), rack=pa.array(["a", "b", None]),
            topic=pa.array(["t"]), topic_row=np.zeros(2, np.int32),
            partition=np.arange(2, dtype=np.int32), replicas=np.array([[2, 0], [0, 1]], kind),
        )
        wanted = load(
            brokers=table("brokers", broker_id=[4, 7, 9], rack=["a", "b", None]),
            partitions=partitions(replicas=[[9, 4], [4, 7]]),
        )
        assert state.difference(wanted) is None
        assert state.digest() == wanted.digest()
        assert state.layout == ("narrow" if kind is np.uint16 else "wide")


@pytest.mark.parametrize(
    ("layout", "n_replicas", "message"),
    [
        ("narrow", 9, "layout 'narrow' holds 8 brokers a partition .* here are 9 and 9"),
        ("flat", 3, "layout 'flat' is unknown; allowed: 'narrow', 'wide'"),
    ],
)
def test_a_layout_that_cannot_hold_the_cluster_is_refused(layout, n_replicas, message):
    with pytest.raises(ArgumentError, match=message):
        ClusterState.from_tables(
            partitions=partitions(replicas=[list(range(n_replicas))]), layout=layout
        )
