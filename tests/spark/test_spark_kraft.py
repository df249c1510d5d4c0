"""Functions of `kfast.spark` on KRaft clusters say what one machine says."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import kfast
from kfast.controllers import open_events
from kfast.state.census import take_census
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


EVENTS = [
    "start", ("brokers_failed", [2, 0]), ("brokers_shut_down_in_order", [5, 4]),
    ("brokers_returned", [0, 6, 4]), ("caught_up", [0, 4, 6]),
]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("events", [EVENTS[:2], EVENTS])
def test_shards_of_a_kraft_cluster_end_as_one_machine_does(
    cluster, events, shards, tmp_path, monkeypatch
):
    from kfast.spark import sharded

    without_session(monkeypatch)
    split(cluster, tmp_path / "shards", shards)
    done = sharded.fail(None, tmp_path / "shards", events=events, output=tmp_path / "out")
    alone = open_events(cluster.copy())
    changes = []
    for event in events:
        name, *argument = (event,) if isinstance(event, str) else event
        changes.append(sum(e.outcome.counts.changes for e in getattr(alone, name)(*argument)))
    assert done.digest == alone.state.digest()
    assert joined(done.state).digest() == alone.state.digest()
    assert done.census.items() <= take_census(alone.state).counts.items()
    counted = Counter()
    for row in done.counts.to_pylist():
        counted[row["name"], row["item"]] += row["count"]
    names = [event if isinstance(event, str) else event[0] for event in events]
    assert [counted[name, "changes"] for name in names] == changes


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
    ):
        with pytest.raises(kfast.ArgumentError, match=message):
            sharded.fail(None, tmp_path / "shards", events=[event], output=tmp_path / "other")
    with pytest.raises(kfast.ArgumentError, match="records are not written by shard"):
        sharded.fail(
            None, tmp_path / "shards", [1], output=tmp_path / "other", journal="full"
        )


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
