"""The cluster along the log: its state, and what the kernels would write next.

Predictions are built by the rule that the simulated controller uses, from the state before; nothing
is decided here.

Source: docs/kraft.md, sections 2, 3 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kfast.errors import ArgumentError
from kfast.kernels import partition_changes
from kfast.kernels.change_log import ChangeLog
from kfast.metadata_replay import broker_updates
from kfast.metadata_replay.broker_updates import Step
from kfast.metadata_replay.requests import Request, RequestRules, Target
from kfast.schema import FLAG_RECOVERY
from kfast.state import ClusterState, mutators
from kfast.state.changes import Visited
from kfast.state.controller_change import change_controller
from kfast.state.kraft_releases import (
    ELR_VERSION,
    METADATA_VERSION,
    RELEASES,
    MetadataVersion,
    Release,
)
from kfast.state.metadata_records import (
    UNASSIGNED,
    FeatureLevelRecord,
    LeaderChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kfast.state.quorum import NO_LAST_KNOWN
from kfast.state.record_application import (
    apply_changes,
    apply_record,
    quorum_columns,
    quorum_rules,
    write_partitions,
    write_topics,
)
from kfast.state.registrations import (
    BrokerRegistration,
    PartitionRegistration,
    quorum_of,
    set_registration,
)

NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


def release_of_software(features: Mapping[str, tuple[int, int]]) -> str | None:
    """The release whose software supports these features; None where they do not tell.

    Source: docs/kraft.md, section 1.4: each has another highest metadata version.
    """
    if METADATA_VERSION not in features:
        return None
    highest = features[METADATA_VERSION][1]
    names = [name for name, one in RELEASES.items() if one.latest_metadata_version >= highest]
    return names[0] if names else list(RELEASES)[-1]


def _highest_level(features: Mapping[str, tuple[int, int]]) -> int:
    """The highest metadata version that a node supports."""
    return features.get(METADATA_VERSION, (0, 0))[1]


def check_release(release: Release, levels: Mapping[str, int]) -> None:
    """Refuse a release that cannot have run a log with these finalized levels.

    Raises
    ------
    ArgumentError
        It does not have the metadata version, or has no eligible leader replicas.
    """
    for name in (METADATA_VERSION, ELR_VERSION):
        level, (lowest, highest) = levels.get(name, 0), release.supported_features.get(name, (0, 0))
        if level and not lowest <= level <= highest:
            allowed = [
                other.name for other in RELEASES.values()
                if name in other.supported_features
                and other.supported_features[name][0] <= level <= other.supported_features[name][1]
            ]
            raise ArgumentError(
                f"controller {release.name}: the log finalizes {name} {level}, which it cannot"
                f" have; allowed: {', '.join(allowed) or 'no release that kfast knows'}"
            )


class Part:
    """Changes of distinct partitions, as kernels take them.

    Parameters
    ----------
    rows : list of int
    records : list of PartitionChangeRecord
    log : ChangeLog
    """

    def __init__(
        self, rows: list[int], records: list[PartitionChangeRecord], log: ChangeLog
    ) -> None:
        self.rows = np.asarray(rows, np.int32)
        self.records = records
        self.log = log

    def has(self, place: int, log: ChangeLog, index: int, version: int) -> bool:
        """Whether a change of a log is the one at a place of this part."""
        return (
            self.records[place].version == version
            and self.log.fields_of(place) == log.fields_of(index)
        )


class Prediction(NamedTuple):
    """A change that a log of changes has at a place."""

    log: ChangeLog
    place: int


def _named(record: PartitionChangeRecord) -> set[int]:
    """Ids of the brokers that a change names."""
    lists = (
        record.isr, record.replicas, record.removing_replicas, record.adding_replicas,
        record.eligible_leader_replicas, record.last_known_elr,
        None if record.leader is None else (record.leader,),
    )
    return {broker for ids in lists for broker in ids or () if broker >= 0}


class Present:
    """A partition as requests look at it; what is rarely needed is read when it is.

    Parameters
    ----------
    simulation : Simulation
    row : int
    replicas : tuple of int
    leader : int
    recovery : int
    """

    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()

    def __init__(
        self, simulation: Simulation, row: int, replicas: tuple[int, ...], leader: int,
        recovery: int,
    ) -> None:
        self.replicas = replicas
        self.leader = leader
        self.recovery = recovery
        self._simulation = simulation
        self._row = row

    @cached_property
    def _whole(self) -> PartitionRegistration:
        return self._simulation.registration(self._row)

    @property
    def isr(self) -> tuple[int, ...]:
        """Ids of the ISR, in order."""
        return self._whole.isr

    @property
    def directories(self) -> tuple[str, ...]:
        """Directories of the replicas."""
        return self._whole.directories


class Simulation:
    """The state of a cluster at a place of its log.

    Parameters
    ----------
    state : ClusterState
        Of a KRaft cluster. It is changed.
    settings : dict of str to str
        What the file of the controller says.
    follows_software : bool
        The release is that of the active controller's software wherever the log says it.
    """

    def __init__(
        self, state: ClusterState, settings: Mapping[str, str] = NO_SETTINGS,
        *, follows_software: bool = True,
    ) -> None:
        self.state = state
        self.quorum = quorum_of(state)
        self.quorum.static_configuration = dict(settings)
        self.quorum.derive_settings()
        self.follows_software = follows_software
        self.highest_level = max(
            [self.quorum.metadata_version, *map(_highest_level, self.quorum.feature_ranges)]
        )
        """Metadata version that was finalized or supported at most."""
        self._software: dict[int, str] = {}
        self._rows: dict[str, dict[int, int]] = {}
        self._names: dict[int, str] = {}
        self._topics = {
            topic_id: row for row, topic_id in enumerate(state.topic_id.to_pylist())
            if topic_id is not None
        }
        self._topic_names = {state.topic[row].as_py() for row in self._topics.values()}
        self._forget_brokers()

    def _forget_brokers(self) -> None:
        self._name_brokers()
        self._brokers: dict[int, BrokerRegistration | None] = {}
        self._request_rules: RequestRules | None = None

    # ---------------------------------------------------------------------------- what is known

    @property
    def release(self) -> Release:
        """How the controller decides."""
        return self.quorum.release

    @property
    def elr_on(self) -> bool:
        """Whether eligible leader replicas are on."""
        return self.quorum.elr_on

    @property
    def directories_on(self) -> bool:
        """Whether replicas are assigned to directories."""
        return self.quorum.directories_on

    @property
    def metadata_version(self) -> MetadataVersion:
        """The finalized metadata version."""
        return self.quorum.version

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        """A broker's registration."""
        if broker_id not in self._brokers:
            self._brokers[broker_id] = self.state.broker_registration(broker_id)
        return self._brokers[broker_id]

    @property
    def request_rules(self) -> RequestRules:
        """What the requests of this moment depend on."""
        if self._request_rules is None:
            state, ids = self.state, self.state.broker_id
            silent = state.registered
            if self.metadata_version.is_in_controlled_shutdown_state_supported:
                silent = silent & state.shutting_down
            self._request_rules = RequestRules(
                frozenset(ids[state.live].tolist()), frozenset(ids[silent].tolist()),
                not self.release.elr_in_assign_replicas_to_dirs,
            )
        return self._request_rules

    def registration(self, row: int) -> PartitionRegistration:
        """All that is known of a partition."""
        return self.state.registration(row)

    def present(self, rows: npt.NDArray[np.int32]) -> list[Present | PartitionRegistration]:
        """Some partitions as requests look at them."""
        state, records = self.state, self.state.records[rows]
        ids = self._ids_by_row
        tracked = np.minimum(state.replicas[rows], state.n_brokers)
        moving = (records["adding"] | records["removing"]) != 0
        return [
            self.registration(row) if moves else Present(self, row, tuple(listed[:n]), leader, is_r)
            for row, moves, listed, n, leader, is_r in zip(
                rows.tolist(), moving.tolist(), ids[tracked].tolist(),
                records["n_replicas"].tolist(), ids[records["leader"]].tolist(),
                ((records["flags"] & FLAG_RECOVERY) != 0).astype(int).tolist(), strict=True,
            )
        ]

    def offline_replicas(self, now: Present | PartitionRegistration) -> frozenset[int]:
        """Brokers whose replica lies in a directory that is offline (docs/kraft.md, 1.1)."""
        return frozenset(
            broker for broker, directory in zip(now.replicas, now.directories, strict=True)
            if not self._is_online(broker, directory)
        )

    def _is_online(self, broker_id: int, directory: str) -> bool:
        return self.broker(broker_id) is not None and self.quorum.has_online_directory(
            self.state.broker_row(broker_id), directory
        )

    def default_directory(self, broker_id: int) -> str:
        """Directory of a new replica."""
        row = self.state.broker_row(broker_id)
        return UNASSIGNED if row < 0 else (
            self.quorum.directory_ids[self.quorum.default_directory(row)]
        )

    def leaders(self, rows: Sequence[int]) -> list[int]:
        """Leaders of some partitions, ids; -1 for nobody."""
        listed: list[int] = self._ids_by_row[self.state.records["leader"][rows]].tolist()
        return listed

    def leaderless(self) -> list[str]:
        """Names of the partitions that nobody leads."""
        rows = self.state.list_marked(self.state.leader_offline)
        return [self.name(row) for row in rows.tolist()]

    def reassigned(self) -> list[str]:
        """Names of the partitions that are being reassigned."""
        records = self.state.records
        rows = np.flatnonzero(records["adding"] | records["removing"])
        return [self.name(row) for row in rows.tolist()]

    def brokers_up(self) -> set[int]:
        """Ids of the brokers that are registered and not fenced."""
        return set(self.state.broker_id[self.state.up].tolist())

    # --------------------------------------------------------------------------- where things are

    def row_of(self, topic_id: str, partition: int) -> int | None:
        """Row of a partition, None where it does not exist."""
        rows = self._rows.get(topic_id)
        if rows is None:
            if topic_id not in self._topics:
                return None
            listed = self.state.lookup.rows_of_topic(self._topics[topic_id])
            numbers = self.state.partition[listed].tolist()
            rows = self._rows[topic_id] = dict(zip(numbers, listed.tolist(), strict=True))
        return rows.get(partition)

    def name(self, row: int) -> str:
        """A partition as Kafka prints it."""
        name = self._names.get(row)
        if name is None:
            topic = self.state.topic[int(self.state.topic_row[row])].as_py()
            name = self._names[row] = f"{topic}-{self.state.partition[row]}"
        return name

    def topic_name(self, topic_id: str) -> str | None:
        """Name of a topic, None where it does not exist."""
        row = self._topics.get(topic_id)
        return None if row is None else str(self.state.topic[row].as_py())

    def has_topic(self, record: TopicRecord) -> bool:
        """Whether a topic of this id or name exists."""
        return record.name in self._topic_names or record.topic_id in self._topics

    def partitions_of(self, topic_id: str) -> list[int]:
        """Numbers of a topic's partitions."""
        self.row_of(topic_id, 0)
        return list(self._rows.get(topic_id, ()))

    # -------------------------------------------------------------------------------- predictions

    def part(self, rows: list[int], records: list[PartitionChangeRecord]) -> Part:
        """Changes of distinct partitions as kernels take them; brokers they name get a row."""
        try:
            return Part(rows, records, self._log(rows, records))
        except KeyError:
            mutators.add_brokers(self.state, sorted(set().union(*map(_named, records))))
            self._name_brokers()
            return Part(rows, records, self._log(rows, records))

    def _name_brokers(self) -> None:
        """Rows of all brokers by id, and ids by row; -1 stands for nobody."""
        self._ids_by_row = np.append(self.state.broker_id, np.int32(-1))
        self._broker_rows = {
            broker: row for row, broker in enumerate(self._ids_by_row.tolist()) if broker >= 0
        }
        self._broker_rows[-1] = -1

    def _log(self, rows: list[int], records: list[PartitionChangeRecord]) -> ChangeLog:
        """Changes as a log; `KeyError` for a broker without a row."""
        log = ChangeLog()
        place, number = self._broker_rows, self.quorum.directory_row
        for row, record in zip(rows, records, strict=True):
            isr, leader, replicas = record.isr, record.leader, record.replicas
            removing, adding = record.removing_replicas, record.adding_replicas
            elr, known = record.eligible_leader_replicas, record.last_known_elr
            directories = record.directories
            log.append(
                row,
                isr=isr and [place[broker] for broker in isr],
                leader=None if leader is None else place[leader],
                replicas=replicas and [place[broker] for broker in replicas],
                removing=removing and [place[broker] for broker in removing],
                adding=adding and [place[broker] for broker in adding],
                recovery=record.leader_recovery_state,
                elr=elr and [place[broker] for broker in elr],
                last_known=None if known is None else place[known[0]] if known else NO_LAST_KNOWN,
                directories=None if directories is None else [*map(number, directories)],
            )
        return log

    def _update(self, rows: npt.NDArray[np.int32], visited: int, step: Step) -> ChangeLog:
        log = ChangeLog()
        remove, add, unclean = (
            self._broker_rows.get(broker, -1) for broker in (step.remove, step.add, step.unclean)
        )
        partition_changes.update(
            quorum_columns(self.state), quorum_rules(self.state), rows, visited, remove, add,
            unclean, log,
        )
        return log

    def updates_give(self, part: Part, step: Step) -> list[bool]:
        """Whether a step gives each change."""
        log = self._update(part.rows, Visited.EVERY_ROW, step)
        version = self.metadata_version.partition_record_version
        made = dict(zip(log.changes["row"].tolist(), range(len(log)), strict=True))
        return [
            row in made and part.has(place, log, made[row], version)
            for place, row in enumerate(part.rows.tolist())
        ]

    def updated(self, row: int, step: Step) -> PartitionChangeRecord | None:
        """What a step does to a partition."""
        log = self._update(np.asarray([row], np.int32), Visited.EVERY_ROW, step)
        return self.record_of(Prediction(log, 0)) if len(log) else None

    def requests_give(
        self, part: Part, places: Sequence[int], requests: Sequence[Request]
    ) -> list[bool]:
        """Whether each request gives the change at its place."""
        fits = [False] * len(places)
        asked, kept = ChangeLog(), []
        for i, (place, request) in enumerate(zip(places, requests, strict=True)):
            if request.removed < 0:
                self._ask(asked, int(part.rows[place]), request.target)
                kept.append(i)
            else:
                step = Step("", "", request.removed, remove=request.removed)
                fits[i] = self.updated(int(part.rows[place]), step) == part.records[place]
        log = ChangeLog()
        made = np.empty(len(asked), np.int32)
        partition_changes.build(
            quorum_columns(self.state), quorum_rules(self.state), asked, log, made
        )
        version = self.metadata_version.partition_record_version
        for i, index in zip(kept, made.tolist(), strict=True):
            fits[i] = index >= 0 and part.has(places[i], log, index, version)
        return fits

    def _ask(self, log: ChangeLog, row: int, target: Target) -> None:
        """Append a request for a partition."""
        place = self._broker_rows
        isr, replicas, removing, adding = (
            None if ids is None else [place[broker] for broker in ids]
            for ids in (target.isr, target.replicas, target.removing, target.adding)
        )
        directories = None
        if target.directories is not None:
            directories = [
                -1 if text is None else self.quorum.directory_row(text)
                for text in target.directories
            ]
        log.append(
            row, isr=isr, replicas=replicas, removing=removing, adding=adding,
            recovery=target.recovery, directories=directories, mode=target.election,
            elr_off=target.elr_off,
        )

    def due(self, step: Step, written: set[int]) -> dict[int, Prediction]:
        """What a step gives by row, but for partitions that have been written."""
        due: dict[int, Prediction] = {}
        without = np.asarray(sorted(written), np.int32)
        for place in step.visits:
            rows, visited = self._visited(place, step)
            rows = rows[~np.isin(rows, without)]
            log = self._update(rows, visited, step)
            for i, row in enumerate(log.changes["row"].tolist()):
                due.setdefault(row, Prediction(log, i))
        return due

    def _visited(self, place: str, step: Step) -> tuple[npt.NDArray[np.int32], int]:
        """Rows among which a step finds its partitions, and which of them it visits."""
        state = self.state
        if place == broker_updates.LEADERLESS:
            return state.list_marked(state.leader_offline), Visited.EVERY_ROW
        broker = state.broker_row(step.broker)
        if broker < 0:
            return np.empty(0, np.int32), Visited.EVERY_ROW
        rows = state.rows_tracking(np.asarray([broker], np.int32))
        if place != broker_updates.DIRECTORIES:
            return rows, Visited.IN_ISR if place == broker_updates.ISR else Visited.IN_ELR
        if self.quorum.directory is None:
            return rows[:0], Visited.EVERY_ROW
        failed = [self.quorum.directory_row(text) for text in step.directories]
        lies = np.isin(self.quorum.directory[rows], failed) & (state.replicas[rows] == broker)
        return rows[lies.any(axis=1)], Visited.EVERY_ROW

    def record_of(self, prediction: Prediction) -> PartitionChangeRecord:
        """A predicted change as a record."""
        log, place = prediction
        change, fields = log.changes[place], log.fields_of(place)
        row = int(change["row"])
        topic = self.state.topic_id[int(self.state.topic_row[row])].as_py()
        known = fields.get("last_known")
        lists = {
            name: self._ids(fields.get(name))
            for name in ("isr", "replicas", "removing", "adding", "elr")
        }
        directories, leader = fields.get("directories"), fields.get("leader")
        return PartitionChangeRecord(
            self.metadata_version.partition_record_version, int(self.state.partition[row]), topic,
            isr=lists["isr"],
            leader=None if leader is None else self._id(leader),
            replicas=lists["replicas"],
            removing_replicas=lists["removing"],
            adding_replicas=lists["adding"],
            leader_recovery_state=fields.get("recovery"),
            directories=directories and tuple(
                self.quorum.directory_ids[number] for number in directories
            ),
            eligible_leader_replicas=lists["elr"],
            last_known_elr=(
                None if known is None else () if known == NO_LAST_KNOWN else (self._id(known),)
            ),
        )

    def _id(self, broker: int) -> int:
        return int(self.state.broker_id[broker]) if broker >= 0 else broker

    def _ids(self, brokers: Sequence[int] | None) -> tuple[int, ...] | None:
        return None if brokers is None else tuple(map(self._id, brokers))

    # ------------------------------------------------------------------------------------ changes

    def apply_part(self, part: Part) -> None:
        """Apply changes of partitions."""
        apply_changes(self.state, part.log)

    def create(self, topics: list[TopicRecord], partitions: list[PartitionRecord]) -> None:
        """Apply Topic records, and Partition records of these and of other topics."""
        if topics:
            rows = write_topics(self.state, topics).tolist()
            self._topics |= zip([record.topic_id for record in topics], rows, strict=True)
            self._topic_names |= {record.name for record in topics}
        write_partitions(self.state, partitions)
        for topic_id in {record.topic_id for record in partitions}:
            self._rows.pop(topic_id, None)
        self._name_brokers()

    def apply(self, record: MetadataRecord, offset: int) -> None:
        """Apply a record that is no change of a partition."""
        if isinstance(record, FeatureLevelRecord):
            levels = {record.name: record.feature_level}
            if not self.follows_software:
                check_release(self.release, levels)
            self.highest_level = max(self.highest_level, levels.get(METADATA_VERSION, 0))
        elif isinstance(record, RemoveTopicRecord):
            self._topic_names.discard(self.topic_name(record.topic_id))
        apply_record(self.state, record, offset)
        if isinstance(record, RemoveTopicRecord):
            self._topics.pop(record.topic_id, None)
            for row in self._rows.pop(record.topic_id, {}).values():
                self._names.pop(row, None)
        else:
            if isinstance(record, LeaderChangeRecord):
                self._lead(record.leader_id)
            elif isinstance(record, RegisterControllerRecord):
                self.highest_level = max(self.highest_level, _highest_level(record.features))
                release = release_of_software(record.features)
                if release is not None:
                    self._software[record.controller_id] = release
                self._lead(self.state.controller_id)
            self._forget_brokers()

    def _lead(self, controller_id: int) -> None:
        """A controller is active: its node's settings count, and the release of its software."""
        state, release = self.state, self._software.get(controller_id)
        if state.controller_id != controller_id:
            state.controller_id = controller_id
            self.quorum.derive_settings()
        if self.follows_software and release not in (None, state.controller):
            change_controller(state, str(release))

    @contextmanager
    def as_before(self, row: int, before: PartitionRegistration) -> Iterator[None]:
        """For a while a partition is as it was."""
        now = self.registration(row)
        set_registration(self.state, row, before)
        try:
            yield
        finally:
            set_registration(self.state, row, now)
