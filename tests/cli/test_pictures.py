"""`--plot`: pictures in three forms, readable without colours and offline."""

from __future__ import annotations

import struct
from xml.etree import ElementTree

import numpy as np
import pytest

from kfast.report import pictures
from tests.support.cli_run import ROOT, run

DATA = ROOT / "bench_data"
SWEEP = (
    "capacity", "sweep", DATA / "describe.txt", "--brokers-file", DATA / "brokers.csv",
    "--load", DATA / "loads.csv", "--capacity", DATA / "capacities.csv",
)
LIMITS = {
    "normal": {"nw_in": 8000, "nw_out": 8000, "cpu": 7000, "disk": 8000},
    "failed": {"nw_in": 9500, "nw_out": 9500, "cpu": 9500, "disk": 8000},
}


def texts(svg):
    """All texts of an SVG that are seen; it is well-formed."""
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter()
            if node.tag.endswith("text") and node.get("opacity") != "0"]


def size_of(png):
    """Width and height in pixels."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


def utilisation(n):
    """A picture of n brokers, every third of which fails."""

    def rows(factor, down=()):
        return [
            {"broker_id": 100 + at, "nw_in": None if at in down else 0.3 * factor,
             "nw_out": None if at in down else 0.7 * factor, "disk": 0.6, "cpu": None}
            for at in range(n)
        ]

    shares = dict(zip(
        pictures.STATES, (rows(1), rows(1.2, range(0, n, 3)), rows(1.3)), strict=True
    ))
    return pictures.utilisation_picture("Rack a fails", ["of a test"], shares, LIMITS)


def test_a_picture_of_utilisation_has_its_limits_and_units(tmp_path):
    path = tmp_path / "x.svg"
    pictures.write_picture(utilisation(12), path)
    written = texts(path.read_text())
    for text in (
        "Rack a fails", "broker id", "network in", "network out", "disk", "% of capacity", "80 %",
        "95 %", "limit", "limit while brokers are down", *pictures.STATES, "100", "111",
    ):
        assert any(text in line for line in written), text
    assert not any("processor" in line for line in written), "no broker has any"
    assert "stroke-dasharray" in path.read_text()


def test_pictures_of_many_brokers_stay_readable(tmp_path):
    """As wide as those of few; ids that have no room are left out."""
    sizes = []
    for n in (12, 300):
        pictures.write_picture(utilisation(n), tmp_path / "x.png")
        sizes.append(size_of((tmp_path / "x.png").read_bytes()))
    assert abs(sizes[0][0] - sizes[1][0]) < 20
    pictures.write_picture(utilisation(300), tmp_path / "x.svg")
    ids = {int(text) for text in texts((tmp_path / "x.svg").read_text()) if text.isdigit()}
    assert 20 < len(ids & set(range(100, 400))) < 100


def test_of_many_failures_the_worst_are_all_drawn():
    chosen = pictures.curve_places(500_000)
    assert chosen.size <= pictures.MOST_POINTS
    assert chosen[: pictures.MOST_POINTS // 3].tolist() == [*range(pictures.MOST_POINTS // 3)]
    assert chosen[-1] == 499_999
    assert np.all(np.diff(chosen) > 0)
    assert pictures.curve_places(7).tolist() == [*range(7)]


@pytest.mark.parametrize("ending", pictures.PICTURE_ENDINGS)
def test_a_sweep_draws_its_headroom(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    done = run(*SWEEP, "--every", 1, "--plot", path)
    assert f"Wrote {path}." in done.stderr
    data = path.read_bytes()
    if ending == ".svg":
        written = texts(data)
        for text in ("Headroom: Every broker", "failures, the worst first", "limit reached",
                     "headroom, % of the limit", "without a failure", "nearest to its limit"):
            assert any(text in line for line in written), text
    elif ending == ".png":
        assert min(size_of(data)) > 500
    else:
        assert b"<script src" not in data, "it would need a network"
        assert b"Headroom: Every broker" in data


def test_a_picture_is_drawn_although_a_condition_holds(tmp_path):
    run(*SWEEP, "--each-rack", "--plot", tmp_path / "x.svg", "--fail-on", "headroom<0", code=4)
    assert (tmp_path / "x.svg").exists()


@pytest.mark.parametrize(("name", "words"), [
    ("x.pdf", "has to end in one of .svg, .png, .html"),
    ("x", "has to end in one of .svg, .png, .html"),
    ("missing/x.svg", "does not exist"),
    ("", "the name of the file is empty"),
])
def test_what_is_no_picture_is_refused_first(tmp_path, name, words):
    """Before INPUT is even opened."""
    path = tmp_path / name if name else ""
    refused = run("capacity", "sweep", "missing.txt", "--load", "missing.csv", "--capacity",
                  "missing.csv", "--every", 1, "--plot", path, code=2)
    assert words in " ".join(refused.stderr.split())
    assert [*tmp_path.iterdir()] == []


def test_a_picture_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "x.svg"
    path.write_text("old")
    picture = utilisation(3)
    monkeypatch.setattr(type(picture), "save", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pictures.write_picture(picture, path)
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]
