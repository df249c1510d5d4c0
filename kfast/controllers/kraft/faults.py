"""How an event ends early: refused as a whole, or by an unexpected exception inside Kafka."""

from __future__ import annotations


class ApiError(Exception):
    """Kafka refuses a request, or a part of it, with this error code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Fault(Exception):  # noqa: N818 - Kafka's own word: the fault handler is called
    """An unexpected exception inside Kafka: the active controller resigns."""
