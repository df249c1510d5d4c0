"""How long Kafka's events take, beside the same work in plain numpy and in loops of numba.

All forms start from the same cluster, and must end with the same columns and have sent the same
requests: `digest` in the results. Their ratio, in one run, is what to look at, and the ratio to the
time that the bytes to be moved take (`of_limit`).
"""

from __future__ import annotations

import pytest

from benchmarks import cases
from kfast.controllers.zk import policy

ROUNDS, ROUNDS_ROLLING = 9, 3
FORMS = [("kfast", 1), ("kfast", 2), ("numpy", 1), ("numba", 1)]


@pytest.fixture(scope="session")
def bench(cluster):
    """The cluster, ready for each event."""
    return cases.Bench(cluster)


@pytest.fixture(scope="session")
def bandwidth():
    """Bytes per second of a copy, in this run."""
    return cases.copy_bandwidth()


def measure(benchmark, prepare, rounds=ROUNDS, **more):
    """Run an event some times on fresh copies; its digest."""
    ends = []

    def setup():
        return (prepare(),), {}

    def run(prepared):
        ends[:] = [(prepared, prepared.act())]

    benchmark.pedantic(run, setup=setup, rounds=rounds, warmup_rounds=1)
    prepared, outcome = ends[0]
    found = prepared.digest(outcome)
    benchmark.extra_info.update(digest=found, **more)
    return found


@pytest.mark.parametrize(("form", "threads"), FORMS)
@pytest.mark.parametrize("event", cases.EVENTS)
def test_event(benchmark, bench, bandwidth, event, form, threads):
    """Every form of an event ends as plain numpy does."""
    benchmark.group = event
    found = measure(
        benchmark, lambda: bench.prepare(event, form, threads),
        rounds=ROUNDS_ROLLING if event == "rolling" else ROUNDS, partitions=bench.n_partitions,
        rows=bench.affected_rows(event), limit_s=bench.moved_bytes(event) / bandwidth,
    )
    expected = bench.prepare(event, "numpy")
    assert found == expected.digest(expected.act())
    if benchmark.enabled:
        info = benchmark.extra_info
        info["of_limit"] = benchmark.stats.stats.median / info["limit_s"]


@pytest.mark.parametrize("rule", ["none", "first_candidate", "stay_in_rack", "led_least"])
def test_policy(benchmark, bench, rule):
    """A third of the brokers fails, and a rule of the user's elects."""
    benchmark.group = "third, with a rule"
    function = getattr(policy, rule, None)
    found = measure(
        benchmark, lambda: bench.prepare("third", "kfast", policy=function),
        partitions=bench.n_partitions,
    )
    expected = bench.prepare("third", "kfast")
    if rule == "first_candidate":
        assert found == expected.digest(expected.act())
