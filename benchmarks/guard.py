"""Has a kernel become slower? Its time beside its twin's, in one run, against the ratio on record.

    python -m benchmarks.guard            compare; the exit status is 1 where a third is lost
    python -m benchmarks.guard --record   write the ratios of this run to ratios.json

A machine's speed changes both times alike, so only their ratio counts, of CPU times. The forms of
an event take turns, and the best of many rounds is taken. A ratio that looks lost is measured
again, with more rounds, before it counts: the best ratio of all attempts does.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import kfast
from benchmarks import cases
from kfast import policy

RECORD = Path(__file__).with_name("ratios.json")
N_PARTITIONS, N_BROKERS = 300_000, 90
ROUNDS, ATTEMPTS = 9, 4
MOST_LOST = 1.5
"""A kernel that takes 1.5 times as long beside its twin has lost a third of its speed."""

TWINS = {
    "start": ("numba", None), "one": ("numba", None), "third": ("numba", None),
    "preferred": ("numpy", None), "third with a rule": ("kfast", policy.first_candidate),
}
"""What each event is measured against; an event with a rule against the same without."""


def measure(bench: cases.Bench, name: str, rounds: int) -> float:
    """Time of kfast over its twin's, best of some rounds each, taken in turns."""
    event = name.split()[0]
    twin, rule = TWINS[name]
    times: dict[str, list[float]] = {"kfast": [], "twin": []}
    for _ in range(rounds):
        times["kfast"].append(bench.seconds(event, "kfast", policy=rule))
        times["twin"].append(bench.seconds(event, twin))
    return min(times["kfast"]) / min(times["twin"])


def verdict(take: Callable[[int], float], recorded: float) -> tuple[bool, float]:
    """Whether a ratio is kept, and the best that was found in at most `ATTEMPTS` attempts."""
    best = float("inf")
    for attempt in range(ATTEMPTS):
        best = min(best, take(ROUNDS * (attempt + 1)))
        if best <= recorded * MOST_LOST:
            return True, best
    return False, best


def make_bench() -> cases.Bench:
    """The cluster of the guard; the twins' loops are compiled before they are timed."""
    cluster = kfast.generate(
        brokers=N_BROKERS, partitions=N_PARTITIONS, replication_factor=cases.REPLICATION_FACTOR,
        racks=3, seed=42,
    )
    bench = cases.Bench(cluster)
    for name in TWINS:
        measure(bench, name, 1)
    return bench


def main(arguments: list[str] | None = None) -> int:
    """Compare with the record, or write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write ratios.json")
    options = parser.parse_args(arguments)
    bench = make_bench()
    if options.record:
        ratios = {name: round(measure(bench, name, 3 * ROUNDS), 3) for name in TWINS}
        text = {"machine": platform.processor() or platform.machine(), "ratios": ratios}
        RECORD.write_text(json.dumps(text, indent=2) + "\n")
        print(RECORD.read_text(), end="")
        return 0
    recorded = json.loads(RECORD.read_text())["ratios"]
    lost = []
    for name in TWINS:
        kept, ratio = verdict(lambda rounds, name=name: measure(bench, name, rounds),
                              recorded[name])
        against = TWINS[name][0] if TWINS[name][1] is None else "no rule"
        print(f"{name:18} {ratio:6.2f} of the time of {against}, on record {recorded[name]:.2f}"
              f"{'' if kept else ': a third is lost'}")
        lost += [] if kept else [name]
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
