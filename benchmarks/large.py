"""A hundred million partitions: each form in a process of its own, one event after the other.

    python -m benchmarks.large --partitions 100000000 --brokers 3000 --folder benchmarks/results

Copies of such a cluster do not fit in memory, so the events follow each other on one: the
controller starts, single brokers fail in turn, then a rack, then the controller starts again. What
is said of a form: CPU time of its thread per event (median of the single brokers), resident and
peak memory after the first start, in which every row has been written. All forms must end with the
same digest. For kfast also: how long it takes to generate, to save and to open the cluster.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kfast
from benchmarks import cases, plain_numba, plain_numpy

SINGLES = 7
"""Brokers that fail one after the other."""


def memory_gib(name: str) -> float:
    """`VmRSS` or `VmHWM` of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return round(int(line.split()[1]) / (1 << 20), 2)
    raise KeyError(name)


def timed(times: dict[str, Any], name: str, act: Callable[[], Any]) -> Any:
    """Note CPU time and time by the clock, in ms."""
    begin = time.thread_time(), time.perf_counter()
    done = act()
    end = time.thread_time(), time.perf_counter()
    times.setdefault(name, []).append([round((e - b) * 1e3, 3) for b, e in zip(begin, end,
                                                                             strict=True)])
    return done


def events(act: dict[str, Callable[..., Any]], n_brokers: int, times: dict[str, Any]) -> list[Any]:
    """The events in their order."""
    done = [timed(times, "start", act["start"])]
    times["resident_gib"], times["peak_gib"] = memory_gib("VmRSS"), memory_gib("VmHWM")
    for broker in range(1, 1 + 3 * SINGLES, 3):
        done.append(timed(times, "one", lambda broker=broker: act["fail"](np.array([broker]))))
    rack = np.arange(0, n_brokers, 3)
    done.append(timed(times, "rack", lambda: act["fail"](rack)))
    done.append(timed(times, "failover", act["start"]))
    return done


def run_kfast(shape: dict[str, Any], disk: bool) -> dict[str, Any]:
    """The events in kfast, after all that is to be had before."""
    times: dict[str, Any] = {}
    state = timed(times, "generate", lambda: kfast.generate(**shape))
    controller = kfast.Controller(state)

    def start() -> Any:
        # The next controller takes over the state; it is another one.
        return kfast.Controller(state).on_controller_failover()

    act = {"start": start, "fail": lambda rows: controller.on_broker_failure(rows.tolist())}
    times["digest"] = cases.digest(state, events(act, shape["brokers"], times))
    if disk:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            place = Path(folder, "cluster")
            timed(times, "save", lambda: state.save(place))
            for _ in range(SINGLES):
                timed(times, "open", lambda: kfast.open(place, verify=False))
    return times


def run_plain(shape: dict[str, Any], form: str) -> dict[str, Any]:
    """The events in numpy, or in loops of numba, which are compiled on a small cluster."""
    module = {"numpy": plain_numpy, "numba": plain_numba}[form]
    small = cases.Bench(kfast.generate(**(shape | {"partitions": 3000, "brokers": 30})))
    for event in ("start", "one", "rack", "failover"):
        small.prepare(event, form).act()
    replicas = kfast.generate(**shape).replicas.copy()
    columns = plain_numpy.fresh(replicas, shape["brokers"])
    times: dict[str, Any] = {}
    act = {"start": lambda: module.start(columns), "fail": lambda rows: module.fail(columns, rows)}
    events(act, shape["brokers"], times)
    times["digest"] = columns.digest()
    return times


def main(arguments: list[str] | None = None) -> int:
    """Measure every form in a process of its own; write large.json and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large")
    parser.add_argument("--partitions", type=int, default=100_000_000)
    parser.add_argument("--brokers", type=int, default=3000)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--form", choices=cases.FORMS, help="this form alone, to standard output")
    parser.add_argument("--no-disk", dest="disk", action="store_false", help="save nothing")
    options = parser.parse_args(arguments)
    shape = {
        "brokers": options.brokers, "partitions": options.partitions, "racks": 3, "seed": 42,
        "replication_factor": cases.REPLICATION_FACTOR,
    }
    if options.form:
        plain = options.form != "kfast"
        found = run_plain(shape, options.form) if plain else run_kfast(shape, options.disk)
        print(json.dumps(found))
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    forms = {}
    for form in cases.FORMS:
        command = [sys.executable, "-m", "benchmarks.large", "--form", form, "--partitions",
                   str(options.partitions), "--brokers", str(options.brokers),
                   *([] if options.disk else ["--no-disk"])]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        forms[form] = json.loads(done.stdout)
        print(form, forms[form], flush=True)
    assert len({found["digest"] for found in forms.values()}) == 1
    bandwidth = cases.copy_bandwidth()
    text = {"machine": cases.processor_name(), "copy_gb_per_s": round(bandwidth / 1e9, 1),
            "shape": shape, "forms": forms}
    (options.folder / "large.json").write_text(json.dumps(text, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
