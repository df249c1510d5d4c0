"""Small values that the state hands out: what one partition's assignment and leadership say.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.state.display import Summary, summary_html, summary_text

Rows = npt.NDArray[np.int32]
Slots = npt.NDArray[np.uint64]

EMPTY_ROWS: Rows = np.empty(0, np.int32)
"""No rows."""

_BITS_OF_OCTET = np.array([octet.bit_count() for octet in range(256)], np.uint8)


def n_bits(masks: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """(n,) how many bits of each mask are set."""
    octets = np.ascontiguousarray(masks).view(np.uint8).reshape(-1, masks.itemsize)
    counts = np.zeros(octets.shape[0], np.int64)
    for place in range(masks.itemsize):
        counts += _BITS_OF_OCTET[octets[:, place]]
    return counts


@dataclass(frozen=True)
class Assignment:
    """Assignment record of a partition: three lists of broker ids.

    Source: section 1.3; Kafka 3.9, `ReplicaAssignment`.
    """

    replicas: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def origin(self) -> tuple[int, ...]:
        """Replicas without the ones being added."""
        return tuple(b for b in self.replicas if b not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """Replicas without the ones being removed."""
        return tuple(b for b in self.replicas if b not in self.removing)

    @property
    def being_reassigned(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    def reassign_to(self, target: Iterable[int]) -> Assignment:
        """Assignment that starts a reassignment to `target`, from the current origin."""
        wanted = tuple(target)
        full = tuple(dict.fromkeys((*wanted, *self.origin)))
        return Assignment(
            full,
            tuple(b for b in full if b not in self.origin),
            tuple(b for b in full if b not in wanted),
        )

    def remove(self, broker_id: int) -> Assignment:
        """Assignment without one broker, in all three lists."""
        return Assignment(
            tuple(b for b in self.replicas if b != broker_id),
            tuple(b for b in self.adding if b != broker_id),
            tuple(b for b in self.removing if b != broker_id),
        )


@dataclass(frozen=True)
class Leadership:
    """Partition state record with the controller epoch it was written in.

    Source: section 1.2; Kafka 3.9, `LeaderIsrAndControllerEpoch`.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    recovery: int
    version: int
    controller_epoch: int


@dataclass(frozen=True)
class Replicas:
    """Replicas of several partitions: rows and, per row, the slots that are meant.

    Parameters
    ----------
    rows : (n,) int32
        Partition rows, ascending, each once.
    slots : (n,) uint64
        Bit s set: the broker of slot s.
    """

    rows: Rows
    slots: Slots

    def __len__(self) -> int:
        return int(self.rows.size)

    def _summary(self) -> Summary:
        n_replicas = int(n_bits(self.slots).sum())
        return "Replicas", {"partitions": len(self), "replicas": n_replicas}

    __repr__ = summary_text
    _repr_html_ = summary_html


@dataclass(frozen=True)
class Tables:
    """A cluster as Arrow tables: `schema.BROKERS`, `TOPICS`, `PARTITIONS` and `CLUSTER`."""

    brokers: pa.Table
    topics: pa.Table
    partitions: pa.Table
    cluster: pa.Table

    def _summary(self) -> Summary:
        return "Tables", {name: table.num_rows for name, table in vars(self).items()}

    __repr__ = summary_text
    _repr_html_ = summary_html


@dataclass(frozen=True)
class LeaderSurvey:
    """Partitions by their preferred replica, and rows that others may lead (see survey.py).

    Parameters
    ----------
    preferred : (B,) int64
    bits : (n,) uint64
        Bitmap over partitions.
    columns : records and replicas
        What was surveyed. One that was made anew, as when the layout widens, is another one.
    """

    preferred: npt.NDArray[np.int64]
    bits: npt.NDArray[np.uint64]
    columns: tuple[Any, Any]
