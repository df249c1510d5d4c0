"""What can go wrong through a caller's mistake, and the one thing that is kfast's own fault.

Every error of a caller is a `KfastError` that is also the built-in it resembles. It is raised
before anything changes and says which argument, file or row, what was found, and what is allowed.
What Kafka itself would refuse is never an exception: it is a `schema.Code` in the result.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError", "InputError", "InvariantError", "KfastError", "PolicyError", "RowError",
]


class KfastError(Exception):
    """A caller's mistake; nothing was changed."""


class ArgumentError(KfastError, ValueError):
    """An argument has a value that Kafka or kfast cannot be asked for."""


class RowError(KfastError, IndexError):
    """A row is outside its table, or is listed twice."""


class InputError(KfastError, ValueError):
    """A file or a table cannot be read, or contradicts itself."""


class PolicyError(KfastError, ValueError):
    """A user's election rule cannot be compiled, raised, or elected whom it may not."""


class InvariantError(AssertionError):
    """A rule of section 9 of the specification does not hold: kfast's own mistake."""
