"""What kernels are told of the version that is simulated, and of the state besides its columns."""

from collections.abc import Sequence

from typing_extensions import disjoint_base

@disjoint_base
class Rules:
    def __init__(
        self, partition_previous: Sequence[int], replica_previous: Sequence[int],
        strategies: Sequence[int], without_leadership: int, switches: Sequence[bool],
    ) -> None: ...
    def of_state(
        self, controller_epoch: int, recovery_supported: bool, any_queued: bool, counting: bool,
        asks_store: bool = False,
    ) -> Rules: ...
