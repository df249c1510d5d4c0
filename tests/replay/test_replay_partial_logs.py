"""Logs of which a part is missing: what cannot be judged is unknown, and not contradicted."""

from __future__ import annotations

import calendar
import gzip
import re
import shutil
import time
from pathlib import Path
from random import Random

import pytest

from kfast.log_replay import replay
from kfast.log_replay.comparison.facts import (
    ABSENT,
    INFERRED,
    PARTLY_LOGGED,
    REMEMBERED,
    UNASSIGNED,
    UNSEEN,
)
from kfast.log_replay.histories import exploration, stretches
from kfast.log_replay.log_files import read_logs
from kfast.log_replay.lookahead.clusters import split_clusters
from kfast.log_replay.steps import Steps
from kfast.log_replay.terms.terms import find_terms
from kfast.log_replay.wording.statements import understand
from kfast.replay_results.verdicts import ADOPTED, CONTRADICTED, PREDICTED, UNKNOWN
from tests.replay.test_replay_levels import all_at_info
from tests.replay.test_replay_random import RandomStory, tell_at_random
from tests.support.cut_logs import cut
from tests.support.log_forms import PROFILES
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

pytestmark = pytest.mark.kernels

CLUSTER = """
    partition  ar     isr    leader  epoch  state
    calm-0     2,3,1  2,3,1  2       2      ONLINE
    calm-1     3,2,1  3,2,1  3       2      ONLINE
    calm-2     3,1,2  3,1,2  3       2      ONLINE
    calm-3     1,3,2  1,3,2  1       2      ONLINE
"""
STAMP = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] ")
VERSIONS = ["1.1", "2.4", "2.8", "3.9"]
FOLDERS = [
    "zk-1.1-holes", "zk-2.1-one-broker-of-four", "zk-2.2-topics-gone-in-a-hole",
    "zk-2.5-deletions-fail", "zk-2.7-stop-replica-ignored", "zk-2.8-two-brokers",
    "zk-3.3-one-broker", "zk-3.5-topics-made-again",
]


def controller(version):
    """The cluster, without a controller, and all that it will log."""
    state = read_state(CLUSTER, brokers=[1, 2, 3, 4], controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    return LoggedController(state, version, trace=True)


def entries(folder: Path) -> dict[Path, list[tuple[str, str]]]:
    """Entries of every file, each with its time."""
    found: dict[Path, list[tuple[str, str]]] = {}
    for path in sorted(folder.rglob("*.log*")):
        own = found.setdefault(path.relative_to(folder).with_suffix("") if path.suffix == ".gz"
                               else path.relative_to(folder), [])
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        for line in text.splitlines():
            stamp = STAMP.match(line)
            if stamp:
                own.append((stamp[1], line))
            elif own:
                own[-1] = own[-1][0], f"{own[-1][1]}\n{line}"
    return found


def write_some(folder: Path, to: Path, is_kept) -> None:
    """Write the entries again whose times are kept."""
    for name, own in entries(folder).items():
        kept = [text for at, text in own if is_kept(at)]
        if kept:
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            (to / name).write_text("\n".join(kept) + "\n")


def begin_at(folder: Path, to: Path, share: float) -> None:
    """Leave out a share of the entries, from the beginning."""
    times = sorted(at for own in entries(folder).values() for at, _ in own)
    first = times[int(len(times) * share)]
    write_some(folder, to, lambda at: at >= first)


def begin_after_silence(folder: Path, to: Path, share: float) -> None:
    """Leave out about a share of the times, up to the longest silence near there."""
    times = sorted({at for own in entries(folder).values() for at, _ in own})
    near, some = int(len(times) * share), len(times) // 8
    first = max(
        range(max(1, near - some), min(len(times), near + some)),
        key=lambda n: _milliseconds(times[n]) - _milliseconds(times[n - 1]),
    )
    write_some(folder, to, lambda at: at >= times[first])


def _milliseconds(stamp: str) -> int:
    return calendar.timegm(time.strptime(stamp[:19], "%Y-%m-%d %H:%M:%S")) * 1000 + int(stamp[20:])


@pytest.fixture(scope="module", params=VERSIONS)
def failure(request, tmp_path_factory) -> Path:
    """Broker 3 fails, is back, and fails again."""
    logged = controller(request.param)
    logged.fail_over(4)
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    logged.catch_up([3])
    logged.change_brokers(failed=[3])
    folder = tmp_path_factory.mktemp(f"failure-{request.param}")
    logged.log.save(folder)
    return folder


def begun_in_failure(folder: Path, to: Path) -> None:
    """Leave out all that stands before the first partition that gets another leader."""
    first = min(at for own in entries(folder).values() for at, text in own
                if "from OfflinePartition to OnlinePartition" in text)
    write_some(folder, to, lambda at: at >= first)


def test_an_event_that_began_before_the_log_is_unknown_and_what_follows_is_predicted(
    failure, tmp_path
):
    begun_in_failure(failure, tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    facts = found.facts.to_pylist()
    unknown = [fact for fact in facts if fact["reason"] == PARTLY_LOGGED]
    assert {fact["verdict"] for fact in unknown} <= {UNKNOWN}
    whole = {(fact["time"], fact["kind"], fact["subject"]): fact["verdict"]
             for fact in replay(failure).facts.to_pylist()}
    back = [fact for fact in facts if fact["kind"] == "transition"
            and (fact["file"].endswith("state-change.log"))][-6:]
    assert [fact["verdict"] for fact in back] == [
        whole[fact["time"], fact["kind"], fact["subject"]] for fact in back
    ]


def test_an_event_that_the_log_begins_with_is_judged(failure, tmp_path):
    """Its first line announces it, so a changed leader epoch is contradicted."""
    first = min(at for own in entries(failure).values() for at, text in own
                if "deleted brokers: 3" in text)
    write_some(failure, tmp_path, lambda at: at >= first)
    assert replay(tmp_path).counts["contradicted"] == 0
    path = next(path for path in tmp_path.rglob("state-change.log")
                if "from OfflinePartition to OnlinePartition" in path.read_text())
    text, n_changed = re.subn(r"(?i)(leaderEpoch[=:])3", r"\g<1>9", path.read_text(), count=1)
    assert n_changed == 1
    path.write_text(text)
    verdicts = [fact["verdict"] for fact in replay(tmp_path).facts.to_pylist()]
    assert CONTRADICTED in verdicts


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_that_nothing_creates_show_a_hole(version, tmp_path):
    """A minute is missing in which two topics were created: they are known from then on."""
    logged = controller(version)
    logged.fail_over(4)
    logged.log.pause()
    before = logged.log.time_ms
    logged.create_topics({"wide": [[1, 2, 3], [2, 3, 1]], "deep": [[2, 1]]})
    logged.log.pause()
    after = logged.log.time_ms
    logged.change_brokers(failed=[2])
    logged.change_brokers(started=[2])
    logged.catch_up([2])
    logged.log.save(tmp_path / "whole")
    to = tmp_path / "hole"

    def is_kept(at: str) -> bool:
        return not _stamp(before) <= at <= _stamp(after)

    write_some(tmp_path / "whole", to, is_kept)
    assert not any("wide" in text for own in entries(to).values() for at, text in own
                   if at < _stamp(before))
    found = replay(to)
    assert [str(one) for one in found.contradictions] == []
    subjects = {fact["subject"] for fact in found.facts.to_pylist()}
    assert {"wide-0", "deep-0"} <= subjects


@pytest.mark.parametrize("version", ["2.4", "2.8", "3.9"])
def test_reassignments_that_a_controller_finds_under_way_are_known_from_its_first_lines(
    version, tmp_path
):
    """Only the log of the second controller is here: the first one has begun to move calm-0."""
    logged = controller(version)
    logged.fail_over(4)
    logged.reassign("calm", 0, [4, 1])
    logged.fail_over(1)
    logged.change_brokers(failed=[3])
    logged.log.save(tmp_path)
    (tmp_path / "broker-4" / "controller.log").unlink()
    (tmp_path / "broker-4" / "state-change.log").unlink()
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    adding = [fact for fact in found.facts.to_pylist()
              if (fact["kind"], fact["subject"]) == ("adding", "calm-0")]
    assert [fact["verdict"] for fact in adding[:1]] == [ADOPTED]
    assert {fact["verdict"] for fact in adding[1:]} == {PREDICTED}
    assert adding[0]["logged"] == "[4]"


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_each_reassignment_from_before_the_log_has_a_request(version, tmp_path):
    """The controller finds both when it is elected, and goes on with one after the other."""
    logged = controller(version)
    logged.fail_over(4)
    for number in range(2):
        logged.reassign("calm", number, [4, 1])
    logged.fail_over(1)
    logged.change_brokers(failed=[3])
    logged.log.save(tmp_path)
    (tmp_path / "broker-4" / "controller.log").unlink()
    (tmp_path / "broker-4" / "state-change.log").unlink()
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_a_reassignment_from_before_the_log_goes_on_when_its_target_is_back(version, tmp_path):
    """Its controller knows of it, though no line has said so yet. Seen on 2.8.2."""
    logged = controller(version)
    logged.fail_over(4)
    logged.change_brokers(failed=[1])
    logged.reassign("calm", 0, [1, 4])
    for lines in logged.log.files.values():
        lines.clear()
    logged.change_brokers(started=[1])
    logged.change_brokers(failed=[3])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["unknown"] < 5


def test_a_leader_that_recovers_when_the_log_begins_is_known_from_its_first_line(tmp_path):
    """It was chosen outside the ISR by a controller whose log is not here."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state   recovery
        calm-0     2,3  2    2       2      ONLINE  1
        calm-1     3,2  3,2  3       2      ONLINE  0
    """, brokers=[1, 2, 3, 4], controller_id=-1, leader_recovery_supported=True)
    logged = LoggedController(state, "3.9", trace=True)
    logged.fail_over(4)
    logged.change_brokers(failed=[3])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    told = [fact for fact in found.facts.to_pylist()
            if fact["kind"] == "recovery" and fact["logged"] == "1"]
    assert {fact["subject"] for fact in told} == {"calm-0"}
    assert told[0]["verdict"] == ADOPTED
    assert {fact["verdict"] for fact in told[1:]} == {PREDICTED}


def test_a_check_for_imbalance_tells_the_assignment_of_every_partition(tmp_path):
    """Up to 2.4, at DEBUG: also of partitions that no other line names."""
    log = """
[2020-01-01 00:00:00,000] INFO [Controller id=1] 1 successfully elected as the controller. Epoch \
incremented to 1 and epoch zk version is now 1 (kafka.controller.KafkaController)
[2020-01-01 00:00:00,001] INFO [Controller id=1] Currently active brokers in the cluster: Set(1, \
2) (kafka.controller.KafkaController)
[2020-01-01 00:00:00,002] INFO [Controller id=1] Current list of topics in the cluster: Set(t) \
(kafka.controller.KafkaController)
"""
    check = """\
[2020-01-01 00:0{minute}:00,000] TRACE [Controller id=1] Checking need to trigger auto leader \
balancing (kafka.controller.KafkaController)
[2020-01-01 00:0{minute}:00,001] DEBUG [Controller id=1] Preferred replicas by broker \
Map(1 -> Map(t-0 -> Vector(1, 2)), {broker} -> Map(t-1 -> Vector({replicas}))) \
(kafka.controller.KafkaController)
[2020-01-01 00:0{minute}:00,002] TRACE [Controller id=1] Leader imbalance ratio for broker 2 is \
0.0 (kafka.controller.KafkaController)
"""
    replicas = [(2, "2, 1"), (2, "2, 1"), (2, "2, 1"), (2, "2"), (1, "2, 1")]
    text = log.lstrip() + "".join(
        check.format(minute=minute, broker=broker, replicas=listed)
        for minute, (broker, listed) in enumerate(replicas, 1)
    )
    (tmp_path / "controller.log").write_text(text.replace("\\\n", ""))
    found = replay(tmp_path, "zk-2.0")
    assert [(one.kind, one.subject, one.logged, one.predicted) for one in found.contradictions] == [
        ("replicas", "t-1", "[2]", "[2,1]"), ("preferred replica", "t-1", "1", "2"),
    ]
    assert found.counts["predicted"] > 10


def _stamp(time_ms: int) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_ms // 1000))
    return f"{at},{time_ms % 1000:03d}"


@pytest.mark.parametrize(("version", "seed", "is_unseen"), [
    ("1.1", 0, True), ("1.1", 5, False), ("2.4", 0, False), ("2.4", 2, True),
])
def test_topics_whose_past_the_log_lacks_are_unknown_once_several_events_disagree(
    version, seed, is_unseen, tmp_path
):
    """They are deleted or reassigned by then: some lines after it tell, others do not."""
    tell_at_random(version, Random(seed)).log.save(tmp_path / "whole")
    begin_at(tmp_path / "whole", tmp_path / "rest", Random(seed).uniform(0.15, 0.7))
    found = replay(tmp_path / "rest", PROFILES[version])
    assert [str(one) for one in found.contradictions] == []
    unseen = {fact["verdict"] for fact in found.facts.to_pylist() if fact["reason"] == UNSEEN}
    assert unseen == ({UNKNOWN} if is_unseen else set())
    assert found.counts["predicted"] > found.counts["unknown"] or (version, seed) == ("2.4", 0)


def test_a_wrong_decision_of_one_event_is_contradicted_in_a_log_that_begins_within_a_term(
    failure, tmp_path
):
    begun_in_failure(failure, tmp_path)
    times = sorted(at for own in entries(tmp_path).values() for at, text in own
                   if "deleted brokers: 3" in text)
    for name, own in entries(tmp_path).items():
        (tmp_path / name).write_text("".join(
            (re.sub(r"(?i)(leaderEpoch[=:])\d+", r"\g<1>99", text)
             if at >= times[-1] and "calm-1" in text else text) + "\n" for at, text in own
        ))
    wrong = {(one.kind, one.subject) for one in replay(tmp_path).contradictions}
    assert ("leader epoch", "calm-1") in wrong


@pytest.mark.parametrize("share", [0.2, 0.45, 0.7])
@pytest.mark.parametrize("seed", [2, 5])
def test_a_log_may_begin_anywhere(share, seed, tmp_path):
    """Also where the first line of a partition names no member of its ISR."""
    tell_at_random("3.9", Random(seed)).log.save(tmp_path / "whole")
    begin_at(tmp_path / "whole", tmp_path / "rest", share)
    found = replay(tmp_path / "rest")
    assert found.counts["predicted"] > found.counts["contradicted"]


@pytest.mark.parametrize(("version", "seed"), [("1.0", 704), ("2.4", 701), ("2.8", 705)])
def test_what_a_controller_decided_whose_controller_log_is_not_here_is_unknown(
    version, seed, tmp_path
):
    """Of one of several controllers: what the others decided is predicted."""
    log = tell_at_random(version, Random(seed)).log
    controllers = [name for name, lines in log.files.items() if name.endswith("/controller.log")
                   and any("elected as the controller" in line for line in lines)]
    assert len(controllers) > 1
    for name in controllers:
        lines = log.files.pop(name)
        log.save(tmp_path / name)
        log.files[name] = lines
        found = replay(tmp_path / name, PROFILES[version])
        assert [str(one) for one in found.contradictions] == []
        assert found.unknown_reasons[ABSENT] > 0
        assert found.counts["predicted"] > found.counts["adopted"]


@pytest.mark.parametrize(("version", "seed", "file", "is_begin"), [
    ("1.0", 707, "broker-1/controller.log", True), ("2.4", 700, "broker-1/controller.log", True),
    ("2.4", 701, "broker-1/controller.log", True), ("2.8", 704, "broker-3/state-change.log", True),
    ("1.0", 700, "broker-1/controller.log", False), ("2.4", 701, "broker-1/controller.log", False),
    ("2.8", 706, "broker-4/controller.log", False),
    ("1.1", 700, "broker-1/state-change.log", True),
    ("2.4", 701, "broker-2/state-change.log", True),
    ("2.4", 704, "broker-4/state-change.log", True),
    ("2.8", 701, "broker-1/state-change.log", True),
])
def test_one_file_of_a_controller_may_begin_later_or_end_earlier_than_the_other(
    version, seed, file, is_begin, tmp_path
):
    """They are rotated apart from each other: half of one is missing."""
    tell_at_random(version, Random(seed)).log.save(tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "half")
    own = entries(tmp_path / "whole")[Path(file)]
    half, _ = own[len(own) // 2]
    kept = [text for at, text in own if (at >= half) == is_begin]
    assert 0 < len(kept) < len(own)
    (tmp_path / "half" / file).write_text("\n".join(kept) + "\n")
    found = replay(tmp_path / "half", PROFILES[version])
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["predicted"] > 200


@pytest.mark.parametrize(("version", "seed", "share"), [
    ("2.8", 704, 0.25), ("2.8", 703, 0.75), ("1.1", 702, 0.75), ("2.0", 703, 0.49),
    ("2.8", 705, 0.75), ("2.0", 701, 0.25),
])
def test_what_a_controller_goes_on_with_shows_in_its_first_lines(version, seed, share, tmp_path):
    """States of replicas, topics that are being deleted, reassignments, and the order of replicas.

    Of records that fit equally well, it is the one that lacks fewest lines.
    """
    tell_at_random(version, Random(seed)).log.save(tmp_path / "whole")
    begin_after_silence(tmp_path / "whole", tmp_path / "rest", share)
    found = replay(tmp_path / "rest", PROFILES[version])
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["predicted"] > 5 * (found.counts["adopted"] + found.counts["unknown"])


@pytest.mark.parametrize(("version", "seed", "share"), [
    pytest.param("2.4", 10, 0.464, id="a change of brokers, which some are told before others"),
    pytest.param("2.8", 13, 0.293, id="the ISRs of a deletion shrink, and nobody is told"),
])
def test_who_is_registered_shows_in_what_a_controller_lists(version, seed, share, tmp_path):
    """Where a log begins within an event, its recipients alone may not be all brokers."""
    tell_at_random(version, Random(seed)).log.save(tmp_path / "whole")
    begin_at(tmp_path / "whole", tmp_path / "rest", share)
    found = replay(tmp_path / "rest")
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["predicted"] > 3 * found.counts["unknown"]


def test_a_deletion_that_has_started_before_the_log_is_answered(tmp_path):
    """Answers count for topics whose deletion has started: states of their replicas tell."""
    tell_at_random("2.8", Random(11)).log.save(tmp_path / "whole")
    begin_at(tmp_path / "whole", tmp_path / "rest", 0.399)
    assert replay(tmp_path / "rest").counts["missing"] == 0


def test_of_a_topic_from_before_the_log_no_line_may_name_the_replicas(tmp_path):
    """At INFO the only lines about its partitions may be elections that fail, from 2.4 on."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        t-0        2,3  2,3  2       2      ONLINE
    """, brokers=[1, 2, 3], controller_id=-1)
    logged = LoggedController(state, "2.4")
    logged.fail_over(1)
    logged.change_brokers(failed=[2, 3])
    found = replay(all_at_info(logged, tmp_path), PROFILES["2.4"])
    assert [str(one) for one in found.contradictions] == []
    assert {(row["verdict"], row["reason"]) for row in found.facts.to_pylist()
            if row["subject"] == "t-0"} == {(UNKNOWN, UNASSIGNED)}


def test_a_clock_that_is_ahead_of_the_controllers_shows_no_partition_that_is_not_there(tmp_path):
    """What a broker has received from it stands before its election."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        t-0        2,3  2,3  2       2      ONLINE
    """, brokers=[1, 2, 3], controller_id=-1)
    logged = LoggedController(state, "2.0", trace=True)
    logged.fail_over(1)
    lines = logged.log.files["broker-2/state-change.log"]
    lines[:] = [f"[{_stamp(logged.log.time_ms - 60_000)}]" + line[len("[2020-01-01 00:00:00,000]"):]
                for line in lines]
    logged.change_brokers(failed=[3])
    logged.log.save(tmp_path)
    found = replay(tmp_path, PROFILES["2.0"])
    assert [str(one) for one in found.contradictions] == []
    assert REMEMBERED in found.reasons


@pytest.mark.parametrize(("version", "kind", "seed"), [
    pytest.param("1.0", "hole of one", 0, id="a topic that the next controller does not list"),
    pytest.param("1.0", "hole", 3, id="the first line after it does not say who writes it"),
])
def test_a_part_is_missing_of_the_logs_that_random_events_wrote(version, kind, seed, tmp_path):
    RandomStory(version, Random(seed), n_most=4).tell().log.save(tmp_path / "complete")
    cut(tmp_path / "complete", tmp_path / "rest", kind, Random(31 * seed + len(kind)))
    found = replay(tmp_path / "rest")
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["predicted"] > 3 * found.counts["unknown"]


@pytest.mark.parametrize(("version", "seed", "share"), [
    ("2.8", 703, 0.7), ("1.1", 751, 0.7), ("2.0", 705, 0.2), ("2.8", 705, 0.2),
])
def test_of_an_event_that_is_under_way_what_it_leaves_behind_is_known(
    version, seed, share, tmp_path
):
    tell_at_random(version, Random(seed)).log.save(tmp_path / "whole")
    begin_at(tmp_path / "whole", tmp_path / "rest", share)
    found = replay(tmp_path / "rest", PROFILES[version])
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["predicted"] > 5 * (found.counts["adopted"] + found.counts["unknown"])


@pytest.mark.parametrize(("version", "seed"), [("2.8", 701), ("2.8", 703)])
def test_events_of_a_controller_without_controller_log_are_inferred(version, seed, tmp_path):
    """Each ends with the silence after it."""
    log = tell_at_random(version, Random(seed)).log
    name = {701: "broker-2", 703: "broker-4"}[seed]
    del log.files[f"{name}/controller.log"]
    log.save(tmp_path)
    found = replay(tmp_path, PROFILES[version])
    assert [str(one) for one in found.contradictions] == []
    assert found.reasons[INFERRED] > 0
    assert ABSENT not in found.unknown_reasons


def test_brokers_lines_are_of_the_nearest_term_though_no_line_says_its_epoch(
    shared_data, tmp_path
):
    """The terms of that epoch are of another cluster, days later."""
    folder = shared_data / "controller_logs" / "zk-2.2-topics-gone-in-a-hole"
    begin_at(folder, tmp_path, 1 / 3)
    logs = read_logs(tmp_path)
    statements, _ = understand(logs, Steps(None, len(logs.entries)))
    clusters = split_clusters(statements, find_terms(statements))
    assert statements[0].actor == "broker"
    assert 0 in clusters[0].lines


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_third_of_a_real_log_is_missing_at_its_beginning(folder, shared_data, tmp_path):
    begin_at(shared_data / "controller_logs" / folder, tmp_path, 1 / 3)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["predicted"] > 2 * found.counts["unknown"] or folder == "zk-3.3-one-broker"


@pytest.mark.parametrize(("folder", "first"), [
    pytest.param("zk-1.1-holes", "2018-07-18 17:39:46,423", id="within an election"),
    pytest.param("zk-1.1-holes", "2018-08-09 18:25:07,922", id="as a broker shuts down"),
    pytest.param("zk-2.7-failover-while-deleting", "2021-01-10 14:19:29,896",
                 id="within an election, after the lists of topics"),
    pytest.param("zk-2.7-failover-while-deleting", "2021-01-10 14:19:30,615",
                 id="as a broker deletes replicas, after a request without a leader"),
    pytest.param("zk-2.7-stop-replica-ignored", "2021-02-15 08:30:12,539", id="nor the epoch"),
    pytest.param("zk-3.0-three-brokers", "2021-11-12 22:10:03,846",
                 id="with records that fit only an answer that is not logged"),
    pytest.param("zk-3.0-three-brokers", "2021-11-12 22:48:00,000",
                 id="in a term that does not say its epoch"),
    pytest.param("zk-3.3-one-broker", "2023-01-16 17:27:58,607",
                 id="with a broker that was started right before"),
    pytest.param("zk-3.5-topics-made-again", "2023-09-20 13:05:06,866", id="with a list of topics"),
    pytest.param("zk-3.5-topics-made-again", "2023-09-20 14:38:45,913",
                 id="within an election, with such a broker"),
])
def test_a_real_log_begins_somewhere(folder, first, shared_data, tmp_path):
    """Each place is one at which a fact was contradicted that is not."""
    source = shared_data / "controller_logs" / folder
    if not source.is_dir():
        pytest.skip(f"the real logs are not there ({source})")
    write_some(source, tmp_path, lambda at: at >= first)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["predicted"] > 5 * found.counts["adopted"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_that_begins_within_an_election_begins_with_it(version, tmp_path):
    """What the controller reads is told, and its requests follow."""
    tell_at_random(version, Random(3)).log.save(tmp_path / "whole")
    begin = min(at for own in entries(tmp_path / "whole").values() for at, text in own
                if "Currently active brokers" in text)
    write_some(tmp_path / "whole", tmp_path / "rest", lambda at: at >= begin)
    logs = read_logs(tmp_path / "rest")
    statements, _ = understand(logs, Steps(None, len(logs.entries)))
    cluster, = split_clusters(statements, find_terms(statements))
    assert not cluster.terms[0].opened
    assert cluster.events[0].kind == "failover"
    found = replay(tmp_path / "rest", PROFILES[version])
    assert [str(one) for one in found.contradictions] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_which_possibilities_are_left_behind_early_changes_nothing(version, tmp_path, monkeypatch):
    tell_at_random(version, Random(5)).log.save(tmp_path / "whole")
    begin_at(tmp_path / "whole", tmp_path / "rest", 0.4)
    never = replay(tmp_path / "rest", PROFILES[version]).facts
    for module in (exploration, stretches):
        monkeypatch.setattr(module, "FEW_LINES", 4)
    assert replay(tmp_path / "rest", PROFILES[version]).facts.equals(never)
