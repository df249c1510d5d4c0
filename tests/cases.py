"""Run files of cases that Kafka's own classes answered, and say which pass.

    python -m tests.cases FILE [FILE ...] [--twin]

A file holds cases of the ZooKeeper-mode controller or sequences of the KRaft controller
(../shared/data/README.md); its cases say which. kfast runs them, or with `--twin` the plain Python
twin. `tests.support.cases` and `tests.support.kraft_cases` have further options.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support import cases, kraft_cases
from tests.support.kraft_kfast_run import KfastController
from tests.support.kraft_reference.controller import QuorumController


def is_kraft(case: dict[str, Any]) -> bool:
    """Whether a case is a sequence of the KRaft controller."""
    return str(case.get("profile", "")).startswith("kraft-")


def run_kraft_file(path: Path, twin: bool) -> int:
    """Run sequences of the KRaft controller; how many fail."""
    make = QuorumController if twin else KfastController
    n_cases = n_passed = n_events = n_equal = 0
    for case in kraft_cases.load(path):
        equal, wrong = kraft_cases.run_case(case, make)
        n_cases, n_passed = n_cases + 1, n_passed + (not wrong)
        n_events, n_equal = n_events + len(case["events"]), n_equal + equal
        if wrong:
            print(f"{case['id']} {case['profile']}: {wrong[0]}")
    print(f"{path.name}: {n_passed} of {n_cases} cases, {n_equal} of {n_events} events are equal")
    return n_cases - n_passed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files; 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.cases", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--twin", action="store_true", help="run the plain Python twin")
    options = parser.parse_args(arguments)
    failed = 0
    for path in options.files:
        if is_kraft(next(iter(kraft_cases.load(path)), {})):
            failed += run_kraft_file(path, options.twin)
        else:
            failed += cases.main([str(path), *(["--twin"] if options.twin else [])])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
