"""Logs of versions whose real ones are not here replay, and a changed number in them is found."""

from __future__ import annotations

import re
from random import Random

import pytest

from kfast.log_replay import replay
from tests.support.replay_story import LONG, write_logs


@pytest.mark.parametrize("version", LONG)
def test_what_kfast_did_replays_without_a_contradiction(version, tmp_path):
    """The replay reads the events from the text alone and predicts what kfast had done."""
    found = replay(write_logs(tmp_path, version, "long"))
    assert [str(contradiction) for contradiction in found.contradictions] == []
    assert found.counts["predicted"] > 500
    assert found.lines["not understood"] == 0


ONE_NUMBER = re.compile(r"(?:leader=|leaderEpoch=|Leader:|LeaderEpoch:|with leader )(-?\d+)")


@pytest.mark.parametrize("version", LONG)
def test_one_changed_leader_or_epoch_is_contradicted(version, tmp_path):
    """A number changed in the controller's state changes does not pass unseen."""
    path = write_logs(tmp_path, version, "long") / "broker-4" / "state-change.log"
    lines = path.read_text().splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if ONE_NUMBER.search(line)]
    rng = Random(17)
    for place in rng.sample(places, 2):
        before = lines[place]
        found = rng.choice(list(ONE_NUMBER.finditer(before)))
        begin, end = found.span(1)
        lines[place] = f"{before[:begin]}{int(found[1]) + 1}{before[end:]}"
        path.write_text("".join(lines))
        assert replay(tmp_path).contradictions, f"{before} became {lines[place]}"
        lines[place] = before
