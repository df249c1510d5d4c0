"""`elect` and `fail` for columns of a user's own DataFrame, as Arrow UDFs.

A batch of rows becomes a small cluster of as many partitions, a controller runs on it, and its
columns go back. Partitions have nothing to do with each other in these events, so the answer does
not depend on the batches.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, functions
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from kfast.arguments import whole
from kfast.controllers import QuorumController, open_events
from kfast.controllers.kraft.partition_requests import requests_of
from kfast.controllers.kraft.visits import Visit, Visits
from kfast.controllers.zk.state_machines import PartitionStateMachine, ReplicaStateMachine
from kfast.errors import ArgumentError, InputError
from kfast.kernels import tables as kernels
from kfast.schema import (
    DEFAULT_CONTROLLER,
    NO_LEADER,
    PARTITION_STATE_NAMES,
    PartitionState,
    Strategy,
)
from kfast.spark.workers import for_workers
from kfast.state import ClusterState
from kfast.state.changes import BuildResult, Election
from kfast.state.controller_change import change_controller
from kfast.state.metadata_records import LOST, UNASSIGNED
from kfast.state.quorum_tables import members, partition_columns
from kfast.state.table_columns import distinct_ids
from kfast.state.tables import broker_ids as ids_of

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

ELR_RESULT = pa.schema([*RESULT, ("elr", _IDS), ("last_known_elr", _IDS)])
"""Fields of the answers where ELRs are given."""

TYPES = {
    "replicas": _IDS, "isr": _IDS, "live": _IDS, "leader": pa.int32(), "leader_epoch": pa.int32(),
    "unclean": pa.bool_(), "elr": _IDS, "last_known_elr": _IDS, "min_insync_replicas": pa.int32(),
}
"""Columns that rows may have."""

ELECTIONS = {
    Strategy.OFFLINE: Election.CONFIGURED,
    Strategy.PREFERRED_REPLICA: Election.PREFERRED,
    Strategy.OFFLINE_ALLOW_UNCLEAN: Election.UNCLEAN,
}
"""What KRaft has of the strategies."""


def elect(
    replicas: Column | str,
    isr: Column | str,
    live: Column | str | Collection[int],
    *,
    unclean: Column | str | bool | None = None,
    strategy: Strategy | str = Strategy.OFFLINE,
    controller: str = DEFAULT_CONTROLLER,
    elr: Column | str | None = None,
    last_known_elr: Column | str | None = None,
    min_insync_replicas: Column | str | int | None = None,
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
        How leaders are elected; a string is its name in lower case. KRaft has `offline` (when a
        broker is unfenced), `preferred_replica` and `offline_allow_unclean` (on demand).
    controller : str
        Which controller is simulated: one of `schema.CONTROLLERS`.
    elr, last_known_elr : Column or str, optional
        KRaft only. Arrays of broker ids: eligible leader replicas, which are on where these are
        given, and the last known leader.
    min_insync_replicas : Column, str or int, optional
        With ELRs: min.insync.replicas, 1 by default; at most as many as the row has replicas.

    Returns
    -------
    Column
        struct of leader (-1 for none), leader_epoch (how often a leader was elected here: 0 or 1),
        isr and state ("OnlinePartition", "OfflinePartition"), with ELRs also elr and
        last_known_elr; null where `replicas` is null.

    Raises
    ------
    ArgumentError
        The controller is unknown, or has no such strategy, no ELRs; or an argument is no column.
        What is wrong in a row is told when Spark runs.
    """
    _check_controller(controller, elr, last_known_elr, min_insync_replicas)
    work = partial(elect_batch, strategy=_strategy(strategy, controller), controller=controller)
    columns = {
        "replicas": _column("replicas", replicas), "isr": _column("isr", isr),
        "live": _column("live", live, _broker_lists),
        "unclean": _column("unclean", unclean, _flag, optional=True),
        **_elr_columns(elr, last_known_elr, min_insync_replicas),
    }
    return _call(work, columns)


def fail(
    replicas: Column | str,
    isr: Column | str,
    leader: Column | str,
    broker_ids: Iterable[int],
    *,
    live: Column | str | Collection[int] | None = None,
    leader_epoch: Column | str | None = None,
    unclean: Column | str | bool | None = None,
    controller: str = DEFAULT_CONTROLLER,
    elr: Column | str | None = None,
    last_known_elr: Column | str | None = None,
    min_insync_replicas: Column | str | int | None = None,
) -> Column:
    """Say what each row is after a controller started and some brokers failed together.

    Parameters
    ----------
    replicas, isr, live, unclean, controller, elr, last_known_elr, min_insync_replicas
        As for `elect`; without `live` every broker is up before the failure.
    leader : Column or str
        Broker id of the leader, -1 for none; null means the first replica.
    broker_ids : iterable of int
        Who fails; in KRaft one after another, by ascending id.
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
    _check_controller(controller, elr, last_known_elr, min_insync_replicas)
    ids = _broker_ids("broker_ids", broker_ids)
    columns = {
        "replicas": _column("replicas", replicas), "isr": _column("isr", isr),
        "leader": _column("leader", leader),
        "live": _column("live", live, _broker_lists, optional=True),
        "leader_epoch": _column("leader_epoch", leader_epoch, optional=True),
        "unclean": _column("unclean", unclean, _flag, optional=True),
        **_elr_columns(elr, last_known_elr, min_insync_replicas),
    }
    return _call(partial(fail_batch, brokers=ids, controller=controller), columns)


def _check_controller(controller: str, elr: object, *others: object) -> None:
    """Refuse a controller that is unknown, or has no ELRs and is given some."""
    change_controller(ClusterState.from_tables(), controller, elr=True if elr is not None else None)
    if elr is None and any(value is not None for value in others):
        raise ArgumentError(
            "last_known_elr and min_insync_replicas are for clusters with ELRs, and elr is missing"
        )


def _elr_columns(elr: Any, last_known_elr: Any, min_insync_replicas: Any) -> dict[str, Any]:
    return {
        "elr": _column("elr", elr, optional=True),
        "last_known_elr": _column("last_known_elr", last_known_elr, optional=True),
        "min_insync_replicas": _column(
            "min_insync_replicas", min_insync_replicas, _count, optional=True
        ),
    }


def _call(
    work: Callable[[Mapping[str, pa.Array]], pa.Array], columns: Mapping[str, Column | str | None]
) -> Column:
    """Call an Arrow UDF with the columns that are given."""
    given = {name: column for name, column in columns.items() if column is not None}
    send = for_workers(partial(_run, work, tuple(given)))

    # PySpark reads the hints of the function itself, and a partial has none.
    def run(*arrays: pa.Array) -> pa.Array:
        return send(*arrays)

    udf = _make_udf(run, ELR_RESULT if "elr" in given else RESULT)
    return udf(*given.values())


def _run(
    work: Callable[[Mapping[str, pa.Array]], pa.Array], names: tuple[str, ...], *arrays: pa.Array
) -> pa.Array:
    return work(dict(zip(names, arrays, strict=True)))


def _make_udf(run: Callable[..., pa.Array], result: pa.Schema) -> Callable[..., Column]:
    """An Arrow UDF that answers with a struct, of which PySpark's hints know nothing."""
    make: Any = arrow_udf
    udf: Callable[..., Column] = make(run, from_arrow_schema(result))
    return udf


def _column(
    name: str, value: object, constant: Callable[[str, Any], Column] | None = None, *,
    optional: bool = False,
) -> Column | str | None:
    """An argument as a column: given so, by name, as a constant, or not at all."""
    if isinstance(value, (Column, str)):
        return value
    if value is None and optional:
        return None
    if constant is not None:
        return constant(name, value)
    raise ArgumentError(f"{name} is {value!r}; right is a column or its name")


def _count(name: str, value: object) -> Column:
    return functions.lit(whole(name, value, 1, _MOST))


def _flag(name: str, value: object) -> Column:
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


def _strategy(strategy: Strategy | str, controller: str) -> Strategy:
    names = {one.name.lower(): one for one in Strategy}
    if isinstance(strategy, Strategy):
        strategy = strategy.name.lower()
    if controller.startswith("kraft-"):
        names = {one.name.lower(): one for one in ELECTIONS}
    if strategy not in names:
        raise ArgumentError(
            f"strategy {strategy!r} is unknown to {controller}; allowed: {', '.join(names)}"
        )
    return names[strategy]


def elect_batch(
    columns: Mapping[str, pa.Array], strategy: Strategy, controller: str
) -> pa.StructArray:
    """`elect` of a batch."""
    if pc.any(pc.and_(columns["replicas"].is_valid(), columns["live"].is_null())).as_py():
        raise InputError("live is null in some rows; an empty array says that no broker is up")
    batch = _Batch(columns, [], controller)
    rows = np.arange(batch.state.n_partitions, dtype=np.int32)
    if batch.state.is_kraft:
        quorum = QuorumController(batch.state, journal="off")
        results = quorum.run(
            "elect", lambda: quorum.build(requests_of(rows, ELECTIONS[strategy]))
        ).response
        batch.check_fault(np.flatnonzero(results == BuildResult.FAULT))
    else:
        machine = PartitionStateMachine(batch.state, journal="off", profile=controller)
        machine.initialize()
        machine.handle_state_changes(rows, PartitionState.ONLINE, strategy)
    return batch.answer()


def fail_batch(
    columns: Mapping[str, pa.Array], brokers: list[int], controller: str
) -> pa.StructArray:
    """`fail` of a batch.

    In ZooKeeper mode the machines are started one by one, for a failover would forget which
    replicas are offline.
    """
    batch = _Batch(columns, brokers, controller)
    if batch.state.is_kraft:
        quorum = QuorumController(batch.state, journal="off")
        quorum.activate()
        quorum.visits = _LiveVisits(batch.state, batch.dead_keys)
        for broker in brokers:
            fault = quorum.fence_broker(broker).fault
            if fault is not None:
                raise InputError(_with_row(fault, batch.columns))
        return batch.answer()
    events = open_events(batch.state, journal="off")
    ReplicaStateMachine(batch.state, journal="off", profile=controller).start()
    machine = PartitionStateMachine(batch.state, journal="off", profile=controller)
    machine.initialize()
    machine.trigger_online()
    batch.state.index_hosting()
    events.brokers_failed(brokers)
    return batch.answer()


class _LiveVisits(Visits):
    """Partitions that an event visits, but for those in which the broker is dead already."""

    def __init__(self, state: ClusterState, dead_keys: npt.NDArray[np.int64]) -> None:
        super().__init__(state, None)
        self.dead_keys = dead_keys

    def in_isr(self, broker: int) -> Visit:
        """Partitions whose ISR has a broker that is live there."""
        rows, visited = super().in_isr(broker)
        keys = (rows.astype(np.int64) << 32) + int(self.state.broker_id[broker])
        return rows[~np.isin(keys, self.dead_keys)], visited


class _Batch:
    """Rows as a cluster, whose partitions are numbered by row.

    A row's dead brokers are its offline log directories, in KRaft directories that are lost:
    whether a replica is live is then said row by row.

    Topics differ in their settings. In KRaft min.insync.replicas counts up to the replicas of
    partition 0, so that the first row of each topic has that number.
    """

    def __init__(
        self, columns: Mapping[str, pa.Array], brokers: list[int], controller: str
    ) -> None:
        replicas = columns["replicas"]
        self.valid = replicas.is_valid()
        self.complete = replicas.null_count == 0
        self.has_elr = "elr" in columns
        given = {name: self._cast(name, values) for name, values in columns.items()}
        n = len(given["replicas"])
        leader = given.get("leader", pa.array(np.full(n, NO_LEADER, np.int32)))
        lists = {"replicas": given["replicas"], "isr": given["isr"]}
        numbers = np.arange(n, dtype=np.int32)
        settings = np.zeros(n, np.int64)
        if "unclean" in given:
            settings += np.asarray(pc.fill_null(given["unclean"], False))
        if self.has_elr:
            settings += 2 * _min_isr(given["replicas"], given.get("min_insync_replicas"))
            lists["elr"] = pc.fill_null(given["elr"], pa.scalar([], _IDS))
            if "last_known_elr" in given:
                lists["last_known_elr"] = pc.fill_null(
                    given["last_known_elr"], pa.scalar([], _IDS)
                )
        distinct, first, which = np.unique(settings, return_index=True, return_inverse=True)
        numbers[first] = 0
        topics = {
            "topic": pa.array(distinct.astype(str)),
            "unclean_leader_election": pa.array(distinct % 2 == 1),
        }
        if self.has_elr:
            topics["min_insync_replicas"] = pa.array((distinct // 2).astype(np.int32))
        self.columns: dict[str, Any] = {
            "topic": pa.DictionaryArray.from_arrays(pa.array(which), topics["topic"]),
            "partition": pa.array(numbers), **lists, "leader": leader,
        }
        self.dead_keys = np.empty(0, np.int64)
        if "live" in given and given["live"].null_count < n:
            dead = _dead(lists["replicas"], lists["isr"], given["live"])
            if controller.startswith("kraft-"):
                self.dead_keys = _row_keys(*_items("live", dead))
                self.columns["directories"] = _directories(lists["replicas"], self.dead_keys)
            else:
                self.columns["offline_dir"] = dead
        if "leader_epoch" in given:
            self.columns["leader_epoch"] = pc.fill_null(given["leader_epoch"], 0)
        named = [_items(name, one)[1] for name, one in lists.items()]
        leaders = pc.fill_null(leader, NO_LEADER).to_numpy()
        named += [leaders[leaders >= 0], np.asarray(brokers, np.int32)]
        self.state = self._load(
            pa.table({"broker_id": pa.array(distinct_ids(named))}), pa.table(topics), controller
        )

    def _cast(self, name: str, values: pa.Array) -> pa.Array:
        kind = TYPES[name]
        try:
            return (values if self.complete else values.filter(self.valid)).cast(kind)
        except pa.ArrowException as error:
            found, right = (from_arrow_type(t).simpleString() for t in (values.type, kind))
            # A Spark user sees the whole chain, and Arrow's part of it says nothing more.
            raise InputError(
                f"column {name} is {found}; right is {right}, or what fits it: {error}"
            ) from None

    def _load(self, brokers: pa.Table, topics: pa.Table, controller: str) -> ClusterState:
        settings = ClusterState.from_tables()
        change_controller(settings, controller, elr=self.has_elr or None)
        cluster = settings.to_tables().cluster.drop_columns(["configurations"])
        try:
            return ClusterState.from_tables(
                brokers, topics, pa.table(self.columns), cluster, source="a batch of the DataFrame"
            )
        except InputError as error:
            raise InputError(_with_row(str(error), self.columns)) from None

    def check_fault(self, rows: npt.NDArray[np.intp]) -> None:
        """Refuse rows by which Kafka's controller would fail."""
        if rows.size:
            raise InputError(_with_row(f"partition row {rows[0]} cannot be built", self.columns))

    def answer(self) -> pa.StructArray:
        """Columns of `RESULT`, null again where `replicas` was."""
        state = self.state
        records = state.records
        rows = np.arange(state.n_partitions, dtype=np.int32)
        states = records["partition_state"].astype(np.int32)
        if state.is_kraft:
            online, offline = int(PartitionState.ONLINE), int(PartitionState.OFFLINE)
            states = np.where(records["leader"] >= 0, online, offline).astype(np.int32)
        fields = [
            pa.array(ids_of(state, records["leader"])),
            pa.array(np.ascontiguousarray(records["leader_epoch"])),
            members(state, rows, records["isr"]),
            pa.DictionaryArray.from_arrays(
                pa.array(states), PARTITION_STATE_NAMES
            ).cast(pa.string()),
        ]
        if self.has_elr:
            elrs = partition_columns(state, rows)
            fields += [elrs["elr"], elrs["last_known_elr"]]
        result = ELR_RESULT if self.has_elr else RESULT
        answer = pa.StructArray.from_arrays(fields, fields=list(result))
        if self.complete:
            return answer
        place = pc.subtract(pc.cumulative_sum(self.valid.cast(pa.int32())), 1)
        return answer.take(pc.if_else(self.valid, place, pa.scalar(None, pa.int32())))


def _min_isr(
    replicas: pa.ListArray, min_insync_replicas: pa.Array | None
) -> npt.NDArray[np.int64]:
    """(n,) min.insync.replicas of each row, at most as many as it has replicas."""
    most: npt.NDArray[np.int64] = np.diff(replicas.offsets.to_numpy()).astype(np.int64)
    minimum = np.ones(1, np.int32)
    if min_insync_replicas is not None:
        minimum = pc.fill_null(min_insync_replicas, 1).to_numpy()
    if minimum.size and minimum.min() < 1:
        raise InputError(f"column min_insync_replicas has {minimum.min()}; at least 1 is allowed")
    return np.minimum(most, minimum)


def _directories(
    replicas: pa.ListArray, dead_keys: npt.NDArray[np.int64]
) -> pa.ListArray:
    """Directories of replicas: those of a row's dead brokers are lost."""
    begin, ids = _items("replicas", replicas)
    lost = np.isin(_row_keys(begin, ids), dead_keys).astype(np.int8)
    texts = pa.DictionaryArray.from_arrays(pa.array(lost), pa.array([UNASSIGNED, LOST]))
    return pa.ListArray.from_arrays(pa.array(begin), texts.cast(pa.string()))


def _row_keys(begin: npt.NDArray[np.int32], ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """(m,) one number for each row and id."""
    lengths = np.diff(begin)
    rows = np.repeat(np.arange(lengths.size, dtype=np.int64), lengths)
    return (rows << 32) + ids


def _with_row(message: str, columns: dict[str, Any]) -> str:
    """Say what stands in the row of a batch that is refused: its number alone finds no row."""
    row = re.search(r"partitions? row (\d+)", message)
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
