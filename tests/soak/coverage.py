"""What a soak can meet, and what of it was not met yet."""

from __future__ import annotations

from tests.kraft.test_kraft_random import RULES, UNREACHABLE, UNREACHABLE_REFUSALS
from tests.kraft.test_quorum_refusals import REFUSALS
from tests.rules.test_random_events import everything
from tests.soak.progress import Progress
from tests.support.kraft_every_rule import MISTAKES
from tests.support.reached_lines import ReachedLines


def tables() -> dict[str, set[str]]:
    """Everything that can be met and is counted, by the names of `rounds.Met.counts`."""
    refusals = {(op, code) for op, codes in REFUSALS.items() for code in codes.split()}
    return {
        "ZooKeeper mode: transitions, elections, refusals, faults of the store": everything(),
        "KRaft: refusals": {
            f"refusal {op} | {code}" for op, code in refusals - set(UNREACHABLE_REFUSALS)
        },
        "KRaft: mistakes in requests, with their answers": {
            f"mistake {op} | {name} | {code}"
            for op, kinds in MISTAKES.items() for name, (_, code) in kinds.items()
        },
    }


def report(progress: Progress) -> list[str]:
    """Lines that say what was met, and name what was not."""
    lines = []
    for title, possible in tables().items():
        left = sorted(name for name in possible if not progress.counts[name])
        lines.append(f"{title}: {len(possible) - len(left)} of {len(possible)} met")
        lines += [f"    not met: {name}" for name in left]
    rules = ReachedLines(RULES).unreached() - set(UNREACHABLE)
    unmet = rules if progress.lines_left is None else rules & progress.lines_left
    lines.append(f"KRaft: lines of the twin's rules: {len(rules) - len(unmet)} of {len(rules)} run")
    lines += [f"    did not run: {line}" for line in sorted(unmet)[:20]]
    return lines
