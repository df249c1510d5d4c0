"""A cluster in ZooKeeper mode, as its znodes say it: tables of any dump, or of a live ensemble.

Brokers are registered where they have a znode, for these are ephemeral. A dump without any of them
(tools leave out ephemeral znodes, and a stopped cluster has none) says nothing of who is up, which
is then concluded from leaders and ISRs. A partition without a state znode has no leadership record.

Source: docs/formats.md, section "ZooKeeper dumps"; Kafka 3.9, ZkData.scala.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Meta, Struct, UnsetType

from kfast.arguments import MAX_BROKER_ID, MAX_INT
from kfast.errors import InputError
from kfast.io.files import abbreviate, quote
from kfast.io.id_lists import IdLists, int32s
from kfast.io.placement_checks import check_leaders, presume_brokers
from kfast.io.source_tables import SourceTables, brokers_of
from kfast.io.topic_settings import default_columns, log_settings, setting_columns
from kfast.state.controller_change import REASON

__all__ = ["Znode", "Znodes", "tables_of_znodes"]

Content = TypeVar("Content")
_Broker = Annotated[int, Meta(ge=0, le=MAX_BROKER_ID)]
_Number = Annotated[int, Meta(ge=0, le=MAX_INT)]
_Ids = list[_Broker]

_KNOWN = re.compile(
    r"(?P<root>[!-~]*?)/(?:"
    r"brokers/topics/(?P<topic>[a-zA-Z0-9._-]{1,249})"
    r"(?:/partitions(?:/(?P<partition>[0-9]{1,9})(?P<state>/state)?)?)?"
    r"|brokers/ids/(?P<broker>[0-9]{1,10})"
    r"|config/topics/(?P<configured>[a-zA-Z0-9._-]{1,249})"
    r"|config/brokers/(?P<broker_settings><default>|[0-9]{1,10})"
    r"|admin/delete_topics/(?P<deleted>[a-zA-Z0-9._-]{1,249})"
    r"|(?P<single>cluster/id|controller|controller_epoch|admin/reassign_partitions)"
    r")"
)
_PASSED = re.compile(
    r"/?|[!-~]*?/(?:brokers|brokers/(?:ids|topics|seqid)|cluster|feature|migration"
    r"|admin|admin/(?:delete_topics|preferred_replica_election)|consumers(?:/.*)?"
    r"|config|config/(?:topics|brokers|changes|clients|users|ips)"
    r"|config/(?:changes|clients|users|ips)/.*|(?:isr_change|log_dir_event)_notification(?:/.*)?"
    r"|kafka-acl(?:-changes|-extended|-extended-changes)?(?:/.*)?|delegation_token(?:/.*)?"
    r"|latest_producer_id_block|zookeeper(?:/.*)?)"
)
"""Znodes of Kafka and of ZooKeeper itself that say nothing of placement."""


class _Registration(Struct, gc=False):
    version: int
    rack: str | None = None


class _Assignment(Struct, gc=False):
    version: int
    partitions: dict[_Number, _Ids]
    topic_id: str | None = None
    adding_replicas: dict[_Number, _Ids] | UnsetType = UNSET
    removing_replicas: dict[_Number, _Ids] | UnsetType = UNSET


class _State(Struct, gc=False, forbid_unknown_fields=True):
    controller_epoch: _Number
    leader: Annotated[int, Meta(ge=-1, le=MAX_BROKER_ID)]
    leader_epoch: _Number
    isr: _Ids
    version: int
    leader_recovery_state: Annotated[int, Meta(ge=0, le=1)] = 0


class _AnyState(_State, gc=False, forbid_unknown_fields=False):
    """A state with fields that Apache Kafka's controller does not write."""


class _Controller(Struct, rename="camel", gc=False):
    version: int
    broker_id: _Broker = msgspec.field(name="brokerid")
    kraft_controller_epoch: int | None = None


class _ClusterId(Struct, gc=False):
    id: str


class _Configuration(Struct, gc=False):
    config: dict[str, str]


class _Move(Struct, gc=False):
    topic: str
    partition: _Number


class _Reassignment(Struct, gc=False):
    partitions: list[_Move]


class Znode(Struct, gc=False):
    """What a znode holds, and what ZooKeeper says of it; None where that is not known.

    Parameters
    ----------
    data : bytes or None
    version : int or None
        How often the data was set.
    czxid : int or None
        Transaction that made it: of a broker's znode, the epoch of the broker.
    """

    data: bytes | str | None = None
    version: int | None = None
    czxid: int | None = None


def tables_of_znodes(name: str, znodes: Mapping[str, bytes | Znode | None]) -> SourceTables:
    """The tables of the cluster whose znodes are given.

    Parameters
    ----------
    name : str
        What messages call the source.
    znodes : mapping of str to bytes, Znode or None
        The data of each path. Paths may begin with a chroot.

    Raises
    ------
    InputError
        There is no topic among them, they are of two clusters, or one is damaged.
    """
    collected = Znodes(name)
    for path, znode in znodes.items():
        collected.add(path, znode if isinstance(znode, Znode) else Znode(znode))
    return collected.tables()


@dataclass
class _States:
    """State znodes, one a row."""

    topic: array[int] = field(default_factory=lambda: array("i"))
    partition: array[int] = field(default_factory=lambda: array("i"))
    leader: array[int] = field(default_factory=lambda: array("i"))
    leader_epoch: array[int] = field(default_factory=lambda: array("i"))
    controller_epoch: array[int] = field(default_factory=lambda: array("i"))
    recovery: array[int] = field(default_factory=lambda: array("i"))
    version: array[int] = field(default_factory=lambda: array("i"))
    isr: IdLists = field(default_factory=IdLists)


class Znodes:
    """Znodes of a cluster, added in any order; what is read of them takes little memory.

    Parameters
    ----------
    name : str
        What messages call the source.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._roots: dict[str, str] = {}
        self._topics: dict[str, int] = {}
        self._assignments: dict[str, _Assignment] = {}
        self._states = _States()
        self._brokers: dict[int, tuple[_Registration, int | None]] = {}
        self._listed: set[int] = set()
        self._settings: dict[str, dict[str, str]] = {}
        self._broker_settings: dict[str, dict[str, str]] = {}
        self._deleted: set[str] = set()
        self._controller: _Controller | None = None
        self._epoch: tuple[int, int | None] | None = None
        self._moves: list[_Move] = []
        self._cluster_id = ""
        self._unknown: list[str] = []
        self._n_unknown = 0
        self._foreign_field = ""
        self._versioned = False
        self._decode_state = msgspec.json.Decoder(_State).decode
        self._decode_any_state = msgspec.json.Decoder(_AnyState).decode

    def add(self, path: str, znode: Znode) -> None:
        """Add a znode.

        Raises
        ------
        InputError
            What it holds is not what Kafka writes there.
        """
        match = _KNOWN.fullmatch(path)
        if match is None:
            if not _PASSED.fullmatch(path):
                self._n_unknown += 1
                self._unknown = self._unknown or [path]
            return
        self._roots.setdefault(match["root"], path)
        if not 0 <= (znode.version or 0) <= MAX_INT:
            raise InputError(
                f"{self._name}: {path}: has version {znode.version}; right is 0..{MAX_INT}"
            )
        if match["state"]:
            self._add_state(path, match["topic"], int(match["partition"]), znode)
        elif match["topic"] and match.end("topic") == len(path):
            if match["topic"] in self._assignments:
                raise self._twice(path)
            assignment = self._decode(path, znode, _Assignment)
            self._check_assignment(path, assignment)
            self._assignments[match["topic"]] = assignment
        elif match["broker"]:
            self._add_broker(path, self._broker_id(path, match["broker"]), znode)
        elif match["configured"]:
            self._add_settings(self._settings, path, match["configured"], znode)
        elif match["broker_settings"]:
            self._add_settings(self._broker_settings, path, match["broker_settings"], znode)
        elif match["deleted"]:
            self._deleted.add(match["deleted"])
        elif match["single"]:
            self._add_single(path, match["single"], znode)

    def add_child(self, path: str) -> None:
        """Add a znode of which only the path is known; those that matter by presence are kept."""
        match = _KNOWN.fullmatch(path)
        if match is not None and match["broker"]:
            self._roots.setdefault(match["root"], path)
            self._listed.add(self._broker_id(path, match["broker"]))
        elif match is not None and match["deleted"]:
            self._deleted.add(match["deleted"])

    def _broker_id(self, path: str, text: str) -> int:
        if int(text) > MAX_BROKER_ID:
            raise InputError(f"{self._name}: {path}: {text} is no broker id")
        return int(text)

    def _add_state(self, path: str, topic: str, partition: int, znode: Znode) -> None:
        data = znode.data
        if data is None:
            raise InputError(f"{self._name}: {path}: has no data; right is a partition's state")
        try:
            state = self._decode_state(data)
        except msgspec.ValidationError as error:
            if "unknown field" not in str(error):
                raise self._damaged(path, error) from error
            self._foreign_field = self._foreign_field or f"{path}: {error}"
            state = self._decode(path, znode, _AnyState)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._damaged(path, error) from error
        states = self._states
        states.topic.append(self._topics.setdefault(topic, len(self._topics)))
        states.partition.append(partition)
        states.leader.append(state.leader)
        states.leader_epoch.append(state.leader_epoch)
        states.controller_epoch.append(state.controller_epoch)
        states.recovery.append(state.leader_recovery_state)
        self._versioned |= znode.version is not None
        states.version.append(znode.version or 0)
        states.isr.append(state.isr)

    def _check_assignment(self, path: str, assignment: _Assignment) -> None:
        """Refuse what no version of Kafka writes."""
        lists = (assignment.adding_replicas, assignment.removing_replicas)
        wrong = ""
        if not 1 <= assignment.version <= 3:
            wrong = f"found version {assignment.version}; right is 1, 2 or 3"
        elif assignment.version > 1 and UNSET in lists:
            wrong = "has no adding_replicas or no removing_replicas, as version 2 and later have"
        elif any(of is not UNSET and not of.keys() <= assignment.partitions.keys() for of in lists):
            wrong = "adding_replicas or removing_replicas name a partition that is not assigned"
        if wrong:
            raise InputError(f"{self._name}: {path}: {wrong}")

    def _add_broker(self, path: str, broker: int, znode: Znode) -> None:
        if broker in self._brokers:
            raise self._twice(path)
        registration = self._decode(path, znode, _Registration)
        self._brokers[broker] = registration, znode.czxid

    def _add_settings(
        self, settings: dict[str, dict[str, str]], path: str, key: str, znode: Znode
    ) -> None:
        if key in settings:
            raise self._twice(path)
        settings[key] = self._decode(path, znode, _Configuration).config if znode.data else {}

    def _add_single(self, path: str, kind: str, znode: Znode) -> None:
        if kind == "controller":
            self._controller = self._decode(path, znode, _Controller)
        elif kind == "cluster/id":
            self._cluster_id = self._decode(path, znode, _ClusterId).id
        elif kind == "controller_epoch":
            self._epoch = self._decode(path, znode, int), znode.version
        elif znode.data:
            self._moves = self._decode(path, znode, _Reassignment).partitions

    def _decode(self, path: str, znode: Znode, kind: type[Content]) -> Content:
        try:
            return msgspec.json.decode(znode.data or b"", type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._damaged(path, error) from error

    def _damaged(self, path: str, error: Exception) -> InputError:
        return InputError(f"{self._name}: {quote(path)}: not what Kafka writes there: {error}")

    def _twice(self, path: str) -> InputError:
        return InputError(f"{self._name}: {path}: the znode stands twice; right is once")

    # --- tables

    def tables(self) -> SourceTables:
        """The tables of the cluster.

        Raises
        ------
        InputError
            There is no topic, the znodes are of two clusters, or they contradict each other.
        """
        if len(self._roots) > 1:
            shown = abbreviate([root or "/" for root in sorted(self._roots)])
            raise InputError(
                f"{self._name}: has znodes of {len(self._roots)} clusters, below {shown}; right is"
                " a dump of one"
            )
        if not self._assignments:
            raise InputError(
                f"{self._name}: has no topic with an assignment; right is a dump with the data of"
                " /brokers/topics/TOPIC and of everything below it"
            )
        notes: list[str] = []
        partitions = self._partitions(notes)
        tables = SourceTables(
            self._name, partitions, self._topic_table(), None, self._cluster(notes), notes=()
        )
        brokers, down, up = self._broker_table(tables, notes)
        self._note_rest(notes)
        return SourceTables(
            self._name, partitions, tables.topics, brokers, tables.cluster, down, up,
            (self._controller_reason(), *notes), log_settings(self._settings),
            cluster_id=self._cluster_id, lists_live_brokers=bool(self._brokers or self._listed),
        )

    def _partitions(self, notes: list[str]) -> pa.Table:
        """All partitions, by topic and number, each with its state."""
        lists = {column: IdLists() for column in ("replicas", "adding", "removing")}
        topic, number, moving = array("i"), array("i"), []
        names = sorted(self._assignments)
        for row, name in enumerate(names):
            assignment = self._assignments[name]
            adding = assignment.adding_replicas or {}
            removing = assignment.removing_replicas or {}
            for partition in sorted(assignment.partitions):
                topic.append(row)
                number.append(partition)
                lists["replicas"].append(assignment.partitions[partition])
                lists["adding"].append(adding.get(partition, ()))
                lists["removing"].append(removing.get(partition, ()))
                moving.append(partition in adding or partition in removing)
        named = {(move.topic, move.partition) for move in self._moves}
        if named:
            keys = zip((names[row] for row in topic), number, strict=True)
            moving = [was or key in named for was, key in zip(moving, keys, strict=True)]
        columns = {
            "topic": pa.DictionaryArray.from_arrays(int32s(topic), pa.array(names, pa.string())),
            "partition": int32s(number),
            **{column: of.column() for column, of in lists.items()},
            "being_reassigned": pa.array(moving, pa.bool_()),
        }
        if self._states.topic:
            columns |= self._state_columns(names, columns, notes)
        else:
            notes.append(f"{self._name} has no state znode: leaders and ISRs are not known")
        partitions = pa.table(columns)
        if self._states.topic:
            notes += check_leaders(self._name, partitions)
        return partitions

    def _state_columns(
        self, names: list[str], columns: dict[str, pa.Array], notes: list[str]
    ) -> dict[str, pa.Array]:
        """What the state znodes say, for each partition."""
        states = self._states
        place = {name: row for row, name in enumerate(names)}
        rows = np.array([place.get(name, -1) for name in self._topics], np.int64)
        keys = rows[np.frombuffer(states.topic, np.int32)] << 32 | np.frombuffer(
            states.partition, np.int32
        )
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        twice = np.flatnonzero((keys[1:] == keys[:-1]) & (keys[1:] >= 0))
        if twice.size:
            key = int(keys[twice[0]])
            topic = names[key >> 32]
            raise self._twice(f"/brokers/topics/{topic}/partitions/{key & MAX_INT}/state")
        wanted = columns["topic"].indices.to_numpy().astype(np.int64) << 32
        wanted |= columns["partition"].to_numpy()
        at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        absent = keys[at] != wanted
        self._note_states(absent, keys.size - int(np.count_nonzero(~absent)), columns, notes)
        row = order[at]

        def gathered(values: array[int], null: int) -> pa.Array:
            return pa.array(np.where(absent, np.int32(null), np.frombuffer(values, np.int32)[row]))

        isr = states.isr.column().take(pa.array(row))
        result = {
            "has_leadership": pa.array(~absent),
            "leader": gathered(states.leader, -1),
            "isr": pc.if_else(pa.array(absent), pa.scalar([], isr.type), isr),
            "leader_epoch": gathered(states.leader_epoch, 0),
            "controller_epoch": gathered(states.controller_epoch, 0),
            "recovery": gathered(states.recovery, 0).cast(pa.int8()),
        }
        if self._versioned:
            result["version"] = gathered(states.version, 0)
        return result

    def _note_states(
        self, absent: npt.NDArray[np.bool_], n_orphans: int, columns: dict[str, pa.Array],
        notes: list[str],
    ) -> None:
        """Say which partitions have no state znode, and how many state znodes no partition."""
        n = int(np.count_nonzero(absent))
        if n:
            first = int(np.flatnonzero(absent)[0])
            label = f"{columns['topic'][first].as_py()}-{columns['partition'][first].as_py()}"
            notes.append(
                f"{self._name}: partitions without a state znode, which have had no leader yet:"
                f" {n}, the first is {label}"
            )
        if n_orphans:
            notes.append(
                f"{self._name}: state znodes of partitions that no topic assigns, passed over:"
                f" {n_orphans}"
            )

    def _topic_table(self) -> pa.Table:
        names = sorted(self._assignments)
        return pa.table({
            "topic": pa.array(names, pa.string()),
            "topic_id": pa.array([self._assignments[name].topic_id for name in names], pa.string()),
            **setting_columns(self._name, names, self._settings),
            "queued_for_deletion": pa.array([name in self._deleted for name in names], pa.bool_()),
        })

    def _broker_table(
        self, tables: SourceTables, notes: list[str]
    ) -> tuple[pa.Table, tuple[int, ...], tuple[int, ...]]:
        """The brokers, those taken for down and those taken for up."""
        registered = self._brokers.keys() | self._listed
        if not registered:
            notes.append(f"{self._name} has no znode of a broker: racks are not known")
            if self._states.topic:
                return presume_brokers(tables)
            return brokers_of(tables), (), ()
        assigned = brokers_of(tables)["broker_id"].to_pylist()
        ids = sorted({*assigned, *registered})
        missing = [broker for broker in ids if broker not in registered]
        if missing:
            notes.append(
                f"{self._name}: brokers without a znode, which are not registered:"
                f" {abbreviate(missing)}"
            )
        znodes = [self._brokers.get(broker) for broker in ids]
        columns = {
            "broker_id": pa.array(ids, pa.int32()),
            "rack": pa.array([znode and znode[0].rack for znode in znodes], pa.string()),
            "registered": pa.array([broker in registered for broker in ids]),
        }
        epochs = [znode and znode[1] for znode in znodes]
        if any(epoch is not None for epoch in epochs):
            columns["epoch"] = pa.array(epochs, pa.int64())
        return pa.table(columns), (), ()

    def _cluster(self, notes: list[str]) -> pa.Table:
        """The controller and the brokers' default settings."""
        columns: dict[str, pa.Array] = {"controller": pa.array([self._release()[0]])}
        if self._controller is not None:
            columns["controller_id"] = pa.array([self._controller.broker_id], pa.int32())
            if (self._controller.kraft_controller_epoch or -1) >= 0:
                notes.append(f"{self._name}: a KRaft controller runs the cluster, to migrate it")
        if self._epoch is not None:
            columns["controller_epoch"] = pa.array([self._epoch[0]], pa.int32())
            columns["epoch_store_version"] = pa.array([self._epoch[1]], pa.int32())
        defaults = self._broker_settings.get("<default>", {})
        columns |= default_columns(f"{self._name}: /config/brokers/<default>", defaults)
        return pa.table(columns)

    def _release(self) -> tuple[str, str]:
        """The newest release that writes these znodes, and the reason."""
        registrations = max((znode.version for znode, _ in self._brokers.values()), default=5)
        assignments = max(assignment.version for assignment in self._assignments.values())
        bounds: Iterable[tuple[str, str]] = (
            ("3.9", "nothing in it is of an older release"),
            *((("3.3", "the controller's znode is of version 1"),)
              if self._controller is not None and self._controller.version < 2 else ()),
            *((("2.7", "no topic has an id"),) if assignments == 2 else ()),
            *((("2.6", f"the znodes of brokers are of version {registrations}"),)
              if registrations < 5 else ()),
            *((("2.3", "the znodes of topics are of version 1"),) if assignments == 1 else ()),
        )
        release, reason = [*bounds][-1]
        return f"zk-{release}", reason

    def _controller_reason(self) -> str:
        release, reason = self._release()
        return (
            f"{REASON}inferred: {self._name} has znodes of ZooKeeper mode, and {release} is the"
            f" newest release that it may be of, for {reason}; --controller overrides"
        )

    def _note_rest(self, notes: list[str]) -> None:
        """What was passed over."""
        if self._moves:
            notes.append(
                f"{self._name}: /admin/reassign_partitions asks to move {len(self._moves)}"
                " partitions; its targets are not read (give them as a plan, with --plan)"
            )
        gone = sorted(self._deleted - self._assignments.keys())
        if gone:
            notes.append(
                f"{self._name}: topics to be deleted that do not exist: {abbreviate(gone)}"
            )
        own = sorted(b for b, settings in self._broker_settings.items()
                     if b != "<default>" and default_columns(self._name, settings))
        if own:
            notes.append(
                f"{self._name}: settings of single brokers are not read: those of {abbreviate(own)}"
            )
        if self._foreign_field:
            notes.append(f"{self._name}: fields passed over, the first: {self._foreign_field}")
        unset = sorted(self._assignments.keys() - self._settings.keys())
        if unset:
            notes.append(
                f"{self._name}: topics without a znode of settings, taken for unset:"
                f" {abbreviate(unset, 3)}"
            )
        if self._epoch is None:
            notes.append(f"{self._name} has no znode /controller_epoch")
        if self._n_unknown:
            notes.append(
                f"{self._name}: znodes passed over that are not Kafka's: {self._n_unknown}, the"
                f" first is {quote(self._unknown[0])}"
            )
