"""Nothing changes by accident: answers, public names and signatures are those on record."""

from __future__ import annotations

import pytest

from tests.support import golden
from tests.support.long_tests import share_of
from tests.support.reference_profiles import PROFILES

QUICK = 8


def compare(profile, seeds):
    on_record = golden.recorded()[profile]
    different = [seed for seed in seeds if golden.digest(profile, seed) != on_record[seed]]
    assert not different, f"{profile}: sequences {different}; see python -m tests.support.golden"


@pytest.mark.kernels
@pytest.mark.parametrize("profile", PROFILES)
def test_events_end_as_on_record(profile):
    """State and outcome of every event of a few sequences, bit for bit."""
    compare(profile, range(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_all_events_end_as_on_record(profile):
    """The other sequences."""
    compare(profile, share_of(range(QUICK, golden.SEQUENCES)))


def test_public_names_and_signatures_are_those_on_record():
    """A call that worked yesterday works today."""
    from tests.support import public_names

    now, on_record = public_names.signatures(), public_names.recorded()
    assert {n: now.get(n) for n in on_record} == on_record
    assert sorted(now.keys() - on_record.keys()) == [], "record what is new"
