"""`kfast.timeline_growth` is what `kfast.timeline` gives of each cluster; parts grow by formulae.

Source: docs/timeline.md, section "Growth".
"""

from __future__ import annotations

import json

import pytest

import kfast
from kfast.schema import WAITS
from kfast.timelines.parameters import PARAMETERS
from tests.support.cli_run import run

BROKERS, FACTOR = 20, 3


@pytest.fixture(scope="module")
def growth():
    return kfast.timeline_growth(
        [2000, 20_000], brokers=BROKERS, replication_factor=FACTOR, samples=10,
        controllers=["zk-3.9", "kraft-4.1"],
    )


def test_every_row_is_that_of_its_cluster_alone(growth):
    rows = growth.table.to_pylist()
    assert [(row["controller"], row["failure"], row["partitions"]) for row in rows] == [
        (controller, failure, size) for controller in ("zk-3.9", "kraft-4.1")
        for failure in ("broker", "controller") for size in (2000, 20_000)
    ]
    levers = growth.sensitivity.to_pylist()
    for row in rows:
        state = kfast.generate(
            brokers=BROKERS, partitions=row["partitions"], replication_factor=FACTOR,
            controller=row["controller"],
        )
        alone = kfast.timeline(
            state, [0], samples=10, controller_fails=row["failure"] == "controller"
        )
        [summary] = alone.summary.to_pylist()
        assert {name: row[name] for name in summary if name in row} == {
            name: value for name, value in summary.items() if name in row
        }
        assert sum(row[f"{name}_us"] for name in WAITS) == row["led_max_us"]
        own = [
            {name: lever[name] for name in alone.sensitivity.column_names} for lever in levers
            if all(lever[name] == row[name] for name in ("controller", "failure", "partitions"))
        ]
        assert own == alone.sensitivity.to_pylist()


def test_parts_grow_as_the_formulae_say(growth):
    """Leaders are spread evenly, so that a broker has P/N leaders and n*P/N replicas."""
    cost = {name: one.value / 1000 for name, one in PARAMETERS.items()}
    for row in growth.table.to_pylist():
        partitions = row["partitions"]
        leaders, replicas = partitions / BROKERS, FACTOR * partitions / BROKERS
        if row["failure"] == "controller":
            continue
        assert row["lost_partitions"] == pytest.approx(leaders, rel=0.02)
        if row["controller"] == "kraft-4.1":
            decide = replicas * cost["kr_record"]
            assert row["controller_us"] == pytest.approx(decide, rel=0.05, abs=500)
            assert row["store_us"] == 25_000 + 2 * 2400 + 500
        else:
            # Who is led last is of the first batch: its requests go to the other replicas.
            decide = (partitions * cost["zk_scan"] + replicas * cost["zk_replica"]
                      + leaders * (FACTOR - 1) * cost["zk_entry"])
            store = 2000 + leaders * (cost["zk_read"] + cost["zk_write"])
            assert row["controller_us"] == pytest.approx(decide, rel=0.05)
            assert row["store_us"] == pytest.approx(store, rel=0.05)
        assert row["disk_us"] >= leaders / (BROKERS - 1) * cost["epoch_sync"]


@pytest.mark.parametrize(("options", "refusal"), [
    ({"partitions": []}, "partitions is .*right is a list that is not empty"),
    ({"partitions": 1000}, "partitions is of type int|partitions is 1000; right is a list"),
    ({"controllers": ["zk"]}, "controllers has 'zk'; right is one of zk-0.10"),
    ({"failures": ["rack"]}, "failures has 'rack'; right is one of broker, controller"),
    ({"brokers": 1}, "brokers is 1"),
    ({"brokers": 2, "replication_factor": 3}, "replication_factor"),
    ({"elr": True}, "elr: zk-3.9 has no eligible leader replicas"),
])
def test_what_is_no_plan_is_refused(options, refusal):
    with pytest.raises(kfast.ArgumentError, match=refusal):
        kfast.timeline_growth(**({"partitions": [100], "samples": 5} | options))


def test_text_json_and_arrow_say_the_same(growth, tmp_path):
    asked = ["timeline-growth", "--partitions", "2k,20000", "--brokers", BROKERS, "--samples", 10]
    document = json.loads(run(*asked, "--controller", "zk-3.9", "--format", "json").output)
    rows = [row for row in growth.table.to_pylist() if row["controller"] == "zk-3.9"]
    assert [row for case in document["cases"] for row in case["rows"]] == rows
    assert document["summary"]["led_max_us"] == max(row["led_max_us"] for row in rows)
    text = run(*asked, "--controller", "zk-3.9", "--failure", "broker").output
    assert "Alone zookeeper.session.timeout.ms at most" in text
    path = tmp_path / "growth.csv"
    run(*asked, "--controller", "zk-3.9", "-o", path)
    assert {one.name for one in tmp_path.iterdir()} == {
        "growth-table.csv", "growth-sensitivity.csv"
    }
