"""What refuses a request, or breaks one off.

Source: docs/kraft.md, section 7.5.
"""

from __future__ import annotations

from collections.abc import Callable

from kfast.state.metadata_records import MetadataRecord

MAX_RECORDS_PER_USER_OP = 10_000
"""No operation of a user writes more. Source: QuorumController.java."""


class ApiError(Exception):
    """A request, or a part of it, is refused with this error code of Kafka's."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class FaultError(Exception):
    """An unexpected exception inside Kafka: the active controller resigns."""


def code_of(step: Callable[[], None]) -> str:
    """NONE, or the code with which one item of a request fails; the others go on."""
    try:
        step()
    except ApiError as error:
        return error.code
    except FaultError:
        return "UNKNOWN_SERVER_ERROR"
    return "NONE"


class UserRecords(list[MetadataRecord]):
    """Records of an operation of a user; one too many is an unexpected exception.

    Where Kafka catches those, an item fails with UNKNOWN_SERVER_ERROR and what was added before
    stays; elsewhere the operation fails as a whole with POLICY_VIOLATION.

    Source: BoundedList.java; section 7.5.
    """

    def __init__(self, limited: bool) -> None:
        super().__init__()
        self.limited = limited

    def append(self, record: MetadataRecord) -> None:
        """Add a record if there is room for it."""
        if self.limited and len(self) >= MAX_RECORDS_PER_USER_OP:
            raise FaultError("too many records")
        super().append(record)
