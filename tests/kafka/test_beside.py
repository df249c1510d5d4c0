"""Kafka's classes and kfast on one cluster: `make beside`; docs/lockstep.md."""

from __future__ import annotations

import json

import pytest

from benchmarks import beside
from tests.kafka.kafka_classes import KRAFT, ZOOKEEPER, MissingToolError, build

PARTITIONS = 2000


@pytest.mark.parametrize("profile", ["kraft-4.1", "zk-3.9"])
def test_a_cluster_reads_as_it_was_written_and_journals_agree(tmp_path, profile):
    path = tmp_path / "cluster"
    beside.write_cluster(path, PARTITIONS, 12, profile)
    singles, rack, sizes, replicas = beside.read_cluster(path)
    assert sizes.sum() == len(replicas) == PARTITIONS
    assert not set(singles) & set(rack)
    full, counts = (beside.run_kfast(path, profile, level) for level in beside.JOURNALS)
    sides = {"kafka": [{**row, "heap": 1} for row in full], "full": full, "counts": counts}
    assert beside.differences(sides) == []
    assert "| fail a third, ms |" in beside.markdown(sides, "here")
    wrong = [{**counts[0], "records": 0}, *counts[1:]]
    assert len(beside.differences({**sides, "counts": wrong})) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("version", "project"), [("4.1.2", KRAFT), ("3.9.1", ZOOKEEPER)])
def test_kafka_ends_with_the_same_state(tmp_path, version, project):
    """Needs Java and Maven."""
    try:
        build(version, project)
    except MissingToolError as error:
        pytest.skip(f"Kafka cannot run here: {error}")
    asked = ["--partitions", str(PARTITIONS), "--kafka", version, "--folder", str(tmp_path)]
    assert beside.main(asked) == 0
    assert json.loads((tmp_path / "beside.json").read_text())["kafka"][0]["event"] == "load"
    assert "fail one" in (tmp_path / "beside.svg").read_text()
