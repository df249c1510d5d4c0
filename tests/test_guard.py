"""The regression guard fails when a third of a recorded ratio is lost, and not by bad luck."""

from __future__ import annotations

import json

from benchmarks import cases, guard


def test_one_bad_measurement_is_not_a_loss():
    """Attempts go on, with more rounds each, until one is within the bound."""
    asked = []

    def take(rounds):
        asked.append(rounds)
        return 2.0 if len(asked) == 1 else 1.4

    assert guard.verdict(take, 1.0) == (True, 1.4)
    assert asked == [guard.ROUNDS, 2 * guard.ROUNDS]


def test_a_third_lost_every_time_is_a_loss():
    """The bound itself is still allowed."""
    assert guard.verdict(lambda _: 1.5, 1.0) == (True, 1.5)
    assert guard.verdict(lambda _: 1.51, 1.0) == (False, 1.51)


def test_every_event_is_on_record():
    """`ratios.json` has a ratio for each event that is measured, and for nothing else."""
    recorded = json.loads(guard.RECORD.read_text())["ratios"]
    assert set(recorded) == set(guard.TWINS)
    assert {name.split()[0] for name in guard.TWINS} == set(cases.EVENTS)
    assert all(ratio > 0 for ratio in recorded.values())
