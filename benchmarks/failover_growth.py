"""How failovers grow with planned clusters, beside the time that kfast takes to answer.

    python -m benchmarks.failover_growth --most 10000000 --brokers 100

Simulated: from the failure until all leaders are back, with the 5th and the 95th percentile of the
samples. kfast's own: seconds of wall clock to make the cluster, to answer (counts, all samples, the
summary), and to find what the answer depends on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import kfast
from kfast.timelines.planned_clusters import FAILURES, NEWEST, SIZES

HEADINGS = ("controller", "failure", "partitions", "all led s", "low s", "high s", "make s",
            "answer s", "sensitivity s")


def seconds(act: Callable[[], Any]) -> tuple[float, Any]:
    """How long something takes, and what it gives."""
    begin = time.perf_counter()
    found = act()
    return time.perf_counter() - begin, found


def measure(partitions: int, brokers: int) -> list[Sequence[object]]:
    """Rows of one size."""
    rows: list[Sequence[object]] = []
    for controller in NEWEST:
        made, state = seconds(lambda name=controller: kfast.generate(
            brokers=brokers, partitions=partitions, controller=name))
        for failure in FAILURES:
            answered, found = seconds(lambda state=state, failure=failure: kfast.timeline(
                state, [0], controller_fails=failure == "controller"))
            [row] = found.summary.to_pylist()
            explained, _ = seconds(lambda found=found: found.sensitivity)
            ends = (row[f"led_max_us{end}"] / 1e6 for end in ("", "_low", "_high"))
            own = (made, answered, explained)
            rows.append((controller, failure, partitions, *(f"{one:.3f}" for one in (*ends, *own))))
    return rows


def main(arguments: Sequence[str]) -> None:
    """Print a row for each controller, failure and size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=int, default=SIZES[-1], help="partitions of the largest")
    parser.add_argument("--brokers", type=int, default=100)
    parsed = parser.parse_args(arguments)
    # Modules are loaded, and code pages are warm, before anything is measured.
    measure(1000, parsed.brokers)
    print("  ".join(f"{name:>13}" for name in HEADINGS))
    for size in SIZES:
        if size <= parsed.most:
            for row in measure(size, parsed.brokers):
                print("  ".join(f"{one!s:>13}" for one in row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
