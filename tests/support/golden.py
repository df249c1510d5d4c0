"""Golden digests: what random events did on the day that they were recorded.

    python -m tests.support.golden            compare; name the sequences that differ
    python -m tests.support.golden --record   record anew: only where an answer is to change

The twin says what is right; these say that nothing changed, bit for bit: the state's digest, and
every table, code and count of the outcome, after each event of 200 sequences per profile.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

from tests.support.event import Event
from tests.support.event_run import Sequence
from tests.support.kfast_run import RowOrder, Setting
from tests.support.reference_profiles import PROFILES

RECORD = Path(__file__).with_name("golden.json")
SEQUENCES = 200
EVENTS = 12
SETTING = Setting("narrow", 1, "full")
ARRAYS = ("codes", "in_result", "remaining", "reassignment_codes", "alter_codes", "altered")
VALUES = ("event", "actions", "failure", "error", "rebalanced", "senders", "notes")
TABLES = ("steps", "request_counts", "replies", "imbalance")


def facts(outcome: Any) -> dict[str, Any]:
    """Everything that an outcome says, in plain values."""
    tables = {name: getattr(outcome, name) for name in TABLES} | outcome.tables
    return {
        **{name: getattr(outcome, name).tolist() for name in ARRAYS},
        **{name: str(getattr(outcome, name)) for name in VALUES},
        **{name: None if table is None else table.to_pylist() for name, table in tables.items()},
        "counts": str(outcome.counts),
    }


class GoldenSequence(Sequence):
    """A sequence whose events the twin draws, and whose bits are digested, not compared."""

    def run(self, events: int) -> Any:
        """Run events; `digest` has what came of them."""
        self.hash = hashlib.blake2b(digest_size=8)
        return super().run(events)

    def step(self, event: Event, number: int) -> None:
        """Do one event to the twin, which draws the next, and to kfast."""
        [run] = self.kfast
        self.twin.controller.rank = RowOrder(run)
        self.twin.apply(event)
        outcome = run.apply(event)
        did = None if outcome is None else facts(outcome)
        self.hash.update(repr((number, event.name, run.state.digest(), did)).encode())


def digest(profile: str, seed: int) -> str:
    """Digest of one sequence; every other one has a store."""
    sequence = GoldenSequence(seed, seed % 2 == 1, profile, (SETTING,))
    sequence.run(EVENTS)
    return sequence.hash.hexdigest()


def recorded() -> dict[str, list[str]]:
    """Digests on record: of each profile those of its sequences, by seed."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def main() -> None:
    """Compare, or record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true")
    digests_now = {name: [digest(name, seed) for seed in range(SEQUENCES)] for name in PROFILES}
    if parser.parse_args().record:
        RECORD.write_text(json.dumps(digests_now, indent=0) + "\n", encoding="utf-8")
        return
    for name, digests in recorded().items():
        different = [seed for seed in range(SEQUENCES) if digests[seed] != digests_now[name][seed]]
        print(f"{name}: {len(different)} of {SEQUENCES} differ{': ' * bool(different)}"
              f"{', '.join(map(str, different[:20]))}")


if __name__ == "__main__":
    main()
