"""The table and the plot of `make bench` are made, for the smallest cluster alone."""

from __future__ import annotations

import csv
import json

import pytest

from benchmarks import cases, growth


def test_a_table_and_a_plot_are_written(tmp_path):
    """Each event in each form, with one digest, and the limit beside."""
    assert growth.main(["--most", str(growth.LEAST), "--folder", str(tmp_path)]) == 0
    with (tmp_path / "growth.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["event"], r["form"]) for r in rows] == [
        (event, form) for event in cases.EVENTS for form in cases.FORMS
    ]
    for event in cases.EVENTS:
        assert len({r["digest"] for r in rows if r["event"] == event}) == 1
    assert all(float(r["limit_ms"]) > 0 for r in rows)
    assert json.loads((tmp_path / "growth.json").read_text())["where"]
    assert (tmp_path / "growth.svg").read_text().count("one broker fails") == 1
    assert "| slope, all rows |" in (tmp_path / "growth.md").read_text()


def test_slopes_are_exponents():
    """Time that grows with the root of all rows, and as the affected ones do."""
    rows = [
        {"event": event, "form": form, "partitions": n, "rows": n**0.5, "median_ms": 3 * n**0.5}
        for n in (10**4, 10**5, 10**6) for event in cases.EVENTS for form in cases.FORMS
    ]
    for slope in growth.slopes(rows):
        assert slope["affected"] == pytest.approx(1)
        assert slope["total"] == pytest.approx(0.5)


def test_same_rows_have_no_slope():
    """Where the affected rows are as many at all sizes, nothing can be fitted to them."""
    rows = [
        {"event": event, "form": form, "partitions": n, "rows": 10_000, "median_ms": 1.0}
        for n in (10**4, 10**5) for event in cases.EVENTS for form in cases.FORMS
    ]
    assert all(slope["affected"] is None and slope["total"] == 0 for slope in growth.slopes(rows))
