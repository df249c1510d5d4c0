"""Sizes of replicas from the JSON that `kafka-log-dirs --describe` prints.

The document may be large (90 bytes a replica), so it is decoded directory by directory. The size is
that of a replica's local log. Copies that a move between directories makes are left out; a
directory with an error, and a broker that is down, say nothing of their replicas.

Source: Kafka 3.9, LogDirsCommand.java, `formatAsJson`; docs/formats.md, section "Loads and
capacities".
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta, Raw, Struct

from kfast.arguments import MAX_INT, plural
from kfast.errors import InputError
from kfast.io.files import abbreviate, quote
from kfast.io.json_documents import decode_document, decode_with
from kfast.io.loads.tables import LoadTable, check_load

__all__ = ["failed_directories", "read_log_dirs"]

_Id = Annotated[int, Meta(ge=0, le=MAX_INT)]
_MOST_DIGITS = len(str(MAX_INT))
_RIGHT = (
    '{"version":1,"brokers":[{"broker":1,"logDirs":[{"logDir":"/d","error":null,"partitions":'
    '[{"partition":"t-0","size":1,"offsetLag":0,"isFuture":false}]}]}]}'
)


class _Replica(Struct, gc=False, rename="camel"):
    partition: str
    size: int
    is_future: bool = False


class _Directory(Struct, rename="camel"):
    log_dir: str
    partitions: Raw
    error: str | None = None


class _Broker(Struct, rename="camel"):
    broker: _Id
    log_dirs: list[_Directory]


class _Document(Struct):
    brokers: list[_Broker]


_REPLICAS = msgspec.json.Decoder(list[_Replica])


class _Columns:
    """The replicas that have been read, a piece for each directory."""

    def __init__(self) -> None:
        self.topic: list[pa.DictionaryArray] = []
        self.partition: list[npt.NDArray[np.int32]] = []
        self.broker: list[int] = []
        self.directory: list[str] = []
        self.size: list[npt.NDArray[np.int64]] = []

    def add(self, where: str, broker: int, directory: str, replicas: list[_Replica]) -> None:
        names = pa.array([replica.partition for replica in replicas], pa.string())
        topic, partition = _split(where, names)
        self.topic.append(topic)
        self.partition.append(partition)
        try:
            sizes = np.array([replica.size for replica in replicas], np.int64)
        except OverflowError as error:
            raise InputError(f"{where}: found a size of more than 63 bits") from error
        if sizes.size and sizes.min() < 0:
            row = int(sizes.argmin())
            raise InputError(
                f"{where}: found size {sizes[row]} of {replicas[row].partition}; right is at least"
                " 0"
            )
        self.size.append(sizes)
        self.broker.append(broker)
        self.directory.append(directory)

    def columns(self) -> dict[str, pa.Array]:
        """Columns of `schema.LOAD`."""
        counts = [sizes.size for sizes in self.size]
        topic = pa.chunked_array(self.topic, pa.dictionary(pa.int32(), pa.string()))
        names = list(dict.fromkeys(self.directory))
        places = np.repeat([names.index(name) for name in self.directory], counts)
        return {
            "topic": pa.concat_arrays(topic.unify_dictionaries().chunks),
            "partition": pa.array(np.concatenate(self.partition)),
            "broker_id": pa.array(np.repeat(np.array(self.broker, np.int32), counts)),
            "log_dir": pa.DictionaryArray.from_arrays(places.astype(np.int32), names),
            "disk_bytes": pa.array(np.concatenate(self.size)),
        }


def _split(
    where: str, names: pa.StringArray
) -> tuple[pa.DictionaryArray, npt.NDArray[np.int32]]:
    """`topic-partition` at its last dash: the topic may have dashes, and end in digits."""
    stems = pc.ascii_rtrim(names, "0123456789")
    lengths = pc.binary_length(stems).to_numpy()
    n_digits = pc.binary_length(names).to_numpy() - lengths
    numbers = np.zeros(len(names), np.int64)
    offsets = np.frombuffer(names.buffers()[1], np.int32)[: len(names) + 1]
    text = np.frombuffer(names.buffers()[2] or b"", np.uint8)
    for place in range(min(int(n_digits.max(initial=0)), _MOST_DIGITS)):
        has = n_digits > place
        digits = text[offsets[1:][has] - 1 - place].astype(np.int64) - ord("0")
        numbers[has] += digits * 10**place
    topics = stems.dictionary_encode()
    dashed = pc.match_substring_regex(topics.dictionary, r"^[a-zA-Z0-9._-]{1,249}-$")
    good = (n_digits > 0) & (n_digits <= _MOST_DIGITS) & (numbers <= MAX_INT)
    good &= pc.take(dashed, topics.indices).to_numpy(zero_copy_only=False)
    if not good.all():
        wrong = names[int(np.argmin(good))].as_py()
        raise InputError(
            f"{where}: found partition {quote(wrong)}; right is a topic, a dash and a number, as"
            " in orders-0"
        )
    topic = pc.utf8_slice_codeunits(topics.dictionary, 0, stop=-1)
    indices = topics.indices
    return pa.DictionaryArray.from_arrays(indices, topic), numbers.astype(np.int32)


def read_log_dirs(name: str, data: bytes, start: int) -> LoadTable:
    """Read the document that begins at a byte of the tool's output.

    Raises
    ------
    InputError
        It is damaged, or a value in it is not right.
    """
    where, document = decode_document(
        name, data, start, _Document, "the JSON of kafka-log-dirs", _RIGHT
    )
    columns, failed, n_future = _Columns(), [], 0
    for broker in document.brokers:
        for directory in broker.log_dirs:
            place = f"{where} (broker {broker.broker}, {directory.log_dir})"
            if directory.error is not None:
                failed.append(f"{directory.log_dir} of broker {broker.broker} ({directory.error})")
            replicas = decode_with(
                name, data, _REPLICAS, directory.partitions, f"{place}: ", f"; right is {_RIGHT}"
            )
            current = [replica for replica in replicas if not replica.is_future]
            n_future += len(replicas) - len(current)
            if current:
                columns.add(place, broker.broker, directory.log_dir, current)
    if not columns.size:
        raise InputError(f"{where}: the output lists no replica; right is at least one")
    rows = columns.columns()
    check_load(rows, lambda row: f"{where} ({_replica_at(rows, row)})")
    notes = []
    if failed:
        notes.append(f"{name}: directories with an error give no sizes: {abbreviate(failed, 3)}")
    if n_future:
        notes.append(
            f"{name}: left out: {plural(n_future, 'copy', 'copies')} that moves between"
            " directories make"
        )
    return LoadTable(name, pa.table(rows), assumptions=tuple(notes))


def failed_directories(name: str, data: bytes, start: int) -> list[tuple[int, str]]:
    """Broker and path of each directory with an error; its replicas are not listed."""
    _, document = decode_document(
        name, data, start, _Document, "the JSON of kafka-log-dirs", _RIGHT
    )
    return [
        (broker.broker, directory.log_dir) for broker in document.brokers
        for directory in broker.log_dirs if directory.error is not None
    ]


def _replica_at(rows: dict[str, pa.Array], row: int) -> str:
    """A replica as messages name it."""
    topic, partition, broker = (rows[key][row] for key in ("topic", "partition", "broker_id"))
    return f"{topic}-{partition} on broker {broker}"
