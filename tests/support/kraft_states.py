"""States of kfast that say what a twin's state says (`kraft_reference`)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import kfast
from kfast import schema
from kfast.state.registrations import PartitionRegistration
from tests.support.kraft_random import RandomSequence
from tests.support.kraft_reference import state as twin_state

LISTS = ("replicas", "isr", "removing", "adding", "elr", "last_known_elr")
NUMBERS = ("leader", "recovery", "leader_epoch")


def registrations(twin: twin_state.ClusterState) -> dict[tuple[str, int], PartitionRegistration]:
    """What the twin says of each partition."""
    return {
        (topic.name, number): partition
        for topic in twin.topics.values() for number, partition in topic.partitions.items()
    }


def state_of_twin(
    twin: twin_state.ClusterState, layout: Any = None
) -> kfast.ClusterState:
    """The same by way of `from_tables`; topics and partitions in the order of the twin."""
    brokers = [
        {
            "broker_id": broker.id, "rack": broker.rack, "epoch": broker.epoch,
            "fenced": broker.fenced, "in_controlled_shutdown": broker.in_controlled_shutdown,
            "incarnation_id": broker.incarnation_id, "directories": broker.directories,
            "cordoned": broker.cordoned,
            "registration_offset": twin.registration_offsets.get(broker.id),
            "feature_ranges": [
                {"name": name, "min": low, "max": high}
                for name, (low, high) in sorted(broker.features.items())
            ],
        }
        for broker in twin.brokers.values()
    ]
    partitions = [
        {
            "topic": topic, "partition": number, "version": held.partition_epoch,
            "directories": held.directories,
            **{name: getattr(held, name) for name in (*LISTS, *NUMBERS)},
        }
        for (topic, number), held in registrations(twin).items()
    ]
    topics = [
        {"topic": topic.name, "topic_id": topic.id} for topic in twin.topics.values()
    ]
    cluster = {
        "controller": twin.release.name, "controller_id": twin.controller_id,
        "features": [{"name": name, "level": level} for name, level in twin.features.items()],
        "configurations": [
            {"resource_type": kind, "resource": name, "key": key, "value": value}
            for (kind, name), values in twin.configs.items() for key, value in values.items()
        ],
        "static_configuration": [
            {"key": key, "value": value} for key, value in twin.static_config.items()
        ],
    }
    return kfast.ClusterState.from_tables(
        _table(brokers, schema.BROKERS_SCHEMA), _table(topics, schema.TOPICS_SCHEMA),
        _table(partitions, schema.PARTITIONS_SCHEMA), _table([cluster], schema.CLUSTER_SCHEMA),
        layout=layout,
    )


def _table(rows: list[dict[str, Any]], kinds: pa.Schema) -> pa.Table:
    names = list(rows[0]) if rows else kinds.names
    return pa.Table.from_pylist(rows, pa.schema([kinds.field(name) for name in names]))


def random_twin(seed: int, profile: str = "kraft-4.1", n_events: int = 25) -> Any:
    """A twin's state in the middle of a random sequence of events."""
    sequence = RandomSequence(seed, profile, 6, 6, 1 + 100 * (seed % 3 == 0))
    sequence.setup()
    for _ in range(n_events):
        if "fault" in sequence.run.run(sequence.draw()):
            break
    return sequence.run.controller.state
