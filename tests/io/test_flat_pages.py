"""Pages of flat Parquet: kernels against the format's definition, files against other readers."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kfast
from kfast import io
from kfast.io import flat_pages, flat_reader
from kfast.io.thrift import Long, write_struct
from kfast.kernels import pages as kernel
from kfast.state import flat, loading_flat
from tests.support.states import read_state

SIZES = (1, 2, 7, 8, 9, 15, 16, 17, 24, 503, 504, 505, 512, 1500)


def plain_varint(data, at):
    """Seven bits a byte, the lowest first: the number, and where it ends; IndexError at the end."""
    number, shift = 0, 0
    while True:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at


def plain_page(data, n, offset, n_places):
    """Values of a page of places, from `Encodings.md`; None where it is not one."""
    width, at, values = data[0] // 8, 1, []
    if data[0] not in (8, 16, 32):
        return None
    try:
        while len(values) < n:
            head, at = plain_varint(data, at)
            count = 8 * (head >> 1) if head & 1 else head >> 1
            if count == 0 and not head & 1:
                return None
            if len(values) + count > n + (7 if head & 1 else 0):
                return None
            step = width if head & 1 else 0
            size = count * step or width * (not head & 1)
            if at + size > len(data):
                return None
            for k in range(count):
                begin = at + k * step
                place = int.from_bytes(data[begin : begin + width], "little")
                if place >= n_places and len(values) < n:
                    return None
                values.append(place - offset)
            at += size
    except IndexError:
        return None
    return values[:n]


def columns():
    """Columns of values, with what is added to them and how many places there are."""
    draw = np.random.default_rng(5)
    for n in SIZES:
        for highest in (0, 1, 200, 254, 255, 3000, 65534, 65535, 100_000):
            anything = draw.integers(-1, highest + 1, n)
            anything[draw.integers(n)] = highest
            few = np.where(draw.random(n) < 0.02, highest, 0)
            runs = np.repeat(draw.integers(0, highest + 1, n), draw.integers(1, 60, n))[:n]
            for values in (anything, few, runs, np.full(n, highest)):
                yield values.astype(np.int32), 1, 1 << 17
            yield np.sort(anything).astype(np.int32) + 1, 0, highest + 2


def test_a_page_says_its_values():
    """`put_page` as the definition reads it, and as `take_page` does."""
    widths = set()
    for values, offset, n_places in columns():
        out = np.empty(5 * values.size + 64, np.uint8)
        size, highest = kernel.put_page(values, offset, n_places, out)
        assert highest == values.max() + offset
        page, places = out[:size], highest + 1
        assert plain_page(page.tolist(), values.size, offset, places) == values.tolist()
        back = np.empty_like(values)
        assert kernel.take_page(page, False, offset, places, back)
        assert back.tolist() == values.tolist()
        # One place fewer, one byte fewer, one value more: it is no such page.
        assert not kernel.take_page(page, False, offset, places - 1, back)
        assert not kernel.take_page(page[:-1], False, offset, places, back)
        more = np.empty(values.size + 9, np.int32)
        assert not kernel.take_page(page, False, offset, places, more)
        widths.add(int(page[0]))
    assert widths == {8, 16, 32}
    with pytest.raises(ValueError, match="no room"):
        kernel.put_page(values, 1, 9, np.empty(values.size, np.uint8))


def test_repeated_values_take_nothing():
    """A page of one value is a width, how often, and the place."""
    out = np.empty(5 * 32768 + 64, np.uint8)
    assert kernel.put_page(np.full(32768, 7, np.int32), 1, 9, out) == (5, 8)
    assert out[:5].tolist() == [8, 128, 128, 4, 8]
    values = np.zeros(32768, np.int32)
    values[::1000] = 1
    assert kernel.put_page(values, 1, 9, out)[0] < 700


@pytest.mark.parametrize("value", [-2, 8, 2**31 - 1, -(2**31)])
def test_what_is_in_no_dictionary_stands_as_it_is(value):
    values = np.array([3, value, 5], np.int32)
    out, back = np.empty(128, np.uint8), np.empty(3, np.int32)
    assert kernel.put_page(values, 1, 9, out) == (12, -1)
    assert out[:12].tobytes() == values.tobytes()
    assert kernel.take_page(out[:12], True, 1, 0, back)
    assert back.tolist() == values.tolist()
    assert not kernel.take_page(out[:11], True, 1, 0, back)


def test_any_bytes_are_read_as_the_definition_reads_them():
    """Damage: the same values, or no page; never a byte from beyond the page."""
    draw, seen = random.Random(11), set()
    every = [case for case in columns() if case[0].size < 600]
    for values, offset, n_places in draw.sample(every, 150):
        out = np.empty(5 * values.size + 64, np.uint8)
        size, highest = kernel.put_page(values, offset, n_places, out)
        for _ in range(20):
            page = out[:size].copy()
            for _ in range(draw.choice((1, 1, 2, 8))):
                page[draw.choice((0, 1, 2, draw.randrange(size)))] = draw.randrange(256)
            page = page[: draw.choice((size, size, draw.randrange(1, size + 1)))].copy()
            back = np.empty_like(values)
            found = kernel.take_page(page, False, offset, highest + 1, back)
            wanted = plain_page(page.tolist(), values.size, offset, highest + 1)
            assert (back.tolist() if found else None) == wanted
            seen.add(found)
    assert seen == {True, False}


def test_strings_and_back():
    """`put_strings` and `take_strings`: each behind its length."""
    names = pa.array(["a", "", "topic-1", "ü" * 40])
    _, offsets, data = names.buffers()
    ends, text = np.frombuffer(offsets, np.int32)[:5], np.frombuffer(data, np.uint8)
    out = np.empty(text.size + 16, np.uint8)
    assert kernel.put_strings(ends, text, out) == out.size
    items = [name.encode() for name in names.to_pylist()]
    assert out.tobytes() == b"".join(len(i).to_bytes(4, "little") + i for i in items)
    back, bytes_back = np.empty(5, np.int32), np.empty(out.size, np.uint8)
    assert kernel.take_strings(out, back, bytes_back)
    assert back.tolist() == ends.tolist()
    assert bytes_back[: text.size].tobytes() == text.tobytes()
    assert not kernel.take_strings(out[:-1], back, bytes_back)
    assert not kernel.take_strings(out, back[:4], bytes_back)
    assert not kernel.take_strings(out, back, bytes_back[:-1])
    out[3] = 255
    assert not kernel.take_strings(out, back, bytes_back)
    with pytest.raises(ValueError, match="no room"):
        kernel.put_strings(ends, text, out[:-1])


def test_pages_are_found_behind_their_headers():
    """`list_pages`, for headers as `write_struct` writes them; not for others."""
    header, pages = flat_pages.page_header, [(300, 100, 8), (5, 70_000, 0), (0, 1, 8)]
    data, wanted = header(40, 10, 0, dictionary=True), []
    wanted.append([2, len(data), 40, 10, 0])
    data += bytes(40)
    for size, n, encoding in pages:
        data += header(size, n, encoding)
        wanted.append([0, len(data), size, n, encoding])
        data += bytes(size)
    found = np.zeros((4, 5), np.int64)
    whole = np.frombuffer(data, np.uint8)
    assert kernel.list_pages(whole, found) == 4
    assert found.tolist() == wanted
    assert kernel.list_pages(whole[:0], found) == 0
    assert kernel.list_pages(whole, found[:3]) == -1
    ends = {0, wanted[0][1] + 40, wanted[1][1] + 300, wanted[2][1] + 5, len(data)}
    for size in range(len(data)):
        assert (kernel.list_pages(whole[:size], found) >= 0) == (size in ends)
    for at in (0, 1, 2, 4, 6, 8, len(header(40, 10, 0, dictionary=True)) - 1):
        bad = whole.copy()
        bad[at] ^= 3
        assert kernel.list_pages(bad, found) == -1


def test_structs_of_thrift():
    """Examples by hand, from `thrift-compact-protocol.md`."""
    assert write_struct({1: 1, 2: -1, 3: 300}) == b"\x15\x02\x15\x01\x15\xd8\x04\x00"
    assert write_struct({4: Long(2**33)}) == b"\x46\x80\x80\x80\x80\x40\x00"
    assert write_struct({2: b"ab", 5: {1: 0}}) == b"\x28\x02ab\x3c\x15\x00\x00\x00"
    assert write_struct({1: [1, 2], 2: []}) == b"\x19\x25\x02\x04\x19\x05\x00"
    assert write_struct({1: [b"x"] * 15}) == b"\x19\xf8\x0f" + b"\x01x" * 15 + b"\x00"


ROWS = 2 * flat_pages.PAGE_ROWS + 700
"""Three pages."""


def large_state():
    """A state of three pages; versions that no dictionary has, and a column that begins late."""
    state = kfast.generate(brokers=300, partitions=ROWS, topics=40, seed=3)
    kfast.Controller(state, journal="off").on_controller_failover()
    state.records["version"][flat_pages.PAGE_ROWS + 3] = 1 << 20
    state.records["leader_epoch"][:] = np.arange(ROWS) % 1000
    state.records["offline_dir"][ROWS - 1] = 2
    state.recount()
    return state


def written(state, path):
    """A state's file, made block by block; as a run over shards does it."""
    brokers, topics, cluster = (
        getattr(state.to_tables(), name) for name in ("brokers", "topics", "cluster")
    )
    pages = flat_pages.StatePages(state, flat.Arena())
    for start in range(0, max(state.n_partitions, 1), flat_pages.PAGE_ROWS):
        pages.add(start, min(start + flat_pages.PAGE_ROWS, state.n_partitions))
    tables = io.SourceTables("", pa.table({}), topics, brokers, cluster)
    with path.open("wb") as file:
        pages.write(file, io.arrow.metadata_of(tables))
    return path


def loaded(state, path):
    """The state of a file, by its pages; None where it is left to Arrow."""
    room = flat.Arena()
    opened = flat_reader.open_pages(str(path), room)
    if opened is None:
        return None
    tables, rows = opened
    return loading_flat.load_rows(
        tables.brokers, tables.topics, rows, tables.cluster, str(path), (), None, room
    )


def small_state():
    return kfast.generate(brokers=4, partitions=9)


def empty_state():
    return kfast.ClusterState.from_tables(small_state().to_tables().brokers)


@pytest.mark.parametrize("made", [large_state, small_state, empty_state])
def test_a_file_of_pages_is_any_parquet_file(tmp_path, made):
    """Arrow reads what `to_flat` says, whichever way the file was written; pages read it too."""
    state, whole = made(), tmp_path / "whole.parquet"
    kfast.write(state, whole, format="parquet-flat")
    wanted = flat.to_flat(state)
    wanted = wanted.set_column(0, "topic", wanted["topic"].cast(pa.string()))
    for path in (whole, written(state, tmp_path / "blocks.parquet")):
        found = pq.read_table(path)
        assert set(found.column_names) == set(wanted.column_names)
        assert not any(field.nullable for field in found.schema)
        for name in wanted.column_names:
            assert found[name].equals(wanted[name]), name
        assert kfast.read(path).difference(state) is None
        for read in (loaded(state, path), kfast.read(path)):
            if state.n_partitions:
                assert read.difference(state) is None
                fresh = read.copy()
                fresh.recount()
                assert np.array_equal(read.leader_offline, fresh.leader_offline)
                assert np.array_equal(read.pending, fresh.pending)
    if state.n_partitions > 100:
        chunks = pq.ParquetFile(path).metadata.row_group(0)
        kinds = {chunks.column(k).path_in_schema: chunks.column(k) for k in range(12)}
        assert set(kinds["version"].encodings) == {"PLAIN", "RLE", "RLE_DICTIONARY"}
        assert kinds["isr"].total_compressed_size < 200


def test_a_topic_that_is_gone_is_not_in_the_file(tmp_path):
    """A topic deleted, its rows taken by another: no name is left of it, in table or pages."""
    state = kfast.generate(brokers=3, partitions=20, topics=4, seed=1)
    controller = kfast.Controller(state, journal="off")
    controller.on_controller_failover()
    gone = state.topic[1].as_py()
    controller.delete_topics([gone])
    for broker in (0, 1, 2):
        controller.acknowledge_deletions([broker])
    rows = state.free_rows.size
    assert rows == 5
    controller.on_topic_change({"new": {number: [0, 1] for number in range(rows)}})
    assert state.free_rows.size == 0
    assert gone in state.topic.to_pylist()
    assert gone not in flat.to_flat(state)["topic"].chunk(0).dictionary.to_pylist()
    path = written(state, tmp_path / "x.parquet")
    read = kfast.read(path)
    assert gone not in read.topic.to_pylist()
    assert read.difference(state) is None


def test_files_of_arrow_are_left_to_arrow(tmp_path):
    """Files of before, and of others: `open_pages` does not know them, `kfast.read` does."""
    state, path = read_state("""
        partition  ar     isr  leader  epoch  state
        t-0        1,2,3  1,2  1       7      ONLINE
        t-1        2,3    3    3       4      ONLINE
    """), tmp_path / "x.parquet"
    kfast.write(state, path, format="parquet-flat")
    assert loaded(state, path).difference(state) is None
    table = pq.read_table(path)
    for options in ({}, {"use_dictionary": False}, {"compression": "zstd"}):
        pq.write_table(table, path, **options)
        assert flat_reader.open_pages(str(path), flat.Arena()) is None
        assert kfast.read(path).difference(state) is None
    for text in (b"", b"PAR1", b"Topic: t"):
        path.write_bytes(text)
        assert flat_reader.open_pages(str(path), flat.Arena()) is None


def test_a_damaged_file_is_read_right_or_refused(tmp_path):
    """One byte changed anywhere, or a file cut: an error of kfast's, or a state that checks.

    What is left to Arrow here is `kfast.read`'s: see `test_flat_damage.py`.
    """
    state = kfast.generate(brokers=5, partitions=300, topics=9, seed=1)
    path, draw, ends = tmp_path / "x.parquet", random.Random(3), set()
    kfast.write(state, path, format="parquet-flat")
    whole = path.read_bytes()
    for _ in range(400):
        data = bytearray(whole[: draw.choice((len(whole), len(whole), draw.randrange(len(whole))))])
        for _ in range(draw.choice((1, 1, 3)) if data else 0):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data)
        try:
            read = loaded(state, path)
        except kfast.KfastError:
            ends.add("refused")
        else:
            ends.add("left" if read is None else "read")
            if read is not None:
                read.to_tables().partitions.validate(full=True)
    assert ends == {"refused", "left", "read"}
