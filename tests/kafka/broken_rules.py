"""Break rules of kfast's kernels on purpose: each must be found beside Kafka and shrunk.

    python -m tests.kafka.broken_rules [--seed SEED] [--rule TEXT]

A broken rule is another text in a kernel's source. It is put into a copy of the tree, the kernels
that have it are compiled again, and `python -m tests.kafka.lockstep` runs there beside Kafka. The
exit code is 1 where a rule is not found within 10 000 events, or is not shrunk to 8.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.kafka_classes import KRAFT, ZOOKEEPER, MissingToolError, build

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("kfast", "tests", "setup.py", "pyproject.toml", "README.md", "build/lockstep")
KERNELS = Path("kfast") / "kernels"
MOST_STEPS, MOST_EVENTS = 10_000, 8
KRAFT_RELEASE, ZK_RELEASE = "4.1.2", "3.9.1"


@dataclass(frozen=True)
class BrokenRule:
    """A rule, the release of Kafka that has it, and how it is broken."""

    name: str
    kafka: str
    kernel: str
    text: str
    broken: str


RULES = (
    BrokenRule(
        "ELR: who leaves the ISR does not become eligible", KRAFT_RELEASE, "partition_change.pxd",
        "targets.elr = (partition.elr | partition.isr) &", "targets.elr = partition.elr &",
    ),
    BrokenRule(
        "leader epoch: the metadata version that bumps it on a shrink is the other one",
        KRAFT_RELEASE, "partition_change.pxd", "if rules.bumps_on_shrink and",
        "if not rules.bumps_on_shrink and",
    ),
    BrokenRule(
        "preferred election: the leader of now comes before the preferred replica", KRAFT_RELEASE,
        "partition_change.pxd", "if targets.mode == ELECT_PREFERRED:",
        "if targets.mode == ELECT_UNCLEAN:",
    ),
    BrokenRule(
        "unclean election: a topic need not allow it where another one does", KRAFT_RELEASE,
        "partition_change.pxd", "and rules.unclean[row.topic_row[row.index]]",
        "and rules.unclean[0] + 1",
    ),
    BrokenRule(
        "min ISR: it may be more than the replicas of the first partition", KRAFT_RELEASE,
        "partition_change.pxd", "first >= 0 and in_sync >=", "first >= 0 and in_sync - 1 >=",
    ),
    BrokenRule(
        "reassignment: complete without the replicas that stay", KRAFT_RELEASE,
        "partition_change.pxd", "cdef uint64_t needed = remaining", "cdef uint64_t needed = adding",
    ),
    BrokenRule(
        "controlled shutdown: a broker that shuts down may be elected", ZK_RELEASE, "election.pxd",
        "candidates = choice.recipients & isr & ~seen.shutting_down",
        "candidates = choice.recipients & isr",
    ),
    BrokenRule(
        "ISR: its last member leaves with its broker", ZK_RELEASE, "isr.pxd",
        "isr & ~member if may_empty or isr & ~member else isr", "isr & ~member",
    ),
)


@dataclass(frozen=True)
class Found:
    """How a broken rule was found: events until then, events that still show it."""

    steps: int
    events: int
    op: str
    seconds: float


def kernels_with(file: str, folder: Path) -> set[str]:
    """Kernels whose code has that of a file, directly or through what they cimport."""
    stems = {file.partition(".")[0]}
    paths = [path for path in folder.iterdir() if path.suffix in (".pyx", ".pxd")]
    sources = {path: path.read_text("utf-8") for path in paths}
    while True:
        more = {
            path.stem for path, text in sources.items()
            if any(f"kfast.kernels.{stem} cimport" in text for stem in stems)
        }
        if more <= stems:
            return stems
        stems |= more


def break_rule(rule: BrokenRule, tree: Path) -> None:
    """Make a copy of this tree in which the rule is broken; no other kernel is compiled again."""
    for name in COPIED:
        source, target = ROOT / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    path = tree / KERNELS / rule.kernel
    path.write_text(path.read_text("utf-8").replace(rule.text, rule.broken), "utf-8")
    compiled = kernels_with(rule.kernel, tree / KERNELS) | {"source_digest"}
    for kernel in (tree / KERNELS).glob("*.pyx"):
        if kernel.stem not in compiled:
            kernel.unlink()
    run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], tree)


def run(command: list[str], tree: Path, accepted: tuple[int, ...] = (0,)) -> str:
    """What a command printed that was run in a tree, with its package."""
    done = subprocess.run(
        command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, text=True,
        capture_output=True, check=False,
    )
    if done.returncode not in accepted:
        raise RuntimeError(f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def find(rule: BrokenRule, seed: int) -> Found | None:
    """Run beside Kafka with a broken rule; None where it is not found."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        break_rule(rule, tree)
        shown = run(
            [sys.executable, "-m", "tests.kafka.lockstep", "--kafka", rule.kafka,
             "--seed", str(seed), "--steps", str(MOST_STEPS)], tree, (0, 1),
        )
    steps = re.search(r"^(\d+) steps of", shown, re.MULTILINE)
    events = re.search(r"differs at its event \d+ \((\w+)\), and with (\d+) events", shown)
    if steps is None or events is None:
        return None
    return Found(int(steps[1]), int(events[2]), events[1], time.monotonic() - started)


def main(arguments: list[str] | None = None) -> int:
    """Break each rule; 0 where all were found and shrunk."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.broken_rules")
    parser.add_argument("--seed", type=int, help="by default a fresh one, which is printed")
    parser.add_argument("--rule", default="", help="only rules whose name has this text")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(1 << 40) if options.seed is None else options.seed
    try:
        build(KRAFT_RELEASE, KRAFT)
        build(ZK_RELEASE, ZOOKEEPER)
    except MissingToolError as error:
        print(f"lockstep cannot run: {error}", file=sys.stderr)
        return 2
    print(f"SEED={seed}\n\n| Broken rule | Kafka | Found after | By | Shrunk to |")
    print("|---|---|---|---|---|", flush=True)
    missed = 0
    for rule in RULES:
        if options.rule not in rule.name:
            continue
        found = find(rule, seed)
        missed += found is None or found.events > MOST_EVENTS
        cells = "not found | | " if found is None else (
            f"{found.steps} events | {found.op} | {found.events} events"
        )
        print(f"| {rule.name} | {rule.kafka} | {cells} |", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
