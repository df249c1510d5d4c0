"""What a report says, and that its page holds nothing but that."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest

import kfast
from kfast.analysis.topic_faults import FAULTS, topic_faults
from kfast.report.page.html import script_json
from kfast.report.page.remedies import fault_documents
from kfast.report.page.report import report_answer
from tests.report.clusters import BENCH, HOSTILE, PLAIN, bench, named

pytest.importorskip("plotly", reason="a report needs plotly")
pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module")
def answer():
    """The report of the cluster in bench_data; an earlier one is what it became a day later."""
    racks = str(BENCH / "brokers.csv")
    later = kfast.read(str(BENCH / "describe_later.txt.gz"), brokers_file=racks)
    return report_answer("describe.txt", bench(), old=("later", later))


class Elements(HTMLParser):
    """How many elements of each kind a page has."""

    def __init__(self, page):
        super().__init__()
        self.tags = Counter()
        self.feed(page.decode())

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        assert not [name for name, _ in attrs if name.startswith("on")]


def test_the_first_screen_is_what_the_sweeps_say(answer):
    document = answer.document
    assert document["headline"] == (
        "It does not hold: one broker's failure takes partitions offline")
    assert document["verdict"][2] == (
        "One rack fails: 3 of 3 racks take partitions offline, 3 make some refuse acks=all; "
        "at worst 5 leaders are elected outside the ISR, which may lose records.")
    assert document["verdict"][-1].startswith("Since later: BETTER: 1 broker came up;")
    [actions] = [[action["title"] for action in document["actions"]]]
    assert actions[:2] == ["Find out why broker 109 cannot keep up",
                           "Give topic scratch more replicas"]
    summary = document["summary"]
    rows = kfast.sweep(bench(), kfast.every_broker(bench())).to_pylist()[1:]
    assert summary["brokers_under_min_isr"] == max(row["under_min_isr"] for row in rows)
    assert (summary["racks_offline"], summary["topics_unclean"]) == (7, 9)


def test_the_worst_failure_is_told_in_the_readers_cluster(answer):
    """The numbers of `kfast fail`, and a partition by name for each group."""
    story = answer.document["story"]
    assert story["title"] == "Brokers 101, 104, 107, 110 (rack a) stop together"
    impact = kfast.fail_brokers(bench(), [101, 104, 107, 110]).impact
    titles = [step["title"] for step in story["steps"]]
    assert "7 partitions have nobody to lead" in titles
    assert "40 partitions refuse safe writes" in titles
    clients = {row["client"]: row["partitions"]
               for step in story["steps"] for row in step.get("clients", ())}
    assert clients["Producers and consumers"] == impact.summary["leaders_moved"]
    assert clients["Consumers"] == impact.summary["newly_offline"]
    partitions = {(row["topic"], row["partition"]): row for row in impact.partitions.to_pylist()}
    examples = [one for step in story["steps"] for one in step.get("examples", ())]
    assert len(examples) == 4
    for example in examples:
        row = partitions[example["topic"], example["partition"]]
        leaders = [[r["broker"] for r in example[when] if r["role"] == "leader"]
                   for when in ("before", "after")]
        assert leaders == [[b] if b >= 0 and b not in (101, 104, 107, 110)[(when == 0 and 4) or 0:]
                           else [] for when, b in enumerate((row["leader_before"], row["leader"]))]
        assert example["decisions"], "every one of them has a cause"


def test_the_data_are_in_the_page(answer):
    page = answer.page().decode()
    [text] = re.findall(r'<script type="application/json" id="kfast-data">(.*?)</script>', page)
    document = json.loads(text)
    assert document["sections"]["fail"]["scenario"]["racks"] == ["a"]
    assert document["summary"] == answer.document["summary"]
    assert "http" not in "".join(re.findall(r'(?:src|href)="([^"#]*)', page.split("<script>")[0]))
    assert len(page) < 8_000_000


def test_the_policy_names_the_two_scripts_of_the_page(answer):
    """No other script can run, whatever a name manages to be."""
    page = answer.page().decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; script-src &#39;sha256-")
    assert policy.count("sha256-") == page.count("<script>") == 2
    assert "unsafe-eval" not in policy
    assert "script-src 'unsafe-inline'" not in policy


def test_hostile_names_give_the_elements_of_plain_ones(tmp_path):
    pages = []
    for names in (HOSTILE, PLAIN):
        kfast.write_report(named(names), tmp_path / "report.html")
        pages.append((tmp_path / "report.html").read_bytes())
    assert Elements(pages[0]).tags == Elements(pages[1]).tags
    assert script_json("</script><!--\u2028") == r'"\u003c/script\u003e\u003c!--\u2028"'


def test_each_fault_is_found_once():
    faults = {fault.kind: fault for fault in topic_faults(named(PLAIN))}
    assert [*faults] == [*FAULTS]
    assert [faults[kind].topic for kind in FAULTS] == ["topic-0", "topic-2", "topic-3", "topic-4"]
    assert not [f for f in topic_faults(named(PLAIN)) if f.topic in ("topic-5", "topic-6")]
    assert not [f for f in topic_faults(kfast.generate(brokers=6, partitions=60, racks=3))
                if f.kind != "unclean"]


@pytest.mark.parametrize("names", [PLAIN, HOSTILE], ids=["plain", "hostile"])
def test_the_commands_mend_the_faults(tmp_path, names):
    """Run by a shell, with tools that write down their arguments and the plan that they get."""
    state = named(names)
    for tool in ("kafka-configs.sh", "kafka-reassign-partitions.sh"):
        path = tmp_path / tool
        path.write_text('#!/bin/sh\nprintf "%s\\0" "$@" > arguments\n'
                        'printf END >> arguments\n')
        path.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "BOOTSTRAP": "kafka-1:9092"}
    settings, plans = [], {}
    for fault in fault_documents(state, topic_faults(state)):
        for topic in fault["topics"]:
            if "\0" in topic["command"]:
                continue
            command = ["sh", "-c", topic["command"]]
            subprocess.run(command, cwd=tmp_path, env=environment, check=True)
            words = (tmp_path / "arguments").read_text().split("\0")[:-1]
            assert words[:2] == ["--bootstrap-server", "kafka-1:9092"]
            if "--entity-name" in words:
                settings.append((fault["kind"], words[words.index("--entity-name") + 1], words[-1]))
                continue
            [row] = json.loads((tmp_path / "plan.json").read_text())["partitions"]
            plans[row["topic"]] = row["replicas"]
    topics = names["topics"]
    assert settings == [("min_isr", topics[3], "min.insync.replicas=2"),
                        ("unclean", topics[4], "unclean.leader.election.enable=false")]
    # A first replica stays; every rack has one; where two are wanted, they are in two racks.
    racks = {broker: (broker - 1) % 3 for broker in range(1, 7)}
    assert {topic: (ids[0], len(ids)) for topic, ids in plans.items()} == {
        topics[0]: (1, 3), topics[1]: (2, 3), topics[2]: (1, 2)}
    assert all(len({racks[broker] for broker in ids}) == len(ids) for ids in plans.values())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "arguments", "kafka-configs.sh", "kafka-reassign-partitions.sh", "plan.json"]


def describe(tmp_path, *topics):
    """A cluster out of lines of `kafka-topics --describe`: topic, settings, partitions."""
    lines = []
    for topic, settings, *partitions in topics:
        lines.append(f"Topic: {topic}\tPartitionCount: {len(partitions)}\tReplicationFactor: "
                     f"1\tConfigs: {settings}")
        lines += [f"\tTopic: {topic}\tPartition: {at}\tLeader: {leader}\tReplicas: {replicas}"
                  f"\tIsr: {isr}" for at, (leader, replicas, isr) in enumerate(partitions)]
    path = tmp_path / "describe.txt"
    path.write_text("\n".join(lines) + "\n")
    return kfast.read(str(path))


def commands(state):
    """The commands that mend each fault, by kind and topic."""
    return {(fault["kind"], topic["topic"]): topic["command"]
            for fault in fault_documents(state, topic_faults(state)) for topic in fault["topics"]}


def test_plans_name_no_broker_that_is_down_and_change_something(tmp_path):
    """Kafka's tool refuses all of a plan that names a broker that is down."""
    state = describe(tmp_path, ("sound", "", (1, "1,2,4", "1,2,4")),
                     ("one", "", ("none", "3", "3"), (1, "1", "1")),
                     ("lost", "", ("none", "3", "3")))
    assert json.loads(commands(state)["one_replica", "one"].split("\n")[1])["partitions"] == [
        {"topic": "one", "partition": 1, "replicas": [1, 2, 4]}]
    assert commands(state)["one_replica", "lost"] is None
    assert b"too few brokers that are up" in report_answer("describe.txt", state).page()
    assert commands(describe(tmp_path, ("alone", "", (1, "1", "1")))) == {
        ("one_replica", "alone"): None}


def test_a_plan_alone_is_not_enough_where_min_isr_would_be_all_replicas_again(tmp_path):
    state = describe(tmp_path, ("tight", "min.insync.replicas=3", (1, "1,2", "1,2")),
                     ("sound", "", (3, "3,1,2", "3,1,2")))
    command = commands(state)["min_isr", "tight"]
    assert '"replicas":[1,2,3]' in command
    assert command.endswith("--add-config min.insync.replicas=2")


def test_a_cluster_that_refuses_writes_now_does_not_hold(tmp_path):
    """No failure makes it worse: acks=all is refused on every partition already."""
    state = describe(tmp_path, ("a", "min.insync.replicas=3", (2, "3,1,2", "1,2"),
                                (3, "2,1,3", "1,3")))
    document = report_answer("describe.txt", state).document
    assert (document["level"], document["headline"]) == (
        "refuses", "Reading holds, writing does not: acks=all is refused now")
    [headroom] = [tile for tile in document["tiles"] if tile["title"] == "Headroom in replicas"]
    assert headroom["value"] == "2 without"


def test_a_cluster_that_may_lose_records_does_not_hold(tmp_path):
    """Every partition keeps a leader, one of them a replica that is behind."""
    state = describe(tmp_path, ("a", "unclean.leader.election.enable=true", (1, "1,2,3", "1"),
                                (3, "3,1,2", "3,1,2")))
    answer = report_answer("describe.txt", state)
    assert (answer.document["level"], answer.document["headline"]) == (
        "loses", "It stays up, but may lose records when one broker fails")
    assert answer.document["verdict"][1].endswith(
        "; at worst 1 leader is elected outside the ISR, which may lose records.")
    assert (answer.document["tiles"][0]["value"], answer.document["tiles"][0]["note"]) == (
        "may lose records", "at worst 1 leader from outside the ISR")
    assert b'class="verdict loses"' in answer.page()


def test_advice_is_for_what_can_be_done_now(tmp_path):
    """A preferred replica that is down cannot be elected; one that is being added is not late."""
    state = describe(tmp_path, ("a", "", (1, "3,1,2", "1,2"), (2, "1,2,3", "2,1")))
    actions = [action["title"] for action in report_answer("a", state).document["actions"]]
    assert actions == ["Start broker 3", "Balance leaders"]
    [balance] = [action for action in report_answer("a", state).document["actions"]
                 if action["title"] == "Balance leaders"]
    assert balance["why"].startswith("1 partition is led")
    state = describe(tmp_path, ("a", "", (1, "1,2,3\tAdding Replicas: 3", "1,2")),
                     ("b", "", (3, "3,1,2", "3,1,2")))
    assert report_answer("a", state).document["actions"] == []


def test_a_sound_cluster_holds():
    answer = report_answer("generated", kfast.generate(brokers=9, partitions=90, racks=3))
    document = answer.document
    assert document["headline"] == "It holds: no failure of a single broker or rack stops anything"
    assert {row["level"] for row in document["resilience"][:2]} == {"holds"}
    assert b"Nothing is urgent" in answer.page() or document["actions"]


def test_a_cluster_that_is_down_is_reported_too():
    """Of 3 brokers one or none is up: what cannot be asked is left out."""
    state = kfast.fail_brokers(kfast.generate(brokers=3, partitions=9, racks=1), [0, 1]).state
    document = report_answer("one", state).document
    assert document["headline"].startswith(("Part of this cluster is down", "It does not hold"))
    assert "pairs" not in document["sections"]
    state = kfast.fail_brokers(state, [2]).state
    answer = report_answer("none", state)
    assert answer.document["story"] is None
    assert answer.page()


def test_results_draw_themselves():
    state = bench()
    failure = kfast.fail_brokers(state, [101])
    before, after = failure.plot().data
    assert list(after.y) == failure.impact.brokers["leaders"].to_pylist()
    assert sum(before.y) - sum(after.y) == failure.impact.summary["newly_offline"]
    plan = kfast.restart_plan(state)
    assert sum(sum(series.y) for series in plan.plot().data) == plan.counts["brokers"]
    rows = kfast.sweep(state, kfast.every_broker(state))
    offline, _ = kfast.plot(rows).data
    assert sum(offline.y) == np.sum(rows["offline"].to_numpy()[1:])
    with pytest.raises(kfast.ArgumentError, match="cannot be drawn"):
        kfast.plot(rows.select(["scenario"]))


def test_results_in_bytes_draw_themselves():
    state = bench()
    load = kfast.partition_load(state, kfast.read_load(str(BENCH / "loads.csv")))
    capacity = kfast.broker_capacity(state, kfast.read_capacity(str(BENCH / "capacities.csv")))
    plan = kfast.prepare_capacity(state, load, capacity)
    failure = kfast.capacity_of(plan, [101, 104])
    before, after = failure.plot("nw_out").data
    assert list(after.y) == failure.brokers["nw_out_after"].to_pylist()
    assert list(before.y) == failure.brokers["nw_out_before"].to_pylist()
    with pytest.raises(kfast.ArgumentError, match="resource is 'memory'"):
        failure.plot("memory")
    rows = kfast.capacity_sweep(plan, kfast.every_broker(state))
    points = sum(len(series.y) for series in kfast.plot(rows).data)
    assert points == rows.num_rows - 1
    forecast = kfast.capacity_forecast(
        state, load, capacity, kfast.every_broker(state), growth="4%", months=2)
    assert {series.name for series in kfast.plot(forecast).data} >= {"disk", "network out"}


def test_loads_and_capacities_go_together(tmp_path):
    state, path = bench(), tmp_path / "report.html"
    load = kfast.partition_load(state, kfast.read_load(str(BENCH / "loads.csv")))
    for arguments, error in (
        ({"load": load}, "load and capacity go together"),
        ({"load": load, "capacity": "capacities.csv"}, "capacity is .*; right is"),
    ):
        with pytest.raises(kfast.ArgumentError, match=error):
            kfast.write_report(state, path, **arguments)
    assert not path.exists()
