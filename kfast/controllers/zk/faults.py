"""How an event ends early: another controller has taken over, or Kafka's handler raises.

Source: docs/controller.md, section 6.0.
"""

from __future__ import annotations

__all__ = ["ControllerMoved", "EventFailed"]


class ControllerMoved(Exception):  # noqa: N818 - Kafka's own name of it
    """The guard on the controller epoch failed: another controller has taken over."""


class EventFailed(Exception):  # noqa: N818 - a normal end of an event
    """Kafka's handler would have raised here: the event ends, what it did so far stays.

    Parameters
    ----------
    error : str
        Class of Kafka's error.
    """

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error
