"""Replay: real clusters of 0.10 to 3.9 under random faults, as `live_faults` ran them.

Their logs are undamaged, so what is contradicted or missing is a fault of the replay.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from kfast.log_replay import replay

pytestmark = [pytest.mark.kernels, pytest.mark.slow]

CLUSTERS = sorted((Path(__file__).parents[1] / "support/data/live_faults").glob("*.tar.xz"))

WRONG = {
    "0.10.2.2-12-info": (7, 0), "0.11.0.3-12-info": (1, 0), "1.0.2-12-info": (1, 0),
    "1.1.1-12-info": (8, 4), "2.0.1-12-info": (15, 0), "2.1.1-12-info": (2, 0),
    "2.2.2-12-info": (2, 3), "2.3.1-12-info": (12, 0), "2.4.1-12-info": (2, 0),
    "2.6.3-12-info": (2, 0), "2.8.2-12-info": (1, 0), "3.2.3-12-info": (5, 0),
    "3.4.1-12-info": (2, 0), "3.5.2-12-info": (1, 3), "3.7.2-12-info": (5, 0),
    "3.9.1-12-info": (1, 0),
}
"""Facts that are contradicted, and missing, where there are any: faults that are to be mended."""


@pytest.mark.parametrize("packed", CLUSTERS, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_a_real_cluster_under_faults_is_predicted(packed, tmp_path):
    """The wording of short logs at INFO fits several releases, so theirs is given."""
    version, _, level = packed.name.removesuffix(".tar.xz").split("-")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    release = "zk-" + ".".join(version.split(".")[:2])
    counts = replay(tmp_path, profile=release if level == "info" else None).counts
    wrong = counts["contradicted"], counts["missing"]
    assert wrong == WRONG.get(packed.name.removesuffix(".tar.xz"), (0, 0))
    assert counts["predicted"] > 4 * counts["adopted"]


def test_the_clusters_are_there():
    """Without them the test above would compare nothing."""
    assert len(CLUSTERS) == 50
    assert WRONG.keys() <= {path.name.removesuffix(".tar.xz") for path in CLUSTERS}
