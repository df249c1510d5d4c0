"""Batches of a metadata log or a snapshot, and the partitions that their records make."""

from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

_Bytes: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]
RECORD: np.dtype[np.void]

class Trouble(IntEnum):
    FINE = 0
    BAD_MAGIC = 1
    BAD_LENGTH = 2
    BAD_CHECKSUM = 3
    COMPRESSED = 4
    OFFSET_GAP = 5
    BAD_RECORD = 6
    UNKNOWN_FRAME = 7
    UNKNOWN_KEY = 8
    UNKNOWN_VERSION = 9
    UNKNOWN_TOPIC = 10
    UNKNOWN_PARTITION = 11
    TOPIC_TWICE = 12
    TOO_MANY_BROKERS = 13
    BAD_DIRECTORIES = 14
    AFTER_FOOTER = 15
    NO_MEMORY = 16
    TOO_MANY_PLACES = 17

class Shape(IntEnum):
    HAS_ELR = 1
    HAS_ORDER = 2
    HAS_DIRECTORIES = 4
    HAS_LONG_REASSIGNMENT = 8

class Misfit(IntEnum):
    NO_BROKER = -1
    TOO_WIDE = -2
    NAMED_TWICE = -3
    IN_ISR_AND_ELR = -4
    MANY_LAST_KNOWN = -5

@disjoint_base
class MetadataDecoder:
    trouble: Trouble
    found: int
    wrong_offset: int
    wrong_at: int
    stopped: bool
    has_footer: bool
    n_records: int
    snapshot_time_ms: int
    next_offset: int
    def __init__(self, versions: NDArray[np.int16]) -> None: ...
    def limit(
        self, is_log: bool, start: int, stop: int, stop_ms: int, undone: NDArray[np.int64],
        applies: bool, collected: int,
    ) -> None: ...
    def read(self, data: _Bytes) -> tuple[int, NDArray[np.void]]: ...
    def holds_all_records(self, data: _Bytes) -> bool: ...
    def broker_ids(self) -> NDArray[np.int32]: ...
    def directory_ids(self) -> bytes: ...
    def topic_columns(self) -> tuple[bytes, bytes, NDArray[np.int64]]: ...
    def name_of_topic(self, id: _Bytes) -> str | None: ...
    def rows_in_order(self, topic_row: NDArray[np.int32]) -> NDArray[np.int32]: ...
    def key_of_row(self, row: int) -> tuple[int, int]: ...
    def reassignment_of(self, row: int) -> tuple[list[int], list[int]]: ...
    def measure(self, rows: NDArray[np.int32], shape: NDArray[np.uint8]) -> tuple[int, int]: ...
    def fill(
        self, rows: NDArray[np.int32], places: NDArray[np.int32], broker_row: NDArray[np.int32],
        topic_row: NDArray[np.int32], records: NDArray[Any],
        replicas: NDArray[Any], partition: NDArray[np.int32], elr: NDArray[np.uint8],
        last_known_elr: NDArray[np.int32], member_order: NDArray[np.uint8],
        directory: NDArray[np.int32],
    ) -> None: ...

def checksum(data: _Bytes) -> int: ...
