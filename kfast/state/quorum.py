"""What only a KRaft cluster has beside the columns of every cluster: `ClusterState.quorum`.

Features and configurations; of every broker what its registration says; of every partition its ELR,
the last known leader, the order of ISR and ELR and the directories. What speaks of partitions is
allocated when it is first used, and follows every move of rows and slots.

Source: docs/kraft.md, section 1.
"""

from __future__ import annotations

import copy as copying
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast import schema
from kfast.arguments import MAX_INT
from kfast.errors import InputError
from kfast.kernels import partition_changes
from kfast.kernels.columns import Columns
from kfast.kernels.quorum_columns import QuorumColumns
from kfast.kernels.quorum_rules import QuorumRules
from kfast.state.kraft_releases import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION,
    MetadataVersion,
    Release,
    find_release,
)
from kfast.state.metadata_records import (
    LOST,
    MIGRATING,
    NO_FEATURES,
    UNASSIGNED,
    ResourceType,
)
from kfast.state.records import Rows, n_bits

MIGRATING_ROW, UNASSIGNED_ROW, LOST_ROW = range(3)
"""Places in `directory_ids` of the directories that are none."""
DERIVED = frozenset((MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION))
"""Keys whose values are columns of the state too."""
NO_DIRECTORY = -1
NO_MEMBER = 255
"""Value of `member_order` behind the last member."""
NO_LAST_KNOWN = -2
"""Value of `last_known_elr` where it is empty; -1 is the id -1 itself."""

Ranges: TypeAlias = Mapping[str, tuple[int, int]]
"""Lowest and highest level of each feature that a broker supports."""

PARTITION_COLUMNS = {
    "elr": 0, "last_known_elr": NO_LAST_KNOWN, "member_order": NO_MEMBER,
    "directory": NO_DIRECTORY,
}
"""What may be allocated for partitions, and what stands there for a row without a partition."""
BY_TOPIC = (
    "min_insync_replicas", "unclean_leader_election", "first_partition", "has_first_partitions",
)
"""What is derived for every topic row, until a setting or a row changes."""
NOT_REGISTERED: Mapping[str, Any] = {
    "incarnation_id": "", "directories": (), "cordoned": (), "feature_ranges": NO_FEATURES,
}
"""What is listed for each broker, and what stands there for one that was never registered."""


class _Columns(Protocol):
    """What this reads and sets of the columns of the cluster (`StateArrays`)."""

    controller: str
    controller_id: int
    records: npt.NDArray[Any]
    replicas: npt.NDArray[Any]
    topic_row: Rows
    partition: Rows
    broker_status: npt.NDArray[np.uint8]
    topic: pa.StringArray
    topic_flags: npt.NDArray[np.uint8]
    topic_unclean_leader_election: npt.NDArray[np.int8]
    topic_min_insync_replicas: Rows
    default_unclean_leader_election: bool
    default_min_insync_replicas: int
    leader_offline: npt.NDArray[np.uint64]
    broker_id: Rows

    @property
    def columns(self) -> Columns: ...
    @property
    def n_brokers(self) -> int: ...
    @property
    def n_topics(self) -> int: ...
    @property
    def n_partitions(self) -> int: ...
    @property
    def n_slots(self) -> int: ...
    def refresh_unclean(self) -> None: ...
    def take_counts(self, counts: Sequence[int]) -> None: ...


class Quorum:
    """What the metadata log of a cluster says that a ZooKeeper cluster does not have.

    Attributes
    ----------
    features : dict of str to int
        Finalized levels.
    configurations : dict of (int, str) to dict of str to str
        Of each resource, by its type and name, the values of its keys. Change them by
        `set_configuration`, which keeps the columns of the state that are derived from them.
    static_configuration : dict of str to str
        The file of the active controller.
    incarnation_id : list of str
        Of each broker row, 22 characters of URL-safe base64; empty where it is not known.
    directories, cordoned : list of tuple of str
        Of each broker row the directories that its registration lists, sorted, and those of them
        that are cordoned.
    feature_ranges : list of mapping
        Of each broker row the levels that it supports.
    registration_offset : (B,) int64
        Offset of the last RegisterBroker record, -1 where it is not known.
    elr : (P,) uint8 or uint64, or None
        Slots of the eligible leader replicas, a mask as `records["isr"]`.
    last_known_elr : (P,) int32, or None
        Broker row of the last known leader; `NO_LAST_KNOWN` for none, -1 for the id -1.
    member_order : (P, S) uint8, or None
        Slots of the ISR in its order, then slots of the ELR in its order; None where all are in the
        order of the slots.
    directory : (P, S) int32, or None
        Place in `directory_ids` of each assigned replica's directory; None where all are MIGRATING.
    directory_ids : list of str
        Texts of the directories that `directory` speaks of.
    columns, rules : QuorumColumns, QuorumRules, or None
        What kernels take, kept until it changes.
    """

    elr: npt.NDArray[Any] | None
    last_known_elr: Rows | None
    member_order: npt.NDArray[np.uint8] | None
    directory: Rows | None

    def __init__(self, state: _Columns) -> None:
        self._state = state
        self.features: dict[str, int] = {}
        self.configurations: dict[tuple[int, str], dict[str, str]] = {}
        self.static_configuration: dict[str, str] = {}
        n = state.n_brokers
        self.incarnation_id = [""] * n
        self.directories: list[tuple[str, ...]] = [()] * n
        self.cordoned: list[tuple[str, ...]] = [()] * n
        self.feature_ranges: list[Ranges] = [NO_FEATURES] * n
        self.registration_offset = np.full(n, -1, np.int64)
        self.elr = self.last_known_elr = self.member_order = self.directory = None
        self.directory_ids = [MIGRATING, UNASSIGNED, LOST]
        self._directory_rows = {text: row for row, text in enumerate(self.directory_ids)}
        self.columns: QuorumColumns | None = None
        self.rules: QuorumRules | None = None

    def copy(self, state: _Columns) -> Quorum:
        """Make an independent copy, for a copy of the state."""
        other = copying.copy(self)
        other._state = state
        for name, value in vars(self).items():
            if isinstance(value, (np.ndarray, dict, list)):
                setattr(other, name, value.copy())
        other.columns = other.rules = None
        other.configurations = {name: dict(of) for name, of in self.configurations.items()}
        return other

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to other processes: all but what kernels take."""
        ranges = [dict(of) for of in self.feature_ranges]
        return vars(self) | {"feature_ranges": ranges, "columns": None, "rules": None}

    # --- features

    @property
    def release(self) -> Release:
        """How the release of `state.controller` decides."""
        return find_release(self._state.controller)

    @property
    def metadata_version(self) -> int:
        """Finalized level of metadata.version; the release's latest where none is."""
        return self.features.get(METADATA_VERSION, self.release.latest_metadata_version)

    @property
    def version(self) -> MetadataVersion:
        """Gates of the finalized metadata version."""
        return MetadataVersion(self.metadata_version)

    @property
    def elr_on(self) -> bool:
        """Whether eligible leader replicas are on."""
        return self.features.get(ELR_VERSION, 0) >= 1

    @property
    def directories_on(self) -> bool:
        """Whether replicas are assigned to directories."""
        return self.version.is_directory_assignment_supported

    def set_feature(self, name: str, level: int) -> None:
        """Finalize a level; 0 removes it. Source: section 2, FeatureLevel."""
        if name == KRAFT_VERSION:
            return
        self.features.pop(name, None)
        if level:
            self.features[name] = level
        self.rules = None

    # --- configurations

    def set_configuration(self, kind: int, name: str, key: str, value: str | None) -> None:
        """Set one value of a resource; None deletes it. Source: section 2, Config."""
        values = self.configurations.setdefault((kind, name), {})
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
        if not values:
            del self.configurations[kind, name]
        if key not in DERIVED:
            return
        if kind == ResourceType.TOPIC:
            self._derive_topics([name])
        elif kind == ResourceType.BROKER:
            self._derive_defaults()
        self._settings_changed()

    def remove_topic_configurations(self, name: str) -> None:
        """Forget the configurations of a topic that is removed."""
        if self.configurations.pop((ResourceType.TOPIC, name), None):
            self.derive_topics([name])

    def derive_topics(self, names: Sequence[str]) -> None:
        """Take the configurations of topics that were created after them."""
        self._derive_topics(names)
        self._settings_changed()

    def derive_settings(self) -> None:
        """Make the columns and defaults of the state that configurations decide afresh."""
        state = self._state
        state.topic_min_insync_replicas = np.full(state.n_topics, -1, np.int32)
        state.topic_unclean_leader_election = np.full(state.n_topics, -1, np.int8)
        named = [
            name for (kind, name), values in self.configurations.items()
            if kind == ResourceType.TOPIC and DERIVED & values.keys()
        ]
        self._derive_topics(named)
        self._derive_defaults()
        self._settings_changed()

    def _derive_topics(self, names: Sequence[str]) -> None:
        state = self._state
        rows = pc.index_in(pa.array(names, pa.string()), value_set=state.topic).to_pylist()
        for name, row in zip(names, rows, strict=True):
            if row is None:
                continue
            values = self.configurations.get((ResourceType.TOPIC, name), {})
            minimum, unclean = values.get(MIN_INSYNC_REPLICAS), values.get(UNCLEAN_LEADER_ELECTION)
            state.topic_min_insync_replicas[row] = (
                -1 if minimum is None else _count(f"topic {name}", minimum)
            )
            state.topic_unclean_leader_election[row] = -1 if unclean is None else _is_true(unclean)

    @property
    def _default_chain(self) -> tuple[Mapping[str, str], ...]:
        """Source: section 1.5: the controller's own node, the cluster's default, its file."""
        own = ResourceType.BROKER, str(self._state.controller_id)
        return (
            self.configurations.get(own, {}),
            self.configurations.get((ResourceType.BROKER, ""), {}), self.static_configuration,
        )

    @property
    def default_keys(self) -> frozenset[str]:
        """Keys whose value is known of the brokers, for topics that have none of their own."""
        return frozenset().union(*self._default_chain)

    def _derive_defaults(self) -> None:
        state = self._state
        kafkas = {MIN_INSYNC_REPLICAS: "1", UNCLEAN_LEADER_ELECTION: "false"}
        chain = (*self._default_chain, kafkas)
        minimum, unclean = (
            next(values[key] for values in chain if key in values)
            for key in (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION)
        )
        state.default_min_insync_replicas = _count("the brokers", minimum)
        state.default_unclean_leader_election = _is_true(unclean)

    def _settings_changed(self) -> None:
        self.forget_topics()
        self._state.refresh_unclean()

    # --- by topic row

    def forget_topics(self) -> None:
        """Note that topics, rows or settings changed: what is derived by topic is made afresh."""
        for name in BY_TOPIC:
            vars(self).pop(name, None)
        self.rules = None

    @cached_property
    def min_insync_replicas(self) -> Rows:
        """(T,) effective min.insync.replicas of each topic."""
        own = self._state.topic_min_insync_replicas
        return np.where(own < 0, self._state.default_min_insync_replicas, own).astype(np.int32)

    @cached_property
    def unclean_leader_election(self) -> npt.NDArray[np.bool_]:
        """(T,) effective unclean.leader.election.enable of each topic."""
        state, own = self._state, self._state.topic_unclean_leader_election
        allowed: npt.NDArray[np.bool_] = np.where(
            own < 0, state.default_unclean_leader_election, own > 0
        )
        return allowed & self.release.unclean_by_configuration

    @cached_property
    def first_partition(self) -> Rows:
        """(T,) row of each topic's partition 0, -1 for none."""
        state = self._state
        rows = np.flatnonzero(state.partition == 0).astype(np.int32)
        first = np.full(max(state.n_topics, 1), -1, np.int32)
        first[state.topic_row[rows]] = rows
        return first

    @cached_property
    def has_first_partitions(self) -> bool:
        """Whether every topic with partitions has a partition 0, as all of Kafka's have."""
        exists = (self._state.topic_flags[: self._state.n_topics] & schema.TOPIC_EXISTS) != 0
        return bool((self.first_partition[: exists.size][exists] >= 0).all())

    def min_isr_of(self, topic_rows: Rows) -> Rows:
        """(n,) min ISR of some topics: at most the replicas of partition 0. Source: section 1.5."""
        first = self.first_partition[topic_rows]
        limit = np.zeros(first.size, np.int32)
        limit[first >= 0] = self._state.records["n_replicas"][first[first >= 0]]
        needed: Rows = np.minimum(self.min_insync_replicas[topic_rows], limit).astype(np.int32)
        return needed

    # --- directories

    def directory_row(self, text: str) -> int:
        """Place of a directory in `directory_ids`; an unknown one is added."""
        row = self._directory_rows.setdefault(text, len(self.directory_ids))
        if row == len(self.directory_ids):
            self.directory_ids.append(text)
        return row

    def default_directory(self, broker: int) -> int:
        """Place of the directory that a new replica on a broker row gets. Source: section 1.1."""
        if not self.directories_on:
            return MIGRATING_ROW
        if not self._state.broker_status[broker] & schema.BROKER_REGISTERED:
            return UNASSIGNED_ROW
        listed = self.directories[broker]
        if not listed:
            return MIGRATING_ROW
        return self.directory_row(listed[0]) if len(listed) == 1 else UNASSIGNED_ROW

    def has_online_directory(self, broker: int, directory: str) -> bool:
        """Whether replicas in a directory of a registered broker row can be led (section 1.1).

        Source: ClusterControlManager.java, `hasOnlineDir`.
        """
        if directory in (UNASSIGNED, MIGRATING):
            return True
        listed = self.directories[broker]
        return directory != LOST and (not listed or directory in listed)

    # --- columns of partitions

    def recount(self) -> None:
        """Make the counters and the bitmap of leaderless partitions afresh.

        Source: section 1.2: `isr_index[-1]` and `imbalanced`, whatever the liveness of brokers.
        """
        state, leader = self._state, self._state.records["leader"]
        used = state.partition >= 0
        leaderless = (leader == schema.NO_LEADER) & used
        packed = np.packbits(leaderless, bitorder="little")
        state.leader_offline.view(np.uint8)[: packed.size] = packed
        n_leaderless = int(np.count_nonzero(leaderless))
        imbalanced = used & (leader != state.replicas[:, 0]) & (state.records["n_replicas"] > 0)
        n_moving = np.count_nonzero(state.records["adding"] | state.records["removing"])
        state.take_counts((
            n_leaderless, int(np.count_nonzero(imbalanced)),
            int(np.count_nonzero(used)), 0, int(n_moving),
        ))

    def allocate_elr(self) -> None:
        """Make room for ELRs and last known leaders, unless there is."""
        state = self._state
        if self.elr is None:
            # Written, not only asked for: or events would be the first to touch each page.
            self.elr = np.full(state.n_partitions, 0, state.records.dtype["isr"])
            self.last_known_elr = np.full(state.n_partitions, NO_LAST_KNOWN, np.int32)

    def set_elr(self, elr: npt.NDArray[Any], last_known_elr: Rows) -> None:
        """Replace every ELR, masks of slots, and every last known leader, broker rows."""
        self.allocate_elr()
        assert self.elr is not None
        assert self.last_known_elr is not None
        self.elr[:], self.last_known_elr[:] = elr, last_known_elr

    def forget_elr(self) -> None:
        """Empty every ELR and last known leader, and give their room back."""
        self.elr = self.last_known_elr = None
        if self.member_order is not None:
            n_isr = n_bits(self._state.records["isr"])
            self.member_order[np.arange(self._state.n_slots) >= n_isr[:, None]] = NO_MEMBER

    def allocate_orders(self) -> None:
        """Make room for the order of ISRs and ELRs, which is that of the slots until now."""
        if self.member_order is None:
            state = self._state
            orders = np.empty((len(state.records), state.n_slots), np.uint8)
            columns = QuorumColumns(
                state.columns, state.broker_id, self.elr, self.last_known_elr
            )
            partition_changes.order_members(columns, orders)
            self.member_order = orders

    def allocate_directories(self) -> None:
        """Make room for directories of replicas; all are MIGRATING until now."""
        if self.directory is None:
            state = self._state
            assigned = np.arange(state.n_slots) < state.records["n_replicas"][:, None]
            self.directory = np.where(assigned, MIGRATING_ROW, NO_DIRECTORY).astype(np.int32)

    # --- moves

    def widen(self) -> None:
        """Follow the change to the wide layout."""
        if self.elr is not None:
            self.elr = self.elr.astype(np.uint64)

    def grow_slots(self, added: int) -> None:
        """Follow a wider replica matrix."""
        if self.member_order is not None:
            self.member_order = _widened(self.member_order, added, NO_MEMBER)
        if self.directory is not None:
            self.directory = _widened(self.directory, added, NO_DIRECTORY)

    def insert_brokers(self, moved: npt.NDArray[np.intp], n: int) -> None:
        """Follow new broker rows: `moved` says where each earlier row is now, of n."""
        before = range(moved.size)
        for name in NOT_REGISTERED:
            old: list[Any] = getattr(self, name)
            new = [NOT_REGISTERED[name]] * n
            for row in before:
                new[moved[row]] = old[row]
            setattr(self, name, new)
        self.rules = None
        offsets = np.full(n, -1, np.int64)
        offsets[moved] = self.registration_offset
        self.registration_offset = offsets
        if self.last_known_elr is not None:
            named = self.last_known_elr >= 0
            self.last_known_elr[named] = moved[self.last_known_elr[named]]

    def append_rows(self, n: int) -> None:
        """Follow n new partition rows at the end."""
        for name, values in self.partition_columns().items():
            block = np.full((n, *values.shape[1:]), PARTITION_COLUMNS[name], values.dtype)
            setattr(self, name, np.concatenate([values, block]))
        self.forget_topics()

    def clear_rows(self, rows: Rows) -> None:
        """Forget what is said of some partition rows."""
        for name, values in self.partition_columns().items():
            values[rows] = PARTITION_COLUMNS[name]
        self.forget_topics()

    def take_rows(self, rows: Rows) -> None:
        """Keep some partition rows, in this order."""
        for name, values in self.partition_columns().items():
            setattr(self, name, values[rows])
        self.forget_topics()

    def partition_columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns of partitions that are allocated, by name."""
        columns = {name: getattr(self, name) for name in PARTITION_COLUMNS}
        return {name: values for name, values in columns.items() if values is not None}


def _widened(matrix: npt.NDArray[Any], added: int, null: int) -> npt.NDArray[Any]:
    block = np.full((matrix.shape[0], added), null, matrix.dtype)
    return np.ascontiguousarray(np.hstack([matrix, block]))


def _count(resource: str, text: str) -> int:
    """Value of min.insync.replicas."""
    try:
        number = int(text.strip())
    except ValueError:
        number = -1
    if not 0 <= number <= MAX_INT:
        raise InputError(
            f"{MIN_INSYNC_REPLICAS} of {resource} is {text!r}: a whole number from 0 to {MAX_INT}"
            " is needed"
        )
    return number


def _is_true(text: str) -> bool:
    """Value of unclean.leader.election.enable."""
    return text.lower() == "true"
