"""Memory for large columns: who may write where, and what becomes of it."""

from __future__ import annotations

import errno
import gc
import sys
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.journal import memory, tables

PAGE = memory.HUGE_PAGE
lent = pytest.mark.skipif(sys.platform != "linux", reason="mappings are lent on Linux only")


@pytest.fixture(autouse=True)
def nothing_spare():
    """Begin and end without spare mappings."""
    memory.release()
    yield
    memory.release()


def test_small_and_large_rooms_are_arrays_like_any_other():
    """Shape and type as asked for; contiguous, writable."""
    for shape, kind in ((0, np.int32), (5, np.uint8), ((3, PAGE), np.int64), (PAGE, np.uint8)):
        array = memory.empty(shape, kind)
        assert array.shape == (shape if isinstance(shape, tuple) else (shape,))
        assert array.dtype == kind
        assert type(array) is np.ndarray
        assert array.flags.c_contiguous
        array[...] = 7
        assert (array == 7).all()


@lent
def test_a_room_is_lent_again_when_the_last_view_of_it_is_gone():
    """Rows, slices, other types, Arrow arrays and tables all hold on to it."""
    keepers = (
        lambda a: a[1], lambda a: a[1][3:9], lambda a: a.view(np.uint8),
        lambda a: a.reshape(-1)[::7], lambda a: memoryview(a), lambda a: pa.py_buffer(a[0]),
        lambda a: tables.numbers(a[1][5:90]),
        lambda a: tables.lists(a[0][:9], a[1])[3:],
        lambda a: pa.table({"x": tables.numbers(a[1])}).slice(7, 2),
    )
    for keep in keepers:
        array = memory.empty((2, PAGE), np.int32)
        array[...] = 1
        kept = keep(array)
        del array
        gc.collect()
        assert memory.spare_bytes() == 0
        assert kept is not None
        del kept
        gc.collect()
        assert memory.spare_bytes() == 2 * PAGE * 4
        memory.release()
        assert memory.spare_bytes() == 0


@lent
def test_no_two_rooms_share_memory():
    """Seeded comings and goings; whatever is still held has the values written to it."""
    random = Random(1)
    held = {}
    for number in range(150):
        array = memory.empty(random.randint(PAGE // 8, PAGE), np.int32)
        array[:: 1 << 10] = number
        held[number] = array[1 << 10 :]
        if len(held) > 6:
            del held[random.choice(list(held))]
        for key, part in held.items():
            assert (part[:: 1 << 10] == key).all()


@lent
def test_no_more_is_spare_than_allowed(monkeypatch):
    """What was given back first goes first; a mapping above the limit is not kept."""
    monkeypatch.setattr(memory, "MOST_SPARE", 6 * PAGE)
    rooms = [memory.empty(n * PAGE, np.uint8) for n in (2, 3, 4, 7)]
    for _ in range(4):
        rooms.pop(0)
    assert memory.spare_bytes() == 4 * PAGE
    again = memory.empty(3 * PAGE, np.uint8)
    assert memory.spare_bytes() == 0
    del again


@lent
@pytest.mark.parametrize(("refused", "spare"), [("MADV_HUGEPAGE", PAGE), ("MADV_FREE", 0)])
def test_advice_that_the_system_refuses_is_no_error(monkeypatch, refused, spare):
    """No huge pages there, or no pages to be taken back: such are not kept."""
    advice = getattr(memory.mmap, refused)

    class Refusing(memory.mmap.mmap):
        def madvise(self, option):
            if option == advice:
                raise OSError(errno.EINVAL, "Invalid argument")
            super().madvise(option)

    monkeypatch.setattr(memory.mmap, "mmap", Refusing)
    room = memory.empty(PAGE, np.uint8)
    room[:] = 3
    assert room.sum(dtype=np.int64) == 3 * PAGE
    del room
    assert memory.spare_bytes() == spare


@lent
def test_tables_outlive_later_events():
    """Events of the same size get the memory of tables that are gone, and of no others."""
    state = kfast.generate(brokers=6, partitions=150_000, replication_factor=3, racks=3, seed=1)
    kfast.Controller(state).on_controller_failover()
    first = kfast.Controller(state.copy(), journal="full").on_broker_failure([0, 3]).tables
    copies = {name: copied(table) for name, table in first.items()}
    gc.disable()
    try:
        used = []
        for _ in range(3):
            outcome = kfast.Controller(state.copy(), journal="full").on_broker_failure([0, 3])
            assert all(copies[name].equals(table) for name, table in outcome.tables.items())
            del outcome
            used.append(memory.spare_bytes())
    finally:
        gc.enable()
    assert used[0] > 20 * PAGE
    assert used == used[:1] * 3
    assert all(copies[name].equals(table) for name, table in first.items())


def copied(table):
    """The same in memory of Arrow's own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()
