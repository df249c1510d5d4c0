"""`ClusterState.columns`: what kernels take is never an array that the state has replaced."""

import numpy as np
import pytest

import kfast
from kfast.kernels import census, hosting
from kfast.kernels.columns import ARRAYS, make_columns
from kfast.state.mutators import grow_slots, widen


def arrays_of(state):
    """The arrays that kernels see, in their order."""
    return [getattr(state, name) for name in ARRAYS]


@pytest.mark.parametrize("change", [
    widen,
    lambda state: grow_slots(state, state.n_slots + 1),
    lambda state: state.add_live_brokers({99: 1}),
    lambda state: state.recount(),
    lambda state: state.compact(),
])
def test_columns_are_made_anew_where_an_array_was_replaced(change):
    """The columns of a state hold the very arrays that it has."""
    state = kfast.generate(brokers=5, partitions=70, seed=1)
    before = state.columns
    assert state.columns is before
    change(state)
    assert state.columns.holds(vars(state))
    assert before.holds(vars(state)) == (state.columns is before)


@pytest.mark.parametrize("name", ARRAYS)
def test_any_single_array_that_is_replaced_is_noticed(name):
    """Even by an equal one."""
    state = kfast.generate(brokers=5, partitions=70, seed=1)
    before = state.columns
    setattr(state, name, getattr(state, name).copy())
    assert not before.holds(vars(state))
    assert state.columns is not before


def test_a_copy_has_columns_of_its_own():
    """What happens to the one does not show in the other."""
    state = kfast.generate(brokers=5, partitions=70, seed=1)
    columns = state.columns
    other = state.copy()
    assert other.columns is not columns
    other.records["leader"] = other.replicas[:, 1]
    rows = np.arange(70, dtype=np.int32)
    assert census.count_imbalanced(state.columns, rows) == 0
    assert census.count_imbalanced(other.columns, rows) == 70


@pytest.mark.parametrize("at", [1, 2, 4, 5, 7, 8])
def test_arrays_of_another_length_are_refused(at):
    """Kernels check no index: lengths are compared when columns are made."""
    arrays = arrays_of(kfast.generate(brokers=5, partitions=70, seed=1))
    arrays[at] = arrays[at][:-1].copy()
    with pytest.raises(ValueError, match=r"differ|shorter"):
        make_columns(*arrays)


def test_kernels_that_write_refuse_what_is_read_only():
    """`kfast.open` gives columns that are shared files, without bitmaps."""
    state = kfast.generate(brokers=5, partitions=70, seed=1)
    rows = np.arange(70, dtype=np.int32)
    state.records.flags.writeable = False
    state._columns = None
    with pytest.raises(ValueError, match="read-only"):
        hosting.refresh_leader_offline(state.columns, rows)
    assert census.count_imbalanced(state.columns, rows) == 0
    arrays = arrays_of(kfast.generate(brokers=5, partitions=70, seed=1))
    with pytest.raises(ValueError, match="without bitmaps"):
        hosting.refresh_leader_offline(make_columns(*arrays[:7]), rows)
