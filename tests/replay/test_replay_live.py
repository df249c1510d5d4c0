"""The live cluster of Kafka 3.9.1, of which every write into ZooKeeper is known, is replayed."""

from __future__ import annotations

import gzip
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kfast.log_replay.engine.simulation import Ran, Simulation
from kfast.log_replay.report.replay import Replay, replay
from kfast.log_replay.report.timeline import Watcher
from tests.support.live_events import Partition, read_events

pytestmark = [pytest.mark.kernels, pytest.mark.slow]
LIVE = "zk-3.9-live"
REPORTED = "decided by a partition's leader"
UNNAMED = "an ISR change whose partitions no line names"
SAY_RECORDS = frozenset({"led", "leader_and_isr", "update_metadata"})
"""Kinds of predictions that have all of a record."""

Life = tuple[Partition, int]
"""A partition, and how often it was created before."""

Record = tuple[int, int, frozenset[int]]
"""Leader, leader epoch and ISR."""


class Live(NamedTuple):
    """The replay, and the records that it simulated, by version."""

    found: Replay
    records: dict[Life, dict[int, set[Record]]]


class Histories:
    """Collects the records of all partitions while a replay is judged."""

    def __init__(self) -> None:
        self.creations: dict[Partition, list[int]] = {}
        self.records: dict[Life, dict[int, set[Record]]] = {}

    def note(self, ran: Ran, simulation: Simulation) -> None:
        """Take down what an event predicts, and the records after it."""
        for row, item in ran.made:
            if row >= 0 and item.key[0] in SAY_RECORDS and item.fields["leader"] >= -1:
                self._add(simulation, row, item.fields)
        for row in [row for rows in simulation.rows.values() for row in rows]:
            record = simulation.state.leadership(row)
            if record is not None:
                self._add(simulation, row, asdict(record))

    def _add(self, simulation: Simulation, row: int, fields: dict[str, Any]) -> None:
        possibility = simulation.possibility[row]
        creations = self.creations.setdefault(possibility.partition, [])
        if id(possibility.creation) not in creations:
            creations.append(id(possibility.creation))
        life = possibility.partition, creations.index(id(possibility.creation))
        self.records.setdefault(life, {}).setdefault(fields["version"], set()).add(
            (fields["leader"], fields["leader_epoch"], frozenset(fields["isr"]))
        )


@pytest.fixture(scope="module")
def live(shared_data) -> Live:
    """All of its log, replayed."""
    folder = shared_data / "controller_logs" / LIVE
    if not folder.is_dir():
        pytest.skip(f"the real logs are not there ({folder})")
    histories = Histories()
    note = Watcher.note

    def note_too(watcher: Watcher, ran: Ran, simulation: Simulation) -> None:
        note(watcher, ran, simulation)
        histories.note(ran, simulation)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watcher, "note", note_too)
        found = replay(folder)
    return Live(found, histories.records)


def written_records(folder: Path) -> dict[Life, dict[int, Record]]:
    """Every record that was written into ZooKeeper, by version."""
    records: dict[Life, dict[int, Record]] = {}
    n_created: dict[Partition, int] = {}
    for event in read_events(folder / "events.jsonl.gz"):
        for _, _, action, path, value, version in (*event["outside"], *event["writes"]):
            parts = path.split("/")
            if parts[-1] != "state" or action == "delete":
                continue
            partition = parts[3], int(parts[5])
            if action == "create":
                n_created[partition] = n_created.get(partition, 0) + 1
            records.setdefault((partition, n_created[partition] - 1), {})[version] = (
                value["leader"], value["leader_epoch"], frozenset(value["isr"])
            )
    return records


def test_the_simulated_records_are_those_that_were_written(live, shared_data):
    """Leaders, leader epochs and ISRs, version by version; what was written is simulated."""
    written = written_records(shared_data / "controller_logs" / LIVE)
    wrong, n_right = [], 0
    for life, versions in live.records.items():
        for version, records in versions.items():
            true = written.get(life, {}).get(version)
            n_right += records == {true}
            if records != {true}:
                wrong.append((life, version, records, true))
    assert wrong == []
    skipped = {
        (life, version): max(live.records[life]) > version
        for life, versions in written.items() for version in versions
        if version not in live.records[life]
    }
    assert all(skipped.values())  # Of several writes within an event the last is compared.
    assert (n_right, len(skipped)) == (2677, 31)


def copy_until(folder, directory, end):
    """Copy the entries of a folder of packed logs that were written before some time."""
    for packed in folder.rglob("*.log.gz"):
        lines, is_early = [], True
        with gzip.open(packed, "rt") as file:
            for line in file:
                is_early = line[1 : 1 + len(end)] < end if line.startswith("[20") else is_early
                lines += [line] * is_early
        copy = directory / packed.relative_to(folder).with_suffix("")
        copy.parent.mkdir(exist_ok=True)
        copy.write_text("".join(lines))
    return directory


def test_a_live_cluster_until_its_first_reassignments_have_ended(shared_data, tmp_path):
    """Creations, controlled shutdowns, starts, twenty reassignments; five brokers' lines.

    The ISR changes show in the brokers' lines alone; those that complete a reassignment come
    before the line that says so, which is when the controller goes on with it.
    """
    folder = shared_data / "controller_logs" / LIVE
    if not folder.is_dir():
        pytest.skip(f"the real logs are not there ({folder})")
    found = replay(copy_until(folder, tmp_path, "2026-11-22 02:18:04"))
    assert found.counts["contradicted"] == 0
    assert found.counts["predicted"] > 151_000
    assert found.reasons[REPORTED] < 700
    assert found.reasons[UNNAMED] == 1  # Its request came after the cut.


def test_a_live_cluster_with_all_its_events(live):
    """Kills, failovers, cancelled and overridden reassignments, a deletion with a dead broker."""
    found = live.found
    assert (found.counts["contradicted"], found.counts["missing"]) == (0, 0)
    assert found.counts["predicted"] > 386_000
    assert found.adopted_share < 0.006
