"""The metadata log of a KRaft cluster: which records count, and the state that they make.

The state is that of the newest complete snapshot with the records behind it. Records of a
transaction that was aborted, or has not ended, do not count, nor does a batch that the end of the
last segment cuts off. Everything else that is damaged or unknown is refused: a state that
lacks a record is a wrong one.

Source: docs/kraft.md, section 12; Kafka 4.1, MetadataLoader.java, MetadataBatchLoader.java.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kfast.arguments import whole
from kfast.errors import ArgumentError, InputError
from kfast.io.metadata.files import FileKind, MetadataFile, opened
from kfast.io.metadata.image import APPLIED, MetadataImage
from kfast.io.metadata.schema import VERSIONS, decode_record
from kfast.kernels.metadata_log import MetadataDecoder, Trouble
from kfast.state import ClusterState
from kfast.state.metadata_records import (
    API_KEYS,
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    LeaderChangeRecord,
    MetadataRecord,
)

__all__ = ["At", "LoggedRecord", "MetadataLog"]

At: TypeAlias = int | datetime
"""A point of the log: the offset behind the last record, or the time of the last batch."""

_CHUNK = 1 << 20
_NEVER = 1 << 62
_LEADER_CHANGE = -2
"""`key` of a LeaderChange: control records have the negative of their type."""
_MARKERS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
_ALL_KEYS = (1 << 64) - 1
_CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_VERSION_UNIT = 100_000


class LoggedRecord(NamedTuple):
    """A record of the log, and where it stands."""

    offset: int
    epoch: int
    """Of the controller that wrote it."""
    timestamp_ms: int
    record: MetadataRecord
    batch: int
    """Offset of the first record that was read with it: those of one batch came together."""


@dataclass(frozen=True)
class _Extent:
    """How far the log goes, and what in it does not count."""

    end: int
    undone: tuple[tuple[int, int], ...] = ()
    """First and last offset of each transaction that does not count."""
    notes: tuple[str, ...] = ()


def _mask_of(kinds: Sequence[type]) -> int:
    return sum(1 << API_KEYS[kind] for kind in kinds)


_TROUBLES = {
    Trouble.BAD_MAGIC: "its format byte is {found}; right is 2",
    Trouble.BAD_LENGTH: "its length is {found}, which cannot be",
    Trouble.BAD_CHECKSUM: "its checksum is wrong: the file is damaged",
    Trouble.COMPRESSED: "it is compressed ({codec}), which no controller does",
    Trouble.OFFSET_GAP: "it should begin at offset {next_offset}: records are missing, or damaged",
    Trouble.BAD_RECORD: "a record in it is damaged",
    Trouble.UNKNOWN_FRAME: (
        "a record has frame version {found}, not 1: is this a log of __cluster_metadata?"
    ),
    Trouble.UNKNOWN_KEY: (
        "a record has the unknown type {found}: the log was written by a Kafka that kfast does not"
        " know"
    ),
    Trouble.UNKNOWN_VERSION: (
        "a record of type {key} has the unknown version {version}; known is at most {known}"
    ),
    Trouble.UNKNOWN_TOPIC: "a record speaks of a topic that is not there",
    Trouble.UNKNOWN_PARTITION: "a record speaks of a partition {found} that is not there",
    Trouble.TOPIC_TWICE: "a topic is created that is there already",
    Trouble.TOO_MANY_BROKERS: "a record lists {found} brokers; at most 64 are allowed",
    Trouble.BAD_DIRECTORIES: "a record lists {found} directories, one for each replica is due",
    Trouble.AFTER_FOOTER: "it stands behind the end of the snapshot",
    Trouble.NO_MEMORY: "there is no memory for it",
    Trouble.TOO_MANY_PLACES: (
        "with it the log names more than {found} different brokers, or log directories; at most as"
        " many are allowed"
    ),
}


def _refusal(file: MetadataFile, decoder: MetadataDecoder, before: int) -> InputError:
    """Say what is wrong in a file, of which so many bytes were right."""
    found = decoder.found
    key, version = divmod(found, _VERSION_UNIT)
    words = _TROUBLES[decoder.trouble].format(
        found=found, codec=_CODECS.get(found, found), next_offset=decoder.next_offset,
        key=key, version=version, known=VERSIONS[key % VERSIONS.size],
    )
    return InputError(
        f"{file.name}: batch or record at byte {before + decoder.wrong_at}"
        f" (offset {decoder.wrong_offset}): {words}"
    )


class _Pass:
    """One pass of a decoder over a file; `left` is how many bytes of a batch its end cuts off."""

    def __init__(self, file: MetadataFile, decoder: MetadataDecoder) -> None:
        self.file, self.decoder, self.left = file, decoder, 0

    def __iter__(self) -> Iterator[tuple[memoryview, npt.NDArray[np.void]]]:
        """Bytes of batches that were read together, and the records that the decoder listed.

        Raises
        ------
        InputError
            Something is damaged or unknown.
        """
        file, decoder = self.file, self.decoder
        buffer, before = bytearray(_CHUNK), 0
        with opened(file.source) as stream:
            while True:
                n_new = stream.readinto(memoryview(buffer)[self.left :])
                n = self.left + n_new
                used, listed = decoder.read(memoryview(buffer)[:n])
                if decoder.trouble != Trouble.FINE:
                    raise _refusal(file, decoder, before)
                yield memoryview(buffer)[:used], listed
                self.left, before = n - used, before + used
                if decoder.stopped or not n_new:
                    break
                buffer[: self.left] = buffer[used:n]
                if self.left == len(buffer):
                    buffer = buffer + bytes(self.left)
        if not decoder.stopped and decoder.holds_all_records(memoryview(buffer)[:n][used:]):
            raise InputError(
                f"{file.name}: batch at byte {before}: its length goes beyond the end of the file,"
                " yet all its records are there: the file is damaged"
            )


class MetadataLog:
    """A metadata log: its snapshots and segments.

    Parameters
    ----------
    name : str
        What messages call it.
    files : sequence of MetadataFile
    """

    def __init__(self, name: str, files: Sequence[MetadataFile]) -> None:
        self.name = name
        self.snapshots = sorted(
            (file for file in files if file.kind != FileKind.SEGMENT),
            key=lambda file: (file.offset, file.epoch), reverse=True,
        )
        self.segments = sorted(
            (file for file in files if file.kind == FileKind.SEGMENT),
            key=lambda file: file.offset,
        )

    # --- states

    def state(self, at: At | None = None) -> ClusterState:
        """The cluster at a point of the log.

        Parameters
        ----------
        at : int or datetime, optional
            The offset behind the last record that counts, as snapshots and the high watermark
            are numbered; or a time (without a zone: UTC), with all batches until then. By default
            the end of the log.

        Raises
        ------
        InputError
            The log is damaged, or lacks records that are needed.
        ArgumentError
            There is no such point.
        """
        notes: list[str] = []
        if at is not None and not isinstance(at, datetime):
            at = whole("at", at, 0, _NEVER)
        image, start = self._start(at, notes)
        extent = self._extent(start, at)
        if isinstance(at, int) and start < 0:
            raise ArgumentError(f"at: {self.name} is a snapshot whose name says no offset")
        if isinstance(at, int) and extent.end < at:
            raise ArgumentError(f"at: {self.name} ends at offset {extent.end}; {at} is beyond it")
        self._read_segments(image, start, extent)
        if self.segments and at is None and extent.end > start:
            notes += extent.notes
            notes.append(
                f"all records of {self.name} below offset {extent.end} are taken for committed:"
                " the high watermark is in none of the files"
            )
        elif at is not None:
            notes.append(f"the state is that at offset {extent.end} of {self.name}")
        return image.to_state(self.name, notes)

    @cached_property
    def first_offset(self) -> int:
        """The lowest offset whose state can be had: 0, or that of the oldest complete snapshot.

        `records` can begin there. `InputError` where there is none.
        """
        if self.segments and self.segments[0].offset == 0:
            return 0
        for snapshot in reversed(self.snapshots):
            if not self.segments or snapshot.offset >= self.segments[0].offset:
                try:
                    self._load(snapshot)
                except InputError:
                    continue
                return snapshot.offset
        raise self._without_start()

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What of the log does not count, from `first_offset` on: cut off, or not committed."""
        return self._extent(self.first_offset).notes

    def _without_start(self) -> InputError:
        first = self.segments[0]
        return InputError(
            f"{first.name}: begins at offset {first.offset}, and there is no complete snapshot of"
            " the records before it; right is the whole folder __cluster_metadata-0, with its"
            " .checkpoint files"
        )

    def _start(self, at: At | None, notes: list[str]) -> tuple[MetadataImage, int]:
        """The newest snapshot that can be read and is not behind a point; or the empty cluster.

        Damaged ones are passed over where an older one, or the whole log, says the same.
        """
        refusal: InputError | None = None
        for snapshot in self.snapshots:
            if isinstance(at, int) and snapshot.offset > at:
                continue
            try:
                image = self._load(snapshot)
            except InputError as error:
                refusal = refusal or error
                notes.append(f"passed over: {error}")
                continue
            if isinstance(at, datetime) and image.decoder.snapshot_time_ms > _ms(at):
                continue
            return image, snapshot.offset
        if self.segments and self.segments[0].offset == 0:
            return MetadataImage(), 0
        if refusal is not None:
            raise refusal
        if at is not None and self.snapshots:
            raise ArgumentError(
                f"at: {self.name} has no state at {at}; the first is at offset {self.first_offset}"
            )
        raise self._without_start()

    def _load(self, snapshot: MetadataFile) -> MetadataImage:
        """Read a snapshot."""
        image = MetadataImage()
        decoder = image.decoder
        decoder.limit(False, 0, _NEVER, _NEVER, _NOTHING, True, _mask_of(APPLIED))
        reading = _Pass(snapshot, decoder)
        for data, listed in reading:
            for logged in _records_in(snapshot, data, listed):
                image.apply(logged.record, max(snapshot.offset - 1, -1))
        is_bootstrap = snapshot.kind == FileKind.BOOTSTRAP
        if reading.left or not (decoder.has_footer or (is_bootstrap and decoder.n_records)):
            raise InputError(
                f"{snapshot.name}: is not complete: its end, a SnapshotFooter record, is missing"
            )
        return image

    def _read_segments(self, image: MetadataImage, start: int, extent: _Extent) -> None:
        """Apply the records of the log from an offset on."""
        for file in self._segments_from(start):
            if file.offset >= extent.end:
                break
            undone = np.array(extent.undone, np.int64).reshape(-1, 2)
            image.decoder.limit(
                True, start, extent.end, _NEVER, undone, True, _mask_of(APPLIED)
            )
            for data, listed in _Pass(file, image.decoder):
                for logged in _records_in(file, data, listed):
                    image.apply(logged.record, logged.offset)

    # --- extent

    def _segments_from(self, start: int) -> list[MetadataFile]:
        """The segments with records from an offset on."""
        first = sum(file.offset <= start for file in self.segments)
        return self.segments[max(first - 1, 0) :]

    def _extent(self, start: int, at: At | None = None) -> _Extent:
        """How far the records from an offset on go; all that count are checked.

        Raises
        ------
        InputError
            Something is damaged or unknown, or records are missing.
        """
        stop = at if isinstance(at, int) else _NEVER
        stop_ms = _ms(at) + 1 if isinstance(at, datetime) else _NEVER
        end, notes = start, []
        markers: list[LoggedRecord] = []
        files = self._segments_from(start)
        if files and files[0].offset > start:
            raise InputError(
                f"{self.name}: records from offset {start} to {files[0].offset - 1} are missing:"
                f" they are neither in a complete snapshot nor in a segment ({files[0].name} is"
                " the first)"
            )
        for file in files:
            if file is not files[0] and file.offset != end:
                raise InputError(
                    f"{file.name}: begins at offset {file.offset}; the segment before it ends at"
                    f" offset {end}: records are missing, or stand twice"
                )
            decoder = MetadataDecoder(VERSIONS)
            decoder.limit(True, start, stop, stop_ms, _NOTHING, False, _mask_of(_MARKERS))
            decoder.next_offset = end = file.offset
            reading = _Pass(file, decoder)
            for data, listed in reading:
                markers += _records_in(file, data, listed)
            end = min(decoder.next_offset, stop)
            if decoder.stopped:
                break
            if reading.left and file is not files[-1]:
                raise InputError(f"{file.name}: is cut off, and is not the last segment")
            if reading.left:
                notes.append(
                    f"{file.name}: the last batch is cut off ({reading.left} bytes) and left out"
                )
        end = max(end, start)
        undone = _undone(markers, end)
        notes += [
            f"records {first} to {min(last, end - 1)} of {self.name} do not count: their"
            f" transaction {'has not ended' if last >= end else 'was aborted'}"
            for first, last in undone
        ]
        return _Extent(end, tuple(undone), tuple(notes))

    # --- records

    def records(self, start: int | None = None) -> Iterator[LoggedRecord]:
        """The records of the log that count, in order; of a snapshot alone, those of it.

        Parameters
        ----------
        start : int, optional
            Offset of the first; by default that of the first segment.
        """
        if not self.segments:
            yield from self._snapshot_records()
            return
        first = self.segments[0].offset if start is None else start
        extent = self._extent(first)
        decoder = MetadataDecoder(VERSIONS)
        for file in self._segments_from(first):
            undone = np.array(extent.undone, np.int64).reshape(-1, 2)
            decoder.limit(True, first, extent.end, _NEVER, undone, False, _ALL_KEYS)
            for data, listed in _Pass(file, decoder):
                for logged in _records_in(file, data, listed):
                    if logged.offset >= first:
                        yield logged

    def _snapshot_records(self) -> Iterator[LoggedRecord]:
        snapshot = self.snapshots[0]
        self._load(snapshot)
        decoder = MetadataDecoder(VERSIONS)
        decoder.limit(False, 0, _NEVER, _NEVER, _NOTHING, False, _ALL_KEYS)
        for data, listed in _Pass(snapshot, decoder):
            yield from _records_in(snapshot, data, listed)


_NOTHING = np.empty((0, 2), np.int64)


def _ms(time: datetime) -> int:
    """Milliseconds since 1970; a time without a zone is UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def _records_in(
    file: MetadataFile, data: memoryview, listed: npt.NDArray[np.void]
) -> Iterator[LoggedRecord]:
    """Records that a decoder listed, as `RECORD` of its kernel."""
    record: MetadataRecord | None
    for offset, batch, timestamp_ms, at, length, epoch, key in listed.tolist():
        if key == _LEADER_CHANGE:
            record = LeaderChangeRecord(*struct.unpack_from(">hi", data, at))
        else:
            record = decode_record(data, at, length, key)
        if record is None:
            raise InputError(
                f"{file.name}: the record at offset {offset} (type {key}) is damaged"
            )
        yield LoggedRecord(offset, epoch, timestamp_ms, record, batch)


def _undone(markers: list[LoggedRecord], end: int) -> list[tuple[int, int]]:
    """First and last offsets of transactions that were aborted, or have not ended."""
    undone, begin = [], -1
    for offset, _, _, record, _ in markers:
        if offset >= end:
            break
        if isinstance(record, BeginTransactionRecord):
            begin = offset
        elif isinstance(record, AbortTransactionRecord) and begin >= 0:
            undone.append((begin, offset))
            begin = -1
        elif isinstance(record, EndTransactionRecord):
            begin = -1
    return undone if begin < 0 else [*undone, (begin, end)]
