"""No memory: a call raises MemoryError, and the same call works when there is memory again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.faults.writers import DESCRIBE, environment
from tests.support.cli_run import KFAST, ROOT

CALLS = """
import resource, sys, tempfile
from pathlib import Path
import kfast

folder = Path(tempfile.mkdtemp(dir=sys.argv[1]))
state = kfast.generate(brokers=60, partitions=100_000, racks=3, seed=1)
kfast.write(state, folder / "in.txt")
state.save(folder / "saved")

def event(state=state):
    controller = kfast.open_controller(state.copy(), journal="full")
    getattr(controller, "on_controller_failover", controller.state.digest)()
    kfast.fail_brokers(state, [1, 2, 3])
    return controller.state.digest()

kraft = kfast.with_controller(state, "kraft-4.1")

def written(path):
    kfast.write(state, path)
    return path.read_bytes()

def saved(path):
    state.save(path)
    return kfast.open(path).digest()

CALLS = {
    "event": event, "KRaft event": lambda: event(kraft),
    "read": lambda: kfast.read(folder / "in.txt").digest(),
    "open": lambda: kfast.open(folder / "saved").digest(),
    "save": lambda: saved(folder / "again"),
    "Parquet": lambda: written(folder / "x.parquet"), "text": lambda: written(folder / "x.txt"),
    "sweep": lambda: kfast.sweep(state, kfast.every_broker(state)),
    "generate": lambda: kfast.generate(brokers=60, partitions=100_000, seed=3).digest(),
}
expected = {name: call() for name, call in CALLS.items()}
failed = 0
for more in map(float, sys.argv[2:]):
    for name, call in CALLS.items():
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + int(more * 2**20), -1))
        try:
            call()
        except MemoryError:
            failed += 1
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
        assert call() == expected[name], (more, name)
print(failed)
"""
"""Makes calls with so many MiB of address space beyond what the process has."""


@pytest.mark.skipif(sys.platform != "linux", reason="address space is read from /proc")
@pytest.mark.parametrize("mib", [
    pytest.param((0,), id="few"),
    pytest.param((0, 0.5, 1, 2, 3, 5, 8, 12, 16, 24, 32, 64), id="many", marks=pytest.mark.slow),
])
def test_a_call_without_memory_raises_and_works_later(mib, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CALLS, str(tmp_path), *map(str, mib)], cwd=ROOT, env=environment(),
        capture_output=True, text=True, timeout=600, check=False,
    )
    assert done.returncode == 0, done.stderr
    print(f"{done.stdout.strip()} calls without enough memory")
    assert int(done.stdout) >= len(mib)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_a_command_without_memory_says_so(threads, tmp_path):
    """With less than it needs to load it may end by a library's message; never with an answer."""
    path, codes = tmp_path / "x.json", set()
    for mib in range(200, 1100, 100):
        command = ["/bin/sh", "-c", f'ulimit -v {mib * 1024}; exec "$@"', "sh", *KFAST, "fail",
                   DESCRIBE, "--brokers", "101", "--threads", str(threads), "-o", str(path)]
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120,
            check=False,
        )
        codes.add(done.returncode)
        assert path.exists() == (done.returncode == 0)
        assert done.returncode == 0 or done.stderr
        path.unlink(missing_ok=True)
    assert 0 in codes
    assert len(codes) > 1
