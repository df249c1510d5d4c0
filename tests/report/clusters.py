"""Clusters that reports are about: the one of bench_data, and two of one shape."""

from __future__ import annotations

import pyarrow as pa

import kfast
from kfast import ClusterState
from tests.support.cli_run import ROOT

BENCH = ROOT / "bench_data"

HOSTILE = {
    "topics": [
        "</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>",
        "{{ 7 * 7 }}{% raw %}", "'; alert(3); //$(touch pwned)`id`", '"><b onclick=alert(4)>x</b>',
        "<!--<script>", "\u2028\u2029]]>&lt;a href='javascript:alert(5)'>",
        "two\nlines\r\x00\x1b[31m",
    ],
    "racks": ["<svg onload=alert(6)>", "</style><a href='http://example.com'>x</a>", "c"],
}
"""Names that want to be markup, scripts, templates or shell commands."""

PLAIN = {"topics": [f"topic-{at}" for at in range(8)], "racks": ["a", "b", "c"]}


def bench():
    """The cluster of bench_data, with its racks."""
    return kfast.read(str(BENCH / "describe.txt"), brokers_file=str(BENCH / "brokers.csv"))


def named(names):
    """A cluster with faults of every kind, whose topics and racks have some names."""
    replicas = ([1], [2, 3], [1, 4], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 1])
    topics = names["topics"]
    return ClusterState.from_tables(
        pa.table({"broker_id": pa.array(range(1, 7), pa.int32()),
                  "rack": [names["racks"][at % 3] for at in range(6)]}),
        pa.table({
            "topic": topics,
            "min_insync_replicas": pa.array([1, 2, 1, 3, 2, 2, 2, 2], pa.int32()),
            "unclean_leader_election": [False, False, False, False, True, False, False, False],
        }),
        pa.table({
            "topic": topics, "partition": pa.array([0] * 8, pa.int32()),
            "replicas": pa.array(replicas, pa.list_(pa.int32())),
            "isr": pa.array(replicas, pa.list_(pa.int32())),
            "leader": pa.array([ids[0] for ids in replicas], pa.int32()),
        }),
    )
