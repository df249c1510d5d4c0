"""Damaged flat Parquet, as `kfast.read` takes it: refused, or a state that checks."""

import random

import pyarrow.parquet as pq
import pytest

import kfast
from kfast import io


def small_state():
    return kfast.generate(brokers=5, partitions=300, topics=9, seed=1)


def check_read(path):
    """Whether `kfast.read` takes a file, giving a state that checks; any other error is a fault."""
    try:
        read = kfast.read(path)
    except kfast.InputError:
        return False
    read.to_tables().partitions.validate(full=True)
    return True


@pytest.mark.parametrize("fail", [False, True])
def test_bytes_turned_over(tmp_path, fail):
    """Arrow hands on places that are in no dictionary of topics, however the topics are listed."""
    state = small_state()
    if fail:
        kfast.Controller(state, journal="off").on_controller_failover()
    path, draw = tmp_path / "x.parquet", random.Random(4)
    kfast.write(state, path, format="parquet-flat")
    whole, group = path.read_bytes(), pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(k) for k in range(group.num_columns)]
    begins = [c.dictionary_page_offset or c.data_page_offset for c in columns]
    parts = [(b, b + c.total_compressed_size) for b, c in zip(begins, columns, strict=True)]
    ends = set()
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 2, 3))):
            at = draw.randrange(*draw.choice((parts[0], draw.choice(parts), (0, len(whole)))))
            for k in range(at, min(at + draw.choice((1, 1, 4, 30)), len(data))):
                data[k] ^= draw.choice((255, 1, 2))
        path.write_bytes(data)
        ends.add(check_read(path))
    assert ends == {True, False}


def test_a_table_in_a_file_without_its_key_is_refused(tmp_path):
    """Damage, too, may turn a column's name into another."""
    tables, path = small_state().to_tables(), tmp_path / "x.parquet"
    for name, key in (("brokers", "broker_id"), ("topics", "topic")):
        parts = {part: getattr(tables, part) for part in ("topics", "brokers", "cluster")}
        columns = [f"{c}x" if c == key else c for c in parts[name].column_names]
        parts[name] = parts[name].rename_columns(columns)
        pq.write_table(io.arrow.embed(io.SourceTables("", tables.partitions, **parts)), path)
        with pytest.raises(kfast.InputError, match=f"table of {name} in it has no column {key}"):
            kfast.read(path)
    rows = tables.partitions.replace_schema_metadata({"kfast.version": b"\xff"})
    with pytest.raises(kfast.InputError, match="found version"):
        io.arrow.extract("x", rows)
