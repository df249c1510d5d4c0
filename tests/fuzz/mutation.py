"""Changes of a file: of its bytes, of its lines, of its values, and of what it is packed in."""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Callable
from random import Random

import pyarrow as pa

MOST_BYTES = 1 << 20
INTEGERS = (0, 1, -1, 127, -128, 255, 32767, 65535, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1)
NUMBERS = (b"0", b"-1", b"65535", b"2147483647", b"2147483648", b"4294967296", b"9" * 30,
           b"9" * 5000, b"1e400", b"-0", b"NaN", b"0.1", b"1_0", b"\xef\xbc\x91")
VALUES = (b"null", b"{}", b"[]", b'""', b"3.5", b"true", b"[[1]]", b'{"a":1}', b'"\\ud800"', b"\0",
          b"[" * 100_000, b'{"a":' * 50_000, b"(" * 500, b"-", b",", b":", b"\t", b"\xff\xfe",
          b"../../x", b"x" * 70_000, "٣".encode(), b"\xe2\x80\xa8", b"=1+1", b"<script>")
TOKEN = re.compile(rb'"[^"\n]*"|-?\d+|[A-Za-z_][\w.-]*|[\[\]{}:,]')

Change = Callable[[Random, bytes, list[bytes]], bytes]


def flip(draw: Random, data: bytes, _: list[bytes]) -> bytes:
    """Turn bits of a few bytes."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8)) if data else 0):
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(draw: Random, data: bytes, _: list[bytes]) -> bytes:
    """Leave a part out, half of the time the end."""
    begin = draw.randrange(len(data) + 1)
    if draw.random() < 0.5:
        return data[:begin]
    return data[:begin] + data[begin + draw.choice((1, 4, 64, 4096)) :]


def copy(draw: Random, data: bytes, samples: list[bytes]) -> bytes:
    """Put a part of this file or of another one somewhere."""
    source = draw.choice([data, data, *samples]) or b"x"
    begin, at = draw.randrange(len(source)), draw.randrange(len(data) + 1)
    part = source[begin : begin + draw.choice((1, 8, 100, 5000))]
    return data[:at] + part * draw.choice((1, 1, 2, 50)) + data[at + draw.choice((0, len(part))) :]


def integer(draw: Random, data: bytes, _: list[bytes]) -> bytes:
    """Write a number that is often a limit over some bytes."""
    size, order = draw.choice((1, 2, 4, 8)), draw.choice(("big", "little"))
    value = draw.choice(INTEGERS) % 256**size
    at = draw.randrange(len(data) + 1)
    return data[:at] + value.to_bytes(size, order) + data[at + size :]


def line(draw: Random, data: bytes, samples: list[bytes]) -> bytes:
    """Leave a line out, write it twice, or elsewhere; or take one of another file."""
    lines = data.splitlines(keepends=True) or [b""]
    taken = lines[draw.randrange(len(lines))]
    if samples and draw.random() < 0.2:
        taken = draw.choice(draw.choice(samples).splitlines(keepends=True) or [b""])
    if draw.random() < 0.5:
        del lines[draw.randrange(len(lines))]
    if draw.random() < 0.7:
        lines.insert(draw.randrange(len(lines) + 1), taken)
    return b"".join(lines)


def value(draw: Random, data: bytes, _: list[bytes]) -> bytes:
    """Put another value in the place of a token, or the tokens of two places in each other's."""
    places = [place.span() for place in TOKEN.finditer(data, draw.randrange(len(data) // 2 + 1))]
    if not places:
        return data
    begin, end = draw.choice(places[:2000])
    old = data[begin:end]
    if draw.random() < 0.3:
        first, last = draw.choice(places[:2000])
        new = data[first:last]
    else:
        new = draw.choice(NUMBERS if old.strip(b"-").isdigit() and draw.random() < 0.7 else VALUES)
    return data[:begin] + new + data[end:]


def pack(draw: Random, data: bytes, _: list[bytes]) -> bytes:
    """Pack it, sometimes with more zeros, blanks or lines than a machine has memory for."""
    if draw.random() < 0.1:
        return bomb(draw.choice((b"\0", b" ", b"\n", data[-1:] or b"x")))
    packed = gzip.compress(data, 1) if draw.random() < 0.5 else pa.compress(
        data, "zstd", asbytes=True
    )
    return packed if draw.random() < 0.5 else flip(draw, packed, [])


def bomb(byte: bytes, *, size_mb: int = 64) -> bytes:
    """A gzip file of some KB that holds a thousand times as much; its members follow each other."""
    member = gzip.compress(byte * (1 << 20), 9)
    return member * size_mb


CHANGES: tuple[Change, ...] = (flip, cut, copy, integer, line, value, value)


def mutate(draw: Random, data: bytes, samples: list[bytes]) -> bytes:
    """Change a file once to four times."""
    for _ in range(draw.choice((1, 1, 2, 4))):
        data = draw.choice(CHANGES)(draw, data, samples)[:MOST_BYTES]
    return pack(draw, data, samples) if draw.random() < 0.02 else data


def sign_batches(data: bytes, checksum: Callable[[bytes], int]) -> bytes:
    """Give the batches of a metadata log checksums that are right, as far as they can be found."""
    signed, at = bytearray(data), 0
    while at + 21 <= len(signed):
        length = struct.unpack_from(">i", signed, at + 8)[0]
        if length < 9:
            break
        body = bytes(signed[at + 21 : at + 12 + length])
        struct.pack_into(">I", signed, at + 17, checksum(body))
        at += 12 + length
    return bytes(signed)
