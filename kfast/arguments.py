"""What callers give: whole numbers, ids, names and shares, checked before anything is done.

A number with a fraction, a text of digits, a truth value or what does not fit is refused by name,
never cut to size. numpy's and Arrow's integers are as good as Python's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import IntEnum
from numbers import Real
from operator import index
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.errors import ArgumentError, KfastError

__all__ = [
    "ASSIGNMENTS", "MAX_BROKER_ID", "MAX_INT", "MAX_LONG", "assignments_in", "assignments_of",
    "broker_ids", "check_instance", "check_range", "check_threads", "check_topics",
    "config_boolean", "config_count", "epochs_of", "int32", "int64", "is_whole", "items_of",
    "member", "number", "one_or_each", "partition_keys", "plural", "possible_ids", "shown", "text",
    "whole", "whole_numbers",
]

Member = TypeVar("Member", bound=IntEnum)
MAX_INT = 2**31 - 1
"""The largest number that Kafka's 32 bits hold: of ids, partitions, epochs and versions."""
MAX_BROKER_ID = MAX_INT
MAX_LONG = 2**63 - 1
"""The largest broker epoch."""
MAX_THREADS = 64
SHOWN = 60
"""Characters of a wrong value that a message repeats."""
MAX_BITS = 4096
"""Bits of an integer that a message repeats: Python writes no number of more than 4300 digits."""
_BOOLEANS = {"true": True, "false": False}


def shown(value: object) -> str:
    """A value as a message repeats it."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def plural(n: int, noun: str, nouns: str | None = None) -> str:
    """A number with its noun."""
    return f"{n} {noun if n == 1 else nouns or f'{noun}s'}"


def check_instance(name: str, value: object, *classes: type) -> None:
    """Refuse an argument that is an instance of none of some classes.

    A path where a cluster is needed is answered with the call that reads it.

    Raises
    ------
    ArgumentError
        With what the argument is, and what is right.
    """
    if isinstance(value, classes):
        return
    right = " or ".join(f"a {kind.__name__}" for kind in classes)
    if isinstance(value, (str, os.PathLike)) and classes[0].__name__ == "ClusterState":
        path = shown(os.fspath(value))
        raise ArgumentError(f"{name} is a path, {path}; right is {right}: kfast.read({path})")
    actual = "None" if value is None else f"of type {type(value).__name__}"
    raise ArgumentError(f"{name} is {actual}; right is {right}")


def is_whole(value: Any) -> bool:
    """Whether a value is an integer of Python or numpy, and no truth value."""
    if type(value) is int:
        return True
    if isinstance(value, (bool, np.bool_)):
        return False
    try:
        index(value)
    except TypeError:
        return False
    return True


def whole(
    name: str, value: Any, low: int, high: int, error: type[KfastError] = ArgumentError
) -> int:
    """Return a whole number from `low` to `high`; what is none is refused, and so is True."""
    if not is_whole(value):
        raise ArgumentError(f"{name} is {shown(value)}: a whole number is needed")
    found = index(value)
    if not low <= found <= high:
        raise error(f"{name} is {shown(found)}: from {low} to {high} is allowed")
    return found


def int32(name: str, value: Any) -> int:
    """Return a whole number of 32 bits."""
    return whole(name, value, -MAX_INT - 1, MAX_INT)


def int64(name: str, value: Any) -> int:
    """Return a whole number of 64 bits."""
    return whole(name, value, -MAX_LONG - 1, MAX_LONG)


def text(name: str, value: Any) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name} is {shown(value)}: a text is needed")
    return value


def check_threads(threads: object) -> int:
    """Return a number of threads."""
    return whole("threads", threads, 1, MAX_THREADS)


def number(name: str, value: object, low: float, high: float) -> float:
    """Return a number from `low` to `high`, which may have a fraction; NaN is refused."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise ArgumentError(f"{name} is {shown(value)}: a number is needed")
    try:
        found = float(value)
    except OverflowError:
        raise ArgumentError(f"{name} is {shown(value)}: it is too large for a number") from None
    if not low <= found <= high:
        raise ArgumentError(
            f"{name} is {shown(value)}: a number from {low:g} to {high:g} is allowed"
        )
    return found


def config_boolean(name: str, value: object) -> bool:
    """Return the value of a configuration that is true or false, which may be text."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    raise ArgumentError(f"{name}: found {shown(value)}; right is true or false")


def config_count(name: str, value: Any) -> int:
    """Return the value of a configuration that is a number of replicas, which may be text."""
    if isinstance(value, str):
        digits = value.isascii() and value.isdecimal() and len(value) <= len(str(MAX_INT))
        count = int(value) if digits else 0
    else:
        count = index(value) if is_whole(value) else 0
    if not 1 <= count <= MAX_INT:
        raise ArgumentError(f"{name}: found {shown(value)}; right is an integer of at least 1")
    return count


def whole_numbers(name: str, values: Any, *, what: str = "whole numbers") -> npt.NDArray[np.int64]:
    """Return some whole numbers as an array.

    Parameters
    ----------
    name : str
        Of the argument, for messages.
    values : array of integers, Arrow array of integers, or iterable of int
        In one dimension; of a mapping the keys. No text.
    what : str
        What they are, for messages.
    """
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        values = _from_arrow(name, values, what)
    if isinstance(values, np.ndarray):
        return _from_array(name, values, what)
    if isinstance(values, (str, bytes, bytearray)) or not isinstance(values, Iterable):
        raise ArgumentError(f"{name} is {shown(values)}: {what} are needed, in a list or an array")
    found = values if isinstance(values, (list, tuple)) else list(values)
    for at, value in enumerate(found):
        if type(value) is not int and not is_whole(value):
            raise ArgumentError(
                f"{name} has {shown(value)} (item {at + 1} of {len(found)}): {what} are needed"
            )
    try:
        return np.array(found, np.int64)
    except OverflowError:
        at = next(i for i, v in enumerate(found) if not -MAX_LONG <= v <= MAX_LONG)
        raise ArgumentError(
            f"{name} has {shown(found[at])} (item {at + 1} of {len(found)}): it does not fit "
            "64 bits"
        ) from None


def _from_arrow(
    name: str, values: pa.Array | pa.ChunkedArray, what: str
) -> npt.NDArray[Any]:
    if values.null_count or not (pa.types.is_integer(values.type) or not len(values)):
        raise ArgumentError(
            f"{name} is an Arrow array of {values.type} with {values.null_count} nulls: {what} "
            "without nulls are needed"
        )
    if not len(values):
        return np.empty(0, np.int64)
    return np.asarray(values.to_numpy())


def _from_array(name: str, values: npt.NDArray[Any], what: str) -> npt.NDArray[np.int64]:
    if values.ndim != 1:
        raise ArgumentError(f"{name} has {values.ndim} dimensions: {what} in one are needed")
    if values.dtype.kind == "O":
        return whole_numbers(name, values.tolist(), what=what)
    if values.dtype.kind not in "iu" and values.size:
        raise ArgumentError(f"{name} is an array of {values.dtype}: {what} are needed")
    if values.dtype == np.uint64 and values.size and values.max() > MAX_LONG:
        raise ArgumentError(f"{name} has {values.max()}: it does not fit 64 bits")
    return values.astype(np.int64)


def broker_ids(name: str, values: Any) -> npt.NDArray[np.int64]:
    """Return broker ids as an array; whether the cluster has them is not asked."""
    return whole_numbers(name, values, what="broker ids (whole numbers)")


def possible_ids(name: str, values: Any) -> npt.NDArray[np.int64]:
    """Return broker ids as an array, all of them ids that Kafka allows."""
    ids = broker_ids(name, values)
    check_range(name, ids, 0, MAX_BROKER_ID)
    return ids


def member(name: str, members: type[Member], value: Any) -> Member:
    """Return the member of an enumeration that a value is, or is the number of."""
    known = {int(one): one for one in members}
    if not is_whole(value) or index(value) not in known:
        raise ArgumentError(f"{name} is {shown(value)}: a {members.__name__} is needed")
    return known[index(value)]


def check_items(name: str, values: Any) -> list[Any]:
    """Return the items of what can be gone through and is no text."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ArgumentError(f"{name} is {shown(values)}: a list is needed")
    return list(values)


def items_of(name: str, values: Any, n: int) -> list[Any]:
    """Return the n items of a tuple or list."""
    if not isinstance(values, (tuple, list)) or len(values) != n:
        raise ArgumentError(f"{name} is {shown(values)}: {n} values are needed")
    return list(values)


def check_topics(name: str, topics: Any) -> list[str]:
    """Return names of topics as a list; a single text is no list of them."""
    if isinstance(topics, (pa.Array, pa.ChunkedArray)):
        topics = topics.to_pylist()
    if isinstance(topics, (str, bytes)) or not isinstance(topics, Iterable):
        raise ArgumentError(f"{name} is {shown(topics)}: a list of names is needed")
    names = list(topics)
    for at, topic in enumerate(names):
        if not isinstance(topic, str):
            raise ArgumentError(
                f"{name} has {shown(topic)} (item {at + 1} of {len(names)}): names are needed"
            )
    return names


def partition_keys(name: str, partitions: Any) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Return (topic, partition) pairs as names and numbers; no cluster has a negative number."""
    if isinstance(partitions, (str, bytes)) or not isinstance(partitions, Iterable):
        raise ArgumentError(f"{name} is {shown(partitions)}: (topic, partition) pairs are needed")
    pairs = list(partitions)
    for at, pair in enumerate(pairs):
        if not (
            isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)
            and is_whole(pair[1])
        ):
            raise ArgumentError(
                f"{name} has {shown(pair)} (item {at + 1} of {len(pairs)}): a topic's name and a "
                "partition's number are needed"
            )
    for topic, partition in pairs:
        if not -MAX_INT - 1 <= partition <= MAX_INT:
            raise ArgumentError(
                f"{name} has {topic}-{shown(partition)}: partitions are numbered from 0 to "
                f"{MAX_INT}"
            )
    return [topic for topic, _ in pairs], np.array([p for _, p in pairs], np.int32)


def epochs_of(name: str, given: Any) -> dict[int, int]:
    """Return a mapping of broker ids to epochs, both whole numbers."""
    if not isinstance(given, Mapping):
        raise ArgumentError(f"{name} is {shown(given)}: broker ids mapped to epochs are needed")
    ids = broker_ids(name, list(given))
    return {
        broker: whole(f"the epoch of broker {broker} in {name}", epoch, -MAX_LONG, MAX_LONG)
        for broker, epoch in zip(ids.tolist(), given.values(), strict=True)
    }


ASSIGNMENTS = pa.schema([
    ("topic", pa.string()), ("partition", pa.int32()), ("replicas", pa.list_(pa.int32())),
])
"""Assignments of partitions as a table; a null list says that there is none."""


def assignments_of(name: str, keys: Any, lists: Iterable[Any]) -> pa.Table:
    """Return (topic, partition) pairs, and a list of broker ids or None for each, as a table."""
    topics, partitions = partition_keys(name, keys)
    flat: list[Any] = []
    ends, missing = [0], []
    for ids in lists:
        missing.append(ids is None)
        if isinstance(ids, (np.ndarray, pa.Array, pa.ChunkedArray)):
            ids = ids.tolist() if isinstance(ids, np.ndarray) else ids.to_pylist()
        if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable | None):
            raise ArgumentError(
                f"{name} has {shown(ids)} for {topics[len(ends) - 1]}-{partitions[len(ends) - 1]}: "
                "a list of broker ids is needed; nothing was changed"
            )
        flat.extend(ids or ())
        ends.append(len(flat))
    values = broker_ids(name, flat)
    check_range(name, values, -MAX_INT - 1, MAX_BROKER_ID)
    replicas = pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), pa.array(values.astype(np.int32)),
        mask=pa.array(missing, pa.bool_()),
    )
    return pa.table(
        [pa.array(topics, pa.string()), pa.array(partitions), replicas],
        schema=ASSIGNMENTS,
    )


def assignments_in(name: str, table: pa.Table) -> pa.Table:
    """Return a caller's table as `assignments_of` makes it; other columns are left out."""
    kinds = {
        "topic": (_is_text, "names"), "partition": (pa.types.is_integer, "whole numbers"),
        "replicas": (_is_id_list, "lists of whole numbers"),
    }
    for column, (fits, what) in kinds.items():
        if table.column_names.count(column) != 1:
            raise ArgumentError(
                f"{name} has the columns {table.column_names}: topic, partition and replicas are "
                "needed, each once; nothing was changed"
            )
        found = table.column(column)
        if not fits(found.type) and len(found):
            raise ArgumentError(
                f"column {column} of {name} is {found.type}: {what} are needed; nothing was changed"
            )
        if column != "replicas" and found.null_count:
            raise ArgumentError(f"column {column} of {name} has nulls; nothing was changed")
    try:
        cast = table.select(ASSIGNMENTS.names).cast(ASSIGNMENTS)
    except pa.ArrowException as error:
        raise ArgumentError(f"{name} does not fit: {error}; nothing was changed") from error
    if cast.column("replicas").combine_chunks().flatten().null_count:
        raise ArgumentError(f"a list of {name} has an empty place; nothing was changed")
    return cast


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_id_list(kind: pa.DataType) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(fits(kind) for fits in lists) and bool(
        pa.types.is_integer(kind.value_type) or pa.types.is_null(kind.value_type)
    )


def check_range(name: str, values: npt.NDArray[np.int64], low: int, high: int) -> None:
    """Refuse whole numbers that are not all from `low` to `high`."""
    outside = (values < low) | (values > high)
    if outside.any():
        at = int(np.argmax(outside))
        raise ArgumentError(
            f"{name} has {values[at]} (item {at + 1} of {values.size}): from {low} to {high} is "
            "allowed"
        )


def one_or_each(
    name: str, values: Any, n: int, low: int = -MAX_INT - 1, high: int = MAX_INT
) -> npt.NDArray[np.int64]:
    """Return n whole numbers, of which one may be given for all."""
    found = np.array([values]) if is_whole(values) else values
    numbers = whole_numbers(name, found)
    check_range(name, numbers, low, high)
    if numbers.size not in (1, n):
        raise ArgumentError(f"{name} has {numbers.size} numbers for {n} partitions")
    return np.broadcast_to(numbers, n)
