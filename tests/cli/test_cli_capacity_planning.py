"""`kfast capacity forecast` and the other commands that plan ahead."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pyarrow.csv
import pytest

from tests.cli.test_cli_capacity import CAPACITY, CLUSTER, LOADS
from tests.support.cli_run import run as run_command
from tests.support.cli_run import verdict_of


def run(name, *arguments, code=0):
    """Run a command of `kfast capacity` on the cluster in bench_data."""
    return run_command("capacity", name, *CLUSTER, *LOADS, *CAPACITY, *arguments, code=code)


def document(name, *arguments):
    return json.loads(run(name, *arguments, "--format", "json").stdout)


# --- forecast ------------------------------------------------------------------------------------


def test_a_forecast_names_the_first_month_over_a_limit():
    verdict = verdict_of(run("forecast", "--growth", "4%/month", "--every", 1).stdout).splitlines()
    assert verdict[0] == (
        "Every broker, loads that grow by 4% a month: brokers are over the limit of nw_out in "
        "month 3."
    )
    assert verdict[1] == (
        "Without a failure: broker 111 sends 80.4 % of its nw_out capacity, the limit is 80 %."
    )
    assert verdict[2] == "Over a limit later: disk in month 6."
    # 162.7 MB/s and 681.5 MB/s, times 1.04^12 = 1.601.
    assert verdict[3] == "In month 12 producers write 260.4 MB/s and consumers fetch 1.1 GB/s."
    failed = verdict_of(run("forecast", "--growth", "1%", "--each-rack").stdout).splitlines()
    assert failed[1].startswith(
        "After scenario 1, brokers 101, 104, 107, 110 (rack a): broker 102 sends 99.1 %"
    )


def test_a_forecast_without_a_month_over_a_limit():
    answer = document("forecast", "--growth", "0.1%", "--every", 1, "--months", 6)
    assert answer["first_month_over_limit"] == dict.fromkeys(("nw_in", "nw_out", "cpu", "disk"))
    assert answer["summary"]["first_month_over_limit"] is None
    assert answer["safe"]
    assert answer["verdict"][0].endswith("no broker is over a limit in 6 months.")


def test_topics_grow_by_their_own_rates(tmp_path):
    file = tmp_path / "growth.csv"
    file.write_text("topic,growth\n.*,0%\norders.*,10%/month\n")
    answer = document("forecast", "--growth-file", file, "--every", 1, "--months", 2)
    assert answer["growth"] == f"0% a month (2 rules of {file})"
    assert answer["load"]["bytes_in"] < answer["last_load"]["bytes_in"]
    assert answer["last_load"]["bytes_in"] < answer["load"]["bytes_in"] * 1.21


def test_forecast_conditions_and_rows(tmp_path):
    arguments = ("forecast", "--growth", "4%", "--every", 1, "--months", 4)
    failed = run(*arguments, "--fail-on", "months_over_limit>0", code=4)
    assert "months_over_limit>0 holds" in failed.stderr
    run(*arguments, "--fail-on", "first_month_over_limit<3")
    path = tmp_path / "months.csv"
    run(*arguments, "-o", path, "--table", "months")
    table = pyarrow.csv.read_csv(path)
    assert table.num_rows == 5 * 4
    assert table["over_limit"].to_pylist().count(True) == 2


def test_a_forecast_is_drawn(tmp_path):
    path = tmp_path / "x.svg"
    run("forecast", "--growth", "4%", "--every", 1, "--months", 3, "--plot", path)
    texts = {"".join(node.itertext()) for node in ElementTree.parse(path).iter()
             if node.tag.endswith("text")}
    for text in ("months of growth", "network out% of capacity", "limit",
                 "limit while brokers are down", "worst of any failure",
                 "without a failure", "Forecast: Every broker, 4% a month"):
        assert text in texts


REFUSED = {
    "forecast --every 1": "give --growth, such as 4%/month, or --growth-file, or both",
    "forecast --growth 4% ": "give one kind of failures",
    "forecast --growth 4 --every 1": "a growth is needed, as in 4%/month",
    "forecast --growth 4% --every 1 --months 121": "--months",
    "forecast --growth 4% --every 1 --fail-on offline>0": "metric 'offline' is unknown",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_is_refused(arguments):
    wrong = run(*arguments.split(), code=2)
    assert wrong.stdout == ""
    assert REFUSED[arguments] in " ".join(wrong.stderr.split())


def test_a_wrong_growth_file_is_one_line(tmp_path):
    path = tmp_path / "growth.csv"
    path.write_text("topic,growth\norders.*,much\n")
    wrong = run("forecast", "--growth-file", path, "--every", 1, code=3)
    assert wrong.stderr == (
        f"Error: {path} line 2: growth is 'much': a growth is needed, as in 4%/month\n"
    )
