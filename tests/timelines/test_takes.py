"""What a broker takes at once is counted and timed as if each operation were looked at by itself.

Source: docs/timeline.md, section "KRaft".
"""

from __future__ import annotations

import numpy as np
import pytest

from kfast.kernels import broker_takes

pytestmark = pytest.mark.kernels


def test_counts_are_sums_of_rectangles():
    chance = np.random.default_rng(3)
    for n_events in (1, 2, 5):
        rectangles = chance.integers(0, n_events + 1, (4, 40))
        brokers = chance.integers(-1, 3, 40)
        table = np.zeros((3, n_events + 1, n_events + 1), np.int32)
        broker_takes.add_rectangles(rectangles, brokers, table)
        broker_takes.sum_corners(table)
        for broker, i, j in np.ndindex(3, n_events, n_events):
            expected = sum(
                one == broker and first_i <= i < end_i and first_j <= j < end_j
                for one, (first_i, end_i, first_j, end_j) in zip(brokers, rectangles.T, strict=True)
            )
            assert table[broker, i, j] == expected


def test_a_broker_takes_all_that_arrived_while_it_was_busy():
    """Fixed 10 us, 2 us for each of 3 partitions led: 0, then 1 and 2, then 3 when it is idle."""
    counts = np.zeros((3, 1, 5, 5), np.int32)
    counts[0] = 3
    arrivals = np.array([[100, 105, 116, 500]])
    costs = np.array([[10, 0, 2000, 0, 0]])
    visible = np.zeros((1, 4, 1), np.int64)
    arguments = (
        counts, np.zeros((5, 5), np.int32), np.zeros(1, np.int64), arrivals, costs, visible,
    )
    takes = np.empty((3, 7), np.int64)
    assert broker_takes.take(*arguments, takes[:0]) == 3
    assert broker_takes.take(*arguments, takes) == 3
    assert takes[:, 2:].tolist() == [
        [0, 0, 100, 110, 116], [1, 2, 116, 126, 132], [3, 3, 500, 510, 516],
    ]
    assert visible[0, :, 0].tolist() == [110, 126, 126, 510]
