"""A cluster as the records of a metadata log leave it, and the state of it.

Partitions and topics are kept by the kernel that reads the batches; the other records, which are
few, are applied here.

Source: docs/kraft.md, sections 1 and 2; Kafka 4.1, MetadataImage.java.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast import schema
from kfast.errors import InputError
from kfast.io.metadata.schema import VERSIONS
from kfast.io.text_columns import words_at
from kfast.kernels.metadata_log import MetadataDecoder, Misfit, Shape
from kfast.kernels.metadata_records import id_texts
from kfast.state import ClusterState, mutators
from kfast.state.arrow_views import empty
from kfast.state.flat_table import allocate
from kfast.state.kraft_releases import (
    KRAFT_VERSION,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
    RELEASES,
    UNCLEAN_LEADER_ELECTION,
    note_newer,
    release_of,
)
from kfast.state.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    Fencing,
    LeaderChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    ResourceType,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    sorted_directories,
)

__all__ = ["APPLIED", "MetadataImage"]

APPLIED = (
    RegisterBrokerRecord, UnregisterBrokerRecord, BrokerRegistrationChangeRecord,
    FenceBrokerRecord, UnfenceBrokerRecord, RemoveTopicRecord, ConfigRecord, FeatureLevelRecord,
    RegisterControllerRecord,
)
"""What the kernel lists for `MetadataImage.apply`."""

ID_BYTES, ID_CHARACTERS = 16, 22
NO_LEVEL = 0


class MetadataImage:
    """A cluster along a metadata log.

    Attributes
    ----------
    decoder : MetadataDecoder
        Reads the batches, and keeps topics and partitions.
    brokers : dict of int to RegisterBrokerRecord
        Registrations, with what changed in them since.
    registration_offsets : dict of int to int
        Of each broker, the offset of its last RegisterBroker record.
    controllers : dict of int to RegisterControllerRecord
    controller_id : int
        The active controller's node, -1 where nothing says it.
    features : dict of str to int
    configurations : dict of (int, str) to dict of str to str
    """

    def __init__(self) -> None:
        self.decoder = MetadataDecoder(VERSIONS)
        self.brokers: dict[int, RegisterBrokerRecord] = {}
        self.registration_offsets: dict[int, int] = {}
        self.controllers: dict[int, RegisterControllerRecord] = {}
        self.controller_id = -1
        self.features: dict[str, int] = {}
        self.configurations: dict[tuple[int, str], dict[str, str]] = {}

    # --- records

    def apply(self, record: MetadataRecord, offset: int) -> None:
        """Apply a record that the kernel does not. Source: section 2."""
        match record:
            case ConfigRecord():
                self._configure(record)
            case RegisterBrokerRecord():
                self.brokers[record.broker_id] = record
                self.registration_offsets[record.broker_id] = offset
            case UnregisterBrokerRecord():
                self.brokers.pop(record.broker_id, None)
            case FenceBrokerRecord() | UnfenceBrokerRecord():
                fenced = isinstance(record, FenceBrokerRecord)
                self._change_broker(record.id, offset, fenced=fenced)
            case BrokerRegistrationChangeRecord():
                self._change_registration(record, offset)
            case RemoveTopicRecord():
                name = self.decoder.name_of_topic(base64.urlsafe_b64decode(record.topic_id + "=="))
                self.configurations.pop((ResourceType.TOPIC, name or ""), None)
            case FeatureLevelRecord():
                self._finalize(record)
            case RegisterControllerRecord():
                self.controllers[record.controller_id] = record
            case LeaderChangeRecord():
                self.controller_id = record.leader_id

    def _configure(self, record: ConfigRecord) -> None:
        resource = record.resource_type, record.resource_name
        values = self.configurations.setdefault(resource, {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if not values:
            del self.configurations[resource]

    def _finalize(self, record: FeatureLevelRecord) -> None:
        if record.name == KRAFT_VERSION:
            return
        self.features[record.name] = record.feature_level
        if record.feature_level == NO_LEVEL:
            del self.features[record.name]

    def _change_registration(self, record: BrokerRegistrationChangeRecord, offset: int) -> None:
        changes: dict[str, Any] = {}
        if record.fenced is not None:
            changes["fenced"] = record.fenced == Fencing.FENCE
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = True
        if record.log_dirs:
            changes["log_dirs"] = record.log_dirs
        if record.cordoned_log_dirs is not None:
            changes["cordoned_log_dirs"] = record.cordoned_log_dirs
        self._change_broker(record.broker_id, offset, **changes)

    def _change_broker(self, broker_id: int, offset: int, **changes: Any) -> None:
        registration = self.brokers.get(broker_id)
        if registration is None:
            raise InputError(
                f"the record at offset {offset} changes the registration of broker {broker_id},"
                " which is not registered"
            )
        self.brokers[broker_id] = replace(registration, **changes)

    # --- what runs it

    def release(self, file: str) -> tuple[str, str]:
        """The release of the active controller, and from what that is concluded.

        It is the newest that the registration of the controllers supports; where none says that,
        the release whose metadata version is finalized.
        """
        level = self.features.get(METADATA_VERSION, 0)
        active = self.controllers.get(self.controller_id)
        chosen = self.controllers.values() if active is None else [active]
        supported = min((
            (c.features[METADATA_VERSION][1], c.controller_id)
            for c in chosen if METADATA_VERSION in c.features
        ), default=None)
        if supported is None and not level:
            return [*RELEASES][-1], f"assumed, for {file} says no {METADATA_VERSION} yet"
        if supported is None:
            return release_of(level), f"read from {METADATA_VERSION} {level} in {file}"
        return release_of(max(level, supported[0])), (
            f"read from the registration of controller {supported[1]} in {file}, which supports"
            f" {METADATA_VERSION} up to {supported[0]}; {level} is finalized"
        )

    # --- the state

    def to_state(self, source: str, notes: list[str]) -> ClusterState:
        """The cluster as a state: topics by name, the partitions of each by number.

        Parameters
        ----------
        source : str
            What messages call the log.
        notes : list of str
            What was assumed until now.

        Raises
        ------
        InputError
            The records contradict each other: a list names a broker twice, two topics have one
            name, a partition has more than 64 brokers or several last known leaders.
        """
        if self.controller_id < 0 and len(self.controllers) == 1:
            (self.controller_id,) = self.controllers
        topics, topic_row = self._topics()
        controller, reason = self.release(source)
        highest = [c.features[METADATA_VERSION][1] for c in self.controllers.values()
                   if METADATA_VERSION in c.features]
        newer = note_newer(max([self.features.get(METADATA_VERSION, 0), *highest]))
        assumptions = [f"controller: {reason}", *newer, *notes, *self._unknown_node()]
        cluster: dict[str, object] = {
            "controller": controller, "controller_id": self.controller_id,
            "features": [{"name": k, "level": v} for k, v in self.features.items()],
            "configurations": [
                {"resource_type": kind, "resource": name, "key": key, "value": value}
                for (kind, name), values in self.configurations.items()
                for key, value in values.items()
            ],
        }
        ids = self.decoder.broker_ids()
        state = ClusterState.from_tables(
            self._broker_table(ids), topics, None,
            pa.table({
                name: pa.array([value], schema.CLUSTER_SCHEMA.field(name).type)
                for name, value in cluster.items()
            }),
            source=source, notes=assumptions,
        )
        self._fill(state, source, topic_row, state.broker_rows(ids))
        return state

    def _unknown_node(self) -> list[str]:
        """A note where configurations of single brokers may count, or not."""
        named = sorted(
            name for (kind, name), values in self.configurations.items()
            if kind == ResourceType.BROKER and name
            and {MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION} & values.keys()
        )
        if self.controller_id >= 0 or not named:
            return []
        nodes = ", ".join(named)
        return [f"the active controller is unknown: configurations of node {nodes} do not count"]

    def _topics(self) -> tuple[pa.Table, npt.NDArray[np.int32]]:
        """The topics that exist, by name, and the row of each that ever was."""
        ids, names, places = self.decoder.topic_columns()
        texts = words_at(names, places[:, 0], places[:, 1].astype(np.int32))
        exists = np.flatnonzero(places[:, 2])
        order = exists[pc.sort_indices(texts.take(pa.array(exists))).to_numpy()]
        row = np.full(len(places), -1, np.int32)
        row[order] = np.arange(order.size)
        id_bytes = np.frombuffer(ids, np.uint8).reshape(-1, ID_BYTES)[order]
        characters = np.empty(order.size * ID_CHARACTERS, np.uint8)
        id_texts(np.ascontiguousarray(id_bytes.reshape(-1)), characters)
        at = np.arange(order.size, dtype=np.int64) * ID_CHARACTERS
        lengths = np.full(order.size, ID_CHARACTERS, np.int32)
        table = pa.table({
            "topic": texts.take(pa.array(order)),
            "topic_id": words_at(characters.tobytes(), at, lengths),
        })
        return table, row

    def _broker_table(self, named: npt.NDArray[np.int32]) -> pa.Table:
        """Brokers that are registered, and those that only partitions name."""
        ids = sorted({*named.tolist(), *self.brokers})
        rows = [self.brokers.get(broker) for broker in ids]
        columns: dict[str, list[object]] = {
            "broker_id": [*ids],
            "rack": [r and r.rack for r in rows],
            "registered": [r is not None for r in rows],
            "epoch": [r.broker_epoch if r else 0 for r in rows],
            "fenced": [r is not None and r.fenced for r in rows],
            "in_controlled_shutdown": [bool(r and r.in_controlled_shutdown) for r in rows],
            "incarnation_id": [r and r.incarnation_id for r in rows],
            "directories": [sorted_directories(r.log_dirs) if r else () for r in rows],
            "cordoned": [(r and r.cordoned_log_dirs) or () for r in rows],
            "registration_offset": [
                self.registration_offsets[b] if b in self.brokers else -1 for b in ids
            ],
            "feature_ranges": [
                [{"name": name, "min": low, "max": high}
                 for name, (low, high) in (r.features if r else {}).items()]
                for r in rows
            ],
        }
        return pa.table({
            name: pa.array(values, schema.BROKERS_SCHEMA.field(name).type)
            for name, values in columns.items()
        })

    def _fill(
        self, state: ClusterState, source: str, topic_row: npt.NDArray[np.int32],
        broker_row: npt.NDArray[np.int32],
    ) -> None:
        """Fill in the partitions of a state that has none."""
        rows = self.decoder.rows_in_order(topic_row)
        shape = np.empty(rows.size, np.uint8)
        n_slots, wrong = self.decoder.measure(rows, shape)
        if wrong >= 0:
            place, partition = self.decoder.key_of_row(int(rows[wrong]))
            topic = state.topic[int(topic_row[place])].as_py()
            raise InputError(f"{source}: {topic}-{partition} {_MISFITS[Misfit(n_slots)]}")
        narrow = n_slots <= schema.NARROW_SLOTS and state.n_brokers < schema.NARROW_BROKERS
        allocate(state, rows.size, n_slots, narrow)
        state.replica_state[:] = schema.ReplicaState.NO_ENTRY
        shapes = int(np.bitwise_or.reduce(shape))
        self._fill_rows(state, rows, shapes, topic_row, broker_row)
        for row in np.flatnonzero(shape & np.uint8(Shape.HAS_LONG_REASSIGNMENT)).tolist():
            adding, removing = self.decoder.reassignment_of(int(rows[row]))
            mutators.note_order(state, "adding", row, adding)
            mutators.note_order(state, "removing", row, removing)
        del self.decoder  # which takes as much as the state's arrays
        state._lookup = None
        state.recount()

    def _fill_rows(
        self, state: ClusterState, rows: npt.NDArray[np.int32], shapes: int,
        topic_row: npt.NDArray[np.int32], broker_row: npt.NDArray[np.int32],
    ) -> None:
        """Fill the records, the matrix, and of what is cold that which any partition has."""
        quorum, n, n_slots = state.quorum, rows.size, state.n_slots
        assert quorum is not None
        elr = empty(n if shapes & Shape.HAS_ELR else 0, state.records.dtype["isr"])
        last_known = empty(elr.size, np.int32)
        order = empty((n if shapes & Shape.HAS_ORDER else 0, n_slots), np.uint8)
        directory = empty((n if shapes & Shape.HAS_DIRECTORIES else 0, n_slots), np.int32)
        self.decoder.fill(
            rows, topic_row, broker_row, state.topic_row, state.records, state.replicas,
            state.partition, elr.view(np.uint8), last_known, order, directory,
        )
        if elr.size:
            quorum.elr, quorum.last_known_elr = elr, last_known
        if order.size:
            quorum.member_order = order
        if directory.size:
            ids = np.frombuffer(self.decoder.directory_ids(), np.uint8)
            characters = np.empty(ids.size // ID_BYTES * ID_CHARACTERS, np.uint8)
            id_texts(ids, characters)
            places = [quorum.directory_row(text) for text in _texts_in(characters)]
            assert places == [*range(len(places))]
            quorum.directory = directory
        quorum.forget_topics()


_MISFITS = {
    Misfit.NO_BROKER: "names a broker with a negative id",
    Misfit.TOO_WIDE: "names more than 64 brokers; at most 64 are allowed",
    Misfit.NAMED_TWICE: "has a list that names a broker twice; each may stand there once",
    Misfit.IN_ISR_AND_ELR: "has a broker both in the ISR and in the ELR",
    Misfit.MANY_LAST_KNOWN: (
        "has several last known leaders; at most one is allowed, as in a real controller"
    ),
}


def _texts_in(characters: npt.NDArray[np.uint8]) -> list[str]:
    """Texts of ids that stand one behind the other."""
    text = characters.tobytes().decode("ascii")
    return [text[at : at + ID_CHARACTERS] for at in range(0, len(text), ID_CHARACTERS)]
