"""Metadata logs and snapshots as files, from records: what Kafka's nodes write.

Source: docs/kraft.md, section 12.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from kfast.io.metadata.schema import encode_batch, encode_record
from kfast.state.metadata_records import LeaderChangeRecord, MetadataRecord

LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER = 2, 3, 4

Logged = tuple[int, int, int, Sequence[MetadataRecord]]
"""A batch: offset of its first record, epoch, time in ms, records."""


def log_bytes(batches: Iterable[Logged]) -> bytes:
    """A segment; a LeaderChange stands alone in its batch."""
    parts = []
    for offset, epoch, time_ms, records in batches:
        if isinstance(records[0], LeaderChangeRecord):
            value = struct.pack(">hibbb", 0, records[0].leader_id, 1, 1, 0)
            parts.append(encode_batch(offset, epoch, time_ms, [value], control=LEADER_CHANGE))
        else:
            parts.append(encode_batch(offset, epoch, time_ms, [*map(encode_record, records)]))
    return b"".join(parts)


def snapshot_bytes(
    records: Iterable[MetadataRecord], epoch: int = 1, time_ms: int = 0, per_batch: int = 1000
) -> bytes:
    """A snapshot: header, records, footer."""
    parts = [
        encode_batch(
            0, epoch, time_ms, [struct.pack(">hqb", 0, time_ms, 0)], control=SNAPSHOT_HEADER
        )
    ]
    offset, values = 1, [*map(encode_record, records)]
    for start in range(0, len(values), per_batch):
        part = values[start : start + per_batch]
        parts.append(encode_batch(offset, epoch, time_ms, part))
        offset += len(part)
    footer = struct.pack(">hb", 0, 0)
    parts.append(encode_batch(offset, epoch, time_ms, [footer], control=SNAPSHOT_FOOTER))
    return b"".join(parts)


def write_log(folder: Path, batches: Sequence[Logged]) -> Path:
    """Write a segment, named by its first offset, into a folder, which is made if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{batches[0][0]:020d}.log"
    path.write_bytes(log_bytes(batches))
    return path


def write_snapshot(
    folder: Path, offset: int, epoch: int, records: Iterable[MetadataRecord], time_ms: int = 0
) -> Path:
    """Write a snapshot of all records below an offset."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{offset:020d}-{epoch:010d}.checkpoint"
    path.write_bytes(snapshot_bytes(records, epoch, time_ms))
    return path
