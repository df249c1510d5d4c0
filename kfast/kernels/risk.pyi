"""What brokers that fail together take down."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def add_shared(
    begin: _Array, members: _Array, weight: _Array, first: _Array, sets_of: _Array, broker: int,
    shared: _Array,
) -> None: ...
def note_triples(
    begin: _Array, members: _Array, weight: _Array, first: _Array, sets_of: _Array,
    alone: _Array, pairs: _Array, link: _Array, broker: int, scores: _Array, triples: _Array,
) -> None: ...
def count_safe(
    begin: _Array, members: _Array, first: _Array, sets_of: _Array, broker: int, held: _Array,
    forbidden: _Array, down: _Array, counts: _Array,
) -> None: ...
def draw_hits(
    threshold: _Array, first: _Array, sets_of: _Array, seed: int, scenario: int, chosen: _Array,
    down: _Array, held: _Array, hit: _Array,
) -> None: ...
