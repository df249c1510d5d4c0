"""How the cost of each event grows: a table and a plot of time against partitions.

    python -m benchmarks.growth --most 10000000 --folder benchmarks/results

Clusters of 10 thousand, 100 thousand, ... partitions, 10 000 replicas on each broker; each event in
each form, forms in turns, the median of some rounds, in CPU time of one thread. The line `limit` is
the time that the bytes to be moved take at the bandwidth of a copy measured in this run. The slopes
are fitted to the logarithms: 1 is linear growth, 0 none. Sizes below `--least`, and events that are
not asked for, are taken from the `growth.json` in the folder, where there is one, so that each can
have a quiet time of its own.
Clusters of 100 million partitions are for `benchmarks.large`.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import kfast
from benchmarks import cases

LEAST = 10_000
ROUNDS, ROUNDS_LARGE, ROUNDS_ROLLING = 7, 3, 1
FIELDS = (
    "event", "form", "partitions", "brokers", "rows", "median_ms", "limit_ms", "of_limit", "digest",
)


def measure(
    n_partitions: int, bandwidth: float, events: Iterable[str] = tuple(cases.EVENTS)
) -> list[dict[str, Any]]:
    """Rows of the table for one size; every form must end with the same digest."""
    n_brokers = max(12, n_partitions * cases.REPLICATION_FACTOR // 10_000)
    bench = cases.Bench(kfast.generate(
        brokers=n_brokers, partitions=n_partitions, racks=3, seed=42,
        replication_factor=cases.REPLICATION_FACTOR,
    ))
    rows = []
    for event in events:
        digests = {}
        for form in cases.FORMS:
            run = bench.prepare(event, form)
            digests[form] = run.digest(run.act())
        assert len(set(digests.values())) == 1, (event, digests)
        times: dict[str, list[float]] = {form: [] for form in cases.FORMS}
        for _ in range(n_rounds(event, n_partitions)):
            for form in cases.FORMS:
                times[form].append(bench.seconds(event, form))
        limit = bench.moved_bytes(event) / bandwidth
        for form in cases.FORMS:
            median = float(np.median(times[form]))
            values = (
                event, form, n_partitions, n_brokers, bench.affected_rows(event),
                round(median * 1e3, 4), round(limit * 1e3, 4), round(median / limit, 2),
                digests[form],
            )
            rows.append(dict(zip(FIELDS, values, strict=True)))
    return rows


def n_rounds(event: str, n_partitions: int) -> int:
    """How often an event is measured: less often where one round takes seconds."""
    if n_partitions < 1_000_000:
        return ROUNDS
    few = ROUNDS_ROLLING if event == "rolling" else ROUNDS_LARGE
    return few if n_partitions > 1_000_000 else ROUNDS_LARGE if event == "rolling" else ROUNDS


def slopes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per event and form: fitted exponents against affected rows and against all rows."""
    found = []
    for event in cases.EVENTS:
        for form in cases.FORMS:
            some = [r for r in rows if r["event"] == event and r["form"] == form]
            spent = np.log([r["median_ms"] for r in some])
            fits = {"event": event, "form": form}
            for name, column in (("affected", "rows"), ("total", "partitions")):
                size = np.log([r[column] for r in some])
                spread = np.ptp(size)
                fits[name] = round(float(np.polyfit(size, spent, 1)[0]), 2) if spread > 1 else None
            found.append(fits)
    return found


def write_tables(folder: Path, rows: list[dict[str, Any]], where: str) -> None:
    """`growth.csv`, and `growth.md` with the slopes."""
    with (folder / "growth.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    lines = [where, "", "| event | form | partitions | rows | median ms | limit ms | of limit |",
             "|---|---|---|---|---|---|---|"]
    for r in rows:
        lines.append(
            f"| {r['event']} | {r['form']} | {r['partitions']} | {r['rows']} "
            f"| {r['median_ms']:.3g} | {r['limit_ms']:.3g} | {r['of_limit']:.1f} |"
        )
    lines += ["", "| event | form | slope, affected rows | slope, all rows |", "|---|---|---|---|"]
    for s in slopes(rows):
        affected = "all sizes alike" if s["affected"] is None else s["affected"]
        lines.append(f"| {s['event']} | {s['form']} | {affected} | {s['total']} |")
    (folder / "growth.md").write_text("\n".join(lines) + "\n")


def draw(path: Path, rows: list[dict[str, Any]], where: str) -> None:
    """Time against partitions, one panel per event, both axes logarithmic."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kfast"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 3, figsize=(11, 8.5), sharex=True)
    for axis, (event, title) in zip(axes.flat, cases.EVENTS.items(), strict=True):
        for form, marker in zip(cases.FORMS, "o^s", strict=True):
            some = [r for r in rows if r["event"] == event and r["form"] == form]
            sizes = [r["partitions"] for r in some]
            axis.loglog(sizes, [r["median_ms"] for r in some], marker=marker, label=form)
        axis.loglog(sizes, [r["limit_ms"] for r in some], "--", color="gray", label="limit")
        axis.set_title(title, fontsize=10)
        axis.grid(True, which="major", alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("partitions")
    for axis in axes[:, 0]:
        axis.set_ylabel("ms")
    axes[0, 0].legend()
    figure.suptitle(where, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def this_machine(bandwidth: float, share: float) -> str:
    """What the figures were made on, when, and how much of a processor the run had."""
    model = cases.processor_name()
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return (
        f"{model}, {os.cpu_count()} cores, of one of which the last size had {share:.0%}; "
        f"CPU time of one thread, {day}; RF 3; "
        f"limit: bytes to be moved at {bandwidth / 1e9:.1f} GB/s (copy, same run)"
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure all sizes; write growth.csv, growth.md, growth.json and growth.svg."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth")
    parser.add_argument("--most", type=int, default=1_000_000, help="partitions of the largest")
    parser.add_argument("--least", type=int, default=LEAST, help="partitions of the smallest")
    parser.add_argument("--events", nargs="*", choices=cases.EVENTS, default=list(cases.EVENTS))
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    bandwidth = cases.copy_bandwidth()
    measure(LEAST, bandwidth)
    size = options.least
    kept = options.folder / "growth.json"
    known = json.loads(kept.read_text())["rows"] if size > LEAST and kept.exists() else []
    rows = [
        row for row in known
        if row["partitions"] < size or row["event"] not in options.events
    ]
    while size <= options.most:
        begin = time.perf_counter(), time.process_time()
        rows += measure(size, bandwidth, options.events)
        share = (time.process_time() - begin[1]) / (time.perf_counter() - begin[0])
        where = this_machine(bandwidth, share)
        write_tables(options.folder, rows, where)
        document = {"where": where, "rows": rows, "slopes": slopes(rows)}
        kept.write_text(json.dumps(document, indent=1) + "\n")
        draw(options.folder / "growth.svg", rows, where)
        print(f"{size} partitions measured and written", flush=True)
        size *= 10
    return 0


if __name__ == "__main__":
    sys.exit(main())
