"""How much of the longest comparisons is run: all of it, or the tenth that CI has the time for.

The soak compares the same things on fresh seeds, in CI too.
"""

from __future__ import annotations

import os

WHOLE = bool(os.environ.get("WHOLE"))
"""Set by `make slow WHOLE=1`."""


def share_of(seeds: range) -> range:
    """All seeds, or every tenth from the first on."""
    return seeds if WHOLE else seeds[::10]
