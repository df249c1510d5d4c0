"""Run Kafka's own controller classes and kfast on the same random events, and compare everything.

    python -m tests.kafka.lockstep [--kafka 4.1.2] [--seed SEED] [--steps STEPS]

Records with their fields and in their order, responses, and the state of every partition and broker
that an event touches are compared after each event; the complete state after every sixteenth.
The first difference is shrunk to few events and printed as a test; then the exit code is 1. It is 2
where Java or Maven is missing. docs/lockstep.md says more.
"""

from __future__ import annotations

import argparse
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from kfast.state.kraft_releases import RELEASES
from tests.kafka.comparison import Step
from tests.kafka.kafka_classes import KRAFT, ZOOKEEPER, KafkaProcess, MissingToolError
from tests.kafka.sequences import LockstepSequence
from tests.kafka.shrinking import KRAFT_MODE, Mode, shrink
from tests.kafka.zk_sequences import ZkSequence
from tests.kafka.zk_shrinking import ZK_MODE
from tests.support.kraft_cases import Json

DEFAULT_KAFKA = "4.1.2"
SEEDS = 1 << 40
SHOWN_EVERY_SECONDS = 30
ZK_PROFILES = ("zk-2.4", "zk-3.9")
"""Releases of ZooKeeper mode that can be run."""


def profile_of(version: str) -> str:
    """The release of kfast's that a version of Kafka is compared with.

    ZooKeeper mode where it has a profile of its own; else KRaft, the newest release up to it.
    """
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ValueError(f"{version!r} is no version of Kafka such as {DEFAULT_KAFKA}")
    if f"zk-{match[0]}" in ZK_PROFILES:
        return f"zk-{match[0]}"
    wanted = int(match[1]), int(match[2])
    known = [
        name for name in RELEASES
        if tuple(map(int, name.removeprefix("kraft-").split("."))) <= wanted
    ]
    if not known:
        raise ValueError(f"Kafka {version} is older than {next(iter(RELEASES))}")
    return known[-1]


@dataclass
class Counts:
    """What a run met."""

    steps: int = 0
    sequences: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)

    def add(self, step: Step) -> None:
        """Count a step."""
        self.steps += 1
        names = step.answer_names() or {"NONE"}
        self.answers.update(f"{step.event['op']} {name}" for name in names)
        self.records.update(step.record_names())


@dataclass
class Difference:
    """The first difference of a run."""

    sequence: int
    n_events: int
    step: Step
    steps: list[Step]
    test: str


Sequence = LockstepSequence | ZkSequence


def mode_of(sequence: Sequence) -> Mode:
    """How a sequence is run and made smaller."""
    return ZK_MODE if isinstance(sequence, ZkSequence) else KRAFT_MODE


def run_sequence(
    kafka: KafkaProcess, sequence: Sequence, counts: Counts, most_steps: int
) -> Difference | None:
    """Run one sequence to its end, or to the first difference, which is shrunk."""
    options, mode = sequence.options(), mode_of(sequence)
    pair = mode.make(kafka, sequence.case, options)
    sequence.run = pair.twin
    counts.sequences += 1
    noted: list[Json] = []

    def events() -> Iterator[Json]:
        for event in islice(sequence.events(), most_steps - counts.steps - len(noted)):
            noted.append(mode.relative(event, pair.twin))
            yield event

    for n_events, step in enumerate(pair.steps(events()), start=1):
        counts.add(step)
        if step.differences:
            events_before = noted[: n_events - pair.n_first_steps]
            case, steps = shrink(kafka, sequence.case, events_before, step, options, mode)
            text = mode.test_text(kafka, case, steps)
            return Difference(counts.sequences, n_events, step, steps, text)
    return None


def run(
    version: str, seed: int, n_steps: int, profile: str | None = None
) -> tuple[Counts, Difference | None]:
    """Run sequences until there are enough steps, or a difference."""
    profile, counts = profile or profile_of(version), Counts()
    shown = time.monotonic()
    is_zk = profile in ZK_PROFILES
    sequence_of = ZkSequence if is_zk else LockstepSequence
    with KafkaProcess(version, ZOOKEEPER if is_zk else KRAFT) as kafka:
        while counts.steps < n_steps:
            sequence: Sequence = sequence_of(seed + counts.sequences, profile)
            difference = run_sequence(kafka, sequence, counts, n_steps)
            if difference is not None:
                return counts, difference
            if time.monotonic() - shown > SHOWN_EVERY_SECONDS:
                shown = time.monotonic()
                print(f"{counts.steps} steps, {counts.sequences} clusters", flush=True)
    return counts, None


def show(difference: Difference) -> None:
    """Print what differs, with the fewest events where it shows again."""
    print(f"cluster {difference.sequence} differs at its event {difference.n_events} "
          f"({difference.step.event['op']})", end="")
    shown = difference.steps[-1].differences
    if shown:
        print(f", and with {len(difference.steps)} events:")
    else:
        print("; not when its events, as they were noted, are run again from the start:")
        shown = [*difference.step.differences, f"the event: {difference.step.event}"]
    for text in shown:
        print(f"  {text}")


def main(arguments: list[str] | None = None) -> int:
    """Run; 0 where everything is equal."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.lockstep")
    parser.add_argument("--kafka", default=DEFAULT_KAFKA, metavar="VERSION")
    parser.add_argument("--seed", type=int, help="by default a fresh one, which is printed")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--profile", choices=[*ZK_PROFILES, *sorted(RELEASES)],
                        help="by default the version's")
    parser.add_argument("--counts", action="store_true", help="print how often each was answered")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(SEEDS) if options.seed is None else options.seed
    try:
        profile = options.profile or profile_of(options.kafka)
        print(f"Kafka {options.kafka} beside kfast's {profile}: SEED={seed} STEPS={options.steps}",
              flush=True)
        started = time.monotonic()
        counts, difference = run(options.kafka, seed, options.steps, profile)
    except MissingToolError as error:
        print(f"lockstep cannot run: {error}", file=sys.stderr)
        return 2
    except ValueError as error:
        parser.error(str(error))
    seconds = time.monotonic() - started
    if options.counts:
        for name, count in sorted({**counts.answers, **counts.records}.items()):
            print(f"{count:9} {name}")
    print(f"{counts.steps} steps of {counts.sequences} clusters in {seconds:.0f} s, "
          f"{counts.steps / seconds:.0f} steps per second; "
          f"{len(counts.answers)} kinds of answers, {len(counts.records)} kinds of records")
    if difference is None:
        print("no difference")
        return 0
    show(difference)
    folder = "test_zk_differences" if profile in ZK_PROFILES else "test_differences"
    print(f"\nPaste into tests/kafka/{folder}.py:\n")
    print(difference.test)
    return 1


if __name__ == "__main__":
    sys.exit(main())
