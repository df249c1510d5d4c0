"""`kfast report` from the command line."""

from __future__ import annotations

import json
import re

import pytest

import kfast
from tests.support.cli_run import ROOT, run

pytest.importorskip("plotly", reason="a report needs plotly")
pytestmark = pytest.mark.kernels

BENCH = ROOT / "bench_data"
INPUT = (str(BENCH / "describe.txt"), "--brokers-file", str(BENCH / "brokers.csv"))
BYTES = ("--load", str(BENCH / "loads.csv"), "--capacity", str(BENCH / "capacities.csv"))


def data_of(page):
    """The document in a page."""
    return json.loads(re.search(r'id="kfast-data">(.*?)</script>', page)[1])


def test_a_page_and_the_first_lines_of_it(tmp_path):
    path = tmp_path / "report.html"
    done = run("report", *INPUT, *BYTES, "--growth", "4%/month", "--months", 3, "-o", path)
    assert "It does not hold: one broker's failure takes partitions offline." in done.stdout
    assert done.stderr == f"Wrote {path}.\n"
    document = data_of(path.read_text())
    assert [row["month"] for row in document["months"]] == [0, 1, 2, 3]
    assert document["sections"]["capacity_racks"]["safe"] is False
    assert document["summary"]["headroom"] == pytest.approx(0.107, abs=0.001)


def test_python_writes_what_the_command_says_of_bytes(tmp_path):
    run("report", *INPUT, *BYTES, "-o", tmp_path / "command.html")
    state = kfast.read(INPUT[0], brokers_file=INPUT[2])
    load = kfast.partition_load(state, kfast.read_load(BYTES[1]))
    capacity = kfast.broker_capacity(state, kfast.read_capacity(BYTES[3]))
    kfast.write_report(state, tmp_path / "python.html", load=load, capacity=capacity)
    command, python = (
        data_of((tmp_path / name).read_text()) for name in ("command.html", "python.html")
    )
    assert python["summary"] == command["summary"]
    for name in ("capacity_brokers", "capacity_racks"):
        for document in (command, python):
            del document["sections"][name]["input"]
            document["sections"][name]["capacity"].pop("preset", None)
        assert python["sections"][name] == command["sections"][name]


def test_a_page_goes_to_standard_output_alone():
    done = run("report", *INPUT, "-o", "-")
    assert done.stdout.startswith("<!doctype html>")
    assert done.stdout.rstrip().endswith("</html>")


def test_a_condition_that_holds_ends_with_4(tmp_path):
    path = tmp_path / "report.html"
    conditions = "racks_offline>0,topics_one_rack>5"
    done = run("report", *INPUT, "-o", path, "--fail-on", conditions, code=4)
    assert "--fail-on racks_offline>0 holds: racks_offline is 7" in done.stderr
    assert data_of(path.read_text())["fail_on"][1]["holds"] is False


@pytest.mark.parametrize(("arguments", "code", "message"), [
    (["--load", "x.csv"], 2, "--load and --capacity go together"),
    (["--growth", "4%"], 2, "--growth goes with --load and --capacity"),
    (["--limit", "nw_in=0.5"], 2, "--limit goes with --load and --capacity"),
    (["--fail-on", "headroom<0.1"], 2, "nothing in the input tells headroom"),
    (["--since", "no-such-file"], 3, "no-such-file: cannot be read"),
])
def test_what_is_wrong_is_said_and_no_page_is_written(tmp_path, arguments, code, message):
    path = tmp_path / "report.html"
    done = run("report", *INPUT, *arguments, "-o", path, code=code)
    assert message in done.stderr
    assert not path.exists()
