from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

_Array = npt.NDArray[Any]

def layout() -> dict[str, int]: ...
def add_loads(
    effects: Any, load: _Array, failed: _Array, any_failed: bool, channels: _Array,
    scalars: _Array,
) -> None: ...
def add_single_terms(
    effects: Any, terms: Any, load: _Array, values: _Array, scalars: _Array
) -> None: ...
def count_pair_terms(effects: Any, terms: Any, n_brokers: int, counts: _Array) -> None: ...
def list_pair_terms(
    effects: Any, terms: Any, load: _Array, n_brokers: int, place: _Array, broker: _Array,
    values: _Array, scalars: _Array,
) -> None: ...

@disjoint_base
class Levels:
    def __init__(self, n_brokers: int, levels: Sequence[Any]) -> None: ...

@disjoint_base
class Limits:
    def __init__(
        self, slope: _Array, offset: _Array, capacity: _Array, cpu: _Array, allowed: _Array,
        always_over: _Array,
    ) -> None: ...
    @property
    def cpu(self) -> npt.NDArray[np.int64]: ...

def measure_loads(
    limits: Limits, down: _Array, words: int, load: _Array, measured: Any, scenario: int
) -> None: ...
def sweep_terms(
    terms: Any, levels: Levels, limits: Limits, offsets: _Array, down: _Array, words: int,
    measured: Any,
) -> None: ...
def list_loads(
    terms: Any, levels: Levels, offsets: _Array, down: _Array, words: int, places: _Array,
    loads: _Array,
) -> None: ...
def use_resources(limits: Limits, offsets: _Array, down: _Array, loads: _Array) -> None: ...
def add_statistics(loads: _Array, up: _Array, first: int, statistics: Any) -> None: ...
def count_bins(
    loads: _Array, up: _Array, low: _Array, shift: _Array, counts: _Array
) -> None: ...
