"""What a limit allows, to the last byte and micro-core."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from kfast.capacity.failures.capacity_sweeps import Measured
from kfast.capacity.failures.limits import NORMAL_LIMITS, Limits, check_limits
from kfast.errors import ArgumentError
from kfast.kernels import capacity as kernel

pytestmark = pytest.mark.kernels


def limits_of(capacity, basis_points, cpu=(0, 0, 1), disk=(0, 0)):
    """Limits of one broker: capacities of three resources, its processors, its disk."""
    used, held = (np.array([value]) for value in disk)
    return Limits.of(
        dict(NORMAL_LIMITS) | dict.fromkeys(NORMAL_LIMITS, basis_points), np.array([capacity]),
        np.array([cpu]), used, held, np.zeros(1, np.bool_),
    )


def is_over(limits, loads):
    """Whether the broker is over the limit of each resource with these loads."""
    measured = Measured.empty(1)
    row = np.zeros(64)
    row[:3] = loads
    kernel.measure_loads(limits.kernel, np.zeros(0, np.int32), 1, row, measured, 0)
    return measured.over[0, :3].astype(bool).tolist()


def test_bytes_are_over_a_limit_beyond_it():
    """80 % of 15 bytes a second are 12; 70 % of it are 10.5, so that 10 are allowed."""
    for points, most in ((8000, 12), (7000, 10), (10_000, 15)):
        limits = limits_of((15, 15, 0), points)
        assert is_over(limits, (most, most + 1, 0)) == [False, True, False]
        assert is_over(limits, (most + 1, most, 0)) == [True, False, False]


def test_processors_are_over_a_limit_as_rounded_half_to_even():
    """Of 600 brokers with few micro-cores, every load up to 40."""
    generator, ties = Random(8), 0
    for _ in range(600):
        idle, span, work = (generator.randint(low, 12) for low in (0, 0, 1))
        capacity, points = generator.randint(1, 20), generator.choice([5000, 7000, 8000, 10_000])
        limits = limits_of((0, 0, capacity), points, (idle, span, work))
        for load in range(40):
            share = Fraction(span * load, work)
            expected = (idle + round(share)) * 10_000 > capacity * points
            assert is_over(limits, (0, 0, load)) == [False, False, expected]
            ties += share.denominator == 2 and abs(
                idle + share - Fraction(capacity * points, 10_000)) == Fraction(1, 2)
    assert ties > 20


def test_disks_are_over_a_limit_beyond_it():
    for used, expected in ((12, False), (13, True)):
        assert limits_of((0, 0, 0), 8000, disk=(used, 15)).disk_over.tolist() == [expected]


def test_limits_are_a_mapping():
    with pytest.raises(ArgumentError, match=r"limits is .*; right is a mapping of resources"):
        check_limits([0.8], NORMAL_LIMITS)
