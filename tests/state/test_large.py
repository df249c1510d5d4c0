"""The benchmark of a hundred million partitions, on a small cluster."""

from __future__ import annotations

import json

from benchmarks import cases, large


def test_every_form_ends_with_the_same_digest(tmp_path, capfd):
    """Each form runs in a process of its own; what is written says how long each event took."""
    size = ["--partitions", "4000", "--brokers", "30"]
    assert large.main([*size, "--folder", str(tmp_path)]) == 0
    written = json.loads((tmp_path / "large.json").read_text())
    assert set(written["forms"]) == set(cases.FORMS)
    for form, found in written["forms"].items():
        assert [len(found[event]) for event in ("start", "one", "rack", "failover")] == [
            1, large.SINGLES, 1, 1
        ], form
        assert found["resident_gib"] <= found["peak_gib"]
    assert len(written["forms"]["kfast"]["open"]) == large.SINGLES
    assert "digest" in capfd.readouterr().out
