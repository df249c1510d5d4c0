"""Topics and partitions are created, or topics vanish.

Source: docs/controller.md, section 6.4; Kafka 3.9, `KafkaController.processTopicChange`,
`processPartitionModifications`, `onNewPartitionCreation`. The public functions are methods of
`Controller`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast import arguments, schema
from kfast.controllers.zk.engine import ZkEngine
from kfast.errors import ArgumentError
from kfast.journal import Outcome
from kfast.kernels import deletion
from kfast.schema import PartitionState, ReplicaState, Strategy
from kfast.state import ClusterState, mutators, partition_rows
from kfast.state.records import Rows
from kfast.state.settings import TOPIC_SETTINGS

UNSET = -1
"""The value of a configuration that a topic does not have: the brokers' default is in force."""


def on_topic_change(
    engine: ZkEngine,
    created: Mapping[str, Mapping[int, Sequence[int]]] | pa.Table | None = None,
    gone: Sequence[str] = (),
    *,
    configs: Mapping[str, Mapping[str, object]] | None = None,
) -> Outcome:
    """The list of topics changed: new ones are set up, vanished ones forgotten (section 6.4)."""
    state = engine.state
    new = as_table({} if created is None else created)
    check_created(state, new, exists=False)
    parsed = {} if configs is None else parse_configs(new, configs)
    lost = state.find_topics(gone)

    def steps() -> None:
        remove_topics(engine, lost)
        rows = set_assignments(state, new)
        set_configs(state, parsed)
        on_new_partition_creation(engine, np.sort(rows))

    return engine.attempt("on_topic_change", steps)


def on_partition_modifications(
    engine: ZkEngine, topic: str, assignments: Mapping[int, Sequence[int]]
) -> Outcome:
    """A topic got more partitions (section 6.4, topic node modified)."""
    state = engine.state
    (topic,) = arguments.check_topics("topic", [topic])
    new = as_table({topic: assignments})
    check_created(state, new, exists=True)
    new = without_replicas(state, new)
    if state.topic_queued_for_deletion[state.find_topics([topic])[0]]:
        new = new.slice(0, 0)

    def steps() -> None:
        on_new_partition_creation(engine, np.sort(set_assignments(state, new)))

    return engine.attempt("on_partition_modifications", steps)


def on_new_partition_creation(engine: ZkEngine, rows: Rows) -> None:
    """`onNewPartitionCreation` of section 6.4, on ascending rows."""
    partitions = engine.partition_state_machine
    replicas = engine.replica_state_machine
    state, checked = engine.state, engine.checked
    checked(partitions.run(rows, PartitionState.NEW))
    checked(replicas.run(state.replicas_of(rows), ReplicaState.NEW))
    checked(partitions.run(rows, PartitionState.ONLINE, Strategy.OFFLINE))
    checked(replicas.run(state.replicas_of(rows), ReplicaState.ONLINE))


def as_table(created: Mapping[str, Mapping[int, Sequence[int]]] | pa.Table) -> pa.Table:
    """New partitions as a table of topic, partition and replicas."""
    if isinstance(created, pa.Table):
        table = arguments.assignments_in("created", created)
    elif isinstance(created, Mapping) and all(isinstance(c, Mapping) for c in created.values()):
        keys = [(topic, number) for topic, parts in created.items() for number in parts]
        lists = [ids for parts in created.values() for ids in parts.values()]
        table = arguments.assignments_of("created", keys, lists)
    else:
        raise ArgumentError(
            f"created is {arguments.shown(created)}: a mapping of topics to mappings of partitions "
            "to broker ids is needed, or a table"
        )
    if table.column("replicas").null_count:
        raise ArgumentError("created has a partition without a list of broker ids")
    numbers = table.column("partition").to_numpy().astype(np.int64)
    arguments.check_range("partitions of created", numbers, 0, arguments.MAX_INT)
    return table


def parse_configs(new: pa.Table, configs: Any) -> dict[str, list[int]]:
    """Return the configurations of created topics: values in the order of `TOPIC_SETTINGS`."""
    if not isinstance(configs, Mapping) or not all(
        isinstance(config, Mapping) for config in configs.values()
    ):
        raise ArgumentError(
            f"configs is {arguments.shown(configs)}: a mapping of topics to mappings of configs to "
            "values is needed"
        )
    created = set(pc.unique(new.column("topic")).to_pylist())
    parsed = {}
    for topic, config in configs.items():
        if topic not in created:
            raise ArgumentError(
                f"configs names topic {arguments.shown(topic)}, which this call does not create"
            )
        for name in config:
            if name not in TOPIC_SETTINGS:
                raise ArgumentError(
                    f"configs of topic {topic!r} has {arguments.shown(name)}, which kfast does not "
                    f"use; these are: {', '.join(TOPIC_SETTINGS)}"
                )
        parsed[topic] = [
            int(parse(f"{name} of topic {topic!r}", config[name])) if name in config else UNSET
            for name, parse in TOPIC_SETTINGS.items()
        ]
    return parsed


def set_configs(state: ClusterState, configs: Mapping[str, list[int]]) -> None:
    """Replace the configurations of some topics by what `parse_configs` made of them."""
    if not configs:
        return
    topics = state.find_topics(list(configs))
    values = dict(zip(TOPIC_SETTINGS, np.array(list(configs.values()), np.int32).T, strict=True))
    state.topic_min_insync_replicas[topics] = values["min.insync.replicas"]
    state.topic_unclean_leader_election[topics] = values["unclean.leader.election.enable"]
    state.refresh_unclean()


def check_created(state: ClusterState, new: pa.Table, *, exists: bool) -> None:
    """Check topics and assignments of new partitions before anything changes."""
    names = pc.unique(new.column("topic"))
    rows = state.lookup.topics(names.to_pylist())
    known = np.zeros(rows.size, np.bool_)
    known[rows >= 0] = state.topic_exists[rows[rows >= 0]]
    wrong = known != exists
    if wrong.any():
        name = names[int(np.argmax(wrong))].as_py()
        raise ArgumentError(f"topic {name!r} {'is unknown' if exists else 'exists already'}")
    lists = new.column("replicas").combine_chunks()
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    values = lists.flatten().to_numpy(zero_copy_only=False)
    if values.size and values.min() < 0:
        raise ArgumentError(f"replicas names broker {values.min()}; broker ids are 0 or more")
    owner = np.repeat(np.arange(lengths.size), lengths.astype(np.int64))
    order = np.lexsort((values, owner))
    same = (values[order][1:] == values[order][:-1]) & (owner[order][1:] == owner[order][:-1])
    if same.any():
        at = int(owner[order][1:][np.argmax(same)])
        raise ArgumentError(
            f"replicas of {new.column('topic')[at].as_py()}-{new.column('partition')[at].as_py()} "
            "names a broker twice"
        )


def without_replicas(state: ClusterState, new: pa.Table) -> pa.Table:
    """The new partitions that have no replicas yet."""
    rows = state.lookup.rows_of_table(new)
    has = np.zeros(rows.size, np.bool_)
    has[rows >= 0] = state.records["n_replicas"][rows[rows >= 0]] > 0
    return new.filter(pa.array(~has))


def set_assignments(state: ClusterState, new: pa.Table) -> Rows:
    """Add the rows that are missing and give each its assignment."""
    if not new.num_rows:
        return np.empty(0, np.int32)
    named = new.column("topic").combine_chunks().dictionary_encode()
    topics = partition_rows.add_topics(state, named.dictionary.to_pylist())
    state.topic_flags[topics] |= schema.TOPIC_EXISTS
    numbers = new.column("partition").to_numpy().astype(np.int32)
    rows = partition_rows.add_rows(state, topics[named.indices.to_numpy()], numbers)
    state.set_assignments(rows, new.column("replicas").combine_chunks())
    return rows


def remove_topics(engine: ZkEngine, topics: Rows) -> None:
    """`remove_topic` of section 1.6: states of partitions and replicas are left alone."""
    state = engine.state
    if not topics.size:
        return
    mutators.flag_topics(state, topics, schema.TOPIC_QUEUED)
    parts = [state.lookup.rows_of_topic(topic) for topic in topics.tolist()]
    rows = np.sort(np.concatenate(parts))
    state.forget_survey()
    state.n_led -= deletion.forget_partitions(state.columns, rows)
    for row in [r for r in state.unwritten_assignments if state.topic_row[r] in topics]:
        del state.unwritten_assignments[row]
    state.topic_flags[topics] &= schema.TOPIC_UNCLEAN | schema.TOPIC_INELIGIBLE
    mutators.note_queued(state)
    named = np.ones(state.n_topics, np.bool_)
    named[topics] = False
    state.topic_id = pc.if_else(pa.array(named), state.topic_id, pa.scalar(None, pa.string()))
    state.refresh_rows(rows)
    if engine.store is not None:
        engine.store.forget(rows)
