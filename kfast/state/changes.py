"""Changes of partitions, as `kernels.change_log` has them: codes, and the columns of a change.

Source: docs/kraft.md, sections 2 and 3; Kafka 4.1, PartitionChangeRecord.json.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

import numpy as np


class Election(IntEnum):
    """How a leader is chosen. Source: PartitionChangeBuilder.java, `Election`."""

    PREFERRED = 0
    ONLINE = 1
    UNCLEAN = 2
    CONFIGURED = 3
    """UNCLEAN where the topic's configuration allows it, else ONLINE."""


class Field(IntFlag):
    """Fields of a change that are there: bit t for tag t of the record."""

    ISR = 1
    LEADER = 2
    REPLICAS = 4
    REMOVING = 8
    ADDING = 16
    RECOVERY = 32
    ELR = 64
    LAST_KNOWN = 128
    DIRECTORIES = 256
    ELR_OFF = 512
    """Of requests only: the change is built as if ELR were off."""


class ChangeKind(IntFlag):
    """What a change comes to."""

    ELECTION = 1
    """Another broker leads."""
    UNCLEAN = 2
    FROM_ELR = 4
    LAST_KNOWN = 8
    """The last known leader was elected, which is unclean too."""
    LEADER_LOST = 16
    """Nobody leads any more."""
    SHRINK = 32
    """The ISR loses a member."""
    EXPAND = 64
    COMPLETED = 128
    """A reassignment is complete."""


class Visited(IntEnum):
    """Which of its rows an update visits."""

    EVERY_ROW = 0
    IN_ISR = 1
    """Those that have the broker that is removed, or has stopped uncleanly, in the ISR."""
    IN_ELR = 2
    IN_ISR_AT_ONCE = 3
    """As IN_ISR, each row once, for an event that visits no row again: with a log that does not
    keep all, most changes are applied on the way and only counted."""


class BuildResult(IntEnum):
    """What became of a request that made no change; else its result is the place of the change."""

    NOTHING = -1
    """Nothing changes."""
    FAULT = -2
    """Kafka fails here by an internal error."""
    CAPPED = -3
    """Not built: there are as many changes as were allowed."""
    TOO_MANY_SLOTS = -4
    """Not built: the partition would track more brokers than `schema.MAX_SLOTS`."""


class Missing(IntFlag):
    """What a state has to allocate before the next change can be applied."""

    SLOTS = 1
    ELR = 2
    """Also that of the last known leaders."""
    ORDERS = 4
    DIRECTORIES = 8


NOBODY_KNOWN = -2
"""`last_known` of a change where the list is empty; -1 is an id that Kafka writes into it."""

CHANGE = np.dtype(
    [
        ("begin", np.int64), ("row", np.int32), ("request", np.int32), ("leader", np.int32),
        ("leader_before", np.int32), ("leader_epoch", np.int32), ("partition_epoch", np.int32),
        ("last_known", np.int32), ("fields", np.uint16), ("recovery", np.int8),
        ("mode", np.uint8), ("kinds", np.uint8), ("n_isr", np.uint8), ("n_replicas", np.uint8),
        ("n_removing", np.uint8), ("n_adding", np.uint8), ("n_elr", np.uint8),
        ("n_directories", np.uint8),
    ],
    align=True,
)
"""Columns of a change. Lists stand one behind the other in `lists`, from `begin` on, in the order
of the columns n_*: broker rows, but numbers of directories. The epochs are those after it."""
