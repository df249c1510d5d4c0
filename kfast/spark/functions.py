"""`elect` and `fail` for columns of a user's own DataFrame, as Arrow UDFs.

A batch of rows becomes a small cluster of as many partitions, kfast's machines run on it, and its
columns go back. Partitions have nothing to do with each other in these events, so the answer does
not depend on the batches.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, functions
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from kfast.controllers import DEFAULT_PROFILE, find_profile, open_events
from kfast.controllers.zk.state_machines import PartitionStateMachine, ReplicaStateMachine
from kfast.errors import ArgumentError, InputError
from kfast.kernels import tables as kernels
from kfast.schema import NO_LEADER, PARTITION_STATE_NAMES, PartitionState, Strategy
from kfast.spark.workers import for_workers
from kfast.state import ClusterState
from kfast.state.table_columns import distinct_ids
from kfast.state.tables import broker_ids as ids_of
from kfast.state.tables import id_lists

__all__ = ["elect", "fail"]

_IDS = pa.list_(pa.int32())
_MOST = (1 << 31) - 1
"""The largest broker id."""

RESULT = pa.schema(
    [
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("isr", _IDS),
        ("state", pa.string()),
    ]
)
"""Fields of the answers: the leader is -1 for none, the state has Kafka's name."""

_TOPICS = pa.table(
    {"topic": pa.array(["clean", "unclean"]), "unclean_leader_election": pa.array([False, True])}
)


def elect(
    replicas: Column | str,
    isr: Column | str,
    live: Column | str | Collection[int],
    *,
    unclean: Column | str | bool | None = None,
    strategy: Strategy | str = Strategy.OFFLINE,
    profile: str = DEFAULT_PROFILE,
) -> Column:
    """Elect a leader for each row, as the controller does for a partition without one.

    Parameters
    ----------
    replicas, isr, live : Column or str
        Arrays of broker ids: assigned replicas in order; replicas in sync (null: all of them);
        brokers that are up (those that are no replica are passed over). The last may also be a
        list of ids, the same for every row.
    unclean : Column, str or bool, optional
        Whether unclean election is allowed; nowhere by default.
    strategy : Strategy or str
        How leaders are elected; a string is its name in lower case.
    profile : str
        Which version of the ZooKeeper-mode controller is simulated: a name in
        `kfast.controllers.PROFILES`.

    Returns
    -------
    Column
        struct of leader (-1 for none), leader_epoch (how often a leader was elected here: 0 or 1),
        isr and state ("OnlinePartition", "OfflinePartition"); null where `replicas` is null.

    Raises
    ------
    ArgumentError
        The strategy or the profile is unknown, or an argument is no column. What is wrong in a row
        is told when Spark runs.
    """
    find_profile(profile)
    work = for_workers(partial(elect_batch, strategy=_strategy(strategy), profile=profile))

    # PySpark reads the hints of the function itself, and a partial has none.
    def run(a: pa.Array, b: pa.Array, c: pa.Array, d: pa.Array) -> pa.Array:
        return work(a, b, c, d)

    return _make_udf(run)(
        _column("replicas", replicas), _column("isr", isr), _column("live", live, _broker_lists),
        _column("unclean", unclean, _truth, "boolean"),
    )


def fail(
    replicas: Column | str,
    isr: Column | str,
    leader: Column | str,
    broker_ids: Iterable[int],
    *,
    live: Column | str | Collection[int] | None = None,
    leader_epoch: Column | str | None = None,
    unclean: Column | str | bool | None = None,
    profile: str = DEFAULT_PROFILE,
) -> Column:
    """Say what each row is after a controller started and some brokers failed together.

    Parameters
    ----------
    replicas, isr, live, unclean, profile
        As for `elect`; without `live` every broker is up before the failure.
    leader : Column or str
        Broker id of the leader, -1 for none; null means the first replica.
    broker_ids : iterable of int
        Who fails.
    leader_epoch : Column or str, optional
        Epoch before; 0 by default.

    Returns
    -------
    Column
        As for `elect`, with the leader epoch afterwards.

    Raises
    ------
    ArgumentError
        As for `elect`, or `broker_ids` is no list of ids.
    """
    find_profile(profile)
    ids = _broker_ids("broker_ids", broker_ids)
    work = for_workers(partial(fail_batch, brokers=ids, profile=profile))

    def run(
        a: pa.Array, b: pa.Array, c: pa.Array, d: pa.Array, e: pa.Array, f: pa.Array
    ) -> pa.Array:
        return work(a, b, c, d, e, f)

    return _make_udf(run)(
        _column("replicas", replicas), _column("isr", isr), _column("leader", leader),
        _column("live", live, _broker_lists, "array<int>"),
        _column("leader_epoch", leader_epoch, null="int"),
        _column("unclean", unclean, _truth, "boolean"),
    )


def _make_udf(run: Callable[..., pa.Array]) -> Callable[..., Column]:
    """An Arrow UDF that answers with `RESULT`; PySpark's hints know of no struct."""
    make: Any = arrow_udf
    udf: Callable[..., Column] = make(run, from_arrow_schema(RESULT))
    return udf


def _column(
    name: str, value: object, constant: Callable[[str, Any], Column] | None = None,
    null: str | None = None,
) -> Column | str:
    """An argument as a column: given so, by name, as a constant, or not at all."""
    if isinstance(value, (Column, str)):
        return value
    if value is None and null is not None:
        return functions.lit(None).cast(null)
    if constant is not None:
        return constant(name, value)
    raise ArgumentError(f"{name} is {value!r}; right is a column or its name")


def _truth(name: str, value: object) -> Column:
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} is {value!r}; right is a column, its name, True or False")
    return functions.lit(value)


def _broker_lists(name: str, value: Any) -> Column:
    ids = _broker_ids(name, value, "a column, its name, or ")
    return functions.array(*map(functions.lit, ids)).cast("array<int>")


def _broker_ids(name: str, values: Any, others: str = "") -> list[int]:
    try:
        ids = sorted({operator.index(value) for value in values})
    except TypeError as error:
        raise ArgumentError(
            f"{name} is {values!r}; right is {others}a list of broker ids, as [3, 7]"
        ) from error
    for broker in ids[:1] + ids[-1:]:
        if not 0 <= broker <= _MOST:
            raise ArgumentError(f"{name} names {broker}; broker ids are 0 to {_MOST}")
    return ids


def _strategy(strategy: Strategy | str) -> Strategy:
    if isinstance(strategy, Strategy):
        return strategy
    names = {one.name.lower(): one for one in Strategy}
    if strategy not in names:
        raise ArgumentError(f"strategy {strategy!r} is unknown; allowed: {', '.join(names)}")
    return names[strategy]


def elect_batch(
    replicas: pa.Array, isr: pa.Array, live: pa.Array, unclean: pa.Array, strategy: Strategy,
    profile: str,
) -> pa.Array:
    """`elect` of a batch."""
    if pc.any(pc.and_(replicas.is_valid(), live.is_null())).as_py():
        raise InputError("live is null in some rows; an empty array says that no broker is up")
    nobody = pa.array(np.full(len(replicas), NO_LEADER, np.int32))
    batch = _Batch(replicas, isr, nobody, live, None, unclean, [])
    machine = PartitionStateMachine(batch.state, journal="off", profile=profile)
    machine.initialize()
    rows = np.arange(batch.state.n_partitions, dtype=np.int32)
    machine.handle_state_changes(rows, PartitionState.ONLINE, strategy)
    return batch.answer()


def fail_batch(
    replicas: pa.Array, isr: pa.Array, leader: pa.Array, live: pa.Array, leader_epoch: pa.Array,
    unclean: pa.Array, brokers: list[int], profile: str,
) -> pa.Array:
    """`fail` of a batch.

    The machines are started one by one, for a failover would forget which replicas are offline.
    """
    batch = _Batch(replicas, isr, leader, live, leader_epoch, unclean, brokers)
    events = open_events(batch.state, journal="off", profile=profile)
    ReplicaStateMachine(batch.state, journal="off", profile=profile).start()
    machine = PartitionStateMachine(batch.state, journal="off", profile=profile)
    machine.initialize()
    machine.trigger_online()
    batch.state.index_hosting()
    events.brokers_failed(brokers)
    return batch.answer()


class _Batch:
    """Rows as a cluster: topics `clean` and `unclean`, partitions numbered by row.

    A row's dead brokers are its offline log directories: whether a replica is live is then said
    row by row.
    """

    def __init__(
        self, replicas: pa.Array, isr: pa.Array, leader: pa.Array, live: pa.Array,
        leader_epoch: pa.Array | None, unclean: pa.Array, brokers: list[int],
    ) -> None:
        self.valid = replicas.is_valid()
        self.complete = replicas.null_count == 0

        def column(name: str, values: pa.Array, kind: pa.DataType) -> pa.Array:
            try:
                return (values if self.complete else values.filter(self.valid)).cast(kind)
            except pa.ArrowException as error:
                found, right = (from_arrow_type(t).simpleString() for t in (values.type, kind))
                # A Spark user sees the whole chain, and Arrow's part of it says nothing more.
                raise InputError(
                    f"column {name} is {found}; right is {right}, or what fits it: {error}"
                ) from None

        lists = {"replicas": column("replicas", replicas, _IDS), "isr": column("isr", isr, _IDS)}
        which = column("unclean", unclean, pa.bool_())
        which = pc.fill_null(which, False).cast(pa.int32())
        columns: dict[str, Any] = {
            "topic": pa.DictionaryArray.from_arrays(which, _TOPICS["topic"].chunk(0)),
            "partition": pa.array(np.arange(len(which), dtype=np.int32)),
            **lists,
            "leader": column("leader", leader, pa.int32()),
        }
        if live.null_count < len(live):
            up = column("live", live, _IDS)
            columns["offline_dir"] = _dead(**lists, live=up)
        if leader_epoch is not None:
            epochs = column("leader_epoch", leader_epoch, pa.int32())
            columns["leader_epoch"] = pc.fill_null(epochs, 0)
        named = [_items(name, one)[1] for name, one in lists.items()]
        leaders = pc.fill_null(columns["leader"], NO_LEADER).to_numpy()
        named += [leaders[leaders >= 0], np.asarray(brokers, np.int32)]
        known = pa.table({"broker_id": pa.array(distinct_ids(named))})
        try:
            self.state = ClusterState.from_tables(
                known, _TOPICS, pa.table(columns), source="a batch of the DataFrame"
            )
        except InputError as error:
            raise InputError(_with_row(str(error), columns)) from None

    def answer(self) -> pa.StructArray:
        """Columns of `RESULT`, null again where `replicas` was."""
        state = self.state
        records = state.records
        rows = np.arange(state.n_partitions, dtype=np.int32)
        states = pa.array(records["partition_state"].astype(np.int32))
        fields = [
            pa.array(ids_of(state, records["leader"])),
            pa.array(np.ascontiguousarray(records["leader_epoch"])),
            id_lists(state, rows, records["isr"]),
            pa.DictionaryArray.from_arrays(states, PARTITION_STATE_NAMES).cast(pa.string()),
        ]
        answer = pa.StructArray.from_arrays(fields, fields=list(RESULT))
        if self.complete:
            return answer
        place = pc.subtract(pc.cumulative_sum(self.valid.cast(pa.int32())), 1)
        return answer.take(pc.if_else(self.valid, place, pa.scalar(None, pa.int32())))


def _with_row(message: str, columns: dict[str, Any]) -> str:
    """Say what stands in the row of a batch that is refused: its number alone finds no row."""
    row = re.search(r"partitions row (\d+)", message)
    if row is None:
        return message
    cells = {name: columns[name][int(row[1])] for name in ("replicas", "isr", "leader")}
    return f"{message}; the row has " + ", ".join(f"{name} {cell}" for name, cell in cells.items())


def _items(
    name: str, lists: pa.ListArray
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Where each list begins, and the items of all; a null is an empty list."""
    if lists.null_count:
        lists = pc.fill_null(lists, pa.scalar([], lists.type))
    at = lists.offsets.to_numpy()
    values = lists.values.slice(int(at[0]), int(at[-1] - at[0]))
    if values.null_count:
        raise InputError(f"column {name} has an array with a null in it; right are broker ids")
    ids = values.to_numpy()
    if ids.size and ids.min() < 0:
        raise InputError(f"column {name} names broker {ids.min()}; broker ids are 0 or more")
    return (at - at[0] if at[0] else at), ids


def _dead(replicas: pa.ListArray, isr: pa.ListArray, live: pa.ListArray) -> pa.ListArray:
    """Replicas and members of the ISR that are not live, row by row; none where live is null."""
    known = live.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
    (replica_at, assigned), (isr_at, in_sync), (live_at, up) = (
        _items("replicas", replicas), _items("isr", isr), _items("live", live)
    )
    offsets = np.empty(len(replicas) + 1, np.int32)
    values = np.empty(assigned.size + in_sync.size, np.int32)
    n = kernels.list_dead(
        replica_at, assigned, isr_at, in_sync, live_at, up, known, offsets, values
    )
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[:n]))
