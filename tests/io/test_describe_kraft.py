"""Describe texts of a KRaft cluster, written from its metadata log: those that Kafka printed."""

from __future__ import annotations

import json
import tarfile

import numpy as np
import pytest

import kfast
from tests.support.cli_run import run

pytestmark = pytest.mark.kernels
FOLDER = "kraft_live/metadata/__cluster_metadata-0"
SETTINGS = ("min.insync.replicas", "unclean.leader.election.enable")
N_EVENTS = 29


@pytest.fixture(scope="module")
def described(shared_data):
    """What `kafka-topics --describe` of 4.1.2 printed after each event."""
    with tarfile.open(shared_data / "kraft_live" / "describe.tar.gz") as archive:
        return {
            number: archive.extractfile(f"describe/{number:03}.txt").read().decode()
            for number in range(2, N_EVENTS + 1)
        }


@pytest.fixture(scope="module")
def moments(shared_data):
    """Offset after each event."""
    lines = (shared_data / "kraft_live" / "events.jsonl").read_text().splitlines()
    return {number: json.loads(line)["offset_after"] for number, line in enumerate(lines, 1)}


def lines_of(text):
    """Lines by topic or partition; of the settings in headers those that kfast reads."""
    lines = {}
    for line in text.splitlines():
        first, configs, settings = line.partition("Configs: ")
        key = tuple(line.split("\t")[:3]) if line.startswith("\t") else line.split("\t")[0]
        lines[key] = (first, configs, frozenset(
            setting for setting in settings.split(",") if setting.startswith(SETTINGS)))
    return lines


@pytest.mark.parametrize("number", range(2, N_EVENTS + 1))
def test_the_text_is_what_kafka_printed(number, described, moments, shared_data, tmp_path):
    """Every line: leaders, ISR, ELR, last leaders; the cluster's min.insync.replicas in headers."""
    state = kfast.read(shared_data / FOLDER, at=moments[number])
    kfast.io.write(state, tmp_path / "describe.txt")
    written = lines_of((tmp_path / "describe.txt").read_text())
    assert len(written) > 600
    assert written == lines_of(described[number])


@pytest.mark.parametrize("number", [4, 12, 13, 20, 28])
def test_reading_back_gives_what_the_text_holds(number, moments, shared_data, tmp_path):
    """Also through the command, and by way of Arrow."""
    folder, path = shared_data / FOLDER, tmp_path / "describe.txt"
    state = kfast.read(folder, at=moments[number])
    said = run("save", folder, "-o", path, "--at", moments[number]).stderr
    run("save", folder, "-o", tmp_path / "c.arrow", "--at", moments[number])
    run("save", tmp_path / "c.arrow", "-o", tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == path.read_bytes()
    again = kfast.with_controller(kfast.read(path), "kraft-4.1", elr=True)
    assert ("--controller kraft-4.1 --elr on" in said) == (number == 28)
    before, after = (kfast.take_census(s) for s in (state, again))
    columns = ["topic", "partition", "replicas", "min_isr", "leader", "isr", "elr",
               "last_known_elr", *kfast.take_census(state).counts]
    columns = [name for name in columns if name in before.partitions.column_names]
    tables = [census.partitions.select(columns).sort_by(
        [("topic", "ascending"), ("partition", "ascending")]).to_pylist()
        for census in (before, after)]
    assert tables[0] == tables[1]
    assert np.array_equal(before.registered, after.registered)


def test_a_text_that_does_not_tell_the_controller_says_so(tmp_path):
    """And where nothing is lost, nothing is said."""
    state = kfast.generate(brokers=3, partitions=9, seed=1)
    for controller, elr, words in (
        ("kraft-3.9", None, "--controller kraft-3.9\n"), ("kraft-4.3", False, ""),
        ("kraft-4.3", True, "--controller kraft-4.3 --elr on\n"), ("zk-3.9", None, ""),
        ("kraft-4.1", True, "--controller kraft-4.1 --elr on\n"),
    ):
        other = kfast.with_controller(state, controller, elr=elr)
        kfast.io.write(other, tmp_path / "c.arrow")
        said = run("save", tmp_path / "c.arrow", "-o", tmp_path / "d.txt").stderr
        assert (words in said) if words else ("does not tell" not in said), controller
        has_columns = "\tElr: \tLastKnownElr: " in (tmp_path / "d.txt").read_text()
        assert has_columns == bool(elr)


def test_the_brokers_settings_are_those_of_every_topic_without_one(tmp_path):
    state = kfast.generate(brokers=3, partitions=9, seed=1)
    kfast.io.write(state, tmp_path / "plain.txt")
    assert "min.insync.replicas" not in (tmp_path / "plain.txt").read_text()
    run("save", tmp_path / "plain.txt", "-o", tmp_path / "set.txt", "--default",
        "min.insync.replicas=2,unclean.leader.election.enable=true")
    again = kfast.read(tmp_path / "set.txt")
    assert set(again.topic_min_insync_replicas.tolist()) == {2}
    assert set(again.topic_unclean_leader_election.tolist()) == {1}
