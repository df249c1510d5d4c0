"""Codes of changes of partitions, as `kernels.change_log` has them; a test compares them.

Source: docs/kraft.md, sections 2 and 3; Kafka 4.1, PartitionChangeRecord.json.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag


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
