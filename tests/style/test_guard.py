"""The regression guard fails when a third of a recorded ratio is lost, and not by bad luck."""

from __future__ import annotations

import json

from benchmarks import cases, guard


def test_one_bad_measurement_is_not_a_loss():
    """Attempts go on, with more rounds each, until one is within the bound."""
    rounds_asked = []

    def take(rounds):
        rounds_asked.append(rounds)
        return 2.0 if len(rounds_asked) == 1 else 1.3

    assert guard.verdict(take, 1.0) == (True, 1.3)
    assert rounds_asked == [guard.ROUNDS, 2 * guard.ROUNDS]


def test_a_third_lost_every_time_is_a_loss():
    """The bound itself is still allowed."""
    assert guard.verdict(lambda _: 4 / 3, 1.0) == (True, 4 / 3)
    assert guard.verdict(lambda _: 1.34, 1.0) == (False, 1.34)


def test_a_case_with_two_yardsticks_is_lost_by_both():
    """A machine may be fast at one of them."""
    kept = dict.fromkeys(guard.TWINS, True)
    assert guard.lost(kept | {"reassignment": False}) == []
    assert guard.lost(kept | {"reassignment, third": False}) == []
    assert guard.lost(kept | {"reassignment": False, "reassignment, third": False}) == [
        "reassignment"]
    assert guard.lost(kept | {"rack": False}) == ["rack"]


def test_what_an_event_costs_without_partitions_is_taken_off():
    """100 s of 160 s are fixed in kfast, and 10 s of 30 s in its twin: the kernels' ratio is 3."""
    benches = guard.Benches(*(Timed(seconds) for seconds in ((160, 30), (100, 10))))
    assert guard.measure(benches, "third", 3) == 3
    assert guard.measure(benches, "one, tiny", 3) == 10


class Timed:
    """A bench whose events always take the same times: of kfast, of its twins."""

    def __init__(self, times):
        self.times = times

    def seconds(self, event, form, rule):
        assert (event, rule) in {("third", None), ("one", None)}
        return self.times[0 if form == "kfast" else 1]


def test_every_event_is_on_record():
    """`ratios.json` has a ratio for each event that is measured, and for nothing else."""
    recorded = json.loads(guard.RECORD.read_text())["ratios"]
    assert set(recorded) == set(guard.TWINS)
    assert {case.event for case in guard.TWINS.values()} == set(cases.EVENTS)
    assert all(ratio > 0 for ratio in recorded.values())
