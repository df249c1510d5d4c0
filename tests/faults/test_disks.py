"""Full and read-only disks, and files that are torn: what is there stays, messages have names."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kfast
from tests.faults.writers import DESCRIBE, WRITERS, environment, is_old, left_behind, put_old
from tests.support.cli_run import ROOT
from tests.support.long_tests import share_of

SMALL_BYTES = 256 << 10

LIMITED = """
import resource, sys
import kfast
from kfast_command import main
made = kfast.generate(brokers=6, partitions=3000, seed=1)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), -1))
if sys.argv[2] == "state.save":
    try:
        made.save(sys.argv[3])
    except (OSError, kfast.KfastError) as error:
        sys.exit(f"Error: {error}")
else:
    sys.argv[1:] = sys.argv[2:]
    main()
"""
"""Runs a command that may write files up to a size."""


def run_limited(args, size=1 << 40):
    """Run a command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED, str(size), *args], cwd=ROOT, env=environment(),
        capture_output=True, text=True, timeout=120, check=False,
    )


@pytest.fixture
def disk(tmp_path):
    """Give a small disk that `options` can mount again; skip where nothing may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    first = mount(f"size={SMALL_BYTES}")
    if first.returncode:
        pytest.skip(f"a small disk needs the right to mount: {first.stderr.strip()}")
    yield place, mount
    # A state that was opened maps its files until it is collected: the disk goes after that.
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def refused(writer, path, done, reason):
    """The command says why, names the output, leaves what was there, and no part of the new."""
    assert done.returncode != 0
    assert done.returncode > 0
    text = " ".join(done.stderr.split())
    assert os.strerror(reason) in text, text
    assert path.name in text, text
    assert "own fault" not in text
    assert is_old(writer, path)
    assert left_behind(path) == []


LARGE = ("state", "generate", "report")
"""Writers whose files are larger than the small disk."""


@pytest.mark.parametrize("name", LARGE[:1] + tuple(
    pytest.param(name, marks=pytest.mark.slow) for name in LARGE[1:]
))
def test_a_full_disk(name, disk):
    place, _ = disk
    writer = WRITERS[name]
    path = place / f"x{writer.ending}"
    put_old(writer, path)
    refused(writer, path, run_limited(writer.command(path)), errno.ENOSPC)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_a_disk_that_is_read_only(name, disk):
    place, mount = disk
    writer = WRITERS[name]
    path = place / f"x{writer.ending}"
    put_old(writer, path)
    assert mount(f"remount,ro,size={SMALL_BYTES}").returncode == 0
    refused(writer, path, run_limited(writer.command(path)), errno.EROFS)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("size", share_of((1000, 0)))
def test_a_file_that_may_not_grow(name, size, tmp_path):
    """A quota, as `ulimit -f` sets it."""
    writer = WRITERS[name]
    path = tmp_path / f"x{writer.ending}"
    put_old(writer, path)
    refused(writer, path, run_limited(writer.command(path), size), errno.EFBIG)


def test_a_refused_folder_is_named(disk):
    """Of `ClusterState.save` and `kfast.write` by themselves, which scripts call."""
    place, mount = disk
    state = kfast.generate(brokers=6, partitions=20_000, seed=1)
    with pytest.raises(OSError, match=re.escape(str(place / "cluster"))) as full:
        state.save(place / "cluster")
    assert full.value.errno == errno.ENOSPC
    assert list(place.iterdir()) == []
    assert mount(f"remount,ro,size={SMALL_BYTES}").returncode == 0
    for write in (state.save, lambda path: kfast.write(state, f"{path}.parquet")):
        with pytest.raises(kfast.ArgumentError, match=r"cluster.*: cannot be written: Read-only"):
            write(place / "cluster")


@pytest.mark.slow
@pytest.mark.parametrize("kraft", [False, True], ids=["zk", "kraft"])
def test_a_saved_state_that_is_torn_anywhere_is_refused_by_name(kraft, tmp_path):
    """Cut at every byte of small files, and at 200 of others; a file of zeros, and none."""
    state = kfast.generate(brokers=5, partitions=40, topics=3, racks=3)
    if kraft:
        state = kfast.with_controller(state, "kraft-4.1", elr=True)
    place = tmp_path / "cluster"
    state.save(place)
    n_cut = 0
    for file in sorted(place.iterdir()):
        data = file.read_bytes()
        step = max(1, len(data) // 200)
        torn = [data[:at] for at in range(0, len(data), step)]
        for part in (*torn, *(part + b"\0" * (len(data) - len(part)) for part in torn[1::16])):
            if part == data:
                continue
            file.write_bytes(part)
            with pytest.raises(kfast.InputError, match=re.escape(file.name.split(".")[0])):
                kfast.open(place)
            n_cut += 1
        file.unlink()
        with pytest.raises(kfast.InputError, match="cluster"):
            kfast.open(place)
        file.write_bytes(data)
    print(f"{n_cut} torn files")
    assert kfast.open(place).digest() == state.digest()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["save", "save as Arrow"])
def test_a_torn_cluster_file_is_refused_by_name(name, tmp_path):
    """What another program copied half of."""
    writer = WRITERS[name]
    path = tmp_path / f"x{writer.ending}"
    kfast.write(kfast.read(DESCRIBE), path)
    data = path.read_bytes()
    for at in range(0, len(data), max(1, len(data) // 300)):
        path.write_bytes(data[:at])
        with pytest.raises(kfast.InputError, match=re.escape(path.name)):
            kfast.read(path)


def test_what_is_torn_is_never_half_read(tmp_path):
    """The same of one file in the default run."""
    place = tmp_path / "cluster"
    kfast.generate(brokers=3, partitions=20).save(place)
    file = Path(place / "records.npy")
    data = file.read_bytes()
    for at in range(0, len(data), 37):
        file.write_bytes(data[:at])
        with pytest.raises(kfast.InputError, match="records"):
            kfast.open(place)
