"""Records of a metadata log in groups: whatever one operation wrote lies in one group.

Source: docs/kraft.md, section 12; Kafka 4.1, QuorumController.java, `appendRecords`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from kfast.state.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

if TYPE_CHECKING:
    from kfast.io.metadata.log import LoggedRecord

MAX_RECORDS_PER_BATCH = 10_000
"""A longer operation is written as several batches.

Source: QuorumController.java, `DEFAULT_MAX_RECORDS_PER_BATCH`.
"""


def grouped(records: Iterable[LoggedRecord]) -> Iterator[list[LoggedRecord]]:
    """Batches in their order, joined where an operation may go on in the next one.

    Those of a transaction are joined too; an aborted one is left out, and so is one that does not
    end.
    """
    group: list[LoggedRecord] = []
    begun = False
    for _, batch in groupby(records, key=lambda logged: logged.batch):
        written = list(batch)
        for logged in written:
            if isinstance(logged.record, BeginTransactionRecord):
                if group and not begun:
                    yield group
                group, begun = [], True
            elif isinstance(logged.record, AbortTransactionRecord):
                group, begun = [], False
                continue
            elif isinstance(logged.record, EndTransactionRecord):
                begun = False
            group.append(logged)
        if not begun and len(written) < MAX_RECORDS_PER_BATCH:
            yield group
            group = []
    if group and not begun:
        yield group
