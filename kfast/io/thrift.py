"""Thrift's compact protocol, as far as the headers and the footer of a Parquet file need it.

A struct is a mapping from field numbers to values: int, bytes, a mapping, a list of one of these.

Source: Apache Thrift, `thrift-compact-protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

__all__ = ["Long", "Struct", "Value", "write_struct"]


class Long(NamedTuple):
    """An integer of 64 bits; a plain int has 32."""

    number: int


Value: TypeAlias = "int | bytes | Long | Mapping[int, Value] | Sequence[Value]"
Struct: TypeAlias = Mapping[int, Value]

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_LONG_LIST = 15
"""Length in a list's first byte that says: the length follows."""


def write_struct(struct: Struct) -> bytes:
    """The bytes of a struct; its fields must ascend."""
    out = bytearray()
    _put_struct(out, struct)
    return bytes(out)


def _put_varint(out: bytearray, number: int) -> None:
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _kind(value: Value) -> int:
    if isinstance(value, int):
        return _I32
    if isinstance(value, Long):
        return _I64
    if isinstance(value, bytes):
        return _BINARY
    return _STRUCT if isinstance(value, Mapping) else _LIST


def _put(out: bytearray, value: Value) -> None:
    if isinstance(value, Long):
        value = value.number
    if isinstance(value, int):
        _put_varint(out, value << 1 if value >= 0 else -value * 2 - 1)
    elif isinstance(value, bytes):
        _put_varint(out, len(value))
        out += value
    elif isinstance(value, Mapping):
        _put_struct(out, value)
    else:
        out.append(min(len(value), _LONG_LIST) << 4 | (_kind(value[0]) if value else _I32))
        if len(value) >= _LONG_LIST:
            _put_varint(out, len(value))
        for item in value:
            _put(out, item)


def _put_struct(out: bytearray, struct: Struct) -> None:
    before = 0
    for number, value in struct.items():
        # Field numbers of Parquet's structs rise by less than 16.
        out.append((number - before) << 4 | _kind(value))
        before = number
        _put(out, value)
    out.append(0)
