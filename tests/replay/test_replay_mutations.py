"""Logs that are changed at random: a replay notices what matters, and nothing else."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kfast.log_replay import Replay, replay
from tests.support.cli_run import ROOT
from tests.support.log_values import change_one
from tests.support.long_tests import WHOLE
from tests.support.replay_story import write_logs

FOLDERS = (
    "zk-3.3-one-broker", "zk-2.7-failover-while-deleting", "zk-3.5-topics-made-again",
    "zk-3.0-three-brokers", "zk-3.1-topics-come-and-go", "zk-2.8-two-brokers",
)
"""Real logs of which nothing is contradicted."""

SEED = 17
PER_KIND = int(os.environ.get("MUTATIONS", "200" if WHOLE else "18"))
"""Changes of each kind in real logs; 200 take half an hour."""
FEW = 2
DECISION = re.compile(
    r"\[Controller id=\d+ epoch=\d+\] (?:Changed |Sending |Partition \S+ state changed )"
)
ELECTED = re.compile(
    r"Changed partition (?P<topic>\S+)-(?P<number>\d+) from (?:Offline|Online)Partition to "
    r"OnlinePartition with state LeaderAndIsr\(leader=(?P<leader>\d+), leaderEpoch=(?P<epoch>\d+)"
)
AT = len("[2020-09-13 12:26:50,001] ")
"""Where a line goes on after its time."""

Files = dict[str, list[str]]
Mutation = Callable[[Files, Random], Files | None]


def read_files(source: Path) -> Files:
    """Lines of all files of a log."""
    files = {}
    for path in sorted(path for path in source.rglob("*.log*") if path.is_file()):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="replace")
        files[str(path.relative_to(source)).removesuffix(".gz")] = text.splitlines(keepends=True)
    return files


def replayed(files: Files, target: Path) -> Replay:
    """What becomes of a log with these files."""
    for name, lines in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines))
    return replay(target)


def n_wrong(found: Replay) -> int:
    """Facts that are contradicted or missing."""
    return found.counts["contradicted"] + found.counts["missing"]


def decisions(files: Files) -> list[tuple[str, int]]:
    """Lines in which a controller states a decision, where more lines follow in its file."""
    return [
        (name, at) for name, lines in files.items() if "state-change" in name
        for at in range(1, len(lines) - 1)
        if DECISION.search(lines[at]) and lines[at + 1].startswith("[")
    ]


def drop_a_decision(files: Files, rng: Random) -> Files | None:
    """A line that states a decision is not there."""
    name, at = rng.choice(decisions(files))
    return {**files, name: files[name][:at] + files[name][at + 1 :]}


def change_a_value(files: Files, rng: Random) -> Files | None:
    """One value is another in one line: whatever the line states."""
    name, at = rng.choice(decisions(files))
    lines = list(files[name])
    lines[at] = change_one(lines[at], rng)
    return {**files, name: lines}


def decide_wrongly(files: Files, rng: Random) -> Files | None:
    """An election has another leader, in all lines that state it."""
    places = [(n, i) for n, i in decisions(files) if ELECTED.search(files[n][i])]
    if not places:
        return None
    name, at = rng.choice(places)
    found = ELECTED.search(files[name][at])
    assert found is not None
    topic, number, leader = found["topic"], found["number"], found["leader"]
    names = re.compile(
        rf"partition {re.escape(topic)}-{number}\b|"
        rf"topicName='{re.escape(topic)}', partitionIndex={number},"
    )
    record = re.compile(rf"\bleader={leader}, leaderEpoch={found['epoch']}\b")
    other = f"leader={int(leader) + 1}, leaderEpoch={found['epoch']}"
    return {
        name: [record.sub(other, line) if names.search(line) else line for line in lines]
        for name, lines in files.items()
    }


def exchange_neighbours(files: Files, rng: Random) -> Files | None:
    """Two transitions of different partitions within one step stand in the other order."""
    moved = re.compile(
        r"Changed (?P<what>partition|state of replica \d+ for partition) (?P<partition>\S+) "
        r"(?:state )?(?P<change>from \w+ to \w+)"
    )
    pairs = []
    for name, at in decisions(files):
        one, two = (moved.search(line) for line in files[name][at : at + 2])
        if one and two and one["partition"] != two["partition"] and (
            (one["what"], one["change"]) == (two["what"], two["change"])
        ):
            pairs.append((name, at))
    if not pairs:
        return None
    name, at = rng.choice(pairs)
    lines = list(files[name])
    one, two = lines[at : at + 2]
    lines[at : at + 2] = one[:AT] + two[AT:], two[:AT] + one[AT:]
    return {**files, name: lines}


LEAST: dict[Mutation, float] = {
    drop_a_decision: 0.9, change_a_value: 0.98, decide_wrongly: 1.0,
}
"""Share of the changes of each kind that is to be noticed."""


def noticed(
    kind: Mutation, files: Files, n: int, rng: Random, target: Path
) -> tuple[int, int]:
    """Of so many changes: how many were noticed, and how many there could be."""
    n_noticed = n_made = 0
    for _ in range(n):
        changed = kind(files, rng)
        if changed is not None:
            n_made += 1
            n_noticed += n_wrong(replayed(changed, target)) > 0
    return n_noticed, n_made


@pytest.fixture(scope="module")
def small_logs(tmp_path_factory) -> list[Files]:
    """Logs of the writer and of the example, in which everything agrees."""
    written = [write_logs(tmp_path_factory.mktemp("log"), version) for version in ("2.0", "3.9")]
    return [read_files(source) for source in (ROOT / "bench_data" / "incident", *written)]


@pytest.mark.parametrize("kind", LEAST, ids=lambda kind: kind.__name__)
def test_a_change_in_a_small_log_is_noticed(kind, small_logs, tmp_path):
    """What is complete leaves nothing open."""
    for number, files in enumerate(small_logs):
        n_noticed, n_made = noticed(kind, files, FEW, Random(SEED), tmp_path / str(number))
        assert n_noticed == n_made


def test_an_exchange_in_a_small_log_is_no_alarm(small_logs, tmp_path):
    """In which order a step goes through partitions is not decided by Kafka."""
    for number, files in enumerate(small_logs):
        target = tmp_path / str(number)
        assert noticed(exchange_neighbours, files, FEW, Random(SEED), target)[0] == 0


@pytest.fixture(scope="module")
def real_logs(shared_data) -> list[Files]:
    """Files of real logs."""
    sources = [shared_data / "controller_logs" / name for name in FOLDERS]
    if not all(source.is_dir() for source in sources):
        pytest.skip("the real logs are not there")
    return [read_files(source) for source in sources]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*LEAST, exchange_neighbours], ids=lambda kind: kind.__name__)
def test_changes_in_real_logs(kind, real_logs, tmp_path):
    """As many are noticed as are to be; of those that do not matter none."""
    rng = Random(SEED)
    n_noticed = n_made = 0
    for number, files in enumerate(real_logs):
        share = -(-PER_KIND // len(real_logs))
        some = noticed(kind, files, share, rng, tmp_path / str(number))
        n_noticed, n_made = n_noticed + some[0], n_made + some[1]
    print(f"{kind.__name__}: {n_noticed} of {n_made}")
    if kind is exchange_neighbours:
        assert n_noticed == 0
    else:
        assert n_noticed >= LEAST[kind] * n_made
