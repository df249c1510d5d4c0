from typing import Any

import numpy as np
from numpy.typing import NDArray

def random_below(
    seed: int, stream: int, bound: int, first: int, numbers: NDArray[np.int32]
) -> None: ...
def number_partitions(
    topic_start: NDArray[np.int64],
    first: int,
    topic_row: NDArray[np.int32],
    partition: NDArray[np.int32],
    threads: int,
) -> None: ...
def place_kafka(
    topic_row: NDArray[np.int32],
    partition: NDArray[np.int32],
    start: NDArray[np.int32],
    shift: NDArray[np.int32],
    circle: NDArray[np.int32],
    rack: NDArray[np.int32],
    n_racks: int,
    replicas: NDArray[Any],
    threads: int,
) -> None: ...
def place_uniform(
    seed: int, stream: int, n_brokers: int, replicas: NDArray[Any], threads: int
) -> None: ...
def place_ring(
    n_brokers: int, first: int, replicas: NDArray[Any], threads: int
) -> None: ...
