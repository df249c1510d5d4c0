"""What the kernels of KRaft are told of the release, the features and the configuration."""

from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

@disjoint_base
class QuorumRules:
    def __init__(
        self, *, completion: int, elr_on: bool, knows_leader_of_empty_isr: bool,
        last_known_must_be_acceptable: bool, bumps_on_shrink: bool, bumps_by_target: bool,
        recovery_supported: bool, directories_on: bool, min_insync: npt.NDArray[np.int32],
        first_partition: npt.NDArray[np.int32], unclean: npt.NDArray[Any] | None = None,
        directory_begin: npt.NDArray[np.int32] | None = None,
        directories: npt.NDArray[np.int32] | None = None,
    ) -> None: ...
