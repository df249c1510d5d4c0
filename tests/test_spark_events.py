"""Events that name topics, over shards, are the events on one machine; without a session."""

from __future__ import annotations

import pytest

import kfast
from tests.sharded import (
    Teller,
    assert_same,
    joined_requests,
    requests_alone,
    split,
    without_session,
)

pytestmark = pytest.mark.spark
PROFILES = ("zk-3.9", "zk-2.4", "zk-2.0", "zk-1.0")


@pytest.fixture(autouse=True)
def hands(monkeypatch):
    """Let tasks run in this process."""
    without_session(monkeypatch)


def cluster(seed: int) -> kfast.ClusterState:
    """Give a small cluster with few replicas, so that much of it is gone when brokers are."""
    return kfast.generate(
        brokers=7, partitions=60, racks=3, topics=17, seed=seed, unclean_topics=0.3,
        replication_factor=2,
    )


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("shards", "tasks"), [(1, 1), (7, 2), (16, 16)])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]
)
def test_random_events(tmp_path, profile, shards, tasks, seed):
    import kfast.spark

    state = cluster(seed)
    teller = Teller(state, profile, seed)
    teller.tell(30)
    split(state, tmp_path / "in", shards)
    done = kfast.spark.fail(
        None, tmp_path / "in", events=teller.events, output=tmp_path / "out", tasks=tasks,
        profile=profile,
    )
    assert_same(done, teller.events, teller.state, teller.outcomes)
    if profile == "zk-1.0" and shards > 1 and done.deleting:
        with pytest.raises(kfast.ArgumentError, match="requests are not known"):
            _ = done.requests
        return
    assert joined_requests(done) == requests_alone(teller.outcomes)
