"""Options with one spelling and one meaning in every command, and what they ask for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

import kfast
from kfast.analysis.broker_failure import fail_brokers
from kfast.cli.app import commands
from kfast.cli.options import ListType
from tests.support.cli_run import ROOT, all_commands, answer, run, verdict_of

pytestmark = pytest.mark.kernels

DESCRIBE = """\
Topic: orders\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: min.insync.replicas=2
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3
\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,3,1
Topic: logs\tPartitionCount: 2\tReplicationFactor: 2\tConfigs:
\tTopic: logs\tPartition: 0\tLeader: 4\tReplicas: 4,5\tIsr: 4,5
\tTopic: logs\tPartition: 1\tLeader: 5\tReplicas: 5,4\tIsr: 5,4
Topic: scratch\tPartitionCount: 1\tReplicationFactor: 1\tConfigs:
\tTopic: scratch\tPartition: 0\tLeader: 6\tReplicas: 6\tIsr: 6
"""


@pytest.fixture
def cluster(tmp_path):
    """Name of a describe text of six brokers."""
    path = tmp_path / "describe.txt"
    path.write_text(DESCRIBE)
    return str(path)


def all_options():
    """Every option of every command."""
    for name, command in all_commands():
        for option in command.params:
            if isinstance(option, click.Option):
                yield pytest.param(name, option, id=f"{name} {option.opts[0]}")


STEPS = ("--then", "--then-start")
"""Each of these is a step of its own."""
LISTS = [
    p for p in all_options()
    if isinstance(p.values[1].type, ListType) and p.values[1].opts[0] not in STEPS
]
ITEMS = {
    "ids": ("1", "2"),
    "numbers": ("1", "2"),
    "names": ("a", "b"),
    "variants": ("zk", "kraft"),
    "sizes": ("10k", "1M"),
    "failures": ("every-broker", "every-rack"),
    "rate": ("60MB/s", "40MB/s"),
    "what": ("offline", "under-min-isr"),
    "topic-partition": ("t-1", "t-2"),
    "name=id": ("kafka-1:9404=1", "kafka-2=2"),
    "name=amount": ("disk-gb-month=0.08", "cross-rack-gb=0.01"),
    "rack=share": ("a=0.5", "b=1/2"),
    "resource=share": ("nw_in=0.8", "cpu=0.7"),
    "name=value": ("min.insync.replicas=2", "unclean.leader.election.enable=true"),
}


@pytest.mark.parametrize(("command", "option"), LISTS)
def test_a_list_is_taken_with_commas_and_repeated(command, option):
    """Repeated options kept only the last list, and dropped the others without a word."""
    first, second = ITEMS.get(option.type.name, ("", ""))
    if option.type.name == "condition":
        metric = re.search(r"Metrics: (\w+)", option.help)[1]
        first, second = f"{metric}>0", f"{metric}>=1"
    context = click.Context(dict(all_commands())[command])
    joined = option.process_value(context, (f"{first},{second}",))
    repeated = option.process_value(context, (first, second))
    assert len(joined) == 2
    assert [str(item) for item in joined] == [str(item) for item in repeated]


def test_what_else_may_be_repeated_has_commas_of_its_own():
    """A regular expression or a file's name may have a comma; the library reads --add-brokers."""
    others = {
        p.values[1].opts[0] for p in all_options()
        if p.values[1].multiple and not isinstance(p.values[1].type, ListType)
    }
    assert others == {
        "--set", "--add-brokers", "--with", "--load", "--exclude-topics", "--plan", "--param"
    }


@pytest.mark.parametrize("form", [("1,3",), ("1", "3"), ("1-1", "3"), ("3,1", "1"), (" 1 , 3",)])
def test_all_brokers_of_all_lists_fail(cluster, form):
    lists = [part for text in form for part in ("--brokers", text)]
    document = answer("fail", cluster, *lists)
    assert sorted(document["scenario"]["brokers"]) == [1, 3]
    found = fail_brokers(kfast.read(cluster), [1, 3]).impact
    assert document["summary"] == found.summary


def test_a_range_has_both_its_ends(cluster):
    assert sorted(answer("fail", cluster, "--brokers", "1-3")["scenario"]["brokers"]) == [1, 2, 3]


def test_all_topics_of_all_lists_are_deleted(cluster):
    document = answer("delete", cluster, "--topics", "orders", "--topics", "logs")
    assert document["verdict"][0] == "SAFE: 2 topics are deleted."


# --- steps ---------------------------------------------------------------------------------------


def test_steps_come_in_the_order_in_which_they_are_given(cluster):
    """Each begins with what the one before it left, and has a verdict of its own."""
    document = answer("fail", cluster, "--brokers", "1", "--then-start", "1", "--then", "2,3",
                      "--then-start", "2")
    then = [("start", [1]), ("fail", [2, 3]), ("start", [2])]
    failure = fail_brokers(kfast.read(cluster), [1], then=then)
    assert [(s["kind"], s["broker_ids"]) for s in document["steps"]] == [("fail", [1]), *then]
    assert [s["summary"] for s in document["steps"]] == [
        step.impact.summary for step in failure.steps]
    assert [line.split(":")[0] for line in document["verdict"]][:4] == [
        "Broker 1 fails", "Then broker 1 starts and catches up", "Then brokers 2, 3 fail together",
        "Then broker 2 starts and catches up",
    ]


def test_a_condition_is_tested_after_each_step(cluster):
    """Broker 4 alone takes nothing offline; then broker 5 takes both partitions of logs."""
    found = run("fail", cluster, "--brokers", "4", "--then", "5", "--then-start", "5",
                "--fail-on", "offline>0", code=4)
    assert found.stderr.splitlines() == ["--fail-on offline>0 holds after step 2: offline is 2"]


# --- settings ------------------------------------------------------------------------------------


def test_settings_override_those_of_topics(cluster):
    """A topic's own setting wins over the brokers' default, so only this can answer what if."""
    as_it_is = ("fail", cluster, "--brokers", "1,2", "--list", "under-min-isr")
    assert answer(*as_it_is)["summary"]["newly_under_min_isr"] == 2
    changed = answer(*as_it_is, "--set", "ord.*:min.insync.replicas=1")
    assert changed["summary"]["newly_under_min_isr"] == 0
    assert any("as this question sets it" in note for note in changed["assumptions"])
    last = answer(*as_it_is, "--set", ".*:min.insync.replicas=1", "--set",
                  "orders:min.insync.replicas=3")
    assert last["summary"]["newly_under_min_isr"] == 2


def test_an_unclean_election_as_a_what_if(cluster, tmp_path):
    """Broker 5 is live and not in the ISR: it leads if 4 fails and the topic allows it."""
    text = DESCRIBE.replace("Replicas: 4,5\tIsr: 4,5", "Replicas: 4,5\tIsr: 4")
    path = tmp_path / "shrunken.txt"
    path.write_text(text)
    clean = answer("fail", path, "--brokers", "4")["summary"]
    unclean = answer("fail", path, "--brokers", "4", "--set",
                     "logs:unclean.leader.election.enable=true")["summary"]
    assert (clean["newly_offline"], clean["unclean"]) == (1, 0)
    assert (unclean["newly_offline"], unclean["unclean"]) == (0, 1)


@pytest.mark.parametrize("command", [
    ("sweep", "--every", "1"), ("restart",), ("risk",), ("fail", "--brokers", "1")])
def test_settings_are_taken_wherever_they_matter(cluster, command):
    """The answer is that for a cluster with these settings."""
    name, *rest = command
    changed = answer(name, cluster, *rest, "--set", "orders:min.insync.replicas=3")
    path = Path(cluster).with_name("changed.txt")
    path.write_text(DESCRIBE.replace("min.insync.replicas=2", "min.insync.replicas=3"))
    other = answer(name, path, *rest)
    assert changed["summary"] == other["summary"]
    assert changed["summary"] != answer(name, cluster, *rest)["summary"]


def test_what_is_assumed_of_settings_is_true_after_they_are_overridden(cluster):
    """Kafka's default is not taken for a topic whose setting the question gives."""
    notes = answer("show", cluster)["assumptions"]
    assert any(note.endswith("is taken for all 3 topics") for note in notes)
    notes = answer("fail", cluster, "--brokers", "1", "--set",
                   "[ol].*:unclean.leader.election.enable=true")["assumptions"]
    default, override = [note for note in notes if note.startswith("unclean")]
    assert default.endswith("is taken for 1 of 3 topics; the others have their own value")
    assert override.endswith("is true for 2 topics matching '[ol].*', as this question sets it")


# --- lists of partitions, brokers that are added -------------------------------------------------


def test_partitions_are_listed_by_name(cluster):
    """Who goes offline, and who refuses acks=all, without a Parquet file."""
    text = run("fail", cluster, "--brokers", "1,2,4,5", "--list", "offline,under-min-isr").stdout
    offline, under = text.split("Partitions that refuse acks=all", 1)
    assert re.findall(r"^(logs|orders) +(\d)", offline, re.MULTILINE) == [
        ("logs", "0"), ("logs", "1")]
    assert re.findall(r"^(logs|orders) +(\d) +3 ", under, re.MULTILINE) == [
        ("orders", "0"), ("orders", "1")]
    document = answer("fail", cluster, "--brokers", "1,2,4,5", "--list", "offline")
    assert [row["partition"] for row in document["lists"]["offline"]] == [0, 1]


def test_a_plan_onto_a_broker_that_is_added(cluster, tmp_path):
    """To scale out: the export does not name the broker to which the plan goes."""
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [
        {"topic": "orders", "partition": 0, "replicas": [113, 2, 3]}]}))
    both_ways = "by a brokers file, or by add_brokers (--add-brokers 113:rack=RACK)"
    refused = answer("reassign", cluster, "--plan", plan)
    assert refused["verdict"][0].startswith("NOT SAFE")
    assert any(both_ways in note for note in refused["notes"])
    assert both_ways in run("reassign", cluster, "--plan", plan, "--up", "113", code=2).stderr
    document = answer("reassign", cluster, "--plan", plan, "--add-brokers", "113:rack=b,114")
    assert document["verdict"][0].startswith("SAFE")
    [added] = [row for row in document["brokers"] if row["broker_id"] == 113]
    assert (added["rack"], added["leaders"]) == ("b", 1)


def test_racks_select_in_every_command_that_has_them():
    """`--racks` was a flag in some commands, and took names in others.

    `generate` selects nothing: it takes the size of what it makes.
    """
    racks = [
        p.values[1] for p in all_options()
        if "--racks" in p.values[1].opts and p.values[0] != "generate"
    ]
    assert len(racks) == 3
    assert all(isinstance(option.type, ListType) for option in racks)


def test_one_seed_unless_another_is_given():
    seeds = {p.values[0]: p.values[1].default for p in all_options()
             if "--seed" in p.values[1].opts}
    assert set(seeds) == {
        "capacity forecast", "capacity size", "capacity sweep", "compare", "generate",
        "plan check", "plan improve", "report", "risk", "sweep", "timeline", "timeline-growth",
        "timeline-restart",
    }
    assert set(seeds.values()) == {0}


def test_a_controller_can_be_chosen_wherever_a_cluster_is_read_or_made():
    """One option for all commands; what has no cluster has no controller."""
    chosen = {p.values[0] for p in all_options() if "--controller" in p.values[1].opts}
    assert chosen == dict(all_commands()).keys() - {"completion", "pipeline", "schema"}
    elr = {p.values[0] for p in all_options() if "--elr" in p.values[1].opts}
    assert elr == chosen - {"replay"}


def test_a_condition_with_decimals(cluster):
    document = answer("risk", cluster, "--fail-on", "largest_scatter_width>1.5", code=4)
    [tested] = document["fail_on"]
    assert (tested["condition"], tested["value"]) == ("largest_scatter_width>1.5", 2)
    run("risk", cluster, "--fail-on", "largest_scatter_width>2.5")


# --- verdicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("args", "words"), [
    (("fail", "--brokers", "4,5"), "Brokers 4, 5 fail together: 2 partitions go offline;"),
    (("restart",), "NOT SAFE"),
    (("restart", "--broker", "6"), "NO"),
    (("restart", "--broker", "4"), "YES"),
    (("delete", "--topics", "logs"), "SAFE"),
    (("delete", "--topics", "logs", "--brokers", "4"), "NOT SAFE"),
])
def test_the_verdict_follows_the_controller(cluster, args, words):
    name, *rest = args
    assert verdict_of(run(name, cluster, *rest).stdout).startswith(words)


def test_a_restart_that_is_forbidden_says_by_what_and_what_would_allow_it(cluster):
    """Only counts per cause were printed, and one scratch topic forbade its broker."""
    text = run("restart", cluster, "--broker", "6").stdout
    assert re.search(r"^scratch +0 +replication_factor ", text, re.MULTILINE)
    assert "--ignore-rf1" in text
    for leave_out in (("--ignore-rf1",), ("--ignore-topics", "scr.*")):
        text = run("restart", cluster, "--broker", "6", *leave_out).stdout
        assert verdict_of(text).startswith("YES")


SHRUNKEN = """\
Topic: a\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: min.insync.replicas=2
\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1
Topic: b\tPartitionCount: 1\tReplicationFactor: 3\tConfigs: min.insync.replicas=1
\tTopic: b\tPartition: 0\tLeader: 3\tReplicas: 3,4,5\tIsr: 3,4,5
Topic: s\tPartitionCount: 1\tReplicationFactor: 1\tConfigs:
\tTopic: s\tPartition: 0\tLeader: 3\tReplicas: 3\tIsr: 3
"""


@pytest.fixture
def shrunken(tmp_path):
    """Name of a describe text with a partition that is under min ISR."""
    path = tmp_path / "shrunken.txt"
    path.write_text(SHRUNKEN)
    return str(path)


def test_a_verdict_counts_partitions_that_refuse_already(shrunken):
    """The list below it had a partition of which the verdict said that there was none."""
    [verdict] = answer("fail", shrunken, "--brokers", "3")["verdict"]
    assert "no further partition refuses acks=all, 1 still does;" in verdict
    text = DESCRIBE.replace("Isr: 1,2,3", "Isr: 1")
    path = Path(shrunken).with_name("more.txt")
    path.write_text(text)
    [verdict] = answer("fail", path, "--brokers", "2,3")["verdict"]
    assert "producers with acks=all are refused on 1 more, 2 in all;" in verdict


def test_a_verdict_counts_partitions_that_stay_offline(cluster):
    """After 4 and 5 fail, 5 alone comes back: whoever was last in the ISR may be the other."""
    both = answer("fail", cluster, "--brokers", "4,5", "--then", "6")["verdict"]
    assert "1 partition goes offline, 3 in all;" in both[1]
    back = answer("fail", cluster, "--brokers", "4,5", "--then-start", "5")["verdict"]
    assert "no further partition goes offline, 2 still are;" in back[1]


def test_a_verdict_says_what_it_is_without(tmp_path):
    """Lines that kafka-topics did not print; leaders, where only a plan is given."""
    path = tmp_path / "partial.txt"
    path.write_text(re.sub("\tTopic: orders\tPartition: 0.*\n", "", DESCRIBE).replace(
        "orders\tPartitionCount: 2", "orders\tPartitionCount: 1"))
    assert answer("show", path)["verdict"][-1] == (
        f"{path} is partial: kafka-topics printed no line for 1 partition of 1 topic: this "
        "answer is without them.")
    verdict = answer("show", ROOT / "bench_data" / "plan.json")["verdict"]
    assert verdict[-1].startswith("Leaders are not given and assumed")


@pytest.mark.parametrize("name", ["2.4", "zk-2.4", "2.7"])
def test_a_release_names_its_controller_in_every_command(cluster, name):
    """It did in `replay` alone."""
    document = answer("fail", cluster, "--brokers", "4", "--controller", name)
    assert document["controller"] == {
        "name": f"zk-{name.removeprefix('zk-')}", "elr": None, "why": "told",
    }


def test_a_sweep_in_which_nothing_happens_says_so(cluster):
    verdict = answer("sweep", cluster, "--every", "1", "--set",
                     "orders:min.insync.replicas=1")["verdict"]
    assert verdict[0].startswith("Every broker: 1 of 6 scenarios takes partitions offline")
    path = Path(cluster).with_name("two.txt")
    path.write_text("".join(DESCRIBE.splitlines(keepends=True)[:6]))
    verdict = answer("sweep", path, "--every", "1")["verdict"]
    assert verdict == [
        "Every broker: none of 5 scenarios takes any partition offline or under min ISR."]


def test_a_restart_says_what_its_yes_leaves_out(shrunken):
    """Partitions that are left out, or are under min ISR anyway; brokers that are down."""
    document = answer("restart", shrunken, "--ignore-topics", "a", "--ignore-rf1", "--up", "2")
    assert document["verdict"][0].endswith(
        "; every partition but the 2 left out keeps min ISR throughout.")
    first, second = answer("restart", shrunken, "--broker", "5")["verdict"]
    assert first.endswith("every partition with it in the ISR keeps min ISR meanwhile.")
    assert second == "1 partition is offline or under min ISR already."
    down = answer("restart", shrunken, "--broker", "2")
    assert (down["safe"], down["verdict"][0]) == (
        False, "NO: broker 2 may not be restarted now: broker 2 is down already.")


@pytest.mark.parametrize(("margin", "remedies", "settings"), [
    (0, ["set min.insync.replicas of topic a to 1, or give each partition 3 replicas",
         "wait until broker 2 catches up"], ("--set", "a:min.insync.replicas=1")),
    (1, ["give topic a 4 replicas", "wait until broker 2 catches up"], None),
])
def test_all_remedies_together_allow_the_restart(shrunken, margin, remedies, settings):
    """Each alone may not: the ISR has to be complete, and still be larger than it must."""
    asked = ("restart", shrunken, "--broker", "1", "--up", "2", "--isr-margin", margin)
    assert [row["remedy"] for row in answer(*asked)["remedies"]] == remedies
    Path(shrunken).write_text(SHRUNKEN.replace("1,2\tIsr: 1", "1,2\tIsr: 1,2"))
    assert answer(*asked)["safe"] is False
    if settings:
        assert answer(*asked, *settings)["safe"] is True


def test_a_deletion_with_lost_records_is_not_safe(tmp_path):
    """Broker 1, alone in an ISR, fails while another topic is deleted."""
    path = tmp_path / "unclean.txt"
    path.write_text(
        "Topic: u\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: "
        "unclean.leader.election.enable=true\n"
        "\tTopic: u\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n"
        "Topic: s\tPartitionCount: 1\tReplicationFactor: 2\tConfigs:\n"
        "\tTopic: s\tPartition: 0\tLeader: 3\tReplicas: 3,4\tIsr: 3,4\n")
    document = answer("delete", path, "--topics", "s", "--brokers", "1", "--up", "2")
    assert document["reasons"] == {"unclean": 1}
    assert document["verdict"][0].startswith("NOT SAFE")
    run("delete", path, "--topics", "s", "--brokers", "1", "--up", "2", "--fail-on", "unclean>0",
        code=4)


def test_a_plan_that_has_no_end_yet_is_not_called_safe(cluster, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [
        {"topic": "orders", "partition": 0, "replicas": [4, 2, 3]}]}))
    document = answer("reassign", cluster, "--plan", plan, "--pending")
    assert document["safe"] is None
    assert document["verdict"][0] == (
        "UNDER WAY: 1 partition being reassigned; no new replica has caught up yet.")


def test_racks_are_named_for_what_they_are(tmp_path, cluster):
    """Broker 5 is no part of rack a."""
    racks = tmp_path / "brokers.csv"
    racks.write_text("broker_id,rack\n1,a\n2,a\n5,b\n")
    more = ("fail", cluster, "--brokers-file", racks, "--racks", "a")
    assert answer(*more)["verdict"][0].startswith("Brokers 1, 2 (rack a) fail together")
    assert answer(*more, "--brokers", "5")["verdict"][0].startswith(
        "Brokers 1, 2 (rack a) and 5 fail together")


def test_a_plain_restart_lists_who_may_restart_now(cluster):
    text = run("restart", cluster).stdout
    assert "Now, alone: brokers 1-5 may be restarted; 1 may not." in text


def test_every_help_begins_with_what_a_person_gets():
    """An imperative, as in Kafka's own tools; never what the program does for itself."""
    context = click.Context(commands)
    first = {
        name: commands.get_command(context, name).get_short_help_str(200).split()[0]
        for name in commands.list_commands(context)
    }
    assert not [word for word in first.values() if word.endswith("s") or word == "Say"], first
