"""Flat Parquet files: what the earlier writer wrote still reads, and what is written now."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kfast
from kfast import io
from kfast.state import flat_table

OLD = Path(__file__).parents[1] / "support" / "data" / "flat"
DIGESTS = json.loads((OLD / "digests.json").read_text())
"""Of what the earlier writer (`kfast-flat version 1.0.0`) wrote, the state that it held."""


@pytest.mark.parametrize("name", DIGESTS)
def test_files_of_the_earlier_writer_still_read(tmp_path, name):
    """Narrow, after a failure, with 8 slots, without rows, being reassigned, and of many pages."""
    path = OLD / f"{name}.parquet"
    if name == "pages":
        path = tmp_path / "pages.parquet"
        path.write_bytes(gzip.decompress((OLD / "pages.parquet.gz").read_bytes()))
    assert pq.read_metadata(path).created_by == "kfast-flat version 1.0.0"
    state = kfast.read(path)
    assert f"{state.digest():#x}" == DIGESTS[name]
    kfast.write(state, tmp_path / "new.parquet", format="parquet-flat")
    assert kfast.read(tmp_path / "new.parquet").difference(state) is None
    assert io.read_tables(path).partitions.num_rows == state.n_partitions


def test_a_file_is_packed_plain_integers_and_a_dictionary_of_topics(tmp_path):
    state, path = kfast.generate(brokers=7, partitions=500, topics=9, seed=4), tmp_path / "x"
    kfast.write(state, path, format="parquet-flat")
    group = pq.ParquetFile(path).metadata.row_group(0)
    for column in (group.column(k) for k in range(group.num_columns)):
        assert column.compression == "LZ4"
        assert ("RLE_DICTIONARY" in column.encodings) == (column.path_in_schema == "topic")
    table, wanted = pq.read_table(path), flat_table.to_flat(state)
    assert table.column_names == wanted.column_names
    assert not any(field.nullable for field in table.schema)
    assert table.to_pylist() == wanted.to_pylist()


def test_several_row_groups_and_other_writers(tmp_path, monkeypatch):
    """The dictionaries of topics of several groups are joined."""
    state, path = kfast.generate(brokers=7, partitions=500, topics=9, seed=4), tmp_path / "x"
    monkeypatch.setattr(io.parquet, "FLAT_GROUP_ROWS", 64)
    kfast.write(state, path, format="parquet-flat")
    assert pq.ParquetFile(path).metadata.num_row_groups == 8
    assert kfast.read(path).difference(state) is None
    table = pq.read_table(path)
    for options in ({}, {"use_dictionary": False}, {"compression": "zstd"}):
        pq.write_table(table, path, **options)
        assert kfast.read(path).difference(state) is None


def test_a_topic_that_is_gone_is_not_in_the_file(tmp_path):
    """A topic deleted, its rows taken by another: no name is left of it, in table or file."""
    state, path = kfast.generate(brokers=3, partitions=20, topics=4, seed=1), tmp_path / "x"
    controller = kfast.Controller(state, journal="off")
    controller.on_controller_failover()
    gone = state.topic[1].as_py()
    controller.delete_topics([gone])
    controller.acknowledge_deletions()
    controller.on_topic_change({"new": {number: [0, 1] for number in range(state.free_rows.size)}})
    assert state.free_rows.size == 0
    assert gone not in flat_table.to_flat(state)["topic"].chunk(0).dictionary.to_pylist()
    kfast.write(state, path, format="parquet-flat")
    read = kfast.read(path)
    assert gone not in read.topic.to_pylist()
    assert read.difference(state) is None


def test_a_row_whose_topic_is_in_no_dictionary_is_refused():
    """Parquet's reader does not look at the places of a damaged file."""
    state = kfast.generate(brokers=5, partitions=300, topics=9, seed=1)
    tables = state.to_tables(flat=True)
    names = tables.partitions["topic"].chunk(0).dictionary
    for place in (9, -1):
        rows = state.topic_row.copy()
        rows[-1] = place
        topic = pa.DictionaryArray.from_arrays(pa.array(rows), names, safe=False)
        bad = tables.partitions.set_column(0, "topic", topic)
        for topics in (tables.topics, tables.topics[::-1]):
            with pytest.raises(kfast.InputError, match=r"column topic of .* damaged"):
                kfast.ClusterState.from_tables(tables.brokers, topics, bad, tables.cluster)
