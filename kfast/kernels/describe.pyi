from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

class Key(IntEnum):
    NO_KEY = -1
    TOPIC = 0
    PARTITION = 1
    LEADER = 2
    REPLICAS = 3
    ISR = 4
    ADDING = 5
    REMOVING = 6
    OFFLINE = 7
    ELR = 8
    LAST_KNOWN_ELR = 9
    PARTITION_COUNT = 10
    REPLICATION_FACTOR = 11
    TOPIC_ID = 12
    CONFIGS = 13
    MARKED_FOR_DELETION = 14
    OBSERVERS = 15
    LIVE_OBSERVERS = 16

class Trouble(IntEnum):
    FINE = 0
    MISSING_KEY = 1
    KEY_TWICE = 2
    BAD_VALUE = 3
    STRAY_TEXT = 4
    NO_TOPIC = 5
    TOPIC_TWICE = 6
    TEXT_BEFORE = 7
    SETTING_TWICE = 8
    LEADER_NOT_ASSIGNED = 9

def survey(text: bytes | NDArray[np.uint8]) -> tuple[int, int, bool]: ...
def parse(
    text: bytes | NDArray[np.uint8],
    stop: int,
    cursors: NDArray[np.void],
    table: NDArray[np.int32],
    topics: NDArray[np.void],
    partitions: NDArray[np.void],
    offsets: NDArray[np.int32],
    values: NDArray[np.int32],
) -> tuple[Trouble, Key]: ...
def gather(
    text: bytes | NDArray[np.uint8],
    at: NDArray[np.int64],
    offsets: NDArray[np.int32],
    words: NDArray[np.uint8],
) -> None: ...
