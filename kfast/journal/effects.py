"""What became of each target of one call, as the kernels write it down.

An effect is one record per replica or partition that was asked to change. Slots mean what they
mean when the call ends, so the journal keeps effects right then (`kfast.journal.kept`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.kernels import census

Effects = npt.NDArray[Any]

EFFECT = np.dtype(
    [
        ("row", np.int32), ("broker", np.int32), ("leader_before", np.int32), ("leader", np.int32),
        ("leader_epoch", np.int32), ("version", np.int32), ("controller_epoch", np.int32),
        ("stop_epoch", np.int32), ("isr_before", np.uint64), ("isr", np.uint64),
        ("recipients", np.uint64), ("adding", np.uint64), ("removing", np.uint64),
        ("code", np.uint8), ("from_state", np.int8), ("to_state", np.int8), ("kinds", np.uint8),
        ("recovery", np.uint8), ("n_replicas", np.uint8), ("n_slots", np.uint8),
    ],
    align=True,
)
"""The same fields as `Effect` in `kernels/slots.pxd`; a test compares the sizes."""

LAYOUT: dict[str, int] = census.layout()
KIND_STOP, KIND_LEADER_AND_ISR, KIND_METADATA, KIND_IS_NEW = 1, 2, 4, 8
KIND_DELETE, KIND_UNCLEAN, KIND_ELECTION, KIND_QUEUED = 16, 32, 64, 128
