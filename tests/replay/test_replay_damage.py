"""Damaged, incomplete, rotated and packed logs: a warning says where, and the rest replays."""

from __future__ import annotations

import gzip
import re
import shutil
import sys
import tracemalloc

import pytest

from kfast import ArgumentError, InputError
from kfast.log_replay import log_files, replay
from tests.support.log_forms import VERSIONS
from tests.support.replay_story import CONTROLLER_LOG, OF_ANY_RELEASE, STATE_CHANGE_LOG, write_logs

pytestmark = pytest.mark.kernels

@pytest.fixture
def logs(tmp_path):
    """Folder with the files of three brokers, undamaged."""
    return write_logs(tmp_path / "logs")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What becomes of the undamaged files."""
    return replay(write_logs(tmp_path_factory.mktemp("whole")))


def last_line(path):
    """Number of the last line of a file."""
    return len(path.read_text().splitlines())


def warned(outcome):
    """Files and lines that warnings name."""
    return [(one.file, one.line) for one in outcome.warnings]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_undamaged_story_replays_without_a_warning(version, tmp_path):
    """In the words of every version; what follows says something of damage only."""
    outcome = replay(write_logs(tmp_path, version))
    assert outcome.counts["contradicted"] == 0
    assert outcome.counts["predicted"] > 300
    assert outcome.warnings == ()


@pytest.mark.parametrize("name", [CONTROLLER_LOG, STATE_CHANGE_LOG])
@pytest.mark.parametrize("cut", [2, 60], ids=["in the logger", "in the message"])
def test_a_file_that_ends_within_a_line(name, cut, logs, whole):
    """One warning names the line; of the other lines nothing changes."""
    path = logs / name
    number = last_line(path)
    path.write_bytes(path.read_bytes()[:-cut])
    outcome = replay(logs)
    assert warned(outcome) == [(name, number)]
    assert str(outcome.warnings[0]) == f"{name}:{number}: the file ends within this line"
    others = [
        fact for fact in whole.facts.to_pylist() if (fact["file"], fact["line"]) != (name, number)
    ]
    facts = [
        fact for fact in outcome.facts.to_pylist() if (fact["file"], fact["line"]) != (name, number)
    ]
    assert facts == others
    assert outcome.counts["contradicted"] == 0


def test_a_file_whose_last_line_lacks_only_its_end_of_line(logs, whole):
    """Nothing is missing, so nothing is said."""
    path = logs / STATE_CHANGE_LOG
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    outcome = replay(logs)
    assert outcome.warnings == ()
    assert outcome.facts.equals(whole.facts)


@pytest.mark.parametrize("before", [1, 6, 41], ids=["first", "near the top", "in the middle"])
def test_a_line_of_garbage(before, logs, whole):
    """Every warning names the line; the facts are those of the undamaged files."""
    path = logs / STATE_CHANGE_LOG
    lines = path.read_bytes().split(b"\n")
    lines.insert(before - 1, b"\xff\xfe\x00\x9bgarbage\xc3")
    path.write_bytes(b"\n".join(lines))
    outcome = replay(logs)
    assert set(warned(outcome)) == {(STATE_CHANGE_LOG, before)}
    assert any("bytes that are no text" in one.what for one in outcome.warnings)
    assert outcome.counts == whole.counts
    assert outcome.facts.drop(["line"]).equals(whole.facts.drop(["line"]))


def test_zero_bytes_after_a_crash(logs, whole):
    """A file system that lost the last block leaves zeros at the end."""
    path = logs / STATE_CHANGE_LOG
    number = last_line(path)
    path.write_bytes(path.read_bytes() + b"\0" * 4096)
    outcome = replay(logs)
    assert set(warned(outcome)) == {(STATE_CHANGE_LOG, number + 1)}
    assert outcome.counts == whole.counts


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_state_change_log_that_was_cut_off(share, logs, whole):
    """The cut is named; what is left agrees, and no other file's facts are lost."""
    path = logs / STATE_CHANGE_LOG
    data = path.read_bytes()
    end = data.index(b"\n", int(len(data) * share)) - 20
    path.write_bytes(data[:end])
    outcome = replay(logs)
    assert warned(outcome) == [(STATE_CHANGE_LOG, last_line(path))]
    assert outcome.counts["contradicted"] == 0

    def elsewhere(result):
        facts = result.facts.to_pylist()
        return [(f["file"], f["line"], f["kind"]) for f in facts if f["file"] != STATE_CHANGE_LOG]

    assert elsewhere(outcome) == elsewhere(whole)


def test_contradictions_after_damage_are_told_to_come_of_it(logs, whole):
    """An event whose line lost its middle cannot be replayed: the report says so."""
    path = logs / CONTROLLER_LOG
    text = path.read_bytes()
    at = text.index(b"deleted brokers: 3")
    path.write_bytes(text[: at - 60] + text[text.index(b"\n", at) - 10 :])
    outcome = replay(logs)
    assert outcome.contradictions
    (name, number), = warned(outcome)
    damage = [note for note in outcome.notes if "lines are damaged" in note]
    assert [f"first at {name}:{number}:" in note for note in damage] == [True]
    assert not [note for note in whole.notes if "lines are damaged" in note]


def test_a_file_without_its_middle(logs):
    """The line at which the ends were joined is named: as damage, or as of unknown wording."""
    path = logs / STATE_CHANGE_LOG
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:60], lines[60][:80], *lines[90:]]))
    outcome = replay(logs)
    named = {*warned(outcome), *((place.file, place.line) for place in outcome.not_understood)}
    assert named == {(STATE_CHANGE_LOG, 61)}
    assert outcome.counts["predicted"] > 1000


def test_a_packed_file_that_is_cut(logs):
    """What could be unpacked is used."""
    path = logs / STATE_CHANGE_LOG
    packed = gzip.compress(path.read_bytes())
    path.unlink()
    path.with_name("state-change.log.1.gz").write_bytes(packed[: len(packed) * 3 // 4])
    outcome = replay(logs)
    assert {one.file for one in outcome.warnings} == {"broker-1/state-change.log.1.gz"}
    assert any("the packed file ends here, damaged" in one.what for one in outcome.warnings)
    assert outcome.counts["contradicted"] == 0
    assert outcome.counts["predicted"] > 500


def read_counting(path):
    """Read a file of logs: the logs, how many functions were called, and most bytes of memory."""
    n_calls = 0

    def count(_frame, event, _argument):
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    tracemalloc.start()
    sys.setprofile(count)
    try:
        read = log_files.read_logs(path)
    finally:
        sys.setprofile(None)
        most_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return read, n_calls, most_bytes


@pytest.mark.parametrize("line", [b"\n", b" \r\n", b"\tat x\n"], ids=["empty", "blank", "trace"])
def test_a_small_packed_file_of_millions_of_lines_that_say_nothing(line, tmp_path, logs):
    """Work and memory are those of blocks, not of lines; what follows has its own number."""
    entry = (logs / STATE_CHANGE_LOG).read_bytes().split(b"\n")[0] + b"\n"
    path = tmp_path / "state-change.log.gz"
    path.write_bytes(gzip.compress(entry + line * 4_000_000 + entry))
    read, n_calls, most_bytes = read_counting(path)
    assert [one.line for one in read.entries] == [1, 4_000_002]
    assert read.entries[0].more == ("" if line.isspace() else "\tat x")
    assert (read.n_lines, read.warnings) == (4_000_002, [])
    assert n_calls < read.n_lines // 20
    assert most_bytes < 4 << 20


@pytest.mark.parametrize("line", [b"x\n", b"\0\n", b"\xff\n"], ids=["words", "zeros", "no text"])
def test_a_small_packed_file_of_millions_of_damaged_lines(line, tmp_path):
    """The first ones are named, and the last warning says that there may be more."""
    path = tmp_path / "state-change.log.gz"
    path.write_bytes(gzip.compress(line * 4_000_000))
    read, n_calls, most_bytes = read_counting(path)
    assert (read.n_lines, len(read.warnings)) == (4_000_000, log_files.MOST_WARNINGS)
    assert read.warnings[0].line == 1
    assert "there may be more" in read.warnings[-1].what
    assert n_calls < read.n_lines // 8
    assert most_bytes < 16 << 20


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_that_is_too_long_is_skipped(end, tmp_path, logs):
    """It has a number, and the lines before and behind it are read."""
    entry = (logs / STATE_CHANGE_LOG).read_bytes().split(b"\n")[0] + b"\n"
    long = b"x" * (log_files.MOST_LINE_BYTES + 1) + end
    path = tmp_path / "state-change.log.gz"
    path.write_bytes(gzip.compress(entry + long + (entry if end else b"")))
    read, _, most_bytes = read_counting(path)
    assert [one.line for one in read.entries] == ([1, 3] if end else [1])
    (warning,) = read.warnings
    assert str(warning).endswith("state-change.log.gz:2: a line of more than 16 MiB, skipped")
    assert most_bytes < 2 * log_files.MOST_LINE_BYTES


def test_rotated_and_packed_files_count_as_the_plain_ones(logs, whole):
    """`.2.gz`, `.1` and the newest, in this order; a file packed under its own name as well."""
    for name in (CONTROLLER_LOG, STATE_CHANGE_LOG):
        path = logs / name
        data = path.read_bytes()
        first, second = (data.index(b"\n[20", len(data) * part // 3) + 1 for part in (1, 2))
        path.with_name(f"{path.name}.2.gz").write_bytes(gzip.compress(data[:first]))
        path.with_name(f"{path.name}.1").write_bytes(data[first:second])
        path.write_bytes(data[second:])
    path = logs / "broker-2" / "state-change.log"
    path.with_name("state-change.log.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    outcome = replay(logs)
    assert outcome.warnings == ()
    assert len(outcome.files) == len(whole.files) + 4
    for name in ("counts", "reasons", "lines"):
        assert getattr(outcome, name) == getattr(whole, name)
    assert outcome.timeline.equals(whole.timeline)


def test_a_file_that_was_copied_twice_counts_once(logs, whole):
    """As where a rotation copies before it empties."""
    path = logs / STATE_CHANGE_LOG
    shutil.copy(path, path.with_name("state-change.log.1"))
    outcome = replay(logs)
    assert outcome.counts == whole.counts
    assert outcome.n_lines == whole.n_lines + last_line(path)


def test_every_broker_adds_the_facts_that_it_logged(logs, whole):
    """Folders in a folder, several folders, and single files: the same cluster."""
    brokers = [str(logs / name) for name in ("broker-1", "broker-2", "broker-3")]
    assert replay(brokers).counts == whole.counts
    files = [str(logs / name) for name in whole.files]
    assert replay(files).counts == whole.counts
    alone = replay(logs / "broker-1")
    own = [f for f in whole.facts.to_pylist() if f["file"].startswith("broker-1/")]
    assert sum(alone.counts.values()) == len(own)
    assert alone.counts["contradicted"] == 0


def test_real_logs_rotated_and_packed(shared_data, tmp_path):
    """The hours of a real cluster under other names."""
    source = shared_data / "controller_logs" / "zk-3.0-three-brokers"
    if not source.is_dir():
        pytest.skip(f"the real logs are not there ({source})")
    for path in source.iterdir():
        name = path.name.replace(".2021-11-12-22", ".1").replace(".2021-11-12-21", ".2")
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    plain, packed = replay(source), replay(tmp_path)
    assert packed.warnings == ()
    assert (packed.counts, packed.lines) == (plain.counts, plain.lines)


@pytest.mark.parametrize("hour", ["2021-04-26-20", "2021-05-04-14"])
def test_an_hour_is_missing(hour, shared_data, tmp_path):
    """Where the rotated files of an hour are lost, the hours before and after replay."""
    source = shared_data / "controller_logs" / "zk-2.8-two-brokers"
    if not source.is_dir():
        pytest.skip(f"the real logs are not there ({source})")
    lost = [path for path in source.iterdir() if path.name.endswith(hour)]
    for path in source.iterdir():
        if path not in lost:
            shutil.copyfile(path, tmp_path / path.name)
    outcome = replay(tmp_path)
    assert lost
    assert [str(one) for one in outcome.contradictions] == []
    assert outcome.counts["predicted"] > 10_000
    assert outcome.adopted_share <= 0.1


def test_an_empty_folder_is_refused(tmp_path):
    """The error names the folder and the names that are looked for."""
    (tmp_path / "server.log").write_text("[2021-05-01 10:00:00,001] INFO started (kafka.Kafka)\n")
    wanted = f"{re.escape(str(tmp_path))}: no controller.log or state-change.log is in it"
    with pytest.raises(InputError, match=wanted):
        replay(tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    """The error names it."""
    missing = tmp_path / "nowhere"
    with pytest.raises(InputError, match=f"{re.escape(str(missing))}: there is no such"):
        replay(missing)


def test_a_release_that_cannot_be_told_is_asked_for(tmp_path):
    """The error says what the wording fits, and what may be given; with it the replay goes on."""
    (tmp_path / "controller.log").write_text(OF_ANY_RELEASE)
    with pytest.raises(InputError) as refused:
        replay(tmp_path)
    for word in ("cannot be told", "their wording fits 2.3 to 3.9", "--profile", "zk-2.4"):
        assert word in str(refused.value)
    outcome = replay(tmp_path, profile="zk-2.4")
    assert (outcome.profile, outcome.release) == ("zk-2.4", None)
    assert outcome.notes == ("zk-2.4, as asked",)
    assert outcome.counts["contradicted"] == 0
    assert replay(tmp_path, profile="2.6").profile == "zk-2.6"


def test_a_profile_that_is_not_there_is_refused(logs):
    """The error lists those that are."""
    with pytest.raises(ArgumentError, match=r"profile 'kraft' is unknown; allowed: zk-3\.9"):
        replay(logs, profile="kraft")
