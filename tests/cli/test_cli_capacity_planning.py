"""`kfast capacity forecast`, `cost` and `size`."""

from __future__ import annotations

import csv
import json
from decimal import Decimal
from xml.etree import ElementTree

import pyarrow.csv
import pyarrow.parquet
import pytest

import kfast
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


def test_a_forecast_names_brokers_with_too_many_replicas():
    """Growth changes no assignment: they have too many in every month."""
    answer = document("forecast", "--growth", "0.1%", "--every", 1, "--months", 6, "--limit",
                      "replicas=252")
    assert answer["summary"]["over_limit_replicas"] == 1
    assert not answer["safe"]
    assert answer["verdict"][0] == "1 broker holds more replicas than allowed, in every month."
    assert answer["verdict"][1].endswith("no other limit is exceeded in 6 months.")


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


# --- cost ----------------------------------------------------------------------------------------


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("class,price_month\nlarge,512.50\nold,400\n")
    return path


def test_a_month_is_added_up(prices):
    """11 * 512.50 + 400; 430 TB at 0.08; producers' and consumers' two thirds at 0.01 a GB."""
    answer = document(
        "cost", "--prices", prices, "--price", "disk-gb-month=0.08,cross-rack-gb=0.01"
    )
    costs = {f"{row['item']} {row['class'] or ''}".strip(): row["cost"] for row in answer["items"]}
    assert costs["brokers large"] == "5637.50"
    assert costs["brokers old"] == "400.00"
    assert costs["disk"] == "34400.00"
    load = answer["load"]
    rates = {row["item"]: row["quantity"] for row in answer["items"]}
    assert rates["cross-rack producers"] == round(load["bytes_in"] * 2 / 3)
    assert rates["cross-rack consumers"] == round(load["bytes_out"] * 2 / 3)
    assert answer["summary"]["total"] == float(answer["total"]) == 63227.33
    assert answer["verdict"][0] == "A month costs 63,227.33, in the currency of the prices."


def test_what_has_no_price_is_said(prices):
    text = run("cost", "--prices", prices).stdout
    assert "A month costs 6,037.50, in the currency of the prices." in text
    assert ("Without a price, and not in it: disk, cross-rack producers, cross-rack replication, "
            "cross-rack consumers.") in text


def test_costs_of_a_later_month(prices):
    arguments = ("cost", "--prices", prices, "--price", "cross-rack-gb=0.01")
    now, later = document(*arguments), document(*arguments, "--growth", "100%", "--months", 2)
    assert later["summary"]["bytes_cross_rack"] == pytest.approx(
        4 * now["summary"]["bytes_cross_rack"], abs=10)
    assert "loads are those after 2 months of growth by 100 % a month (61 topics)" in (
        later["assumptions"])
    run(*arguments, "--fail-on", "total>1000", code=4)


def test_where_clients_are(prices):
    arguments = ("cost", "--prices", prices, "--fetch-from", "nearest")
    rates = {row["item"]: row["quantity"] for row in document(
        *arguments, "--producer-racks", "a=0.5,b=0.5", "--consumer-racks", "c=1")["items"]}
    assert 0 < rates["cross-rack consumers"] < rates["cross-rack producers"]


# --- size ----------------------------------------------------------------------------------------


def test_a_cluster_is_sized(tmp_path):
    """What has to change is written as a plan, which makes the table placement."""
    plan, table = tmp_path / "plan.json", tmp_path / "placement.parquet"
    arguments = ("size", "--class", "large", "--every", 1, "--each-rack")
    lines = verdict_of(run(*arguments, "--plan", plan).stdout).splitlines()
    assert lines[0] == "To survive any 1 broker or any rack: 12 brokers of class large, the fewest."
    assert lines[1] == "RIGHT_SIZED: 12 brokers are up, as many as needed."
    assert lines[2].startswith(
        "From the present cluster: broker 113 is added; broker 109 is removed; 2")
    run(*arguments, "--table", "placement", "-o", table)
    placed = {(row["topic"], row["partition"]): row["replicas"]
              for row in pyarrow.parquet.read_table(table).to_pylist()}
    assert len(placed) == 1036
    assert {b for row in placed.values() for b in row} == {*range(101, 114)} - {109}
    changed = kfast.read_plan(plan).to_pylist()
    assert 200 < len(changed) < 400
    assert all(placed[row["topic"], row["partition"]] == row["replicas"] for row in changed)


def test_a_later_month_needs_more_brokers():
    """The bound of a rack's bytes out: a placement that keeps it is found."""
    answer = document("size", "--class", "large", "--each-rack", "--every", 1, "--growth", "4%",
                      "--months", 12)
    assert (answer["summary"]["at_least"], answer["summary"]["suffices"]) == (18, 18)
    assert answer["status"] == "UNDER_PROVISIONED"
    nw_out = next(row for row in answer["bounds"]
                  if (row["resource"], row["failure"]) == ("nw_out", "rack"))
    assert nw_out["brokers"] == 17
    changes = {row["broker_id"]: row for row in answer["brokers"] if row["change"] != "stays"}
    assert sorted(changes) == [109, *range(113, 120)]
    assert changes[109] == {"broker_id": 109, "rack": "c", "change": "removed"}


def test_a_partition_that_is_too_large_is_named_with_its_units(tmp_path):
    path = tmp_path / "small.csv"
    path.write_text("broker_id,nw_out\n-1,5000000\n")
    text = run_command(
        "capacity", "size", *CLUSTER, *LOADS, "--capacity", path, "--every", 1
    ).stdout
    assert "To survive any 1 broker: no number of brokers suffices, a partition is too" in text
    assert "MB/s  4.0 MB/s" in text
    refused = run_command("capacity", "size", *CLUSTER, *LOADS, "--capacity", path, "--plan",
                          tmp_path / "x.json", code=2)
    assert "no placement was found" in " ".join(refused.stderr.split())
    assert not (tmp_path / "x.json").exists()


def test_sizes_in_conditions():
    arguments = ("size", "--class", "large", "--every", 1)
    run(*arguments, "--fail-on", "suffices>12")
    run(*arguments, "--fail-on", "at_least>9", code=4)


def test_brokers_that_are_not_alike_are_refused():
    wrong = run("size", code=3)
    assert "brokers are not alike, their disk_bytes differs; right is one class" in wrong.stderr
    assert "(broker_class, --class)" in wrong.stderr
    assert "classes are large, old" in wrong.stderr
    assert "classes are large, old" in run("size", "--class", "huge", code=3).stderr


# --- all of them ---------------------------------------------------------------------------------


TABLES = {
    "months": ("forecast", "--growth", "4%", "--every", 1, "--months", 2),
    "items": ("cost", "--prices", "PRICES", "--price", "disk-gb-month=0.08"),
    "bounds": ("size", "--class", "large", "--every", 1),
    "brokers": ("size", "--class", "large"),
    "placement": ("size", "--class", "large"),
    "too_large": ("size", "--class", "large"),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_the_same_in_every_form(table, tmp_path, prices):
    """Money is decimal in Parquet, and the same digits in CSV and JSON."""
    arguments = [prices if word == "PRICES" else word for word in TABLES[table]]
    paths = {ending: tmp_path / f"x.{ending}" for ending in ("csv", "json", "parquet")}
    for path in paths.values():
        run(*arguments, "--table", table, "-o", path)
    rows = pyarrow.parquet.read_table(paths["parquet"]).to_pylist()
    lines = [json.loads(line) for line in paths["json"].read_text().splitlines()]
    assert [{name: str(value) if isinstance(value, Decimal) else value
             for name, value in row.items()} for row in rows] == lines
    with paths["csv"].open(newline="") as file:
        in_csv = [*csv.DictReader(file)]
    assert len(in_csv) == len(rows)
    if table == "items":
        assert [row["cost"] or None for row in in_csv] == [line["cost"] for line in lines]


REFUSED = {
    "size --class large --plan x.txt": "the name has to end in .json",
    "size --class large --every 0": "--every",
    "forecast --every 1": "give --growth, such as 4%/month, or --growth-file, or both",
    "forecast --growth 4% ": "give one kind of failures",
    "cost --prices x.csv --price disk=1": "is no price of disk-gb-month or cross-rack-gb",
    "cost --prices x.csv --price disk-gb-month=free": "a price is needed, as in 0.08",
    "cost --prices x.csv --producer-racks a=2": "a share is needed, as in 0.5 or 1/3",
    "cost --prices x.csv --months 3": "--months goes with --growth or --growth-file",
    "cost --prices x.csv --growth 3%": "--months goes with --growth or --growth-file",
    "forecast --growth 4 --every 1": "a growth is needed, as in 4%/month",
    "forecast --growth 4% --every 1 --months 121": "--months",
    "forecast --growth 4% --every 1 --fail-on offline>0": "metric 'offline' is unknown",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_is_refused(arguments):
    wrong = run(*arguments.split(), code=2)
    assert wrong.stdout == ""
    assert REFUSED[arguments] in " ".join(wrong.stderr.split())


def test_a_wrong_price_file_is_one_line(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("class,price_month\nlarge,much\n")
    wrong = run("cost", "--prices", path, code=3)
    assert wrong.stderr == (
        f"Error: {path} line 2: price_month is 'much': a price is needed, as in 0.08\n"
    )


def test_a_wrong_growth_file_is_one_line(tmp_path):
    path = tmp_path / "growth.csv"
    path.write_text("topic,growth\norders.*,much\n")
    wrong = run("forecast", "--growth-file", path, "--every", 1, code=3)
    assert wrong.stderr == (
        f"Error: {path} line 2: growth is 'much': a growth is needed, as in 4%/month\n"
    )
    path.write_text("topic,growth\nnobody.knows,4%\n")
    wrong = run("forecast", "--growth-file", path, "--every", 1, code=3)
    assert wrong.stderr == f"Error: {path}: no topic's whole name matches 'nobody.knows'\n"
