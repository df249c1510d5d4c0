"""What the end of a failure depends on is what `kfast.timeline` gives with that one other number.

Source: docs/timeline.md, section "Sensitivity".
"""

from __future__ import annotations

import json

import pytest

import kfast
from kfast.timelines.parameters import PARAMETERS
from tests.support.cli_run import run

FAILURES = [("zk-3.9", [2], False), ("zk-3.9", [2], True), ("kraft-4.1", [2], False),
            ("kraft-3.5", [2], True), ("zk-1.0", [2, 3], False), ("kraft-4.1", [2, 3, 4], False)]


def cluster(controller):
    return kfast.generate(brokers=7, partitions=150, racks=0, controller=controller)


def end(state, failing, **options):
    """When all are led, in the central sample."""
    return kfast.timeline(state, failing, samples=5, **options).summary["led_max_us"][0].as_py()


@pytest.mark.parametrize(("controller", "failing", "fails"), FAILURES)
def test_every_number_alone_gives_what_a_timeline_with_it_gives(controller, failing, fails):
    state = cluster(controller)
    found = kfast.timeline(state, failing, samples=5, controller_fails=fails)
    rows = found.sensitivity.to_pylist()
    assert {row["name"] for row in rows if row["kind"] == "parameter"} == set(PARAMETERS)
    assert [row["effect_us"] for row in rows] == sorted(
        (row["effect_us"] for row in rows), reverse=True)
    for row in rows:
        assert row["led_max_us"] == found.summary["led_max_us"][0].as_py()
        if row["kind"] == "phase" or not row["effect_us"]:
            continue
        for at in ("low", "high"):
            if row["kind"] == "parameter":
                text = f"{row[at]}{row['unit']}"
                options = {"params": {row["name"]: text}}
            else:
                options = {"settings": {row["name"]: row[at]}}
            if row[f"led_max_us_at_{at}"] is None:
                with pytest.raises(kfast.ArgumentError):
                    end(state, failing, controller_fails=fails, **options)
                continue
            alone = end(state, failing, controller_fails=fails, **options)
            assert row[f"led_max_us_at_{at}"] == alone, row


@pytest.mark.parametrize(("controller", "failing", "fails"), FAILURES[:4])
def test_the_value_that_halves_does_and_the_next_does_not(controller, failing, fails):
    state = cluster(controller)
    found = kfast.timeline(state, failing, samples=5, controller_fails=fails)
    rows = [row for row in found.sensitivity.to_pylist() if row["halves_at"] is not None]
    assert rows, "the session alone is most of it"
    for row in rows:
        assert row["kind"] == "setting"
        ends = [end(state, failing, controller_fails=fails, settings={row["name"]: value})
                for value in (row["halves_at"], row["halves_at"] + 1)]
        assert 2 * ends[0] <= row["led_max_us"] < 2 * ends[1]


def test_a_cost_that_halves_is_found_too():
    state = cluster("kraft-4.1")
    params = {"epoch_sync": "20s", "metadata_fetch": "1s"}
    found = kfast.timeline(state, [2], samples=5, params=params)
    [row] = [row for row in found.sensitivity.to_pylist() if row["name"] == "epoch_sync"]
    at = row["halves_at"]
    ends = [end(state, [2], params=params | {"epoch_sync": f"{value}ns"}) for value in (at, at + 1)]
    assert 2 * ends[0] <= row["led_max_us"] <= 2 * ends[1] + 2
    assert ends[0] <= ends[1]


def test_where_nobody_is_led_again_nothing_matters():
    alone = kfast.generate(
        brokers=4, partitions=8, replication_factor=1, placement="ring", controller="kraft-4.1"
    )
    assert kfast.timeline(alone, [2], samples=5).sensitivity.num_rows == 0
    nobody = kfast.timeline(alone, [], controller_fails=True, samples=5)
    assert nobody.sensitivity.num_rows == 0
    assert nobody.waits == {}


@pytest.mark.parametrize(("controller", "failing", "fails"), FAILURES[:4])
def test_what_the_last_leader_waits_for_is_all_of_its_time(controller, failing, fails):
    found = kfast.timeline(cluster(controller), failing, samples=5, controller_fails=fails)
    assert sum(found.waits.values()) == found.summary["led_max_us"][0].as_py()
    assert found.summary["binding"][0].as_py() == max(found.waits, key=found.waits.get)


def test_text_and_json_have_it_when_asked(tmp_path):
    path = tmp_path / "cluster.arrow"
    state = cluster("kraft-4.1")
    kfast.write(state, path)
    asked = ["timeline", path, "--brokers", 2, "--samples", 5]
    rows = kfast.timeline(state, [2], samples=5).sensitivity.to_pylist()
    document = json.loads(run(*asked, "--sensitivity", "--format", "json").output)
    assert document["sensitivity"] == rows
    assert json.loads(run(*asked, "--format", "json").output)["sensitivity"] == []
    assert rows[0]["name"] in run(*asked, "--sensitivity").output
    refused = run("timeline", path, "--every", 1, "--sensitivity", code=2)
    assert "give one of --sensitivity, --compare and --every K" in " ".join(
        refused.stderr.split())
