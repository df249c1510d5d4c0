"""Run rounds until there are enough steps; each has a process of its own.

    python -m tests.soak [--steps N] [--seconds N] [--seed N] [--jobs N] [--state FILE]
    python -m tests.soak --seed N --round N       one round again, in this process
    python -m tests.soak --state FILE --report    what has been done so far

A round that differs, that ends its process, or that does not end is noted, and the next one begins.
The exit code is 1 where there was a difference, 2 where the file cannot be gone on with.
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.soak.coverage import report
from tests.soak.progress import Progress, ProgressError, read_progress
from tests.soak.rounds import Met, Round
from tests.support.cli_run import ROOT

PATIENCE = 900.0
"""Seconds in which a round has to end."""


def work(one: Round, results: Connection) -> None:
    """Do a round, and send what it met, or the text of its difference."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        results.send(one.run())
    except Exception as error:  # noqa: BLE001 - whatever a round raises is a difference
        text = "".join(traceback.format_exception(error))
        results.send(text.replace(f"{ROOT}/", ""))  # The progress goes from machine to machine.


@dataclass
class Running:
    """A round under way."""

    one: Round
    process: Any
    results: Connection
    since: float

    @classmethod
    def start(cls, one: Round) -> Running:
        """Begin a round in a process of its own."""
        context = multiprocessing.get_context("fork")
        results, there = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(one, there))
        process.start()
        there.close()
        return cls(one, process, results, time.monotonic())

    def result(self) -> Met | str:
        """What it sent; what became of it where it sent nothing."""
        try:
            sent: Met | str = self.results.recv()
        except EOFError:
            self.process.join()
            return f"its process ended with {self.process.exitcode}"
        self.process.join()
        return sent

    def stop(self) -> None:
        """End it by its process."""
        self.process.kill()
        self.process.join()


def finished(running: list[Running]) -> Iterator[tuple[Running, Met | str]]:
    """Wait for the next rounds that end, and take them off the list."""
    ready = wait([one.results for one in running], timeout=1.0)
    for one in list(running):
        if one.results in ready:
            running.remove(one)
            yield one, one.result()
        elif time.monotonic() - one.since > PATIENCE:
            running.remove(one)
            one.stop()
            yield one, f"it did not end in {PATIENCE:.0f} s"


def run(progress: Progress, n_steps: int, seconds: float, jobs: int, path: Path | None) -> None:
    """Do rounds until there are enough steps, or the time is over."""
    running: list[Running] = []
    numbers, begin = progress.numbers(), time.monotonic()
    try:
        while True:
            while (
                len(running) < jobs and progress.steps.total() < n_steps
                and time.monotonic() - begin < seconds
            ):
                running.append(Running.start(Round(progress.seed, next(numbers))))
            if not running:
                return
            for one, met in finished(running):
                note(progress, one, met)
                if path is not None:
                    progress.write(path)
    finally:
        for one in running:
            one.stop()


def note(progress: Progress, running: Running, met: Met | str) -> None:
    """Add a round to what is done, and print it."""
    one, took = running.one, time.monotonic() - running.since
    label = f"round {one.number} of seed {one.run_seed}, {one.kind}"
    if isinstance(met, str):
        progress.add_difference(one.number, one.kind, met, took)
        again = f"python -m tests.soak --seed {one.run_seed} --round {one.number}"
        print(f"{label}: DIFFERENCE\n{met}\nrepeat with: {again}", flush=True)
        return
    progress.add(one.number, one.kind, met, took)
    print(f"{label}: {met.steps} steps, {met.steps / took:.0f} per second; "
          f"{progress.steps.total()} in all", flush=True)


def show(progress: Progress) -> None:
    """Print what was done, and what of everything was met."""
    total, seconds = progress.steps.total(), progress.seconds
    print(f"\nseed {progress.seed}: {total} steps in {progress.n_rounds} rounds and "
          f"{seconds:.0f} s of rounds, {total / max(seconds, 1e-9):.0f} per second")
    for kind, n in sorted(progress.steps.items()):
        print(f"    {kind}: {n} steps")
    print("\n".join(report(progress)))
    for difference in progress.differences:
        print(f"round {difference['round']}, {difference['kind']}: DIFFERENCE\n"
              f"{difference['text']}")
    print(f"{len(progress.differences)} differences")


def opened(path: Path | None, seed: int | None) -> Progress:
    """Progress to go on with, or that of a run that begins."""
    if path is not None and path.exists():
        progress = read_progress(path)
        if seed not in (None, progress.seed):
            raise ProgressError(
                f"{path} is of seed {progress.seed}, not of {seed}; remove it to begin again"
            )
        return progress
    return Progress(secrets.randbelow(2**31) if seed is None else seed)


def main(arguments: list[str] | None = None) -> int:
    """Run; 0 where everything is equal."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"),
                        help="begin no round after so many")
    parser.add_argument("--seed", type=int, help="a fresh one, which is printed, unless given")
    parser.add_argument("--jobs", type=int, default=1, help="rounds side by side")
    parser.add_argument("--state", type=Path, metavar="FILE", help="go on with what it has")
    parser.add_argument("--round", type=int, metavar="N", help="do only this one, in this process")
    parser.add_argument("--report", action="store_true", help="only say what has been done")
    options = parser.parse_args(arguments)
    try:
        progress = opened(options.state, options.seed)
    except ProgressError as error:
        print(error, file=sys.stderr)
        return 2
    if options.round is not None:
        one = Round(progress.seed, options.round)
        print(f"{one.kind}: {one.run().steps} steps, no difference")
        return 0
    print(f"seed {progress.seed}, {progress.n_rounds} rounds done", flush=True)
    if not options.report:
        run(progress, options.steps, options.seconds, options.jobs, options.state)
    show(progress)
    return int(bool(progress.differences))


if __name__ == "__main__":
    sys.exit(main())
