"""How much of the longest comparisons is run: all of it, or the thirtieth that CI has the time for.

The soak compares the same things on fresh seeds, in CI too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

WHOLE = bool(os.environ.get("WHOLE"))
"""Set by `make slow WHOLE=1`."""

only_whole = pytest.mark.skipif(
    not WHOLE, reason="CI does not have the time: `make slow WHOLE=1` runs it"
)
"""Marks what cannot be divided."""


def share_of(cases: Sequence) -> Sequence:
    """All cases, or every thirtieth from the first on."""
    return cases if WHOLE else cases[::30]
