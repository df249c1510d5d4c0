"""Partitions without a leader over time, and the pictures of `kfast timeline --plot`.

Source: docs/timeline.md, section "Pictures".
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import kfast
from kfast.report.pictures import PICTURE_ENDINGS
from kfast.report.timeline_pictures import (
    MOST_LANES,
    compared_picture,
    growth_picture,
    timeline_picture,
    timeline_sweep_picture,
)
from kfast.timelines.failover import percentiles
from kfast.timelines.leaderless import MOST_INSTANTS
from kfast.timelines.progressions import N
from tests.cli.test_pictures import size_of, texts
from tests.support.cli_run import run
from tests.timelines.test_twin import random_failure

CONTROLLERS = ["zk-3.9", "kraft-4.1", "kraft-3.5"]
HOSTILE = '<img src=x onerror=alert(1)></script><script>alert(2)</script>\x1b]0;x\x07"{{7*7}}'


def every_instant(failure):
    """When each partition is led, sample by sample."""
    led_at = {}
    for samples, times in failure.times:
        led = times.led
        for place, sample in enumerate(samples.tolist()):
            rows = led.rows[led.begin[place] : led.begin[place + 1]]
            led_at[sample] = sorted(
                base + (offset + i * step + 999) // 1000
                for base, offset, step, n in rows[:, : N + 1].tolist() for i in range(1, n + 1)
            )
    return [led_at[sample] for sample in range(len(led_at))]


@pytest.mark.parametrize("options", [{}, {"params": {"epoch_sync": "0us"}}], ids=["costs", "none"])
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_every_count_is_that_of_the_partitions(controller, options):
    for seed in range(6):
        state, failing, _ = random_failure(seed, controller)
        found = kfast.timeline(state, failing, samples=9, seed=seed, **options)
        lost = found.measures.lost_partitions
        instants = every_instant(found)
        assert len(instants) == 10
        rows = found.leaderless.to_pylist()
        assert rows[0] == {"at_us": 0, "leaderless": lost, "leaderless_low": lost,
                           "leaderless_high": lost}
        assert [row["at_us"] for row in rows] == sorted({row["at_us"] for row in rows})
        assert len(rows) <= MOST_INSTANTS
        for row in rows:
            counts = np.array([lost - sum(at <= row["at_us"] for at in led) for led in instants])
            assert percentiles(counts) == (
                row["leaderless"], row["leaderless_low"], row["leaderless_high"]
            ), (seed, row)
        assert rows[-1]["leaderless_high"] == found.measures.offline_partitions
        # Fewer than a hundred partitions: each step of the central sample is there.
        if len(instants[0]) <= 100:
            assert set(instants[0]) <= {row["at_us"] for row in rows}


def test_nobody_loses_a_leader():
    state = kfast.generate(brokers=4, partitions=8, controller="kraft-4.1")
    assert kfast.timeline(state, [], controller_fails=True).leaderless.num_rows == 0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    path = tmp_path_factory.mktemp("clusters") / "cluster.arrow"
    kfast.write(
        kfast.generate(brokers=40, partitions=800, racks=4, controller="kraft-4.1"), path
    )
    return path


@pytest.mark.parametrize("ending", PICTURE_ENDINGS)
def test_a_failure_draws_its_stages_and_its_curve(tmp_path, cluster, ending):
    path = tmp_path / f"x{ending}"
    done = run("timeline", cluster, "--brokers", 7, "--samples", 20, "--plot", path)
    assert f"Wrote {path}." in done.stderr
    data = path.read_bytes()
    if ending == ".svg":
        seen = texts(data)
        for text in ("after broker 7 fails", "controller", "without a leader", "decide", "apply",
                     "seconds after the failure, from its detection on",
                     f"{39 - MOST_LANES} brokers that are done earlier are not shown."):
            assert any(text in line for line in seen), text
    elif ending == ".png":
        assert min(size_of(data)) > 500
    else:
        assert b"<script src" not in data, "it would need a network"


@pytest.mark.parametrize(("asked", "shown"), [
    (("--compare", "zk,kraft", "--brokers", 7), ("zk", "kraft", "without a leader")),
    (("--every", 1), ("failures, the worst first", "the last waits longest for", "detection")),
    (("--each-rack",), ("rack a", "rack d", "who fails, the worst first")),
    (("--racks", "a", "--controller", "zk-3.9"), ("store", "LeaderAndIsr", "UpdateMetadata")),
    (("--brokers", 7, "--controlled"), ("wait", "stop", "apply")),
    (("--controller-fails",), ("no leader is lost",)),
], ids=str)
def test_other_answers_are_drawn_too(tmp_path, cluster, asked, shown):
    path = tmp_path / "x.svg"
    run("timeline", cluster, *asked, "--samples", 20, "--plot", path)
    seen = texts(path.read_bytes())
    for text in shown:
        assert any(text in line for line in seen), text


def test_a_figure_has_the_steps():
    state = kfast.generate(brokers=5, partitions=40, controller="kraft-4.1")
    found = kfast.timeline(state, [1], samples=9)
    low, high, central = found.plot().data
    columns = found.leaderless.to_pydict()
    for trace, name in ((low, "leaderless_low"), (high, "leaderless_high"),
                        (central, "leaderless")):
        assert list(trace.y) == columns[name]
        assert list(trace.x) == [instant / 1e6 for instant in columns["at_us"]]


def test_growth_is_drawn(tmp_path):
    path = tmp_path / "x.svg"
    run("timeline-growth", "--partitions", "1k,3k", "--brokers", 6, "--samples", 20, "--plot", path)
    seen = texts(path.read_bytes())
    for text in ("1k", "3k", "seconds until all are led", "share of the wait", "detection", "disk",
                 "zk-3.9, one broker fails", "partitions"):
        assert any(text in line for line in seen), text


def test_names_are_texts_in_every_picture():
    """Names come from files; none is a number's format, markup or the end of a script."""
    state = kfast.generate(brokers=4, partitions=20, controller="kraft-4.1")
    found = kfast.timeline(state, [1], samples=5)
    sweep = kfast.timeline_sweep(state, kfast.every_broker(state), samples=5)
    growth = kfast.timeline_growth([100], brokers=4, samples=5).table.to_pylist()
    rows, steps = sweep.summary.to_pylist(), found.leaderless.to_pylist()
    for picture in (
        timeline_picture(HOSTILE, [HOSTILE], found.stages.to_pylist(), steps),
        compared_picture(HOSTILE, [HOSTILE], {HOSTILE: steps, "x": steps}),
        timeline_sweep_picture(HOSTILE, [HOSTILE], rows, [HOSTILE] * len(rows)),
        growth_picture(HOSTILE, [HOSTILE], {HOSTILE: growth}),
    ):
        document = json.loads(picture.to_json())
        assert "\x1b" not in document["title"]["text"]
        assert "alert(1)" in document["title"]["text"]
