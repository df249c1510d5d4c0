"""`kfast.timeline_compare`: every variant is the answer of `kfast.timeline`, differences by sample.

Source: docs/timeline.md, section "Comparison".
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import kfast
from kfast.schema import REFUSED_BYTES, TIMES, TIMES_IN_SECONDS
from kfast.timelines.failover import percentiles
from tests.support.cli_run import run

FASTER = "kraft-4.1+broker.session.timeout.ms=6000+epoch_sync=100us"


@pytest.fixture(scope="module")
def state():
    return kfast.generate(brokers=6, partitions=90, racks=3, controller="zk-3.9")


def test_every_variant_is_the_answer_alone(state):
    digest = state.digest()
    found = kfast.timeline_compare(state, [3], ["zk", "kraft-4.1", FASTER], samples=12, seed=5)
    moved = kfast.with_controller(state, "kraft-4.1")
    alone = [
        kfast.timeline(state, [3], samples=12, seed=5),
        kfast.timeline(moved, [3], samples=12, seed=5),
        kfast.timeline(moved, [3], samples=12, seed=5, params={"epoch_sync": "100us"},
                       settings={"broker.session.timeout.ms": 6000}),
    ]
    rows = found.summary.to_pylist()
    assert [row["variant"] for row in rows] == ["zk", "kraft-4.1", FASTER]
    for number, (row, one) in enumerate(zip(rows, alone, strict=True)):
        [expected] = one.summary.to_pylist()
        assert row == expected | {
            "variant": row["variant"], "controller": one.state.controller, "scenario": number,
        }
    assert state.digest() == digest


def test_differences_are_made_sample_by_sample(state):
    found = kfast.timeline_compare(state, [3], ["kraft", FASTER], samples=30)
    first, second = (failure.measures.values for failure in found.failures)
    rows = {row["measure"]: row for row in found.differences.to_pylist()}
    assert set(rows) == {*TIMES, *TIMES_IN_SECONDS, *REFUSED_BYTES}
    for name in TIMES:
        row = rows[name]
        if name not in first:  # It is of controlled shutdowns.
            assert row["difference"] is None
            continue
        difference = second[name] - first[name]
        numbers = tuple(row[f"difference{end}"] for end in ("", "_low", "_high"))
        assert numbers == percentiles(difference)
        assert row["lower_samples"] == np.count_nonzero(difference[1:] < 0)
        assert row["samples"] == 30
        assert row["difference"] == row["value"] - row["reference_value"]
    detect = rows["detect_us"]
    # Ages and waits are the same draws, so that sessions alone make the difference.
    width = detect["difference_high"] - detect["difference_low"]
    assert width < detect["value_high"] - detect["value_low"]


def test_an_orderly_stop_is_compared_with_a_failure(state):
    found = kfast.timeline_compare(
        state, [3], ["unclean", "controlled", "kraft-4.1+controlled"], samples=12, seed=5
    )
    moved = kfast.with_controller(state, "kraft-4.1")
    alone = [
        kfast.timeline(state, [3], samples=12, seed=5),
        kfast.timeline(state, [3], samples=12, seed=5, controlled=True),
        kfast.timeline(moved, [3], samples=12, seed=5, controlled=True),
    ]
    for failure, one in zip(found.failures, alone, strict=True):
        assert failure.summary.equals(one.summary)
    rows = {(row["variant"], row["measure"]): row for row in found.differences.to_pylist()}
    stop = rows["controlled", "leaderless_partition_s"]
    assert (stop["difference"], stop["lower_samples"]) == (stop["value"] - stop["reference_value"],
                                                           12)
    assert rows["controlled", "stopped_us"]["difference"] is None


def test_a_variant_of_nothing_makes_no_difference(state):
    found = kfast.timeline_compare(state, [2, 3], ["zk", "zk+tickTime=2000"], samples=10)
    assert all(row["difference"] in (0, None) for row in found.differences.to_pylist())


def test_what_does_not_occur_has_no_difference(state):
    found = kfast.timeline_compare(
        state, [], ["kraft", "kraft-4.1"], controller_fails=True, samples=5
    )
    rows = {row["measure"]: row for row in found.differences.to_pylist()}
    assert rows["led_max_us"]["difference"] is rows["led_max_us"]["samples"] is None
    assert rows["detect_us"]["difference"] == 0


@pytest.mark.parametrize(("variants", "refusal"), [
    (["zk"], "variants are 1; right are 2 to 8"),
    (["zk", "zk"], "variant zk is given twice"),
    (["zk", "kraft+zk"], "variant 'kraft\\+zk': give one of kraft and zk"),
    (["zk", "zk+unclean+controlled"], "give one of unclean and controlled"),
    (["zk", "raft"], "variant 'raft': 'raft' is none of zk, kraft"),
    (["zk", "epoch_sink=1ms"], "parameter 'epoch_sink' is unknown; the nearest is epoch_sync"),
    (["zk", "zk+tickTime=20000"], "variant zk\\+tickTime=20000: zookeeper.session.timeout.ms is"),
    (["zk", "tickTime=2s"], "variant 'tickTime=2s': tickTime is no whole number"),
    (["zk", "net=1ms+net=2ms"], "net is given twice"),
    ("zk,kraft", "right is a list"),
], ids=str)
def test_what_is_no_comparison_is_refused(state, variants, refusal):
    with pytest.raises(kfast.ArgumentError, match=refusal):
        kfast.timeline_compare(state, [3], variants)


def test_text_and_json_say_the_same(tmp_path, state):
    path = tmp_path / "cluster.arrow"
    kfast.write(state, path)
    found = kfast.timeline_compare(state, [3], ["zk", "kraft"], samples=20)
    asked = ["timeline", path, "--brokers", 3, "--samples", 20, "--compare", "zk,kraft"]
    document = json.loads(run(*asked, "--format", "json").output)
    assert [one["summary"] for one in document["answers"]] == found.summary.to_pylist()
    assert document["differences"] == found.differences.to_pylist()
    text = run(*asked).output
    for row in found.summary.to_pylist():
        assert f"{row['variant']}: all leaders are back after {row['led_max_us'] / 1e6:.3f} s" in (
            text
        )
    limit = found.summary["led_max_us"][1].as_py()
    failed = run(*asked, "--fail-on", f"led_max_us>{limit}", code=4)
    assert f"--fail-on led_max_us>{limit} holds, zk:" in " ".join(failed.stderr.split())


def test_options_that_exclude_each_other_are_named(tmp_path, state):
    path = tmp_path / "cluster.arrow"
    kfast.write(state, path)
    refused = run("timeline", path, "--every", 1, "--compare", "zk,kraft", code=2)
    assert "give one of --compare and --every K" in " ".join(refused.stderr.split())
    (tmp_path / "times.json").write_text("{}")
    refused = run("timeline", path, "--brokers", 3, "--param", "net=1ms", "--params",
                  tmp_path / "times.json", code=2)
    assert "give one of --param and --params" in " ".join(refused.stderr.split())


def test_an_orderly_stop_has_its_words_and_no_curve(tmp_path, state):
    path = tmp_path / "cluster.arrow"
    kfast.write(state, path)
    asked = ["timeline", path, "--brokers", 3, "--samples", 20, "--compare", "unclean,controlled"]
    text = run(*asked).output
    [row] = kfast.timeline(state, [3], samples=20, controlled=True).summary.to_pylist()
    assert "After broker 3 stops" in text
    assert f"; {row['leaderless_partition_s']} partition-seconds without a leader." in text
    refused = run(*asked, "--plot", tmp_path / "two.svg", code=2)
    assert "variant controlled has no curve" in refused.stderr
    assert not (tmp_path / "two.svg").exists()
