"""Two stories of small clusters, as the controllers and brokers of five versions logged them.

The short one: broker 1 becomes controller, broker 3 fails and comes back, 2 shuts down. The long
one has what real logs lack: reassignments and a deletion to their ends, a bounce, two controllers.
Both ran in kfast; a writer that shares nothing with `kfast.log_replay` put them into the words
of each version, as real logs have them. The files are `tests/support/data/logs`, those of the
short story in 2.4 are `bench_data/incident`; the writer was last in commit a6da14b.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHORT = ("0.10", "2.0", "2.4", "2.8", "3.9")
LONG = ("0.10", "2.0", "2.4", "3.9")
"""Versions that each story is told in."""

CONTROLLER_LOG = "broker-1/controller.log"
STATE_CHANGE_LOG = "broker-1/state-change.log"
OF_ANY_RELEASE = """\
[2021-05-01 10:00:00,001] INFO [Controller id=1] Ready to serve as the new controller with \
epoch 4 (kafka.controller.KafkaController)
[2021-05-01 10:00:09,001] INFO [Controller id=1] Processing automatic preferred replica leader \
election (kafka.controller.KafkaController)
"""
"""What every release from 2.3 on would write."""


def write_logs(directory: Path, version: str = "2.4", story: str = "short") -> Path:
    """Write a story's files below a directory."""
    if (version, story) == ("2.4", "short"):
        incident = ROOT / "bench_data" / "incident"
        shutil.copytree(incident, directory, dirs_exist_ok=True, copy_function=shutil.copyfile)
        return directory
    packed = ROOT / "tests" / "support" / "data" / "logs" / f"{story}-{version}.tar.gz"
    with tarfile.open(packed) as archive:
        archive.extractall(directory, filter="data")
    return directory
