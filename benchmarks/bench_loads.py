"""Loads of a whole cluster, from files to partitions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kfast


@pytest.fixture(scope="module")
def rates(cluster):
    """Rates and sizes of every partition."""
    generator = np.random.default_rng(42)
    n = cluster.n_partitions
    topic = pa.DictionaryArray.from_arrays(pa.array(cluster.topic_row), cluster.topic)
    return pa.table({
        "topic": topic.dictionary_decode(),
        "partition": pa.array(cluster.partition),
        "bytes_in": generator.integers(0, 10**7, n),
        "bytes_out": generator.random(n) * 1e7,
        "disk_bytes": generator.integers(0, 10**11, n),
    })


def test_parquet(benchmark, tmp_path, cluster, rates):
    """A load in Parquet: from the file to the bytes of every partition."""
    path = tmp_path / "load.parquet"
    pq.write_table(rates, path)
    load = benchmark(lambda: kfast.partition_load(cluster, kfast.read_load(path)))
    benchmark.extra_info.update(partitions=cluster.n_partitions)
    assert (load.bytes_in == rates["bytes_in"].to_numpy()).all()


def test_log_directories(benchmark, tmp_path, cluster, rates):
    """The sizes of all replicas, as kafka-log-dirs prints them."""
    path = tmp_path / "log-dirs.txt"
    names = [f"{topic}-{number}" for topic, number in
             zip(rates["topic"].to_pylist(), rates["partition"].to_pylist(), strict=True)]
    sizes = rates["disk_bytes"].to_pylist()
    held: list[list[str]] = [[] for _ in range(cluster.n_brokers)]
    for name, size, brokers in zip(names, sizes, cluster.replicas.tolist(), strict=True):
        entry = f'{{"partition":"{name}","size":{size},"offsetLag":0,"isFuture":false}}'
        for broker in brokers:
            held[broker].append(entry)
    directories = [
        f'{{"broker":{broker},"logDirs":[{{"logDir":"/d","error":null,"partitions":'
        f'[{",".join(entries)}]}}]}}'
        for broker, entries in enumerate(held)
    ]
    path.write_text(f'{{"version":1,"brokers":[{",".join(directories)}]}}\n')
    (table,) = benchmark(lambda: kfast.read_load(path))
    benchmark.extra_info.update(replicas=table.rows.num_rows, file_bytes=path.stat().st_size)
    assert table.rows.num_rows == 3 * cluster.n_partitions
