"""JSON documents of tools: the one that begins at a byte of a file, decoded or refused."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kfast.errors import InputError
from kfast.io.files import check_utf8, line_of
from kfast.kernels.json_documents import document_end

__all__ = ["decode_document", "decode_with"]

Document = TypeVar("Document")


def decode_document(
    name: str, data: bytes, start: int, kind: type[Document], described: str, right: str = ""
) -> tuple[str, Document]:
    """The document that begins at a byte, and where it stands.

    Parameters
    ----------
    name : str
        What messages call the file.
    data : bytes
    start : int
    kind : type
        A msgspec struct.
    described : str
        What the document should be, for messages.
    right : str, optional
        An example.

    Raises
    ------
    InputError
        It is damaged, or another document.
    """
    where = f"{name} line {line_of(data, start)}"
    end = document_end(data, start)
    text = memoryview(data)[start : end if end >= 0 else None]
    prefix, suffix = f"{where}: not {described}: ", f"; right is {right}" if right else ""
    return where, decode_with(name, data, msgspec.json.Decoder(kind), text, prefix, suffix)


def decode_with(
    name: str, data: bytes, decoder: msgspec.json.Decoder[Document],
    text: memoryview | msgspec.Raw, prefix: str, suffix: str,
) -> Document:
    """Part of a file, decoded; messages are put between the prefix and the suffix.

    Raises
    ------
    InputError
        It is damaged, or something else.
    """
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        check_utf8(name, data)  # Before 0.23, msgspec raises UnicodeDecodeError for what it names.
        raise InputError(f"{prefix}{error}{suffix}") from error
