"""What the kernel reads of a describe text: records of topics and partitions, and their lists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.kernels.describe import Key, Trouble


@dataclass(frozen=True)
class Parsed:
    """What the kernel found in a text.

    Parameters
    ----------
    text : bytes or (n,) uint8
        The text, with wrapped lines joined.
    cursor : np.void
        A `CURSOR`: where reading ended, and what was seen.
    topics, partitions : structured arrays
        A `TOPIC` and a `PARTITION` each, in order of appearance.
    offsets, values : (5, ...) int32
        The lists Replicas, Isr, Adding, Removing, Offline.
    trouble, key
        What is wrong, if anything.
    joined : (int, int)
        How many lines were joined to the one before, and the first of them.
    """

    text: bytes
    cursor: np.void
    topics: npt.NDArray[np.void]
    partitions: npt.NDArray[np.void]
    offsets: npt.NDArray[np.int32]
    values: npt.NDArray[np.int32]
    trouble: Trouble
    key: Key
    joined: tuple[int, int] = (0, 0)

    def has(self, key: Key) -> bool:
        """Whether any line has a key."""
        return bool(int(self.cursor["any_keys"]) >> key & 1)

    def values_of(self, key: Key) -> npt.NDArray[np.int32]:
        """All values of one of the lists, one list behind the other."""
        row = key - Key.REPLICAS
        return self.values[row, : int(self.cursor["n_values"][row])]

    def offsets_of(self, key: Key) -> npt.NDArray[np.int32]:
        """Where each partition's list begins in `values_of`, and where the last one ends."""
        return self.offsets[key - Key.REPLICAS, : self.partitions.size + 1]

    def list_of(self, key: Key) -> pa.ListArray:
        """One of the lists, for every partition. Offsets are copied, so that the rest can go."""
        values = self.values_of(key)
        offsets = self.offsets_of(key)
        offsets = offsets.copy() if values.size else np.zeros(offsets.size, np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))

    def topic_name(self, topic: int) -> str:
        """Name of a topic."""
        at = int(self.topics["name_at"][topic])
        return self.text[at : at + int(self.topics["name_length"][topic])].decode()

    def partition_name(self, row: int) -> str:
        """Name a partition in a message."""
        partition = self.partitions[row]
        topic = self.topic_name(int(partition["topic"]))
        return f"topic {topic}, partition {partition['partition']}"
