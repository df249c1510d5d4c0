"""Loads and capacities of `bench_data`: what their maker makes, and the story of its README."""

from __future__ import annotations

import gzip

import pytest

import kfast
from bench_data import loads
from tests.style.places import ROOT

DATA = ROOT / "bench_data"
MADE = ("loads.csv", "capacities.csv", "metrics.prom.gz", "log-dirs.json.gz")


def unpacked(path):
    """What a file holds; packed bytes depend on the version of zlib."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def test_the_files_are_what_their_maker_makes(tmp_path):
    loads.write_loads((DATA / "describe.txt").read_text(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(MADE)
    for name in MADE:
        assert unpacked(tmp_path / name) == unpacked(DATA / name)


@pytest.mark.kernels
def test_the_story_of_the_readme():
    """No limit is exceeded until a rack fails."""
    state = kfast.read(DATA / "describe.txt", brokers_file=DATA / "brokers.csv")
    tables = kfast.read_load(DATA / "metrics.prom.gz", DATA / "log-dirs.json.gz")
    load = kfast.partition_load(state, tables)
    by_topic = kfast.partition_load(state, kfast.read_load(DATA / "loads.csv"))
    text = (DATA / "README.md").read_text()
    for name in ("bytes_in", "bytes_out"):
        total = int(getattr(load, name).sum())
        assert total == getattr(by_topic, name).sum()
        assert f"{total / 1e6:.0f} MB/s" in text
    capacity = kfast.broker_capacity(state, kfast.read_capacity(DATA / "capacities.csv"))
    plan = kfast.prepare_capacity(state, load, capacity)
    single = kfast.capacity_sweep(plan, kfast.every_broker(state))
    assert not any(single["over_limit"].to_pylist())
    racks = kfast.capacity_sweep(plan, kfast.every_rack(state))
    assert [bool(n) for n in racks["over_limit"].to_pylist()] == [False, True, True, False]
