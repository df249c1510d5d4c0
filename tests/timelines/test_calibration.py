"""Calibration: intervals of logs, and the parameters that are fitted on them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.errors import ArgumentError, InputError
from kfast.log_replay.log_files import read_logs
from kfast.log_replay.wording.kraft_logs import read_kraft_statement
from kfast.timelines.calibration import predicted_lengths, within_factor
from kfast.timelines.intervals import Interval, interval_table, resolution_us
from kfast.timelines.kraft_intervals import kraft_intervals
from kfast.timelines.parameters import PARAMETERS
from tests.support.cli_run import run
from tests.support.interval_twin import twin_rows
from tests.support.live_events import read_events
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

BEFORE = """
    partition  ar     isr    leader  epoch  state
    a-0        2,3    2,3    2       2      ONLINE
    a-1        3,2    3      3       4      ONLINE
    b-0        1,2,3  1,2,3  1       1      ONLINE
    b-1        3,1,2  3,1,2  3       1      ONLINE
    c-0        3      3      3       1      ONLINE
"""


def rows_of(table):
    """Rows as the twin gives them: those of controllers."""
    return [
        (row["kind"], row["start_us"] // 1000, row["end_us"] // 1000,
         dict(zip(row["parameters"], row["counts"], strict=True)))
        for row in table.to_pylist() if row["kind"] != "request sent"
    ]


def write_story(folder, version, trace):
    """Broker 1 takes over, 3 fails, 2 fails, 2 and 3 come back, and 2 takes over."""
    state = read_state(
        BEFORE, brokers=[1, 2, 3], controller_id=-1, leader_recovery_supported=version == "3.9"
    )
    logged = LoggedController(state, version, trace)
    logged.fail_over(1)
    logged.change_brokers(failed=[3])
    logged.change_brokers(failed=[2])
    logged.change_brokers(started=[2, 3])
    logged.catch_up([2, 3])
    logged.rebalance()
    logged.fail_over(2)
    logged.change_brokers(failed=[3])
    logged.log.save(folder)


@pytest.mark.parametrize("trace", [True, False], ids=["TRACE", "INFO"])
@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_intervals_of_controllers_are_those_of_a_plain_twin(tmp_path, version, trace):
    write_story(tmp_path, version, trace)
    expected = [
        row for broker in (1, 2) for row in twin_rows(tmp_path / f"broker-{broker}", 3, 5)
    ]
    found = rows_of(kfast.read_intervals(tmp_path))
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert {row[0] for row in found} >= {"context", "elections", "offline replicas", "requests"}


BROKER = """\
[2026-11-22 02:00:00,000] INFO [Broker id=2] Leader a-0 starts at leader epoch 1 from offset 0 \
with high watermark 0 ISR [2,3] addingReplicas [] removingReplicas []. Previous leader epoch was 0.
[2026-11-22 02:00:00,001] INFO [Broker id=2] Follower a-1 starts at leader epoch 1 from offset 0 \
with high watermark 0. Previous leader epoch was 0.
[2026-11-22 02:00:00,002] INFO [Broker id=2] Follower a-2 starts at leader epoch 1 from offset 0 \
with high watermark 0. Previous leader epoch was 0.
[2026-11-22 02:00:10,020] INFO [Broker id=2] Handling LeaderAndIsr request correlationId 7 from \
controller 1 for 3 partitions
[2026-11-22 02:00:10,030] INFO [Broker id=2] Leader a-1 starts at leader epoch 2 from offset 0 \
with high watermark 0 ISR [2] addingReplicas [] removingReplicas []. Previous leader epoch was 1.
[2026-11-22 02:00:10,031] INFO [Broker id=2] Follower a-0 starts at leader epoch 2 from offset 0 \
with high watermark 0. Previous leader epoch was 1.
[2026-11-22 02:00:10,032] INFO [Broker id=2] Ignoring LeaderAndIsr request from controller 1 with \
correlation id 7 epoch 4 for partition a-2 since its associated leader epoch 1 matches the current \
leader epoch
[2026-11-22 02:00:10,035] INFO [Broker id=2] Finished LeaderAndIsr request in 15ms correlationId \
7 from controller 1 for 3 partitions
[2026-11-22 02:00:10,041] INFO [Broker id=2] Add 3 partitions and deleted 1 partitions from \
metadata cache in response to UpdateMetadata request sent by controller 1 epoch 4 with correlation \
id 8
"""
SENT = """\
[2026-11-22 02:00:10,000] INFO [Controller id=1] Newly added brokers: , deleted brokers: 3, \
bounced brokers: , all live brokers: 1,2 (kafka.controller.KafkaController)
[2026-11-22 02:00:10,005] INFO [Controller id=1 epoch=4] Changed partition a-1 from \
OfflinePartition to OnlinePartition with state LeaderAndIsr(leader=2, leaderEpoch=2, isr=List(2), \
zkVersion=2) (state.change.logger)
[2026-11-22 02:00:10,012] INFO [Controller id=1 epoch=4] Sending LeaderAndIsr request to broker 2 \
with 1 become-leader and 2 become-follower partitions (state.change.logger)
[2026-11-22 02:00:10,013] INFO [Controller id=1 epoch=4] Sending UpdateMetadata request to brokers \
Set(1, 2) for 3 partitions (state.change.logger)
"""


def write_broker(folder, broker=BROKER, sent=SENT):
    for name, text in (("broker-2", broker), ("broker-1", sent)):
        (folder / name).mkdir()
        lines = [
            line if line.endswith(")") else f"{line} (state.change.logger)"
            for line in text.splitlines()
        ]
        (folder / name / "state-change.log").write_text("\n".join(lines) + "\n")


def test_what_a_broker_does_with_a_request_of_a_failure_is_counted(tmp_path):
    """A partition that it leaves as it is costs nothing; UpdateMetadata waited behind."""
    write_broker(tmp_path)
    rows = {row["kind"]: row for row in kfast.read_intervals(tmp_path).to_pylist()}
    assert rows.keys() == {"LeaderAndIsr", "UpdateMetadata", "elections", "request sent"}
    handled, cached = rows["LeaderAndIsr"], rows["UpdateMetadata"]
    assert handled["parameters"] == ["epoch_sync", "follow", "lisr_fixed"]
    assert handled["counts"] == [1, 1, 1]
    assert handled["end_us"] - handled["start_us"] == 15_000
    assert (cached["parameters"], cached["counts"]) == (["um_entry", "um_fixed"], [4, 1])
    assert cached["end_us"] - cached["start_us"] == 6_000
    sent = rows["request sent"]
    assert (sent["start_broker"], sent["end_broker"]) == (1, 2)
    assert sent["end_us"] - sent["start_us"] == 8_000
    assert {row["log_level"] for row in rows.values()} == {"INFO"}


@pytest.mark.parametrize("change", [
    ("deleted brokers: 3", "deleted brokers: "),  # No failure.
    ("a-0 starts at leader epoch 1", "a-9 starts at leader epoch 1"),  # a-0 is new to the broker.
    ("Ignoring LeaderAndIsr", "Pondering LeaderAndIsr"),  # What became of a-2 is not told.
])
def test_requests_that_tell_nothing_of_a_failure_are_no_rows(tmp_path, change):
    write_broker(tmp_path, BROKER.replace(*change), SENT.replace(*change))
    try:
        found = kfast.read_intervals(tmp_path)["kind"].to_pylist()
    except InputError:
        found = []
    assert "LeaderAndIsr" not in found


def test_a_release_that_does_not_say_what_it_sends_tells_nothing_of_a_start(tmp_path):
    """Before 2.6 the requests to all replicas would count as the CPU of the start."""
    write_story(tmp_path, "2.4", True)
    assert set(kfast.read_intervals(tmp_path)["kind"].to_pylist()) == {"context"}


def interval(counts, length, kind="made", start=0, brokers=(1, 1), level="INFO"):
    return Interval(kind, *brokers, start, start + length, counts, level, "made.log", start + 1)


def length_of(counts, values):
    nanoseconds = sum(
        n * values[name] * (1000 if PARAMETERS[name].unit == "us" else 1)
        for name, n in counts.items()
    )
    return round(nanoseconds / 1000)


def requests(values, n, seed):
    """Requests of brokers that take just as long as the parameters say."""
    random = np.random.default_rng(seed)
    rows = []
    for at in range(n):
        counts = {"lisr_fixed": 1, **{
            name: int(random.integers(0, 9)) for name in ("epoch_sync", "follow", "isr_only")
        }}
        rows.append(interval(counts, length_of(counts, values), "LeaderAndIsr", 10**7 * at))
    return rows


VALUES = {"lisr_fixed": 7_000, "epoch_sync": 900_000, "follow": 250_000, "isr_only": 120_000}


def test_a_fit_finds_the_parameters_that_made_the_rows_whatever_outliers_say():
    rows = requests(VALUES, 60, seed=1)
    late = [interval(row.counts, 40 * (row.end_us - row.start_us), row.kind, row.start_us + 1)
            for row in rows[:6]]
    fitted = kfast.fit_times(interval_table([*rows, *late]))
    for name, value in VALUES.items():
        assert fitted.params[name].value == pytest.approx(value, rel=0.001)
        assert fitted.params[name].source.startswith("fitted on ")
    assert fitted.params["zk_read"] == PARAMETERS["zk_read"]
    assert set(fitted.fitted) == set(VALUES)
    for row in fitted.intervals.to_pylist():
        length = row["end_us"] - row["start_us"]
        is_late = abs(length - row["predicted_us"]) > 0.01 * length
        assert row["left_out"] == ("outlier" if is_late else None)


def test_fewer_than_eight_rows_keep_the_range_of_before():
    rows = [interval({"failover_fixed": 1}, length) for length in (500_000, 520_000, 480_000)]
    [found] = [row for row in kfast.fit_times(interval_table(rows)).parameters.to_pylist()
               if row["rows"]]
    assert (found["name"], found["value"], found["rows"]) == ("failover_fixed", 500_000, 3)
    assert (found["low"], found["high"]) == (185_000, 1_400_000)
    many = kfast.fit_times(interval_table(rows * 3)).params["failover_fixed"]
    assert (many.low, many.high) == (480_000, 520_000)


def test_of_columns_in_one_proportion_only_the_sum_is_fitted():
    """Twice as long as by default: both are, in their proportion."""
    values = {name: 2 * PARAMETERS[name].value for name in ("zk_read", "zk_write")}
    rows = [interval(counts := {"zk_read": n, "zk_write": n}, length_of(counts, values))
            for n in range(100, 120)]
    fitted = kfast.fit_times(interval_table(rows))
    assert {name: fitted.params[name].value for name in values} == pytest.approx(values, rel=0.001)
    assert "only the sum of zk_read and zk_write is known" in fitted.params["zk_read"].source
    assert "only their sum is fitted" in fitted.notes[0]


def test_a_parameter_that_is_next_to_nothing_of_every_row_keeps_its_default():
    rows = [interval({"zk_scan": 300, "failover_fixed": 1}, 600_000) for _ in range(9)]
    assert kfast.fit_times(interval_table(rows)).fitted == ("failover_fixed",)


def test_clocks_that_differ_are_warned_of_and_left_out():
    """Broker 2 is 250 ms behind; what its own clock measures is kept."""
    rows = [interval({"metadata_fetch": 1}, 12_000 - 250_000, "fetch", 10**6 * n, (None, 2))
            for n in range(20)]
    rows += [interval({"metadata_fetch": 1}, 12_000, "fetch", 10**6 * n, (None, 3))
             for n in range(20)]
    rows += requests(VALUES, 20, seed=3)
    fitted = kfast.fit_times(interval_table(rows))
    assert fitted.intervals["left_out"].to_pylist().count("clocks") == 20
    [note] = [note for note in fitted.notes if note.startswith("clocks: ")]
    assert note.startswith("clocks: 20 of 20 intervals from the metadata log to broker 2 end ")
    assert note.endswith("the clock of broker 2 is about 238.5 ms behind")
    assert fitted.params["metadata_fetch"].value == 12_000


def test_logs_at_trace_are_warned_of():
    rows = [interval({"failover_fixed": 1}, 500_000, level="TRACE")]
    fitted = kfast.fit_times(interval_table(rows))
    assert fitted.log_levels == {"failover_fixed": "TRACE"}
    assert fitted.notes == (
        "logs at TRACE slow Kafka; so these are less at INFO: failover_fixed",
    )


@pytest.mark.parametrize(("table", "error", "message"), [
    (interval_table([]), InputError, "no interval tells of any parameter"),
    (interval_table([interval({"epoch_sink": 1}, 5)]), ArgumentError, "'epoch_sink' is unknown"),
    (interval_table([interval({"epoch_sync": -1}, 5)]), ArgumentError, "is in it -1 times"),
    (pa.table({"kind": ["a"]}), ArgumentError, "no column start_broker"),
])
def test_wrong_rows_are_refused(table, error, message):
    with pytest.raises(error, match=message):
        kfast.fit_times(table)


def test_what_calibrate_writes_is_read_back_and_is_the_same_again(tmp_path):
    write_story(tmp_path / "logs", "3.9", False)
    made = []
    for name in ("one.json", "two.json"):
        run("timeline", "--calibrate", tmp_path / "logs", "-o", tmp_path / name)
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]
    fitted = kfast.fit_times(kfast.read_intervals(tmp_path / "logs"))
    assert json.loads(made[0])["parameters"] == fitted.parameters.to_pylist()
    assert fitted.fitted
    params = kfast.read_params(tmp_path / "one.json")
    for name, one in params.by_name.items():
        expected = fitted.params[name] if fitted.rows[name] else PARAMETERS[name]
        assert one == expected
    cluster = tmp_path / "cluster.arrow"
    kfast.write(kfast.generate(brokers=6, partitions=60, controller="zk-3.9"), cluster)
    said = json.loads(run(
        "timeline", cluster, "--brokers", 3, "--samples", 5, "--params", tmp_path / "one.json",
        "--format", "json",
    ).stdout)
    state = kfast.read(cluster)
    assert said["summary"] == kfast.timeline(
        state, [3], samples=5, params=fitted.params
    ).summary.to_pylist()[0]


def test_the_text_says_what_is_known_and_what_is_by_default(tmp_path):
    write_story(tmp_path / "logs", "3.9", False)
    text = " ".join(run("timeline", "--calibrate", tmp_path / "logs").output.split())
    assert "keep their defaults." in text
    assert "Defaults: zk_expire_event," in text
    assert "fitted on" in text
    assert "Lengths, beside those that the parameters give" in text


@pytest.mark.parametrize(("more", "message"), [
    (("--brokers", "3"), "--brokers does not go with --calibrate"),
    (("--samples", "3"), "--samples does not go with --calibrate"),
    (("--set", "tickTime=5"), "of --set only controller.quorum.voters goes with --calibrate"),
    (("--set", "controller.quorum.voters=many"), "right is a whole number"),
    (("--table", "stages", "--format", "csv"), "it has: parameters, intervals"),
])
def test_options_that_do_not_go_with_calibrate_are_refused(tmp_path, more, message):
    (tmp_path / "controller.log").write_text("")
    refused = run("timeline", "--calibrate", tmp_path, *more, code=2)
    assert message in " ".join(refused.output.split())


@pytest.mark.parametrize(("text", "error", "message"), [
    ('{"epoch_sync": "800us"}', InputError, "no parameters"),
    ('{"parameters": [{"name": "epoch_sink", "value": "1us"}]}', ArgumentError, "the nearest is"),
    ('{"parameters": [{"name": "epoch_sync", "value": 5}]}', ArgumentError, "with the unit None"),
    ('{"parameters": [{"name": "net", "value": 5, "unit": "us", "low": 9}]}', ArgumentError,
     "low <= value <= high"),
    ('{"parameters": [{"name": "net", "value": "5us", "low": 1}]}', ArgumentError,
     "has its range with it"),
    ('{"parameters": [{"name": "net", "value": "5us"}, {"name": "net", "value": "6us"}]}',
     ArgumentError, "net comes twice"),
])
def test_wrong_files_of_parameters_are_refused(tmp_path, text, error, message):
    path = tmp_path / "params.json"
    path.write_text(text)
    with pytest.raises(error, match=message):
        kfast.read_params(path)


def test_parameters_written_by_hand_are_read(tmp_path):
    path = tmp_path / "params.json"
    path.write_text('{"parameters": [{"name": "epoch_sync", "value": "800us,500us,2ms"}, '
                    '{"name": "net", "value": 7, "unit": "us"}]}')
    params = kfast.read_params(path)
    assert (params["epoch_sync"].value, params["epoch_sync"].high) == (800_000, 2_000_000)
    assert (params["net"].low, params["net"].value, params["net"].source) == (7, 7, "given")
    assert not params["zk_read"].overridden


# --- KRaft ---------------------------------------------------------------------------------------

KRAFT_CONTROLLER = """\
2026-11-22T02:00:00.100 DEBUG org.apache.kafka.controller.PeriodicTaskControlManager - \
[QuorumController id=90] Periodic task maybeFenceStaleBroker generated 0 records in 50 microseconds.
2026-11-22T02:00:00.101 DEBUG org.apache.kafka.controller.QuorumController - \
[QuorumController id=90] Processed maybeFenceStaleBroker(17) in 60 us
2026-11-22T02:00:01.100 DEBUG org.apache.kafka.controller.PeriodicTaskControlManager - \
[QuorumController id=90] Periodic task maybeFenceStaleBroker generated 7 records in 1200 \
microseconds.
2026-11-22T02:00:01.128 DEBUG org.apache.kafka.controller.QuorumController - \
[QuorumController id=90] Processed maybeFenceStaleBroker(18) in 29200 us
[2026-11-22 02:00:02,000] DEBUG [QuorumController id=90] Processed completeActivation[1](5) in \
3000 us (org.apache.kafka.controller.QuorumController)
[2026-11-22 02:00:02,500] DEBUG [QuorumController id=90] Processed alterPartition(5) in 900 us \
(org.apache.kafka.controller.QuorumController)
"""
KRAFT_BROKER = """\
[2026-11-22 02:00:03,060] INFO [Broker id=2] Transitioning 2 partition(s) to local leaders. \
(state.change.logger)
[2026-11-22 02:00:03,070] INFO [Broker id=2] Leader a-1 with topic id Some(abc) starts at leader \
epoch 4 from offset 0 with partition epoch 9, high watermark 0, ISR [2], adding replicas [] and \
removing replicas [] . Previous leader Some(3) and previous leader epoch was 3. \
(state.change.logger)
[2026-11-22 02:00:03,081] INFO [Broker id=2] Leader a-2 with topic id Some(abc) starts at leader \
epoch 4 from offset 0 with partition epoch 8, high watermark 0, ISR [2], adding replicas [] and \
removing replicas [] . Previous leader Some(3) and previous leader epoch was 3. \
(state.change.logger)
[2026-11-22 02:00:03,090] INFO [Broker id=2] Transitioning 1 partition(s) to local followers. \
(state.change.logger)
"""


def kraft_rows(folder, voters):
    """Intervals of the two logs, beside records of a-1 that were written at 02:00:03.000."""
    (folder / "controller.log").write_text(KRAFT_CONTROLLER)
    (folder / "state-change.log").write_text(KRAFT_BROKER)
    logs = read_logs(folder)
    lines = [line for entry in logs.entries if (line := read_kraft_statement(entry))]
    written = next(one.time for one in logs.entries if "Transitioning 2" in one.message) - 60
    changes = {(("a", 1), 9): (written, 5)}
    return {row.kind: row for row in kraft_intervals(logs, lines, changes, voters)}


def test_lines_of_kraft_nodes_become_intervals(tmp_path):
    """A look that finds nothing to do is no operation; lines of other operations tell no counts."""
    rows = kraft_rows(tmp_path, 1)
    lengths = {kind: row.end_us - row.start_us for kind, row in rows.items()}
    assert lengths == {
        "operation": 1200, "commit": 28_000, "activation": 3000, "leaders": 21_000,
        "fetch": 60_000,
    }
    stored = {"linger": 1, "log_sync": 1, "net": 0}
    assert rows["operation"].counts == {"kr_fixed": 1, "kr_record": 7}
    assert rows["commit"].counts == stored
    assert rows["leaders"].counts == {"epoch_sync": 2}
    assert rows["fetch"].counts == {
        **stored, "metadata_fetch": 1, "load_fixed": 1, "image_entry": 5
    }
    assert (rows["fetch"].start_broker, rows["fetch"].end_broker) == (None, 2)
    assert rows["commit"].log_level == "DEBUG"


def test_commits_of_a_quorum_of_several_wait_for_a_follower(tmp_path):
    assert kraft_rows(tmp_path, 3)["commit"].counts == {"linger": 1, "log_sync": 2, "net": 1}


def test_linger_is_a_setting_and_is_never_fitted():
    rows = [interval({"linger": 1, "log_sync": 1}, 28_000, "commit") for _ in range(9)]
    fitted = kfast.fit_times(interval_table(rows))
    assert fitted.fitted == ("log_sync",)
    assert fitted.params["log_sync"].value == 3000


def test_registrations_and_isrs_of_a_live_metadata_log(shared_data):
    """What the live runs were seen to take: registered to unfenced, and to the last ISR."""
    log = shared_data / "kraft_live" / "metadata" / "__cluster_metadata-0"
    rows = kfast.read_intervals(log).to_pylist()
    back = [(row["end_us"] - row["start_us"]) // 1000 for row in rows
            if row["parameters"] == ["recover"]]
    assert back[5:] == [14867, 8870, 16045, 5003, 17446, 6927, 2992, 3556]
    joined = [(row["end_us"] - row["start_us"]) // 1000 for row in rows
              if row["parameters"] == ["isr_join"]]
    assert joined == [1318, 603, 866, 318, 1012, 620, 799, 491]


# --- live clusters -------------------------------------------------------------------------------


def judged(train, test):
    """Shares of rows within a factor 3 and in the ranges of what was fitted on others."""
    test = test.filter(pa.array([bool(names) for names in test["parameters"].to_pylist()]))
    value, low, high = predicted_lengths(test, kfast.fit_times(train).params)
    near = inside = 0
    for row, length, least, most in zip(test.to_pylist(), value, low, high, strict=True):
        seen, exact = row["end_us"] - row["start_us"], resolution_us(row["kind"])
        near += within_factor(seen, length, exact)
        inside += least - exact <= seen <= most + exact
    return near / test.num_rows, inside / test.num_rows


def rows_in(table, events, numbers):
    """Rows that begin in some events, given as (number, first, last millisecond)."""
    spans = [(first, last) for number, first, last in events if number in numbers]
    return table.filter(pa.array([
        any(first <= start // 1000 <= last for first, last in spans)
        for start in table["start_us"].to_pylist()
    ]))


def test_odd_kills_of_a_live_zookeeper_cluster_predict_the_even_ones(shared_data):
    """The five kills of docs/timeline.md, section "Validation"; 5 and 9 tell of 8, 18 and 20."""
    folder = shared_data / "controller_logs" / "zk-3.9-live"
    events = [
        (one["n"], one["from_ms"], one["to_ms"]) for one in read_events(folder / "events.jsonl.gz")
    ]
    table = kfast.read_intervals(folder)
    near, inside = judged(rows_in(table, events, {5, 9}), rows_in(table, events, {8, 18, 20}))
    assert near >= 0.6
    assert inside >= 0.8


def test_odd_events_of_a_live_kraft_cluster_predict_the_even_ones_and_back(shared_data):
    folder = shared_data / "kraft_live"
    lines = (folder / "events.jsonl").read_text().splitlines()
    begins = [json.loads(line)["begin_ms"] for line in lines]
    events = list(zip(range(1, len(begins) + 1), begins, [*begins[1:], 2**53], strict=True))
    table = kfast.read_intervals([folder / "metadata" / "__cluster_metadata-0", folder / "logs"])
    halves = [rows_in(table, events, set(range(at, 30, 2))) for at in (1, 2)]
    for train, test in (halves, halves[::-1]):
        near, inside = judged(train, test)
        assert near >= 0.6
        assert inside >= 0.8
