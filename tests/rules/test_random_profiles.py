"""Random events under the profiles of older controllers: kfast and its plain twin are equal.

    python -m tests.rules.test_random_events --profile zk-2.0 --seed 2 --events 43

repeats one sequence and prints its events. Apart from `test_random_events`, because the two files
together take the longest of all tests and can run side by side.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.rules.test_random_events import seen, settings_of
from tests.support.event_run import Sequence
from tests.support.reference_profiles import PROFILES

OLDER = [name for name in PROFILES if name != "zk-3.9"]
OLDER_EVENTS = 80
OLDER_SEEDS = range(1, 4)

OLDER_MARKS = (
    "reassignment begun", "reassignment completed", "deletion started", "deletion finished",
    "deletion tried again", "shutdown of partitions one by one", "elections one by one",
)
"""What they have to come to in the older versions together."""


@pytest.fixture(scope="module")
def met_by_older() -> Counter[str]:
    """What the sequences of the older versions met, summed."""
    return Counter()


@pytest.mark.kernels
@pytest.mark.parametrize("with_store", [False, True], ids=["cache", "store"])
@pytest.mark.parametrize("seed", OLDER_SEEDS)
@pytest.mark.parametrize("profile", OLDER)
def test_older_controllers_and_their_twins_agree(profile, seed, with_store, met_by_older):
    """Random events in every older version, without what it does not know (section 8.1)."""
    sequence = Sequence(seed, with_store, profile, settings=settings_of(seed, with_store))
    met_by_older.update(seen(sequence.run(OLDER_EVENTS)))
    met_by_older["sequences"] += 1


def test_older_controllers_came_to_their_ends(met_by_older):
    """Reassignments and deletions were begun and finished, one by one where it was so."""
    if met_by_older["sequences"] < 2 * len(OLDER_SEEDS) * len(OLDER):
        pytest.skip("only meaningful after all sequences of the older versions")
    assert [mark for mark in OLDER_MARKS if not met_by_older[f"mark {mark}"]] == []
