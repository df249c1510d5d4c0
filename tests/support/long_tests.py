"""How much of the longest comparisons is run: all of it, or the thirtieth that CI has the time for.

The soak compares the same things on fresh seeds, in CI too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

WHOLE = bool(os.environ.get("WHOLE"))
"""Set by `make slow WHOLE=1`."""


def share_of(cases: Sequence) -> Sequence:
    """All cases, or every thirtieth from the first on."""
    return cases if WHOLE else cases[::30]
