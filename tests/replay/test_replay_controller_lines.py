"""Lines of controller.log that announce or repeat a decision: a changed value is contradicted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kfast.log_replay import replay
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

pytestmark = pytest.mark.kernels

BEFORE = """
    partition  ar   isr  leader  epoch  state
    calm-0     2,3  2,3  2       2      ONLINE
"""
CHANGES = {
    "2.0": (
        (r"Initialized controller epoch to \d+", "Initialized controller epoch to 9"),
        (r"(?<=Initialized controller epoch to )3 and zk version \d+", "3 and zk version 9"),
        (r"Removed ArrayBuffer\(3\)", "Removed ArrayBuffer(4)"),
        (r"to new replicas 4,2", "to new replicas 4,2,2"),
    ),
    "3.9": (
        (r"epoch zk version is now 5", "epoch zk version is now 4"),
        (r"Removed 3 from list", "Removed 4 from list"),
        (r"(?<=updated assignment of partition wide-0 to )(.*)removingReplicas=1,3",
         r"\1removingReplicas=1"),
        (r"(?<=wide-0 -> ReplicaAssignment\(replicas=)1,2,3", "1,2,2"),
        (r"(?<=wide-0 -> ReplicaAssignment\(replicas=)1,2,3", "1,2,3,3"),
        (r"(?<=to ReplicaAssignment\(replicas=)4,2,1,3", "4,2,1,3,3"),
        (r"Handling deletion for topics wide", "Handling deletion for topics calm"),
        (r"Deletion of topic wide \(re\)started", "Deletion of topic calm (re)started"),
        (r"Deletion of topic wide successfully", "Deletion of topic calm successfully"),
        (r"(?<=completed for replicas \[Topic=wide,Partition=)1,Replica=1", "1,Replica=3"),
    ),
}


@pytest.fixture(scope="module", params=CHANGES)
def story(request, tmp_path_factory) -> tuple[str, Path]:
    """A log with a failure, a reassignment, a deletion and two elections of controllers."""
    version = request.param
    state = read_state(BEFORE, brokers=[1, 2, 3, 4], controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version, trace=True)
    logged.fail_over(4)
    logged.create_topics({"wide": [[1, 2, 3], [2, 3, 1]]})
    logged.shut_down(3)
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    logged.catch_up([3])
    logged.reassign("wide", 0, [4, 2])
    logged.catch_up([1, 2, 3, 4], reassigned=(("wide", 0), [4, 2]))
    logged.delete(["wide"])
    logged.acknowledge(["wide"])
    logged.fail_over(2)
    directory = tmp_path_factory.mktemp("story")
    logged.log.save(directory)
    return version, directory


def test_the_story_is_predicted(story):
    """Without changes nothing disagrees."""
    found = replay(story[1])
    assert found.contradictions == ()
    assert found.counts["missing"] == 0


def test_each_changed_line_is_contradicted(story, tmp_path):
    """One line is changed at a time: it is the one that disagrees, or its consequences do."""
    version, source = story
    files = {path.relative_to(source): path.read_text() for path in source.rglob("*.log")}
    for number, (pattern, other) in enumerate(CHANGES[version]):
        name = next(name for name, text in files.items()
                    if name.name == "controller.log" and re.search(pattern, text))
        for each, text in files.items():
            path = tmp_path / str(number) / each
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(re.sub(pattern, other, text, count=1) if each == name else text)
        found = replay(tmp_path / str(number))
        assert found.counts["contradicted"] + found.counts["missing"] > 0, (pattern, other)


def test_an_epoch_just_before_the_next_election_is_contradicted(story, tmp_path):
    """A controller's last line says the epoch of the term after it, whose own lines come later."""
    _, source = story
    for path in source.rglob("*.log"):
        text = path.read_text()
        if path.parent.name == "broker-4" and path.name == "state-change.log":
            lines = text.splitlines(keepends=True)
            at = max(n for n, line in enumerate(lines) if "[Controller id=4 epoch=4]" in line)
            lines[at] = lines[at].replace("epoch=4]", "epoch=5]", 1)
            text = "".join(lines)
        target = tmp_path / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    assert replay(tmp_path).counts["contradicted"] > 0


@pytest.mark.parametrize(("epoch", "version", "verdict"), [
    (1, 1, "predicted"), (1, 0, "contradicted"),
    (5, 5, "adopted"), (5, 4, "adopted"), (5, 3, "contradicted"),
])
def test_the_version_of_the_first_epoch_is_known(tmp_path, epoch, version, verdict):
    """Later epochs may have begun under a release that made the record with epoch 1."""
    state = read_state(BEFORE, brokers=[1, 2, 3, 4], controller_id=-1, controller_epoch=epoch - 1)
    logged = LoggedController(state, "2.8", trace=True)
    logged.fail_over(4)
    logged.log.save(tmp_path)
    path, = tmp_path.rglob("controller.log")
    text, n_changed = re.subn(r"(?<=epoch zk version is now )\d+", str(version), path.read_text())
    assert n_changed == 1
    path.write_text(text)
    facts = [fact for fact in replay(tmp_path).facts.to_pylist()
             if fact["kind"] == "epoch store version"]
    assert [fact["verdict"] for fact in facts] == [verdict]
