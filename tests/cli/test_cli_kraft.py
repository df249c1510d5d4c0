"""Commands on a KRaft cluster, of which only the metadata folder was copied from a controller."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.style.test_readme import blocks
from tests.support.cli_run import ESCAPE, ROOT, answer, check_page, run, run_on_terminal

pytestmark = pytest.mark.kernels
PAGE = (ROOT / "docs" / "kraft_clusters.md").read_text()


@pytest.fixture
def metadata(shared_data, monkeypatch):
    """The folder that a controller of a live cluster left, in the current folder."""
    monkeypatch.chdir(shared_data / "kraft_live" / "metadata")
    return "__cluster_metadata-0"


@pytest.mark.parametrize("block", blocks(PAGE, "console"), ids=lambda b: b.splitlines()[0][2:])
@pytest.mark.usefixtures("metadata")
def test_the_page_shows_what_the_commands_print(block):
    check_page(block)


def test_the_controller_is_read_and_may_be_told(metadata):
    """Which one, and why; a release that knows no ELR refuses it."""
    assert answer("show", metadata)["controller"]["name"] == "kraft-4.1"
    assert answer("show", metadata)["controller"]["why"].startswith("read from ")
    told = answer("fail", metadata, "--brokers", "3", "--controller", "kraft-4.3", "--elr", "off")
    assert told["controller"] == {"name": "kraft-4.3", "elr": False, "why": "told"}
    refused = run("show", metadata, "--controller", "kraft-3.9", "--elr", "on", code=2).stderr
    assert "kraft-3.9 has no eligible leader replicas" in refused
    assert "elr: zk-3.9" in run(
        "show", metadata, "--controller", "zk-3.9", "--elr", "on", code=2).stderr


def test_an_order_of_fencings_is_for_kraft(metadata):
    """And decides who leads some partitions."""
    ascending = answer("fail", metadata, "--at", "8455", "--brokers", "2,3")
    other = answer("fail", metadata, "--at", "8455", "--brokers", "2,3", "--order", "3,2")
    assert ascending["order_matters"] == other["order_matters"] > 0
    refused = run("fail", metadata, "--brokers", "3", "--order", "3", "--controller", "zk-3.9",
                  code=2).stderr
    assert "it is for KRaft controllers" in refused


@pytest.mark.parametrize("moment", ["x", "2026-13-01", "-1"])
def test_a_moment_is_an_offset_or_a_time(metadata, moment):
    refused = run("show", metadata, "--at", moment, code=2).stderr
    assert "is neither an offset such as 8456 nor a time" in refused


def test_only_a_metadata_log_has_other_moments():
    refused = run("show", ROOT / "bench_data" / "describe.txt", "--at", "7", code=2).stderr
    assert "is no metadata log" in refused


@pytest.mark.parametrize("args", [
    ("fail", "--brokers", "3"), ("compare", "--brokers", "3", "--with", "controller=zk-3.9"),
    ("delete", "--topics", "g-rf1-0"),
])
def test_a_condition_on_requests_is_refused_where_there_are_none(metadata, args):
    """It would never hold; KRaft's word is records."""
    command, *rest = args
    refused = run(command, metadata, *rest, "--fail-on", "requests>0", code=2).stderr
    assert "kraft-4.1 sends no requests; it writes metadata records" in refused
    if command != "compare":
        run(command, metadata, *rest, "--fail-on", "records>0", code=4)


@pytest.mark.parametrize("moment", ["0", "9", "2020-01-01"])
def test_a_moment_before_the_first_broker_is_refused(metadata, moment):
    refused = run("show", metadata, "--at", moment, code=2).stderr
    assert "has no broker at" in refused
    assert "the first is registered at offset 9, at 2026-11-22T01:59:37.360Z" in refused
    assert answer("show", metadata, "--at", "10")["cluster"]["brokers"] == 1


def test_an_archive_is_to_be_unpacked(metadata, tmp_path):
    for name in ("copied.tgz", "copied.tar"):
        with tarfile.open(tmp_path / name, "w:gz" if name.endswith("gz") else "w") as archive:
            archive.add(metadata)
        refused = run("show", tmp_path / name, code=3).stderr
        assert f"{name}: is a tar archive; unpack it (tar -xf" in refused


def test_a_narrow_terminal_leaves_no_answer_out(metadata):
    """Beside each other where there is room, else below each other."""
    shown, code = run_on_terminal(
        "compare", Path(metadata).resolve(), "--at", "8455", "--brokers", "1", "--then", "2",
        "--then", "3", "--then-start", "2", "--with", "elr=off", "--with", "controller=zk-3.9",
        columns=50,
    )
    shown = ESCAPE.sub("", shown).replace("\r", "")
    assert code == 0
    assert "Not shown" not in shown
    assert "partition: d-rf2m2-4-2\n  as it is: offline, ISR empty\n  elr=off: leader 2" in shown


def test_a_folder_without_a_cluster_is_refused(metadata, tmp_path):
    """That of another topic, whose log is empty; the records that a cluster begins with."""
    other = tmp_path / "orders-0"
    other.mkdir()
    (other / f"{0:020d}.log").write_bytes(b"")
    for path in (other, Path(metadata).parent / "bootstrap.checkpoint"):
        refused = run("show", path, code=3).stderr
        assert "no broker is in it" in refused
        assert "such as the folder __cluster_metadata-0" in refused
    assert "No decision of a controller is in the log, so nothing was compared." in run(
        "replay", other).stdout


def test_replay_names_what_it_was_given(tmp_path):
    path = tmp_path / "copied.tgz"
    path.write_bytes(b"\x00")
    assert run("replay", path, code=3).stderr.startswith(f"Error: {path}: no line of an active")
    assert "right is the folder __cluster_metadata-0" in run("replay", tmp_path, code=3).stderr


def test_a_narrow_terminal_says_why_a_partition_stays_offline(metadata):
    shown, code = run_on_terminal(
        "show", Path(metadata).resolve(), "--at", "5547", "--top", "1", columns=50)
    shown = ESCAPE.sub("", shown).replace("\r", "")
    assert code == 0
    assert "  waits for: 2 and 3\n  surprise: waits_for_last_leader\n" in shown
