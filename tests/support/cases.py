"""Run a cases file (the format of ../shared/data/README.md) and say which cases pass.

    python -m tests.support.cases FILE [FILE ...] [--twin] [--no-store]

The runner knows the format and nothing of Kafka: an adapter sets up what a case gives, runs its
operation and answers what it sees. A case passes only if every key of its `expect` was compared;
an operation or a key that an adapter does not know fails the case.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.cases_adapters import KfastAdapter, TwinAdapter
from tests.support.cases_format import GIVEN, Adapter, Case, Seen, UnknownError, check, load


def run_case(
    case: Case, make: Callable[[Case], Adapter], skip: frozenset[str] = frozenset()
) -> list[str]:
    """Run one case; what differs, one text each. Keys in `skip` are not compared."""
    unknown = sorted(set(case["given"]) - GIVEN)
    if unknown:
        return [f"the case gives {', '.join(unknown)}, which is not known"]
    adapter = make(case)
    op, args = case["when"]["op"], case["when"]["args"]
    expect = {k: v for k, v in case["expect"].items() if k not in skip}
    if not case["expect"] and op != "sequence":
        return ["the case expects nothing"]
    try:
        if op != "sequence":
            return check(adapter, expect, adapter.run(op, args), whole=True)
        wrong: list[str] = []
        seen: Seen = {}
        for number, step in enumerate(args["steps"], start=1):
            now = adapter.run(step["op"], step["args"])
            differences = check(adapter, step.get("expect", {}), now, whole=False)
            wrong += [f"step {number}: {text}" for text in differences]
            seen |= now
        return wrong + check(adapter, expect, seen, whole=True)
    except UnknownError as error:
        return [str(error)]


def runs_without_store(case: Case) -> bool:
    """Whether the cache can stand for the store: records equal, and no fault or version given."""
    given = case["given"]
    other = {"store_faults", "store_next_version"} & set(given)
    faults = any("fault" in config for config in given.get("topic_configs", {}).values())
    is_machine = "_sm." in case["when"]["op"]
    same = given.get("store", {}) == given.get("leadership", {})
    return is_machine and same and not other and not faults


NO_STORE_SKIPS = frozenset({"store", "store_calls"})


def failures(
    cases: list[Case], make: Callable[[Case], Adapter], no_store: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """The failing cases: id, and what differs."""
    skip = NO_STORE_SKIPS if no_store else frozenset()
    for case in cases:
        wrong = run_case(case, make, skip)
        if wrong:
            yield case["id"], wrong


def choose_adapter(twin: bool, no_store: bool) -> Callable[[Case], Adapter]:
    """The adapter that the command line asks for."""
    adapter = TwinAdapter if twin else KfastAdapter
    return lambda case: adapter(case, no_store)


def main(arguments: list[str] | None = None) -> int:
    """Run the files; 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.cases", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--twin", action="store_true", help="run the plain Python twin")
    parser.add_argument(
        "--no-store", action="store_true", help="the cache is the store, where a case allows it"
    )
    options = parser.parse_args(arguments)
    make = choose_adapter(options.twin, options.no_store)
    cases = [case for path in options.files for case in load(path)]
    if options.no_store:
        cases = [case for case in cases if runs_without_store(case)]
    failed = 0
    for name, wrong in failures(cases, make, options.no_store):
        failed += 1
        print(f"{name}: {'; '.join(wrong)}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
