"""The JSON Schema of answers, which ships with the package."""

from __future__ import annotations

from pathlib import Path

__all__ = ["PATH", "answer_schema"]

PATH = Path(__file__).with_name("answer_schema.json")


def answer_schema() -> bytes:
    """JSON Schema of the answers of all commands, as a text in JSON.

    A name in it stays and means the same as long as `schema_version` does; answers may have more.
    """
    return PATH.read_bytes()
