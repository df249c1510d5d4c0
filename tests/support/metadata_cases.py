"""Cases of `kraft_cases_executed.json` as metadata logs, as Kafka would have written them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kfast.state import metadata_records as logged
from kfast.state.metadata_records import MetadataRecord
from tests.support.kraft_cases import TwinRun
from tests.support.kraft_reference.controller import QuorumController
from tests.support.metadata_writer import Logged, write_log


def batches_of(case: dict[str, Any], monkeypatch: Any, events_per_batch: int = 1) -> list[Logged]:
    """The log of a case: what is given in a transaction, then the records of each event.

    Offsets are those of the case, moved by the records that begin the log.
    """
    written: list[MetadataRecord] = []
    append = QuorumController._append

    def note(controller: QuorumController, record: MetadataRecord) -> None:
        written.append(record)
        append(controller, record)

    monkeypatch.setattr(QuorumController, "_append", note)
    run = TwinRun(case)
    begin, end = logged.BeginTransactionRecord(0), logged.EndTransactionRecord(0)
    groups = [
        [logged.LeaderChangeRecord(0, case["given"]["controller_id"])], [begin, *written, end]
    ]
    events = [*case["setup"], *(step["event"] for step in case["events"])]
    for number, event in enumerate(events):
        written.clear()
        if "fault" in run.run(event):
            break
        if number % events_per_batch:
            groups[-1] += written
        else:
            groups.append(list(written))
    monkeypatch.undo()
    batches, offset = [], 0
    for place, group in enumerate(group for group in groups if group):
        batches.append((offset, 1, 1000 * place, group))
        offset += len(group)
    return batches


def write_case(
    folder: Path, case: dict[str, Any], monkeypatch: Any, events_per_batch: int = 1
) -> Path:
    """Write the log of a case; the folder."""
    write_log(folder, batches_of(case, monkeypatch, events_per_batch))
    return folder
