"""From Arrow tables to a `ClusterState`: checks, Kafka's defaults, slots.

What a table does not say gets Kafka's default, and every default is listed in
`ClusterState.assumptions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast import schema
from kfast.errors import ArgumentError, InputError
from kfast.kernels import tables as kernels
from kfast.schema import PartitionState
from kfast.state import flat_table, mutators, quorum_flat, quorum_tables
from kfast.state.arrays import StateArrays
from kfast.state.records import Rows
from kfast.state.table_columns import (
    ListColumn,
    TableColumns,
    absent_names,
    distinct_ids,
    ids_to_rows,
    place_brokers,
)

Small = tuple[TableColumns, TableColumns, TableColumns]
"""Tables of the cluster, the topics and the brokers."""

LISTS = (
    "replicas", "isr", "adding", "removing", "offline_dir", "replica_state_broker_ids", "elr",
)
STATE_COLUMNS = (
    "partition_state", "has_leadership", "being_reassigned", "offline_dir",
    "replica_state_broker_ids", "replica_states",
)
"""What only the controller in ZooKeeper mode has."""
ALL_REGISTERED = "no brokers are given: every broker that a partition names is registered"
LEADERS_ASSUMED = "the leader of"
"""What is assumed where a source names no leaders begins with these words."""


def load(
    state: StateArrays, brokers: pa.Table | None, topics: pa.Table | None,
    partitions: pa.Table | None, cluster: pa.Table | None, source: str | None,
    notes: Sequence[str] = (), layout: str | None = None,
) -> None:
    """Fill an empty state from tables; see `ClusterState.from_tables`.

    Flat partitions that are as kfast writes them (rows in order, brokers listed, nothing null) are
    filled in as they are. Others are turned into the form with lists, which is taken or refused.
    """
    small = (
        TableColumns(cluster, schema.CLUSTER_SCHEMA, "cluster", source),
        TableColumns(topics, schema.TOPICS_SCHEMA, "topics", source),
        TableColumns(brokers, schema.BROKERS_SCHEMA, "brokers", source),
    )
    _load_cluster(state, small[0])
    assumptions = list(notes)
    if partitions is not None and flat_table.is_flat(partitions):
        if brokers is not None and flat_table.is_plain(partitions) and load_flat(
            state, small, partitions, source, assumptions, layout
        ):
            return
        partitions = flat_table.to_lists(partitions, source, _is_kraft(state))
        assumptions = list(notes)
    if partitions is not None:
        partitions = _of_controller(state, partitions, source)
    _load_lists(state, small, partitions, source, assumptions, layout)


def load_flat(
    state: StateArrays, small: Small, table: pa.Table, source: str | None, assumptions: list[str],
    layout: str | None,
) -> bool:
    """Fill in a flat table without nulls; False where it is not as kfast writes it."""
    settings, topics, brokers = small
    wanted = flat_table.flat_schema(table.column_names)
    rows = TableColumns(table, wanted, "partitions", source)
    topic = rows.dictionary("topic")
    directories = quorum_flat.directory_columns(wanted.names)
    texts = {"topic", *directories}
    columns = {name: rows.integers(name, 0) for name in wanted.names if name not in texts}
    columns["topic"] = topic.indices.to_numpy(zero_copy_only=False)
    place_of_topic = _load_topics(state, topics, topic.dictionary)
    if not _is_kraft(state):
        _report_defaults(state, settings, assumptions)
    _load_brokers(state, brokers, [], assumptions)
    if _is_kraft(state):
        quorum_tables.load_quorum(state, settings, brokers)
        _report_defaults(state, settings, assumptions)
    n_slots = flat_table.count_slots(table.column_names, source)
    flat_table.allocate(state, rows.n_rows, n_slots, _is_narrow(state, n_slots, layout))
    place = place_brokers(state.broker_id)
    if place is None or not _fill_flat(state, columns, place, place_of_topic):
        return False
    listed = [rows.dictionary(name) for name in directories]
    if not quorum_flat.fill_columns(state, columns, listed, place):
        return False
    _finish(state, assumptions)
    state.recount()
    return True


def _fill_flat(
    state: StateArrays, columns: Mapping[str, npt.NDArray[Any]], place: Rows,
    place_of_topic: Rows | None,
) -> bool:
    """Fill all rows; False where they cannot be."""
    flat = {name: np.ascontiguousarray(column, np.int32) for name, column in columns.items()}
    topic = flat["topic"]
    if place_of_topic is not None and topic.size:
        # Arrow does not look at the places in a damaged file's dictionary of topics.
        if not 0 <= topic.min() <= topic.max() < place_of_topic.size:
            return False
        topic = place_of_topic[topic]
    state.topic_row[:], state.partition[:] = topic, flat["partition"]
    return flat_table.fill_columns(state, flat, place)


def _load_lists(
    state: StateArrays, small: Small, table: pa.Table | None, source: str | None,
    assumptions: list[str], layout: str | None,
) -> None:
    """Fill in a table of partitions with lists."""
    settings, topics, brokers = small
    rows = TableColumns(table, schema.PARTITIONS_SCHEMA, "partitions", source)
    topic = rows.dictionary("topic")
    place = _load_topics(state, topics, topic.dictionary)
    rows.refuse_nulls("topic")
    named: Rows = np.array(topic.indices, np.int32)
    state.topic_row = named if place is None else place[named]
    if not _is_kraft(state):
        _report_defaults(state, settings, assumptions)
    lists = _read_lists(rows, assumptions)
    leader_ids = _read_leaders(rows, lists["replicas"], assumptions)
    last_known = rows.list_column("last_known_elr")
    ids = [*(column.values for column in lists.values()), leader_ids[leader_ids >= 0],
           last_known.values[last_known.values >= 0]]
    _load_brokers(state, brokers, ids, assumptions)
    if _is_kraft(state):
        quorum_tables.load_quorum(state, settings, brokers)
        _report_defaults(state, settings, assumptions)
    _load_partitions(state, rows, lists, leader_ids, layout)
    quorum_tables.load_members(
        state, rows, lists["isr"], lists["elr"], last_known, lists["replicas"]
    )
    _report_unassigned(state, rows, assumptions)
    _finish(state, assumptions)
    state.recount()


def _finish(state: StateArrays, assumptions: list[str]) -> None:
    state.assumptions = tuple(assumptions)
    state.refresh_unclean()
    mutators.note_queued(state)


def _load_cluster(state: StateArrays, table: TableColumns) -> None:
    """Fill in the settings."""
    for column in schema.CLUSTER:
        value = table.scalar(column.name)
        if value is not None:
            setattr(state, column.name, value)
    if state.controller not in schema.CONTROLLERS:
        raise InputError(
            f"{table.where(0)}: controller {state.controller!r} is unknown; allowed: "
            f"{', '.join(schema.CONTROLLERS)}"
        )


def _is_kraft(state: StateArrays) -> bool:
    return state.controller.startswith("kraft-")


def _of_controller(state: StateArrays, partitions: pa.Table, source: str | None) -> pa.Table:
    """Partitions without what their controller does not have: KRaft knows no states."""
    if _is_kraft(state):
        return partitions.drop_columns(
            [name for name in STATE_COLUMNS if name in partitions.column_names]
        )
    rows = TableColumns(partitions, schema.PARTITIONS_SCHEMA, "partitions", source)
    for name in ("elr", "last_known_elr"):
        if rows.list_column(name).values.size:
            raise InputError(
                f"{rows.source}: column {name} of partitions says something that only KRaft has;"
                f" the controller is {state.controller}"
            )
    return partitions


def _report_defaults(state: StateArrays, table: TableColumns, assumptions: list[str]) -> None:
    """Say which settings of the brokers are not given, and for how many topics that matters."""
    configured = () if state.quorum is None else state.quorum.default_keys
    given = {setting: table.scalar(column) is not None for setting, column in (
        ("min.insync.replicas", "default_min_insync_replicas"),
        ("unclean.leader.election.enable", "default_unclean_leader_election"),
    )} | dict.fromkeys(configured, True)
    assumptions += [
        sentence for setting, sentence in default_sentences(state).items() if not given[setting]
    ]


def default_sentences(state: StateArrays) -> dict[str, str]:
    """For each setting that some topics leave to the brokers, that Kafka's default is taken."""
    sentences = {}
    for setting, default, own in (
        ("min.insync.replicas", "1", state.topic_min_insync_replicas),
        ("unclean.leader.election.enable", "false", state.topic_unclean_leader_election),
    ):
        unset = int(np.count_nonzero(own < 0))
        if unset == 0:
            continue
        if unset < own.size:
            topics = f"{unset} of {own.size} topics; the others have their own value"
        else:
            topics = "the topic" if unset == 1 else f"all {unset} topics"
        sentences[setting] = (
            f"{setting} of the brokers is not given: {default}, Kafka's default, is taken for"
            f" {topics}"
        )
    return sentences


def _load_topics(state: StateArrays, table: TableColumns, named: pa.StringArray) -> Rows | None:
    """Fill in the topics of their table, then those that partitions name besides.

    Returns
    -------
    (n,) int32 or None
        Topic rows of what partitions name; None where they name all topics in order.
    """
    names = table.strings("topic") if table.given("topic") else pa.array([], pa.string())
    table.refuse_nulls("topic")
    if len(names) != len(pc.unique(names)):
        raise InputError(f"{table.where(table.first_repeat(names))}: the topic stands twice")
    same = named.equals(names)
    extra = names[:0] if same else absent_names(named, names)
    state.topic = names if same else pa.concat_arrays([names, extra])
    n, unnamed = len(state.topic), pa.nulls(len(extra), pa.string())
    state.topic_id = pa.concat_arrays([table.strings("topic_id"), unnamed])
    state.topic_unclean_leader_election = np.full(n, -1, np.int8)
    state.topic_min_insync_replicas = np.full(n, -1, np.int32)
    state.topic_flags = np.full(max(n, 1), schema.TOPIC_EXISTS, np.uint8)
    given = slice(0, len(names))
    state.topic_unclean_leader_election[given] = table.integers("unclean_leader_election", -1)
    state.topic_min_insync_replicas[given] = table.integers("min_insync_replicas", -1)
    flags = schema.TOPIC_EXISTS * table.integers("exists", 1)
    flags |= schema.TOPIC_QUEUED * table.integers("queued_for_deletion", 0)
    flags |= schema.TOPIC_STARTED * table.integers("deletion_started", 0)
    flags |= schema.TOPIC_INELIGIBLE * table.integers("ineligible", 0)
    state.topic_flags[given] = flags
    return None if same else np.asarray(pc.index_in(named, value_set=state.topic), np.int32)


def _read_lists(rows: TableColumns, assumptions: list[str]) -> dict[str, ListColumn]:
    lists = {name: rows.list_column(name) for name in LISTS}
    missing = rows.n_null("isr") if rows.given("isr") else rows.n_rows
    if missing:
        assumptions.append(
            f"the ISR of {missing} partitions is not given: all assigned replicas are taken"
        )
        lists["isr"] = rows.list_column("isr", otherwise="replicas")
    return lists


def _read_leaders(rows: TableColumns, replicas: ListColumn, assumptions: list[str]) -> Rows:
    leaders = rows.integers("leader", schema.NO_LEADER).copy()
    unknown = ~rows.valid("leader")
    if unknown.any():
        first = np.full(rows.n_rows, schema.NO_LEADER, np.int32)
        some = replicas.offsets[1:] > replicas.offsets[:-1]
        first[some] = replicas.values[replicas.offsets[:-1][some]]
        leaders[unknown] = first[unknown]
        assumptions.append(
            f"{LEADERS_ASSUMED} {int(unknown.sum())} partitions is not given: "
            "the first assigned replica is taken"
        )
    wrong = np.flatnonzero(leaders < schema.NO_LEADER)
    if wrong.size:
        raise InputError(
            f"{rows.where(int(wrong[0]))}: leader {leaders[wrong[0]]} is not a broker id; "
            "allowed: 0 or more, -1 for none"
        )
    return leaders


def _load_brokers(
    state: StateArrays, table: TableColumns, named: list[Rows], assumptions: list[str]
) -> None:
    """Fill in the brokers: those of their table, then those that only partitions name."""
    ids = table.integers("broker_id", -1)
    table.refuse_nulls("broker_id")
    if ids.size != np.unique(ids).size:
        raise InputError(f"{table.where(table.first_repeat(pa.array(ids)))}: broker stands twice")
    if ids.size and ids.min() < 0:
        raise InputError(f"{table.where(int(ids.argmin()))}: broker id {ids.min()} is negative")
    listed = ids.astype(np.int32)
    appearing = absent_names(
        pa.array(distinct_ids(named)),
        pa.array(listed),
    ).to_numpy(zero_copy_only=False)
    if table.table is None:
        if appearing.size:
            assumptions.append(ALL_REGISTERED)
    elif appearing.size:
        shown = ", ".join(map(str, appearing[:8].tolist()))
        assumptions.append(f"brokers named by partitions but not listed are not registered: {shown}"
                    + (f" and {appearing.size - 8} more" if appearing.size > 8 else ""))
    everyone = np.concatenate([listed, appearing.astype(np.int32)])
    order = np.argsort(everyone, kind="stable")
    present = np.full(everyone.size, 1 if table.table is None else 0, np.uint8)
    status = schema.BROKER_REGISTERED * table.integers("registered", 1)
    status |= schema.BROKER_SHUTTING_DOWN * table.integers("shutting_down", 0)
    present[: listed.size] = status
    epoch = np.zeros(everyone.size, np.int64)
    epoch[: listed.size] = table.integers("epoch", 0)
    racks = pa.concat_arrays([table.strings("rack"), pa.nulls(appearing.size, pa.string())])
    state.broker_id = everyone[order]
    state.broker_status = present[order] if order.size else np.zeros(1, np.uint8)
    state.broker_epoch = epoch[order]
    state.rack = racks.take(pa.array(order))


def _load_partitions(
    state: StateArrays, rows: TableColumns, lists: dict[str, ListColumn], leader_ids: Rows,
    layout: str | None,
) -> None:
    state.partition = rows.integers("partition", -1).copy()
    _check_keys(state, rows)
    for name, column in lists.items():
        if column.values.size and column.values.min() < 0:
            item = int(column.values.argmin())
            row = int(np.searchsorted(column.offsets, item, side="right")) - 1
            raise InputError(
                f"{rows.where(row)}: {name} names broker {column.values[item]}; "
                "broker ids are 0 or more"
            )
    leaders = ids_to_rows(state.broker_id, leader_ids)
    present = [at for at, name in enumerate(LISTS) if lists[name].values.size]
    offsets, values = _stack(state, [lists[LISTS[at]] for at in present], rows.n_rows)
    n_slots = _count_slots(state, rows, present, offsets, values, leaders)
    _allocate(state, rows.n_rows, n_slots, _is_narrow(state, n_slots, layout))
    state.records["leader"] = leaders
    _fill_records(state, rows)
    states = rows.list_values("replica_states", np.int8)
    _check_states(state, rows, lists["replica_state_broker_ids"])
    kernels.fill_slots(
        state.records, state.replicas, state.replica_state, offsets,
        np.asarray(present, np.int32), values, states,
    )
    _note_orders(state, lists)


def _check_states(state: StateArrays, rows: TableColumns, brokers: ListColumn) -> None:
    """Refuse a partition that has more or fewer replica states than brokers for them."""
    states = np.diff(rows.list_column("replica_states").offsets)
    named = np.diff(brokers.offsets)
    wrong = np.flatnonzero(states != named)
    if wrong.size:
        row = int(wrong[0])
        raise InputError(
            f"{rows.where(row)}: replica_states of {_label(state, row)} has {states[row]} states "
            f"for {named[row]} brokers; one each is right"
        )


def _stack(
    state: StateArrays, columns: list[ListColumn], n: int
) -> tuple[npt.NDArray[np.int32], Rows]:
    """Offsets (L, n+1) into one array of broker rows, for the list columns that say something."""
    offsets = np.empty((len(columns), n + 1), np.int32)
    values = np.empty(sum(column.values.size for column in columns), np.int32)
    at = 0
    for row, column in enumerate(columns):
        np.add(column.offsets, at, out=offsets[row])
        values[at : at + column.values.size] = ids_to_rows(state.broker_id, column.values)
        at += column.values.size
    return offsets, values


def _note_orders(state: StateArrays, lists: dict[str, ListColumn]) -> None:
    for name in ("adding", "removing"):
        given = lists[name]
        for row in np.flatnonzero(np.diff(given.offsets) > 1).tolist():
            ids = given.values[given.offsets[row] : given.offsets[row + 1]]
            mutators.note_order(state, name, row, ids.tolist())


def _check_keys(state: StateArrays, rows: TableColumns) -> None:
    rows.refuse_nulls("partition")
    negative = np.flatnonzero(state.partition < 0)
    if negative.size:
        row = int(negative[0])
        raise InputError(f"{rows.where(row)}: partition {state.partition[row]} is negative")
    keys = (state.topic_row.astype(np.int64) << 32) | state.partition
    if keys.size > 1 and not (keys[1:] > keys[:-1]).all():
        order = np.argsort(keys, kind="stable")
        same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
        if same.size:
            # The second mention that comes first in the source is the one to name.
            second = int(order[1:][same].min())
            at = int(np.searchsorted(keys[order], keys[second]))
            raise InputError(
                f"{rows.where(second)}: partition {_label(state, second)} stands twice, first at "
                f"{rows.where(int(order[at]), short=True)}; each partition may stand once"
            )


def _label(state: StateArrays, row: int) -> str:
    return f"{state.topic[int(state.topic_row[row])].as_py()}-{state.partition[row]}"


def _count_slots(
    state: StateArrays, rows: TableColumns, present: list[int], offsets: npt.NDArray[np.int32],
    values: Rows, leaders: Rows,
) -> int:
    counts = np.zeros(rows.n_rows, np.uint8)
    wrong = np.zeros(3, np.int32)
    found = kernels.count_slots(offsets, values, leaders, counts, wrong)
    row = int(wrong[0])
    if found == 1:
        name = LISTS[present[wrong[1]]]
        name = {"replicas": "Replicas", "isr": "Isr"}.get(name, name)
        raise InputError(
            f"{rows.where(row)}: {name} of {_label(state, row)} names broker "
            f"{state.broker_id[wrong[2]]} twice; each broker may stand once"
        )
    if found == 2:
        raise InputError(
            f"{rows.where(row)}: {_label(state, row)} names more than {schema.MAX_SLOTS} brokers; "
            f"at most {schema.MAX_SLOTS} are allowed"
        )
    return max(int(counts.max()) if counts.size else 1, 1)


def _is_narrow(state: StateArrays, n_slots: int, layout: str | None) -> bool:
    """Which layout holds the state: the narrow one where it fits, unless another is asked for."""
    if layout not in (None, "narrow", "wide"):
        raise ArgumentError(f"layout {layout!r} is unknown; allowed: 'narrow', 'wide'")
    fits = n_slots <= schema.NARROW_SLOTS and state.n_brokers < schema.NARROW_BROKERS
    if layout == "narrow" and not fits:
        raise ArgumentError(
            f"layout 'narrow' holds {schema.NARROW_SLOTS} brokers a partition and fewer than "
            f"{schema.NARROW_BROKERS} in all; here are {n_slots} and {state.n_brokers}"
        )
    return fits and layout != "wide"


def _allocate(state: StateArrays, n: int, n_slots: int, narrow: bool) -> None:
    null = schema.NARROW_BROKERS if narrow else -1
    state.records = np.zeros(n, schema.record_dtype(narrow))
    state.replicas = np.full((n, n_slots), null, schema.broker_dtype(narrow))
    state.replica_state = np.zeros((n, n_slots), np.uint8)


def _fill_records(state: StateArrays, rows: TableColumns) -> None:
    for name in ("leader_epoch", "version", "controller_epoch"):
        state.records[name] = rows.integers(name, 0)
    state.records["partition_state"] = rows.integers(
        "partition_state", int(PartitionState.NO_ENTRY)
    )
    assigned = rows.valid("replicas")
    led = assigned | rows.valid("leader")
    if rows.given("has_leadership"):
        stated = rows.integers("has_leadership", -1)
        led = np.where(stated < 0, led, stated > 0)
    flags = state.records["flags"]
    for bit, holds in (
        (schema.FLAG_ASSIGNED, assigned),
        (schema.FLAG_HAS_LEADERSHIP, led),
        (schema.FLAG_RECOVERY, rows.integers("recovery", 0) > 0),
        (schema.FLAG_BEING_REASSIGNED, rows.integers("being_reassigned", 0) > 0),
    ):
        flags[holds] |= bit


def _report_unassigned(state: StateArrays, rows: TableColumns, assumptions: list[str]) -> None:
    isr: npt.NDArray[Any] = state.records["isr"].astype(np.uint64)
    beyond = isr >> state.records["n_replicas"].astype(np.uint64)
    beyond[state.records["n_replicas"] >= schema.MAX_SLOTS] = 0
    found = np.flatnonzero(beyond)
    for row in found[:8].tolist():
        n = int(state.records["n_replicas"][row])
        names = state.ids_of(row, int(isr[row]) >> n << n)
        assumptions.append(
            f"{rows.where(row)}: the ISR of {_label(state, row)} names "
            f"{', '.join(map(str, names))}, which is not assigned; kept"
        )
    if found.size > 8:
        assumptions.append(
            f"{found.size - 8} more partitions have ISR members that are not assigned; kept"
        )


def load_assignment(
    state: StateArrays, broker_id: Rows, rack: pa.StringArray | None, topic: pa.StringArray,
    topic_row: Rows, partition: Rows, replicas: npt.NDArray[Any],
    topic_min_insync_replicas: Rows | None,
    topic_unclean_leader_election: npt.NDArray[np.int8] | None,
) -> None:
    """Fill an empty state from an assignment; see `ClusterState.from_assignment`."""
    n, rf = replicas.shape
    n_topics = len(topic)
    state.broker_id = broker_id
    state.rack = pa.nulls(broker_id.size, pa.string()) if rack is None else rack
    state.broker_status = np.full(broker_id.size, schema.BROKER_REGISTERED, np.uint8)
    state.broker_epoch = np.zeros(broker_id.size, np.int64)
    state.topic, state.topic_id = topic, pa.nulls(n_topics, pa.string())
    state.topic_flags = np.full(max(n_topics, 1), schema.TOPIC_EXISTS, np.uint8)
    state.topic_min_insync_replicas = (
        np.full(n_topics, -1, np.int32) if topic_min_insync_replicas is None
        else topic_min_insync_replicas
    )
    state.topic_unclean_leader_election = (
        np.full(n_topics, -1, np.int8) if topic_unclean_leader_election is None
        else topic_unclean_leader_election
    )
    # Events write into the columns: what the caller may only read is copied.
    state.topic_row, state.partition, state.replicas = (
        np.require(array, requirements=["C", "W"]) for array in (topic_row, partition, replicas)
    )
    state.replica_state = np.zeros((n, rf), np.uint8)
    state.records = np.zeros(n, schema.record_dtype(replicas.dtype == np.uint16))
    state.records["leader"] = replicas[:, 0]
    state.records["isr"] = (1 << rf) - 1
    state.records["n_replicas"] = state.records["n_slots"] = rf
    state.records["partition_state"] = PartitionState.NO_ENTRY
    state.records["flags"] = schema.FLAG_ASSIGNED | schema.FLAG_HAS_LEADERSHIP
    state.refresh_unclean()
    state.leader_offline, state.pending = state.new_bitmap(), state.new_bitmap()
    state.n_led = n
