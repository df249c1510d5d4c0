"""Random clusters and random events: after each one, kfast and its plain Python twin are equal.

    python -m tests.rules.test_random_events --seed 17 --events 43

repeats one sequence and prints its events. What must hold after every event: the whole state,
the counters, the gauges, the store, the answers and the journal are the twin's; digests do not
depend on layout, threads or journal level; the invariants of docs/controller.md, section 9, hold.

Every event finds its rows by the kernels of `kfast.kernels.hosting` (`select_slots`, `find_slots`,
`list_groups`, `live_slots`, `refresh_leader_offline`) in the index that `list_hosted` makes; a
failover starts with `count_started`, `start_replicas` and `initialize_partitions`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import Any

import pytest

from kfast.schema import (
    AlterCode,
    Code,
    PartitionState,
    ReassignmentCode,
    ReplicaState,
    Strategy,
)
from tests.support.event_run import Coverage, DifferenceError, Sequence
from tests.support.kfast_run import SETTINGS, Setting
from tests.support.random_events import FAULTS
from tests.support.reference_profiles import PROFILES

EVENTS = 200
SEEDS = (4, 6, 8, 15, 1)
"""The first four meet everything that can happen."""

MARKS = (
    "reassignment", "reassignment of a queued topic", "reassignment begun",
    "reassignment completed", "reassignment dropped replicas", "reassignment kept the leader",
    "reassignment moved the leader", "reassignment raised IllegalState",
    "reassignment raised NoSuchElement", "reassignment raised StateChangeFailed",
    "reassignment raised StoreError", "deletion started", "deletion finished",
    "deletion tried again", "deletion failed for a replica",
    "deletion of a topic being reassigned", "topic created again",
)
"""What reassignments and deletions have to come to (sections 6.7 and 6.12)."""

UNREACHABLE: dict[str, str] = {
    "code CONFIG_LOOKUP_LOGGED": "a mark inside kfast; its log row says FAILED",
    "code UNDECODABLE": "only versions from 1.1 to 2.3 fail a call for a record",
    "election OFFLINE_ALLOW_UNCLEAN CONFIG_LOOKUP_FAILED": "the argument permits; nothing is read",
    "election REASSIGN unclean": "only the offline strategy may leave the ISR",
    "election PREFERRED_REPLICA unclean": "only the offline strategy may leave the ISR",
    "election CONTROLLED_SHUTDOWN unclean": "only the offline strategy may leave the ISR",
    "election REASSIGN CONFIG_LOOKUP_FAILED": "only the offline strategy reads configurations",
    "election PREFERRED_REPLICA CONFIG_LOOKUP_FAILED":
        "only the offline strategy reads configurations",
    "election CONTROLLED_SHUTDOWN CONFIG_LOOKUP_FAILED":
        "only the offline strategy reads configurations",
}
"""What cannot happen, and why."""


def everything() -> set[str]:
    """What the runs have to meet at least once."""
    states = [s for s in ReplicaState if s != ReplicaState.NO_ENTRY]
    partition_states = [s for s in PartitionState if s != PartitionState.NO_ENTRY]
    things = {f"cell {a.label} -> {b.label}" for a in states for b in states}
    things |= {f"cell {a.label} -> {b.label}" for a in partition_states for b in partition_states}
    outcomes = ("ELECTED", "unclean", "NO_ELIGIBLE_LEADER", "CONFIG_LOOKUP_FAILED", "STORE_ERROR")
    things |= {f"election {s.name} {outcome}" for s in Strategy for outcome in outcomes}
    firsts = ("INITIALIZED", "NO_LIVE_REPLICA", "NODE_EXISTS", "STORE_ERROR", "CREATE_CALL_FAILED")
    things |= {f"election INITIALIZATION {outcome}" for outcome in firsts}
    things |= {f"code {code.name}" for code in Code}
    things |= {f"alter {code.name}" for code in AlterCode}
    things |= {f"reassignment code {code.name}" for code in ReassignmentCode}
    things |= {f"mark {mark}" for mark in MARKS}
    things |= {f"fault {op} {fault}" for op, fault in FAULTS}
    return things - set(UNREACHABLE)


def seen(coverage: Coverage) -> Counter[str]:
    """How often each thing was met, by the same names."""
    counts: Counter[str] = Counter()
    for label, table in (("cell", coverage.cells), ("election", coverage.elections),
                         ("fault", coverage.faults)):
        for key, count in table.items():
            text = f"{key[0]} -> {key[1]}" if label == "cell" else f"{key[0]} {key[1]}"
            counts[f"{label} {text}"] += count
    counts.update({f"code {name}": count for name, count in coverage.codes.items()})
    counts.update({f"alter {name}": count for name, count in coverage.alter_codes.items()})
    counts.update({
        f"reassignment code {name}": count
        for name, count in coverage.reassignment_codes.items()
    })
    counts.update({f"mark {name}": count for name, count in coverage.marks.items()})
    counts.update({f"event {name}": count for name, count in coverage.events.items()})
    return counts


@pytest.fixture(scope="module")
def met() -> Counter[str]:
    """What all sequences of this file met, summed."""
    return Counter()


def settings_of(seed: int, with_store: bool) -> tuple[Setting, ...]:
    """Layouts, numbers of threads and levels of the journal: side by side first, then in turn."""
    return SETTINGS if seed == SEEDS[0] else (SETTINGS[(seed + with_store) % len(SETTINGS)],)


@pytest.mark.kernels
@pytest.mark.parametrize("with_store", [False, True], ids=["cache", "store"])
@pytest.mark.parametrize("seed", SEEDS)
def test_kfast_and_its_twin_agree_after_every_event(seed, with_store, met):
    """200 random events on a random cluster, in both layouts, 1 and 2 threads, every journal."""
    sequence = Sequence(seed, with_store, settings=settings_of(seed, with_store))
    met.update(seen(sequence.run(EVENTS)))
    met["sequences"] += 1


@pytest.mark.kernels
@pytest.mark.parametrize(("seed", "with_store", "profile", "events"), [
    pytest.param(730574468, True, "zk-2.0", 14, id="a node of reassignments in another order"),
    pytest.param(1493610, True, "zk-2.4", 2, id="an ISR is reported of a record that has changed"),
    pytest.param(936444765, False, "zk-2.0", 192, id="two replicas join an assignment at once"),
    pytest.param(494813472, True, "zk-1.1", 93, id="a waiting topic has a replica without a state"),
    pytest.param(1960229411, False, "zk-2.0", 141, id="who is no longer assigned is being deleted"),
    pytest.param(1477083400, True, "zk-2.4", 161, id="a failover with an emptied assignment"),
    pytest.param(605671714, False, "zk-2.4", 45, id="an ISR of a record that a deletion changed"),
    pytest.param(148002332, True, "zk-3.9", 64, id="a failover reads more than the cache knew"),
    pytest.param(910311159, False, "zk-3.9", 163, id="a topic is gone before a later one raises"),
    pytest.param(1139401515, True, "zk-1.1", 53, id="an epoch is raised of a record not cached"),
    pytest.param(2088643784, False, "zk-2.4", 69, id="who failed is written with its topic later"),
    pytest.param(1267717291, True, "zk-3.9", 17, id="a leader wrote over a newer controller"),
    pytest.param(776535383, True, "zk-3.9", 198, id="a notification brings the first record"),
])
def test_what_long_runs_met_is_mended(seed, with_store, profile, events):
    """Sequences in which kfast and its twin once parted, at the level `full` or below it."""
    Sequence(seed, with_store, profile, settings=SETTINGS[::2]).run(events)


def test_everything_that_can_happen_did_happen(met):
    """Both matrices, every election outcome, refusal and fault were met by the sequences above."""
    if met["sequences"] < 2 * len(SEEDS):
        pytest.skip("only meaningful after all sequences of this file")
    for thing in sorted({*everything(), *met}):
        print(f"{met[thing]:8} {thing}")
    assert sorted(thing for thing in everything() if met[thing] == 0) == []
    assert sorted(thing for thing in UNREACHABLE if met[thing]) == []


@pytest.mark.kernels
@pytest.mark.parametrize("with_store", [False, True], ids=["cache", "store"])
def test_few_events_on_many_clusters(with_store):
    """What goes wrong on few clusters goes wrong soon: six more of each kind."""
    for seed in range(100, 106):
        Sequence(seed, with_store).run(10)


def main(arguments: list[str] | None = None) -> int:
    """Repeat one sequence and print its events."""
    parser = argparse.ArgumentParser(prog="python -m tests.rules.test_random_events")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--no-store", action="store_true", help="the cache is the store")
    parser.add_argument("--profile", default="zk-3.9", choices=sorted(PROFILES))
    parser.add_argument("--counts", action="store_true", help="print what was met, how often")
    options: Any = parser.parse_args(arguments)
    sequence = Sequence(options.seed, not options.no_store, options.profile)
    try:
        sequence.run(options.events)
    except DifferenceError as error:
        print("\n".join(sequence.log))
        print(error)
        return 1
    print("\n".join(sequence.log))
    if options.counts:
        for thing, count in sorted(seen(sequence.coverage).items()):
            print(f"{count:8} {thing}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
