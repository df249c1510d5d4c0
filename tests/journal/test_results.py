"""Every table that kfast gives is what `kfast.schema` says, sorts, and names rows of the state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kfast
from kfast import schema
from kfast.journal.outcome import FULL_TABLES
from kfast.report.answer_diff import answer_diff
from kfast.report.replay import REPLAY_TABLES
from tests.conftest import ROOT
from tests.support.replay_story import write_logs

BY_NAME = {result.name: result for result in schema.RESULTS}
SPARK = {
    name for name in BY_NAME
    if name.partition(".")[0] in ("replicas", "assumptions", "fleet", "sharded", "pipeline")
}
"""Results that only Spark gives: `tests/spark/test_spark_results.py`."""

NAMES = sorted(set(BY_NAME) - SPARK)


def cluster():
    """A cluster with a dead broker, brokers without a rack, a reassignment and a shrunken ISR."""
    state = kfast.generate(
        brokers=8, partitions=120, topics=12, racks=3, seed=5, min_insync_replicas=2,
        unclean_topics=0.3,
    )
    tables = state.to_tables()
    racks = pa.array([None, *tables.brokers["rack"].to_pylist()[1:]], pa.string())
    brokers = tables.brokers.set_column(1, schema.BROKERS_SCHEMA.field("rack"), racks)
    state = kfast.ClusterState.from_tables(
        brokers, tables.topics, tables.partitions, tables.cluster
    )
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    controller.on_broker_failure([7])
    moved = next(r for r in range(120) if set(state.assignment(r).replicas) == {0, 1, 2})
    controller.alter_partition_reassignments({named(state, moved): [0, 1, 3]})
    return state


def named(state, row):
    """Topic and number of a partition."""
    return state.topic[int(state.topic_row[row])].as_py(), int(state.partition[row])


def outcomes(state):
    """Outcomes of events, at journal level full, that fill every table."""
    controller = kfast.Controller(state.copy(), journal="full")
    found = [controller.on_controller_failover(), controller.on_broker_failure([1, 2])]
    found.append(controller.controlled_shutdown(3))
    found.append(controller.on_broker_startup([1, 2]))
    found.append(controller.delete_topics([state.topic[0].as_py()]))
    return found


@pytest.fixture(scope="module")
def results(tmp_path_factory, shared_data):
    """Every table by its name, and of those with rows of partitions the state they are rows of."""
    state = cluster()
    tables, states = {}, {}
    for name in ("brokers", "topics", "partitions", "cluster"):
        tables[name] = getattr(state.to_tables(), name)
    events = outcomes(state)
    for name in ("steps", "request_counts", *FULL_TABLES):
        tables[f"outcome.{name}"] = pa.concat_tables([getattr(event, name) for event in events])
        states[f"outcome.{name}"] = state
    controller = kfast.Controller(state.copy())
    controller.on_controller_failover()
    asked = [named(state, row) for row in range(9)] + [("nothing", 0)]
    tables["outcome.replies"] = controller.elect_leaders(asked).replies
    tables["outcome.imbalance"] = controller.rebalance_leaders().imbalance
    tables["reassignments"] = controller.list_partition_reassignments()
    states |= dict.fromkeys(("outcome.replies", "reassignments"), state)
    for make in (questions, timeline_tables, quorum_tables, diff_tables):
        made = make(state)
        tables |= made
        states |= dict.fromkeys(made, state)
    tables["provenance"] = kfast.read(ROOT / "bench_data" / "describe.txt").provenance
    replayed = kfast.replay(write_logs(tmp_path_factory.mktemp("logs")))
    for name in REPLAY_TABLES:
        tables[f"replay.{name}"] = getattr(replayed, name)
    logs = kfast.read_intervals(write_logs(tmp_path_factory.mktemp("later"), "3.9"))
    fitted = kfast.fit_times(logs)
    tables |= {"timeline.intervals": logs, "timeline.fitted_intervals": fitted.intervals,
               "timeline.fitted": fitted.parameters}
    log = shared_data / "kraft_live" / "metadata" / "__cluster_metadata-0"
    recorded = kfast.replay_metadata(log)
    tables["replay.metadata_facts"] = recorded.facts
    tables["replay.reassignments"] = recorded.reassignments
    return tables, states


def timeline_tables(state):
    """Tables of when a failure's steps happen."""
    found = kfast.timeline(state, [1])
    names = "summary stages partitions leaderless sensitivity parameters"
    sweep = kfast.timeline_sweep(state, kfast.every_broker(state), samples=5)
    growth = kfast.timeline_growth([60], brokers=4, samples=5)
    compared = kfast.timeline_compare(state, [1], samples=5)
    restart = kfast.timeline_restart(state, [[1]], samples=5)
    return {f"timeline.{name}": getattr(found, name) for name in names.split()} | {
        "timeline.restart": restart.batches, "timeline.restart_summary": restart.summary,
        "timeline.sweep": sweep.summary, "timeline.compared": compared.summary,
        "timeline.differences": compared.differences, "timeline.growth": growth.table,
        "timeline.growth_sensitivity": growth.sensitivity}


def quorum_tables(state):
    """Tables that only a KRaft controller fills, of the cluster as it runs it."""
    quorum = kfast.with_controller(state, "kraft-4.1", elr=True)
    returned = kfast.fail_brokers(quorum, [0, 1, 2], then=[("start", [0, 1, 2])])
    controller = kfast.QuorumController(quorum.copy(), journal="full")
    controller.activate()
    asked = [*((state.topic[0].as_py(), number) for number in range(3)), ("nothing", 0)]
    return {
        "surprises": returned.surprises,
        "outcome.records": controller.fence_broker(1).records,
        "outcome.response": controller.elect_leaders(asked).response,
    }


def diff_tables(state):
    """Tables of the difference that a failure and other settings make."""
    later = kfast.fail_brokers(state, [1]).state
    later.default_min_insync_replicas += 1
    later = kfast.override_settings(later, [(".*", "min.insync.replicas", 3)])
    names = "settings brokers topics partitions measures worst newly_fragile fragile_brokers"
    diff = kfast.diff(state, later)
    answers = [{"command": "show", "verdict": [], "summary": {"offline": n}} for n in (0, 1)]
    metrics = answer_diff("old.json", answers[0], "new.json", answers[1]).tables["metrics"]()
    return {f"diff.{name}": getattr(diff, name) for name in names.split()} | {
        "diff.metrics": metrics}


def questions(state):
    """Tables of what operators ask."""
    tables = {}
    plan = {named(state, 0): [4, 5, 6], named(state, 1): [99], ("nothing", 0): [1]}
    changes = {
        "census": (kfast.take_census(state), "topics brokers partitions"),
        "impact": (kfast.fail_brokers(state, [1]).impact, "requests brokers topics partitions"),
        "reassignment": (kfast.execute_plan(state, plan), "brokers topics partitions"),
        "deletion": (
            kfast.delete_topics(state, state.topic.to_pylist()[:3], broker_ids=[1]),
            "brokers topics",
        ),
        "readiness": (kfast.may_restart(state), "brokers partitions topics"),
        "restart": (kfast.restart_plan(state, seconds_per_broker=60), "batches brokers"),
        "risk": (kfast.risk(state), "copysets brokers pairs"),
    }
    for group, (found, names) in changes.items():
        tables |= {f"{group}.{name}": getattr(found, name) for name in names.split()}
    risk, yearly = kfast.risk(state), kfast.durability(state, mttf_years=3, repair_hours=4)
    tables |= {
        "risk.worst": risk.worst(), "risk.lost": risk.lost([1, 2]), "risk.chances": risk.chances(),
        "risk.durability": yearly.copysets, "risk.availability": yearly.availability,
    }
    some = kfast.every_broker(state, 2)
    tables |= {
        "scenarios": some.to_table(), "sweep": kfast.sweep(state, some),
        "sweep_partitions": kfast.sweep_partitions(state, some),
        "sweep_brokers": kfast.sweep_brokers(state, some),
        "plan": kfast.read_plan(ROOT / "bench_data" / "plan.json"),
    }
    loads = "topic,bytes_in,bytes_out\n" + "".join(f"{t},9,9\n" for t in state.topic.to_pylist())
    load = kfast.partition_load(
        state, kfast.read_load(("loads.csv", loads.encode()), window="p95 of 1 h")
    )
    held = b"broker_id,nw_in,nw_out,disk_bytes,class\n-1,99,99,1e15,large\n"
    capacity = kfast.broker_capacity(state, kfast.read_capacity(("brokers.csv", held)))
    prepared = kfast.prepare_capacity(state, load, capacity)
    failure = kfast.capacity_of(prepared, [1])
    small = replace(capacity, nw_out=np.ones_like(capacity.nw_out))
    tables |= {
        "load.provenance": load.provenance,
        "capacity_sweep": kfast.capacity_sweep(prepared, some),
        "restoration": kfast.restoration(prepared, some),
        "capacity_forecast": kfast.capacity_forecast(
            state, load, capacity, some, growth="4%", months=2
        ).months,
        "capacity_brokers": kfast.capacity_brokers(prepared, some),
        **{f"capacity_size.{name}": getattr(kfast.capacity_size(state, load, each), name)
           for name, each in (("bounds", small), ("too_large", small), ("brokers", capacity))},
        "capacity_cost": kfast.capacity_cost(
            state, load, capacity, class_prices={"large": "0.005"}, disk_gb_month="0.000000001"
        ).items,
        "capacity_of.brokers": failure.brokers, "capacity_of.topics": failure.topics,
        "capacity_of.explain": failure.explain(3),
    }
    check = kfast.check_plan(state, plan, load, capacity)
    names = "broken_rules partitions batches brokers moves failures objective goals"
    tables |= {f"plan_check.{name}": getattr(check, name) for name in names.split()}
    tables["plan_batches.unscheduled"] = kfast.plan_batches(state, plan, load, capacity).unscheduled
    stricter = [{"min.insync.replicas": 3}]
    failures = kfast.compare(state, [1, 2], settings=stricter)
    sweeps = kfast.compare(state, scenarios=some, settings=stricter)
    quorum = kfast.with_controller(state, "kraft-4.1", elr=True)
    tables |= {
        "comparison.table": failures.table, "comparison.differences": failures.differences,
        "comparison.table of sweeps": sweeps.table,
        "comparison.differences of sweeps": sweeps.differences,
        "census.partitions of KRaft": kfast.take_census(quorum).partitions,
        "impact.partitions of KRaft": kfast.fail_brokers(quorum, [1]).impact.partitions,
    }
    return tables


def check_schema(table, expected):
    """The names, types and order of a table are those expected, and nulls are where they may be."""
    assert table.schema.equals(expected)
    table.validate(full=True)
    for field in expected:
        assert field.nullable or not table[field.name].null_count, field.name
        assert not pa.types.is_dictionary(field.type)


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_what_the_schema_says(results, name):
    table = results[0][name]
    assert table.num_rows > 0
    check_schema(table, BY_NAME[name].schema)


@pytest.mark.parametrize("name", NAMES)
def test_a_result_sorts_by_each_of_its_columns(results, name):
    """Arrow sorts no column of a dictionary's numbers."""
    table = results[0][name]
    for column in BY_NAME[name].columns:
        if not pa.types.is_list(column.arrow):
            by_column = table.sort_by([(column.name, "descending")])[column.name]
            wanted = sorted(table[column.name].drop_null().to_pylist(), reverse=True)
            assert by_column.drop_null().to_pylist() == wanted


def test_every_result_is_made(results):
    assert set(results[0]) == set(NAMES)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if "partition_row" in BY_NAME[name].schema.names]
)
def test_partition_row_is_the_row_of_the_state(results, name):
    """So that a join with whatever is known of each partition is an index away."""
    table, state = results[0][name], results[1][name]
    known = table.filter(table["partition_row"].is_valid())
    rows = known["partition_row"].to_numpy()
    assert rows.size > 0
    assert known["partition"].to_pylist() == state.partition[rows].tolist()
    topics = state.topic.take(pa.array(state.topic_row[rows]))
    assert known["topic"].to_pylist() == topics.to_pylist()
    loads = pa.array(np.arange(state.n_partitions) * 1.5)
    joined = known.append_column("load", loads.take(known["partition_row"]))
    assert joined["load"].to_pylist() == (rows * 1.5).tolist()
    unknown = table.filter(table["partition_row"].is_null())
    assert set(unknown["topic"].drop_null().to_pylist()) <= {"nothing"}


def test_each_name_stands_once_and_each_column_too():
    assert len(BY_NAME) == len(schema.RESULTS)
    for result in schema.RESULTS:
        assert len(set(result.schema.names)) == len(result.columns), result.name


def test_a_table_of_other_columns_is_kfasts_own_fault():
    with pytest.raises(kfast.InvariantError, match=r"scenarios has the columns .*broker"):
        schema.SCENARIOS.table({"scenario": pa.array([1])})


def test_rows_of_deleted_partitions_are_in_no_table():
    """Their rows are free: a census of what is left has as many rows as there are partitions."""
    state = cluster()
    controller = kfast.Controller(state)
    controller.on_broker_startup([7])
    controller.catch_up([7])
    controller.delete_topics(state.topic.to_pylist()[:4])
    controller.acknowledge_deletions()
    n = state.to_tables().partitions.num_rows
    assert n == state.n_partitions - state.free_rows.size < 120
    census = kfast.take_census(state)
    change = kfast.impact(census, census).partitions
    for table in (census.partitions, change):
        assert table.num_rows == n
        assert pc.min(table["partition"]).as_py() == 0
        assert not set(table["partition_row"].to_pylist()) & set(state.free_rows.tolist())


def test_compacted_rows_say_where_they_were():
    """`compact` moves rows, and returns where each was: loads are taken likewise."""
    state = cluster()
    controller = kfast.Controller(state)
    controller.on_broker_startup([7])
    controller.catch_up([7])
    keys = [named(state, row) for row in range(state.n_partitions)]
    loads = pa.array([f"{topic}-{number}" for topic, number in keys])
    controller.delete_topics(state.topic.to_pylist()[:4])
    controller.acknowledge_deletions()
    loads = loads.take(pa.array(state.compact()))
    table = kfast.take_census(state).partitions
    names = pc.binary_join_element_wise(
        table["topic"], table["partition"].cast(pa.string()), "-"
    )
    assert loads.take(table["partition_row"].combine_chunks()).to_pylist() == names.to_pylist()
