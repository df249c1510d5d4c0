"""`kfast capacity`: verdicts in bytes, units, limits and what is refused."""

from __future__ import annotations

import json
import re
import shlex
from fractions import Fraction

import pyarrow.parquet as pq
import pytest

import kfast
from kfast.capacity import PRESETS
from kfast.cli import sweep as sweep_module
from kfast.cli.app import commands
from kfast.state.tables import partitions_table
from tests.support.cli_run import ROOT, all_commands, verdict_of
from tests.support.cli_run import run as run_command

DATA = ROOT / "bench_data"
CLUSTER = (DATA / "describe.txt", "--brokers-file", DATA / "brokers.csv")
LOADS = ("--load", DATA / "metrics.prom.gz", "--load", DATA / "log-dirs.json.gz")
CAPACITY = ("--capacity", DATA / "capacities.csv")


def run(name, *arguments, code=0):
    """Run a command of `kfast capacity` on the cluster in bench_data."""
    return run_command("capacity", name, *CLUSTER, *LOADS, *CAPACITY, *arguments, code=code)


def document(name, *arguments):
    return json.loads(run(name, *arguments, "--format", "json").stdout)


@pytest.fixture(scope="module")
def state():
    return kfast.read(CLUSTER[0], brokers_file=CLUSTER[2])


@pytest.fixture(scope="module")
def load(state):
    """The loads in bench_data."""
    return kfast.partition_load(state, kfast.read_load(LOADS[1], LOADS[3]))


@pytest.fixture(scope="module")
def plan(state, load):
    """The cluster in bench_data with its loads and capacities."""
    capacity = kfast.broker_capacity(state, kfast.read_capacity(CAPACITY[1]))
    return kfast.prepare_capacity(state, load, capacity)


# --- sweeps --------------------------------------------------------------------------------------


def test_consumers_fetch_from_the_nearest_replica(state, load):
    """The options are those of `prepare_capacity`; answers say what is assumed."""
    capacity = kfast.broker_capacity(state, kfast.read_capacity(CAPACITY[1]))
    options = ("--fetch-from", "nearest", "--consumer-racks", "a=1/3,c=2/3")
    plan = kfast.prepare_capacity(
        state, load, capacity, fetch_from="nearest", consumer_racks={"a": "1/3", "c": "2/3"}
    )
    singles = kfast.every_broker(state)
    rows = kfast.capacity_sweep(plan, singles).to_pylist()
    answer = document("sweep", "--every", 1, *options)
    assert answer["worst"][0]["headroom"] == min(row["headroom"] for row in rows[1:])
    assert any("in the order of assigned replicas" in line for line in answer["assumptions"])
    assert not any("are spread equally" in line for line in answer["assumptions"])
    shown = document("show", *options)
    used = plan.broker_loads(*singles.down(0, 1))[0, :, 1]
    assert [row["bytes_out"] for row in shown["brokers"]] == used.tolist()
    assert shown["brokers"][0]["leaders"] == document("show")["brokers"][0]["leaders"]


@pytest.mark.parametrize(("options", "message"), [
    (("--consumer-racks", "a=1"), "--consumer-racks goes with --fetch-from nearest"),
    (("--fetch-from", "nearest", "--consumer-racks", "a=0.5"), "shares add up to 1/2; right is 1"),
    (("--fetch-from", "nearest", "--consumer-racks", "d=1"), "no broker is in rack d"),
    (("--fetch-from", "nearest", "--consumer-racks", "a=1,a=0.5"), "is given as 1 and as 0.5"),
])
def test_racks_of_consumers_that_are_refused(options, message):
    assert message in run("show", *options, code=2).stderr


def test_the_verdict_says_whether_each_failure_is_carried():
    verdict = verdict_of(run("sweep", "--each-rack").stdout).splitlines()
    assert verdict[0] == "Each rack: NO, 2 of 3 failures leave brokers over a limit."
    assert verdict[1].startswith("The worst is scenario 1, brokers 101, 104, 107, 110 (rack a): ")
    assert "loads have to shrink to 0.9" in verdict[1]
    assert verdict[2].startswith("Without a failure: ")
    single = verdict_of(run("sweep", "--every", 1).stdout).splitlines()
    assert single[0] == (
        "Every broker: YES, after each of 12 failures every broker is within its limits."
    )
    assert "loads may grow by a factor of 1." in single[1]


@pytest.mark.parametrize("every", [1, 2])
def test_the_worst_failures_lead(state, plan, every):
    """By headroom; extremes are over all failures, without the baseline."""
    answer = document("sweep", "--every", every, "--top", 4)
    scenarios = kfast.every_broker(state, every)
    rows = kfast.capacity_sweep(plan, scenarios).slice(1).to_pylist()
    rows.sort(key=lambda row: (
        row["headroom"], -row["bytes_in_leaderless"], -row["bytes_in_refused"],
        -row["bytes_in_single"], row["scenario"],
    ))
    for listed, row in zip(answer["worst"], rows[:4], strict=True):
        assert {name: listed[name] for name in row} == row
        assert listed["brokers"] == scenarios.brokers(row["scenario"])
    for name, value in answer["summary"].items():
        values = [row[name] for row in rows if row[name] is not None]
        extreme = min if name == "headroom" else max
        assert value == (extreme(values) if values else None)
    over = sum(row["over_limit"] > 0 for row in rows)
    assert answer["failures_over_limit"] == over
    assert answer["safe"] == (not over)


def test_the_readme_asks_and_answers(monkeypatch):
    """The commands of "Can we lose rack a in November?", and what their comments say."""
    block = (ROOT / "README.md").read_text().partition("in November?")[2].split("```")[1]
    first, setting, *lines = block.strip().splitlines()[1:]
    assert first == "cd bench_data"
    monkeypatch.chdir(DATA)
    loads = shlex.split(setting.removeprefix("LOADS="))[0]
    for line in lines:
        command, _, comment = line.partition("#")
        text = run_command(*shlex.split(command.replace("$LOADS", loads))[1:]).stdout
        for words in re.findall(r"YES|NO|broker \d+|[\d.]+ %", comment):
            assert words in text
    assert len(lines) == 3


def test_limits_can_be_changed():
    assert document("sweep", "--each-rack", "--failed-limit", "nw_out=1.2")["safe"]
    tight = run("sweep", "--every", 1, "--limit", "nw_out=0.7").stdout
    assert "NO, brokers are over a limit even without a failure." in tight


def test_conditions():
    failed = run("sweep", "--each-rack", "--fail-on", "headroom<0", code=4)
    assert "--fail-on headroom<0 holds" in failed.stderr
    run("sweep", "--every", 1, "--fail-on", "headroom<0,nw_out_max>0.9")
    refused = run("sweep", "--every", 1, "--fail-on", "cpu_max>0.9", code=2)
    assert "nothing in the input tells cpu_max" in refused.stderr


def test_rows_go_to_parquet(state, plan, tmp_path):
    path = tmp_path / "sweep.parquet"
    run("sweep", "--random", 300, "--down", 2, "--seed", 4, "-o", path, "--threads", 2)
    expected = kfast.capacity_sweep(plan, kfast.random_brokers(state, 2, 300, 4))
    assert pq.read_table(path).replace_schema_metadata(None) == expected
    answer = json.loads(pq.read_metadata(path).metadata[b"kfast.answer"])
    assert answer["summary"]["headroom"] == min(expected["headroom"].to_pylist()[1:])


def test_a_table_has_each_broker_over_all_failures(state, plan, tmp_path):
    path = tmp_path / "brokers.parquet"
    run("sweep", "--every", 2, "--table", "brokers", "-o", path)
    expected = kfast.capacity_brokers(plan, kfast.every_broker(state, 2))
    assert pq.read_table(path).replace_schema_metadata(None) == expected
    assert expected["bytes_out_most_scenario"].to_pylist()[1] == 54


def test_explain_adds_up_to_what_the_worst_failure_changes(plan):
    """By failed broker and by topic, the rest in a row of its own."""
    answer = document("sweep", "--each-rack", "--explain", 102, "--top", 4)
    explanation = answer["explanation"]
    assert explanation["brokers"] == answer["worst"][0]["brokers"] == [101, 104, 107, 110]
    parts = kfast.capacity_of(plan, explanation["brokers"]).explain(102)
    use, total = explanation["use"], explanation["total"]
    for name in ("bytes_in", "bytes_out"):
        change = use[f"{name}_after"] - use[f"{name}_before"]
        assert total[name] == sum(parts[name].to_pylist()) == change
        assert sum(row[name] for row in explanation["by_failed_broker"]) == change
    assert total["partitions"] == parts.num_rows
    assert len(explanation["parts"]) == 4 < explanation["parts_listed_of"]
    text = run("sweep", "--each-rack", "--explain", 102, "--top", 4).stdout
    assert text.index("The worst is") < text.index("Broker 102 in scenario 1") < text.index("Worst")
    assert re.search(r"\(all\) +\+35\.3 MB/s", text)
    assert re.search(rf"\({explanation['parts_listed_of'] - 4} more\)", text)


def test_a_picture_has_brokers_before_and_after(tmp_path):
    path = tmp_path / "brokers.svg"
    run("sweep", "--each-rack", "--plot-brokers", path)
    text = path.read_text()
    for words in ("without a failure", "after the failure", "worst of any failure", "broker id",
                  "101, 104, 107, 110, the worst"):
        assert words in text


def test_an_interrupted_sweep_goes_on(state, plan, tmp_path, monkeypatch):
    """Ctrl-C leaves the rows that are done; --from goes on where they end."""
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    whole = sweep_module.add_batches

    def interrupt(reader, add, rows, start):
        def batches():
            yield next(iter(reader)).slice(0, 40)
            raise KeyboardInterrupt
        whole(batches(), add, rows, start)

    with monkeypatch.context() as patch:
        patch.setattr("kfast.cli.capacity.add_batches", interrupt)
        stopped = run("sweep", "--every", 2, "-o", first, code=130)
    assert "go on with the same command, --from 40" in stopped.stderr
    assert not first.exists()
    run("sweep", "--every", 2, "--from", 40, "-o", second)
    parts = [pq.read_table(path) for path in (tmp_path / "a.partial.parquet", second)]
    rows = [row for part in parts for row in part.to_pylist()]
    assert rows == kfast.capacity_sweep(plan, kfast.every_broker(state, 2)).to_pylist()


# --- a cluster as it is --------------------------------------------------------------------------


def carried(state, load):
    """Of each broker bytes in, out and on disk, leaders, replicas and potential bytes out."""
    totals = {broker: [0, 0, 0, 0, 0, 0] for broker in state.broker_id.tolist()}
    for row, partition in enumerate(partitions_table(state).to_pylist()):
        replicas, leader = partition["replicas"], partition["leader"]
        into, out = int(load.bytes_in[row]), int(load.bytes_out[row])
        for slot, broker in enumerate(replicas):
            totals[broker][0] += into
            totals[broker][2] += int(load.replica_bytes[row, slot])
            totals[broker][4] += 1
            totals[broker][5] += into * (len(replicas) - 1) + out
        totals[leader][1] += into * (len(replicas) - 1) + out
        totals[leader][3] += 1
    return totals


def test_show_has_what_each_broker_carries(state, load):
    answer = document("show")
    totals = carried(state, load)
    assert [row["broker_id"] for row in answer["brokers"]] == [*totals]
    for row in answer["brokers"]:
        columns = ("bytes_in", "bytes_out", "disk_bytes", "leaders", "replicas",
                   "potential_nw_out")
        assert [row[name] for name in columns] == totals[row["broker_id"]]
        disk = 34 * 10**12 if row["broker_id"] == 109 else 36 * 10**12
        assert row["nw_in"] == row["bytes_in"] / 125_000_000
        assert row["nw_out"] == row["bytes_out"] / 125_000_000
        assert row["disk"] == row["disk_bytes"] / disk
        assert row["cpu"] is row["cpu_microcores"] is None
    for name in ("nw_in", "nw_out", "disk"):
        assert answer["summary"][f"{name}_max"] == max(row[name] for row in answer["brokers"])
    assert answer["verdict"][0] == "No broker is over a limit without a failure."
    assert answer["safe"]


def test_show_names_brokers_over_a_limit():
    answer = document("show", "--limit", "nw_out=0.705")
    over = [row["broker_id"] for row in answer["brokers"] if row["over_limit"]]
    assert over == [102, 111, 112]
    assert answer["summary"]["over_limit"] == answer["summary"]["over_limit_nw_out"] == 3
    assert answer["verdict"][0] == (
        "3 brokers are over a limit without a failure: 102 (nw_out), 111 (nw_out), 112 (nw_out)."
    )
    assert not answer["safe"]
    run("show", "--limit", "nw_out=0.705", "--fail-on", "over_limit>0", code=4)


def test_show_names_brokers_with_too_many_replicas(tmp_path):
    """By --limit, by the capacity file, and by the lower number where both have one."""
    answer = document("show", "--limit", "replicas=245")
    crowded = [row["broker_id"] for row in answer["brokers"] if row["replicas"] > 245]
    assert [row["broker_id"] for row in answer["brokers"] if "replicas" in row["over_limit"]] == (
        crowded) == [101, 111, 112]
    assert answer["summary"]["over_limit"] == answer["summary"]["over_limit_replicas"] == 3
    capacity = tmp_path / "capacity.csv"
    capacity.write_text("broker_id,nw_out,replicas_max\n-1,125000000,300\n102,,243\n")

    def show(*arguments):
        text = run_command("capacity", "show", *CLUSTER, *LOADS, "--capacity", capacity,
                           *arguments, "--format", "json").stdout
        return {row["broker_id"]: row for row in json.loads(text)["brokers"]}
    alone, both = show(), show("--limit", "replicas=245")
    assert [alone[b]["replicas_max"] for b in (101, 102)] == [300, 243]
    assert [both[b]["replicas_max"] for b in (101, 102)] == [245, 243]
    assert alone[102]["over_limit"] == both[102]["over_limit"] == ["replicas"]
    assert alone[101]["over_limit"] == [] != both[101]["over_limit"]


def test_a_failure_does_not_change_replicas():
    """A broker that fails counts no more; the others are over the limit as before."""
    answer = document("sweep", "--every", 1, "--limit", "replicas=245", "--top", 12)
    assert answer["baseline"]["over_limit_replicas"] == 3
    for row in answer["worst"]:
        assert row["over_limit_replicas"] == 3 - (row["brokers"][0] in (101, 111, 112))
    assert "always: replicas 245" in run(
        "sweep", "--every", 1, "--limit", "replicas=245").stdout


def test_show_has_the_processor_where_it_is_measured(tmp_path):
    cpu, capacity = tmp_path / "cpu.csv", tmp_path / "capacity.csv"
    cpu.write_text("broker_id,cpu\n101,1.5\n102,2\n")
    capacity.write_text("broker_id,nw_out,cores\n-1,125000000,4\n")
    answer = json.loads(run_command(
        "capacity", "show", *CLUSTER, *LOADS, "--load", cpu, "--capacity", capacity,
        "--format", "json",
    ).stdout)
    assert [row["cpu"] for row in answer["brokers"][:3]] == [0.375, 0.5, None]
    assert [row["nw_in"] for row in answer["brokers"][:1]] == [None]
    text = run_command(
        "capacity", "show", *CLUSTER, *LOADS, "--load", cpu, "--capacity", capacity
    ).stdout
    assert "1.50 cores  37.5 %" in text


def test_a_preset_is_less_than_an_option():
    """Limits of Amazon MSK; what an option says comes first, what neither says stays."""
    answer = document("show", "--preset", "kafka.m5.large", "--limit", "nw_in=0.5,replicas=245")
    assert answer["limits"] == {
        "normal": {"nw_in": 5000, "nw_out": 8000, "cpu": 6000, "disk": 8000},
        "failed": {"nw_in": 9500, "nw_out": 9500, "cpu": 9500, "disk": 8000},
    }
    assert {row["replicas_max"] for row in answer["brokers"]} == {245}
    assert answer["capacity"]["preset"] == "kafka.m5.large"
    assert answer["notes"][-1] == (
        "preset kafka.m5.large: Amazon MSK, Best practices for Standard brokers: partitions per "
        "broker, CPU below 60 %"
    )
    alone = document("sweep", "--every", 1, "--preset", "cruise-control")
    assert alone["limits"]["failed"] == alone["limits"]["normal"]
    assert "always: replicas 10000" in alone["notes"][-2]


def test_every_preset_stands_in_the_help_with_its_source():
    text = "".join(run_command("capacity", "sweep", "--help").stdout.split())
    for name, preset in PRESETS.items():
        assert name in text
        assert "".join(preset.source.split()) in text


def test_processors_follow_write_equivalent_bytes(tmp_path):
    """Cores are (bytes in + bytes out / 4) / 20 MB/s, whatever is measured, and a note says so."""
    cpu, capacity = tmp_path / "cpu.csv", tmp_path / "capacity.csv"
    cpu.write_text("broker_id,cpu\n101,1.5\n102,2\n")
    capacity.write_text("broker_id,cores\n-1,8\n")
    answer = json.loads(run_command(
        "capacity", "show", *CLUSTER, *LOADS, "--load", cpu, "--capacity", capacity,
        "--cpu-model", "write-equivalent", "--format", "json",
    ).stdout)
    for row in answer["brokers"]:
        cores = row["bytes_in"] + Fraction(row["bytes_out"], 4)
        assert row["cpu_microcores"] == round(cores / 20)
        assert row["cpu"] == row["cpu_microcores"] / 8_000_000
    assert answer["limits"]["normal"]["cpu"] == 5000
    assert answer["capacity"]["cpu_model"] == "write-equivalent"
    assert "a core for 20 MB/s of bytes in + bytes out / 4" in answer["notes"][-1]


def test_processors_follow_other_coefficients(tmp_path):
    cpu, capacity = tmp_path / "cpu.csv", tmp_path / "capacity.csv"
    cpu.write_text("".join(f"{line}\n" for line in ("broker_id,cpu", "101,1.5", "102,2", "112,3")))
    capacity.write_text("broker_id,cores\n-1,8\n")

    def worst(*arguments):
        text = run_command(
            "capacity", "sweep", *CLUSTER, *LOADS, "--load", cpu, "--capacity", capacity,
            "--every", 1, *arguments, "--format", "json").stdout
        answer = json.loads(text)
        return answer["summary"]["cpu_max"], answer["notes"][-1]
    default = worst()
    assert worst("--cpu-coefficients", "0.7,0.15,0.15") == default
    other, note = worst("--cpu-coefficients", "0.2,0.6,0.2")
    assert other != default[0]
    assert note == (
        "processors: measured use follows work: 1 for a byte written to a leader, 3 for one sent, "
        "1 for one written to a follower"
    )


def test_show_says_where_loads_come_from(tmp_path):
    path = tmp_path / "provenance.csv"
    run("show", "--table", "provenance", "-o", path)
    lines = path.read_text().splitlines()
    assert len(lines) == 1 + 3 * 61
    assert any("orders.events" in line and "leaders" in line for line in lines)


# --- input ---------------------------------------------------------------------------------------


def test_every_answer_says_what_it_is_about():
    """Window, sources, limits, and how loads came to partitions."""
    text = run("sweep", "--every", 1, "--window", "p95 of 1 h, 2026-11").stdout
    assert "(p95 of 1 h, 2026-11): producers write 162.7 MB/s, consumers fetch 681.5 MB/s" in text
    assert "bytes_in leaders (61 topics)" in text
    assert "while brokers have failed: nw_in 95 %, nw_out 95 %, cpu 95 %, disk 80 %" in text


def test_warnings_of_a_load_stand_in_the_verdict(tmp_path):
    path = tmp_path / "loads.csv"
    path.write_text("topic,bytes_in\norders.events,1000\n")
    answer = json.loads(run_command(
        "capacity", "sweep", *CLUSTER, "--load", path, *CAPACITY, "--every", 1, "--format", "json"
    ).stdout)
    assert answer["load"]["warnings"]
    assert f"Warning: {answer['load']['warnings'][0]}" in answer["verdict"]


def test_what_is_not_checked_is_said(tmp_path):
    """A capacity file of one resource, and of some brokers only, is no verdict on all."""
    path = tmp_path / "capacity.csv"
    path.write_text("broker_id,nw_in,nw_out\n-1,125000000,\n101,,125000000\n")
    for command in (("show",), ("sweep", "--every", 1)):
        text = run_command("capacity", *command, *CLUSTER, *LOADS, "--capacity", path).stdout
        assert (
            "Not checked, for no capacity or no use is known: nw_out of 11 of 12 brokers, cpu, disk"
        ) in text


def log_dirs_json(size):
    """What kafka-log-dirs prints of one replica."""
    partition = {"partition": "orders.events-0", "size": size, "offsetLag": 0, "isFuture": False}
    log_dir = {"logDir": "/d", "error": None, "partitions": [partition]}
    return json.dumps({"version": 1, "brokers": [{"broker": 101, "logDirs": [log_dir]}]})


def capacity_json(disk, nw_in):
    """Cruise Control's capacities of all brokers."""
    capacity = {"DISK": disk, "CPU": "100", "NW_IN": nw_in, "NW_OUT": "1"}
    return json.dumps({"brokerCapacities": [{"brokerId": "-1", "capacity": capacity}]})


WRONG = {  # text of a file, and the option that takes it
    "truncated": ('{"version":1,"brokers":[{"broker":101,"logDirs":[', "load"),
    "another cluster": ("topic,bytes_in\nnobody.knows,5\n", "load"),
    "negative": ("topic,bytes_in\norders.events,-5\n", "load"),
    "units": ("topic,bytes_in\norders.events,10MB/s\n", "load"),
    "empty": ("", "load"),
    "no rows": ("topic,bytes_in\n", "load"),
    "not a number": ("topic,bytes_in\norders.events,NaN\n", "load"),
    "infinite": ("topic,bytes_in\norders.events,inf\n", "load"),
    "too large": ("topic,bytes_in\norders.events,1e30\n", "load"),
    "too large for a partition": ("topic,partition,bytes_in\norders.events,0,1e13\n", "load"),
    "a row twice": ("topic,bytes_in\norders.events,5\norders.events,6\n", "load"),
    "half a partition": ("topic,partition,bytes_in\norders.events,0.5,5\n", "load"),
    "a metric that is no number": (
        'kafka_server_brokertopicmetrics_bytesinpersec_oneminuterate{topic="a"} NaN\n', "load"),
    "a negative size": (log_dirs_json(-5), "load"),
    "no capacity": ("broker_id,nw_in\n-1,0\n", "capacity"),
    "no default": ("broker_id,nw_in\n101,5\n", "capacity"),
    "nothing to compare": ("broker_id,replicas_max\n-1,4000\n", "capacity"),
    "capacity with units": ("broker_id,nw_in\n-1,1Gbps\n", "capacity"),
    "negative capacity": ("broker_id,nw_in\n-1,-5\n", "capacity"),
    "capacity that is no number": ("broker_id,nw_in\n-1,nan\n", "capacity"),
    "infinite capacity": ("broker_id,nw_in\n-1,inf\n", "capacity"),
    "capacity too large": ("broker_id,nw_in\n-1,1e30\n", "capacity"),
    "no capacity of one broker": ("broker_id,nw_in\n-1,5\n101,0\n", "capacity"),
    "no room for replicas": ("broker_id,nw_in,replicas_max\n-1,5,0\n", "capacity"),
    "a broker twice": ("broker_id,nw_in\n-1,5\n-1,5\n", "capacity"),
    "empty capacity": ("", "capacity"),
    "no rows of capacity": ("broker_id,nw_in\n", "capacity"),
    "truncated capacity": ('{"brokerCapacities":[{"brokerId":"-1","capacity":{"DISK"', "capacity"),
    "no entries of capacity": ('{"brokerCapacities":[]}', "capacity"),
    "entries with units": (capacity_json("1TB", "1"), "capacity"),
    "entries that are infinite": (capacity_json("1", "1e999"), "capacity"),
}


@pytest.mark.parametrize("command", [("sweep", "--every", 1), ("show",)])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_one_line(name, command, tmp_path):
    text, option = WRONG[name]
    path = tmp_path / "wrong"
    path.write_text(text)
    files = {"load": LOADS[1], "capacity": CAPACITY[1], option: path}
    wrong = run_command(
        "capacity", *command, *CLUSTER, "--load", files["load"], "--capacity",
        files["capacity"], code=3,
    )
    assert wrong.stdout == ""
    assert re.fullmatch(r"Error: \S+wrong\b.*: .+\n", wrong.stderr)


def test_a_missing_file_is_one_line():
    for option in ("--load", "--capacity"):
        files = dict([LOADS[:2], CAPACITY]) | {option: "missing.csv"}
        wrong = run_command("capacity", "sweep", *CLUSTER, "--every", 1,
                            *(part for pair in files.items() for part in pair), code=3)
        assert wrong.stderr == "Error: missing.csv: cannot be read: No such file or directory\n"


REFUSED = {
    "--limit nw_out=x": "'nw_out=x' is not RESOURCE=SHARE",
    "--limit nw=0.8": "nw",
    "--limit replicas=0": "--limit replicas is 0: from 1 to 2147483647 is allowed",
    "--limit replicas=0.8": "--limit replicas is 0.8: a whole number is needed",
    "--preset kafka.m5.tiny": "Invalid value for '--preset': 'kafka.m5.tiny' is not one of",
    "--cpu-coefficients 0.7,0.15": "is not A,B,C of at most four decimals, such as 0.7,0.15,0.15",
    "--cpu-coefficients 0.7,0.15,nan": "is not A,B,C of at most four decimals",
    "--cpu-coefficients 0,0,0": "all weights of the processor are 0",
    "--cpu-model write-equivalent --cpu-coefficients 1,1,1": "weights go with cpu_model 'measured'",
    "--failed-limit replicas=9": "limits has 'replicas'; allowed are nw_in, nw_out, cpu, disk",
    "--limit nw_out=-1": "is not RESOURCE=SHARE",
    "--failed-limit nw_out=0": "nw_out",
    "--limit nw_out=0.8,nw_out=0.9": "--limit nw_out is given as 0.8 and as 0.9",
    "--instances kafka-1": "is not NAME=ID",
    "--seconds -1": "seconds",
    "--fail-on offline>0": "metric 'offline' is unknown",
    "-o x.html": "right is one of",
    "--from 99": "the last scenario is 12",
    "--each-rack": "give one kind of failures",
    "--explain 107": "broker 107 fails itself",
    "--explain 9": "9",
    "--explain x": "x",
    "--plot-brokers x.txt": "--plot-brokers x.txt: the name has to end in one of",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_is_refused(arguments):
    wrong = run("sweep", "--every", 1, *arguments.split(), code=2)
    assert wrong.stdout == ""
    assert REFUSED[arguments] in " ".join(wrong.stderr.split())


def test_help_lists_the_commands_and_each_has_an_example():
    """What the list says is what the help of each command begins with."""
    group = commands.get_command(None, "capacity")
    listed = run_command("capacity", "--help").stdout
    for name, command in all_commands(group):
        text = group.places[name][2]
        assert f"  {name}" in listed
        assert text in listed
        assert command.get_short_help_str(1000) == text
        help_text = run_command("capacity", name, "--help").stdout
        assert re.search(rf"^    kfast capacity {name}\b", help_text, re.MULTILINE)
