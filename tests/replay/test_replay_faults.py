"""Replay: real clusters of 0.10 to 3.9 under random faults, as `live_faults` ran them.

Their logs are undamaged, so what is contradicted or missing is a fault of the replay. So it is
where a part of them is left out: the rest is right.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from random import Random

import pytest

from kfast.log_replay import replay
from tests.support.cut_logs import KINDS, cut
from tests.support.damaged_logs import KINDS as DAMAGES
from tests.support.damaged_logs import damage

pytestmark = [pytest.mark.kernels, pytest.mark.slow]

CLUSTERS = sorted((Path(__file__).parents[1] / "support/data/live_faults").glob("*.tar.xz"))

WRONG = {
    "0.10.2.2-301-info": (2, 1), "1.1.1-12-info": (4, 3), "1.1.1-304-info": (9, 7),
    "2.0.1-12-info": (2, 0), "2.0.1-305-info": (6, 8), "2.2.2-12-info": (1, 3),
    "2.3.1-12-info": (4, 1), "2.4.1-12-info": (1, 0), "2.6.3-12-info": (2, 0),
    "3.2.3-12-info": (1, 0), "3.5.2-12-info": (0, 3),
}
"""Facts that are contradicted, and missing, where there are any: faults that are to be mended."""

CUT = {
    ("2.0.1-11-trace", "all of one", 0): (0, 0),
    ("2.7.2-11-trace", "begin", 1): (0, 0),
    ("3.4.1-11-trace", "begin of controller.log", 2): (0, 0),
    ("2.1.1-11-trace", "begin of one", 3): (0, 0),
    ("2.8.2-1-trace", "begin of one's controller.log", 4): (0, 0),
    ("3.6.2-11-trace", "begin of state-change.log", 5): (0, 0),
    ("2.2.2-21-trace", "controller.log of one", 6): (0, 0),
    ("2.8.2-11-trace", "end", 7): (0, 0),
    ("3.7.2-11-trace", "end of one", 8): (0, 0),
    ("2.4.1-31-trace", "hole", 9): (0, 0),
    ("3.0.2-11-trace", "hole of one", 10): (7, 0),
    ("3.9.1-11-trace", "all of one", 11): (0, 0),
    ("2.5.1-12-info", "begin", 12): (0, 0),
    ("3.1.2-12-info", "begin of controller.log", 13): (0, 0),
    ("3.9.1-31-trace", "begin of one", 14): (0, 0),
    ("2.6.3-11-trace", "begin of one's controller.log", 15): (0, 0),
    ("3.2.3-11-trace", "begin of state-change.log", 16): (0, 0),
    ("2.0.1-11-trace", "controller.log of one", 17): (0, 0),
    ("2.7.2-11-trace", "end", 18): (0, 0),
    ("3.4.1-11-trace", "end of one", 19): (0, 0),
    ("2.1.1-11-trace", "hole", 20): (2, 2),
    ("2.8.2-1-trace", "hole of one", 21): (0, 0),
    ("3.2.3-210-info", "hole", 229): (0, 0),
    ("2.8.2-202-info", "all of one", 231): (2, 0),
    ("2.0.1-11-trace", "begin", 43): (0, 0),
    ("2.4.1-31-trace", "begin", 42): (0, 0),
    ("3.4.1-11-trace", "begin", 43): (0, 0),
    ("2.8.2-11-trace", "begin", 42): (2, 0),
    ("3.6.2-11-trace", "hole", 41): (0, 0),
    ("2.8.2-11-trace", "hole", 41): (9, 0),
    ("3.4.1-11-trace", "hole", 41): (1, 0),
    ("2.7.2-11-trace", "begin of one", 42): (8, 0),
    ("2.7.2-11-trace", "hole", 41): (0, 0),
    ("3.3.2-12-info", "hole of one", 42): (2, 0),
    ("2.6.3-12-info", "hole of one", 41): (19, 0),
    ("2.6.3-12-info", "begin of one", 42): (8, 0),
    ("2.6.3-12-info", "hole of one", 43): (9, 0),
    ("0.11.0.3-208-info", "begin of one", 42): (0, 0),
    ("0.10.2.2-11-trace", "hole", 42): (0, 0),
    ("2.8.2-31-trace", "hole", 43): (0, 0),
    ("2.7.2-11-trace", "begin of one", 43): (4, 0),
    ("2.1.1-11-trace", "begin", 125): (13, 0),
    ("2.5.1-11-trace", "begin", 115): (0, 0),
    ("2.8.2-11-trace", "begin", 52): (0, 0),
    ("2.8.2-21-trace", "begin", 58): (0, 0),
}
"""The same of clusters without a part of their logs: the kind of what is missing, and the seed."""

DAMAGED = {
    ("2.0.1-12-info", "lost", 1): (9, 0),
    ("0.11.0.3-12-info", "cut", 1): (0, 0),
    ("3.2.3-210-info", "cut", 9): (49, 5),
    ("2.8.2-202-info", "cut", 1): (0, 3),
    ("2.5.1-12-info", "garbled", 2): (0, 0),
    ("2.4.1-31-trace", "garbled", 2): (4, 7),
    ("0.10.2.2-12-info", "clocks", 1): (1, 0),
    ("2.8.2-202-info", "clocks", 1): (15, 0),
}
"""The same of clusters with single lines damaged, or with clocks that differ."""


def unpack(name, to):
    """The logs of a cluster."""
    with tarfile.open(CLUSTERS[0].with_name(f"{name}.tar.xz")) as archive:
        archive.extractall(to, filter="data")


def profile_of_archive(name):
    """The controller of a cluster where its wording fits several: at INFO."""
    version, _, level = name.split("-")
    return "zk-" + ".".join(version.split(".")[:2]) if level == "info" else None


def counts_of(folder, name):
    """Facts by verdict, and how many are contradicted and missing."""
    counts = replay(folder, profile=profile_of_archive(name)).counts
    return counts, (counts["contradicted"], counts["missing"])


@pytest.mark.parametrize("packed", CLUSTERS, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_a_real_cluster_under_faults_is_predicted(packed, tmp_path):
    """The wording of short logs at INFO fits several releases, so theirs is given."""
    name = packed.name.removesuffix(".tar.xz")
    unpack(name, tmp_path)
    counts, wrong = counts_of(tmp_path, name)
    assert wrong == WRONG.get(name, (0, 0))
    assert counts["predicted"] > 4 * counts["adopted"]


@pytest.mark.parametrize(("name", "kind", "seed"), CUT)
def test_of_a_part_of_its_logs_what_can_be_judged_is(name, kind, seed, tmp_path):
    unpack(name, tmp_path / "complete")
    cut(tmp_path / "complete", tmp_path / "cut", kind, Random(seed))
    counts, wrong = counts_of(tmp_path / "cut", name)
    assert wrong == CUT[name, kind, seed]
    assert counts["predicted"] > counts["unknown"]


@pytest.mark.parametrize(("name", "kind", "seed"), DAMAGED)
def test_damaged_lines_and_clocks_that_differ_spoil_little(name, kind, seed, tmp_path):
    """Rules that no undamaged log of one machine needs are needed here."""
    unpack(name, tmp_path / "complete")
    damage(tmp_path / "complete", tmp_path / "damaged", kind, Random(seed))
    counts, wrong = counts_of(tmp_path / "damaged", name)
    assert wrong == DAMAGED[name, kind, seed]
    assert counts["predicted"] > 50 * counts["contradicted"]


def test_the_clusters_are_there():
    """Without them the test above would compare nothing."""
    assert len(CLUSTERS) == 62
    assert WRONG.keys() <= {path.name.removesuffix(".tar.xz") for path in CLUSTERS}
    assert {kind for _, kind, _ in CUT} == KINDS.keys()
    assert {kind for _, kind, _ in DAMAGED} == {*DAMAGES, "clocks"}


def test_how_python_hashes_names_changes_nothing(tmp_path):
    """Sets of names have another order in each process."""
    unpack("3.5.2-12-info", tmp_path / "complete")
    cut(tmp_path / "complete", tmp_path / "cut", "begin", Random(41))
    code = (f"from kfast.log_replay import replay; r = replay({str(tmp_path / 'cut')!r}, 'zk-3.5');"
            "print(sorted(map(str, r.facts.to_pylist())))")
    tables = {
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed},
                       capture_output=True, check=True).stdout
        for seed in ("1", "3")
    }
    assert len(tables) == 1
