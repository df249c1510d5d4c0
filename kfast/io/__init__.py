"""Clusters from files and to files; the kind of a file is told by its content.

`files.py` and `file_systems.py` open files, here and on object stores, `file_kinds.py` recognises
them. Every reader gives `source_tables.SourceTables`: those of `describe`, `metadata` (KRaft),
`zookeeper`, `kafka_tools`, `clients`, `planners` and `live` (running clusters), and Arrow and
Parquet; `merging` makes one of several. `loads` reads what partitions carry.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from kfast.arguments import check_instance
from kfast.errors import ArgumentError, InputError
from kfast.io.arrow import read_arrow, write_arrow
from kfast.io.brokers import (
    add_brokers_file,
    add_new_brokers,
    parse_brokers,
    read_brokers_file,
)
from kfast.io.clients.client_listings import read_kcat_listing, read_table_listing
from kfast.io.clients.client_metadata import read_client_metadata
from kfast.io.controller_inference import note_controller
from kfast.io.describe.parser import Progress
from kfast.io.describe.reader import read_describe
from kfast.io.describe.writer import write_describe
from kfast.io.file_kinds import PLAN, json_kind, recognise
from kfast.io.files import Source, check_utf8, load, name_of, writing
from kfast.io.kafka_tools.broker_versions import read_broker_versions
from kfast.io.kafka_tools.configuration_texts import read_configurations
from kfast.io.kafka_tools.plan_json import read_current_assignment, read_plan, write_reassignment
from kfast.io.kafka_tools.quorum_texts import read_cluster_tool, read_features, read_quorum
from kfast.io.kafka_tools.reassignment_texts import read_reassignment_list, read_reassignment_states
from kfast.io.live import LiveSource, is_live, name_of_source, read_live
from kfast.io.loads.log_directories import read_log_directories
from kfast.io.merging.contradictions import ALL_COLUMNS, provenance_of
from kfast.io.merging.sources import merge, with_standing
from kfast.io.metadata.files import find_metadata
from kfast.io.metadata.log import At, LoggedRecord, MetadataLog
from kfast.io.metadata.shell import read_metadata_shell
from kfast.io.metadata.text import files_in
from kfast.io.parquet import map_parquet, read_parquet, write_flat, write_parquet
from kfast.io.planners.cruise_control_placement import read_broker_sets
from kfast.io.planners.cruise_control_state import read_cluster_state, read_load_brokers
from kfast.io.planners.kafka_assigner import read_kafka_assigner
from kfast.io.planners.strimzi import read_strimzi
from kfast.io.source_tables import (
    NO_PARTITIONS,
    Coverage,
    Exactness,
    SourceTables,
    add_defaults,
    mark_up,
    note_presumed,
)
from kfast.io.zookeeper.dumps import (
    find_znodes,
    read_znode_folder,
    read_znode_lines,
    read_znode_map,
    read_znode_transcript,
)
from kfast.io.zookeeper.snapshot import read_znode_snapshot
from kfast.kernels.describe import survey
from kfast.state import ClusterState
from kfast.state.flat_table import is_flat, to_lists
from kfast.state.from_tables import default_sentences
from kfast.state.kraft_releases import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION
from kfast.state.metadata_records import RegisterBrokerRecord, ResourceType

__all__ = [
    "FORMATS",
    "LoggedRecord",
    "MetadataLog",
    "Progress",
    "SourceTables",
    "complete",
    "format_of",
    "gather",
    "iter_records",
    "open_metadata",
    "parse_brokers",
    "read",
    "read_broker_sets",
    "read_brokers_file",
    "read_plan",
    "read_tables",
    "write",
]

METADATA_LOG = "metadata log of KRaft"

FORMATS = {
    "describe": (".txt", ".describe"),
    "reassignment": (".json",),
    "arrow": (".arrow", ".feather", ".ipc"),
    "parquet": (".parquet",),
    "parquet-flat": (),
}
"""What can be written, and the ends of file names that ask for it; `parquet-flat` is by request."""


def read(
    path: Source | LiveSource,
    *more_paths: Source | LiveSource,
    brokers_file: Source | None = None,
    add_brokers: Mapping[int, str | None] | None = None,
    defaults: Mapping[str, object] | None = None,
    up: Iterable[int] = (),
    progress: Progress | None = None,
    at: At | None = None,
    command_config: Source | None = None,
) -> ClusterState:
    """Read a cluster from a file.

    The file may be the text of `kafka-topics --describe` of any version (with prompts, log lines
    and wrapped lines in it), a reassignment plan in JSON, Arrow IPC or Parquet; a snapshot or
    segment of KRaft's metadata log, the folder `__cluster_metadata-0` or the one that holds it, or
    the text of `kafka-dump-log --cluster-metadata-decoder`. It may be packed with gzip or zstd.
    What the file does not say gets Kafka's default or is concluded, and stands in
    `state.assumptions`.

    Parameters
    ----------
    path, *more_paths : path, (str, bytes), address or client
        The file, or several that make one cluster together; `-` is standard input. A pair is what
        messages call it, and what it holds. `kafka://host:9092`, `zk://host:2181/chroot` and admin
        clients are running clusters: see docs/live.md.
    brokers_file : path, or (str, bytes), optional
        CSV with the columns broker_id, rack and perhaps registered: see `kfast.io.brokers`.
    add_brokers : mapping of int to str or None, optional
        Brokers that the file does not name, each with its rack or None for none. They are
        registered and hold no replica.
    defaults : mapping, optional
        Brokers' defaults: `min.insync.replicas`, `unclean.leader.election.enable`,
        `delete.topic.enable`.
    up : iterable of int, optional
        Broker ids that are registered, whatever the file shows.
    progress : callable, optional
        Called with the bytes done and the bytes there are, now and then.
    at : int or datetime, optional
        A point of a metadata log: the offset behind the last record that counts, as the high
        watermark and snapshots are numbered; or a time (without a zone: UTC).
    command_config : path, or (str, bytes), optional
        Properties of Kafka's own clients, for `kafka://`.

    Returns
    -------
    ClusterState

    Raises
    ------
    InputError
        The file cannot be read, is of another kind, is damaged, or contradicts itself. The message
        names the file, the line, what was found and what is right.
    ArgumentError
        A default or a broker id that kfast cannot take; a broker to be added that the file names,
        or one to be up that it does not; a point of no log, or one that the log does not have or
        that is before its first broker.
    """
    content = _contents((path, *more_paths), at, progress, command_config)
    if isinstance(content, ClusterState):
        if brokers_file is None and not add_brokers and not defaults and not tuple(up):
            return content
        content = replace(
            _tables_of(content, name_of_source(path)), provenance=content.provenance
        )
    tables = complete(
        content, brokers_file=brokers_file, add_brokers=add_brokers, defaults=defaults, up=up
    )
    state = ClusterState.from_tables(
        tables.brokers,
        tables.topics,
        tables.partitions,
        tables.cluster,
        source=tables.source,
        notes=tables.notes,
    )
    state.log_settings, state.provenance = tables.log_settings, tables.provenance
    return state


def read_tables(
    path: Source | LiveSource,
    *more_paths: Source | LiveSource,
    brokers_file: Source | None = None,
    add_brokers: Mapping[int, str | None] | None = None,
    defaults: Mapping[str, object] | None = None,
    up: Iterable[int] = (),
    progress: Progress | None = None,
    at: At | None = None,
    command_config: Source | None = None,
) -> SourceTables:
    """Read a file into tables, with nothing filled in. Arguments and errors are those of `read`."""
    tables = gather(
        path,
        *more_paths,
        brokers_file=brokers_file,
        add_brokers=add_brokers,
        defaults=defaults,
        up=up,
        progress=progress,
        at=at,
        command_config=command_config,
    )
    return _with_lists(tables)


def _with_lists(tables: SourceTables) -> SourceTables:
    """The same with lists, where partitions are flat."""
    if not is_flat(tables.partitions):
        return tables
    lists = to_lists(tables.partitions, tables.source, tables.is_kraft)
    return replace(tables, partitions=lists)


def gather(
    path: Source | LiveSource,
    *more_paths: Source | LiveSource,
    brokers_file: Source | None = None,
    add_brokers: Mapping[int, str | None] | None = None,
    defaults: Mapping[str, object] | None = None,
    up: Iterable[int] = (),
    progress: Progress | None = None,
    at: At | None = None,
    command_config: Source | None = None,
) -> SourceTables:
    """`read_tables`, the partitions in the form that the file has: flat, or with lists."""
    content = _contents((path, *more_paths), at, progress, command_config)
    if isinstance(content, ClusterState):
        content = _tables_of(content, name_of_source(path))
    return complete(
        content, brokers_file=brokers_file, add_brokers=add_brokers, defaults=defaults, up=up
    )


def complete(
    tables: SourceTables,
    *,
    brokers_file: Source | None = None,
    add_brokers: Mapping[int, str | None] | None = None,
    defaults: Mapping[str, object] | None = None,
    up: Iterable[int] = (),
) -> SourceTables:
    """Add what a caller of `read` says to what a file says."""
    if brokers_file is not None:
        tables = add_brokers_file(tables, brokers_file)
    if add_brokers is not None:
        tables = add_new_brokers(tables, add_brokers)
    tables = note_presumed(mark_up(add_defaults(tables, defaults), up))
    return note_controller(tables)


def _contents(
    paths: Sequence[Source | LiveSource], at: At | None, progress: Progress | None,
    command_config: Source | None,
) -> ClusterState | SourceTables:
    """What files hold together: of a metadata log alone the state, of anything else tables."""
    if command_config is not None and not any(map(is_live, paths)):
        raise ArgumentError(
            f"command_config: {name_of_source(paths[0])} is no cluster that runs, but a file"
        )
    if [name_of_source(path) for path in paths].count("-") > 1:
        raise ArgumentError("only one of several inputs can be standard input")
    contents = [_content(path, at, progress, command_config) for path in paths]
    if at is not None and not any(isinstance(content, ClusterState) for content in contents):
        raise ArgumentError(
            f"at: {', '.join(map(name_of_source, paths))} is no metadata log; it shows one moment"
            " only"
        )
    content = contents[0]
    if len(contents) > 1:
        return merge([
            _with_lists(_tables_of(content, name_of_source(path))
                        if isinstance(content, ClusterState) else content)
            for path, content in zip(paths, contents, strict=True)
        ])
    if isinstance(content, ClusterState):
        log = SourceTables(name_of_source(paths[0]), NO_PARTITIONS, kind=METADATA_LOG)
        content.provenance = provenance_of([(ALL_COLUMNS, log, content.n_partitions, 0)])
        return content
    if not content.coverage:
        raise InputError(
            f"{content.source}: is {content.kind}, which does not list the partitions; right is"
            " beside it a file that does, such as the output of kafka-topics.sh --describe"
        )
    if content.provenance is not None:
        return content
    rows = [(ALL_COLUMNS, content, content.partitions.num_rows, 0)]
    return replace(content, provenance=provenance_of(rows))


def _content(
    path: Source | LiveSource, at: At | None, progress: Progress | None,
    command_config: Source | None,
) -> ClusterState | SourceTables:
    """What a path holds: of a metadata log the state, of anything else tables."""
    if is_live(path):
        return read_live(path, command_config)
    znodes = find_znodes(path)
    if znodes is not None:
        return with_standing(read_znode_folder(znodes), "a ZooKeeper dump (folder)")
    files = find_metadata(path)
    if files is None:
        tables = map_parquet(path)
        if tables is not None:
            return with_standing(tables, "parquet")
        name, data, (kind, start) = load(path, recognise)
        files = files_in(name, data, kind)
        if files is None:
            return _read_data(name, data, kind, start, progress)
    log = MetadataLog(name_of(path), files)
    state = log.state(at)
    if at is not None and not state.n_brokers:
        raise _before_brokers(log, at)
    return state


def _before_brokers(log: MetadataLog, at: At) -> ArgumentError:
    """Say that a point of a log is before the registration of its first broker."""
    first = next((r for r in log.records() if isinstance(r.record, RegisterBrokerRecord)), None)
    begins = "none of its records registers one"
    if first is not None:
        time = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC)
        begins = (
            f"the first is registered at offset {first.offset}, at "
            f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z"
        )
    return ArgumentError(f"at: {log.name} has no broker at {at}; {begins}")


def _tables_of(state: ClusterState, source: str) -> SourceTables:
    """A KRaft state as tables; its configurations alone say what the brokers' defaults are."""
    tables, assumed = state.to_tables(), default_sentences(state).values()
    defaults = ["default_min_insync_replicas", "default_unclean_leader_election"]
    return SourceTables(
        source, tables.partitions, tables.topics, tables.brokers,
        tables.cluster.drop_columns(defaults),
        notes=tuple(note for note in state.assumptions if note not in assumed),
        kind=METADATA_LOG, exactness=Exactness.RECORDS, coverage=Coverage.CLUSTER,
    )


def iter_records(path: Source, *, start: int | None = None) -> Iterator[LoggedRecord]:
    """Read the records of a metadata log, in order, from a path as `read` takes it.

    Records of transactions that were aborted or have not ended are left out.

    Parameters
    ----------
    path : path, or (str, bytes)
        A segment, a snapshot, or the folder of a log: then its segments are read.
    start : int, optional
        Offset of the first record.

    Raises
    ------
    InputError
        It is no metadata log, or a damaged one.
    """
    return open_metadata(path).records(start)


def open_metadata(path: Source) -> MetadataLog:
    """Find the files of a metadata log; `InputError` where a path holds none."""
    files = find_metadata(path)
    if files is None:
        name, data, (kind, _) = load(path, recognise)
        files = files_in(name, data, kind)
    if files is None:
        raise InputError(f"{name_of(path)}: is no metadata log of KRaft, and no snapshot of one")
    return MetadataLog(name_of(path), files)


def _read_data(
    name: str, data: bytes, kind: str, start: int, progress: Progress | None
) -> SourceTables:
    """Read what a file holds."""
    if kind not in _BINARY and survey(data)[2]:
        check_utf8(name, data)
    if kind == "json":
        kind = json_kind(name, data, start)
    if kind == "describe":
        return with_standing(read_describe(name, data, progress), kind)
    return with_standing(_READERS[kind](name, data, start), kind)


_BINARY = ("arrow", "parquet", "a ZooKeeper snapshot")
_READERS: dict[str, Callable[[str, bytes, int], SourceTables]] = {
    "arrow": lambda name, data, _: read_arrow(name, data),
    "parquet": lambda name, data, _: read_parquet(name, data),
    "a ZooKeeper snapshot": lambda name, data, _: read_znode_snapshot(name, data),
    PLAN: read_current_assignment,
    "a ZooKeeper dump (JSON lines)": read_znode_lines,
    "a ZooKeeper dump (JSON)": read_znode_map,
    "a zookeeper-shell transcript": read_znode_transcript,
    "kcat metadata (JSON)": read_client_metadata,
    "JSON of an admin client": read_client_metadata,
    "a kcat listing (text)": read_kcat_listing,
    "output of rpk or kcl": read_table_listing,
    "a Cruise Control cluster state": read_cluster_state,
    "a Cruise Control load": read_load_brokers,
    "output of kafka-assigner": read_kafka_assigner,
    "output of kafka-metadata-shell": read_metadata_shell,
    "Strimzi custom resources (YAML)": read_strimzi,
    "output of kafka-broker-api-versions": read_broker_versions,
    "output of kafka-configs --describe": read_configurations,
    "output of kafka-log-dirs --describe": read_log_directories,
    "output of kafka-reassign-partitions --list": read_reassignment_list,
    "output of kafka-reassign-partitions --verify": read_reassignment_states,
    "output of kafka-metadata-quorum": read_quorum,
    "output of kafka-features": read_features,
    "output of kafka-cluster": read_cluster_tool,
}
"""What reads each kind of file: called with its name, all of it, and where JSON begins."""


def write(
    state: ClusterState | SourceTables,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
) -> None:
    """Write a cluster to a file, whole or not at all.

    Arrow and Parquet keep everything. A describe text keeps what `kafka-topics` prints (no epochs,
    racks, states, controller, or brokers without replicas; settings of the brokers only as settings
    of each topic), a reassignment plan only who holds what.

    Parameters
    ----------
    state : ClusterState or SourceTables
        The cluster.
    path : path
        The file, which is replaced; `-` is standard output.
    format : {"describe", "reassignment", "arrow", "parquet", "parquet-flat"}, optional
        By default the end of the file's name tells. `parquet-flat` has plain integers instead of
        lists, which are ten times faster: see `kfast.state.flat_table`.

    Raises
    ------
    ArgumentError
        The format is unknown, or the name of the file does not tell; a flat file cannot hold
        this cluster.
    """
    check_instance("state", state, ClusterState, SourceTables)
    chosen = format or format_of(path)
    if chosen not in FORMATS:
        raise ArgumentError(f"format {chosen!r} is not one of {', '.join(FORMATS)}")
    tables = _tables(state, flat=chosen == "parquet-flat")
    with writing(path) as file:
        if chosen == "parquet-flat":
            write_flat(tables, file)
        elif chosen == "arrow":
            write_arrow(tables, file)
        elif chosen == "parquet":
            write_parquet(tables, file)
        elif chosen == "reassignment":
            write_reassignment(tables.partitions, file)
        else:
            cluster = ClusterState.from_tables(
                tables.brokers, None, tables.partitions.slice(0, 0), tables.cluster
            )
            write_describe(
                tables.topics, tables.partitions, file, _broker_settings(cluster),
                elr_on=cluster.quorum is not None and cluster.quorum.elr_on,
            )


def _broker_settings(state: ClusterState) -> dict[str, object]:
    """Settings of the brokers that are given, or are not Kafka's defaults, by columns of topics."""
    quorum, given = state.quorum, set()
    if quorum is not None:
        given = set(quorum.static_configuration).union(*(
            quorum.configurations.get((ResourceType.BROKER, name), ())
            for name in ("", str(state.controller_id))
        ))
    min_isr, unclean = state.default_min_insync_replicas, state.default_unclean_leader_election
    settings: dict[str, object] = {}
    if MIN_INSYNC_REPLICAS in given or min_isr != 1:
        settings["min_insync_replicas"] = min_isr
    if UNCLEAN_LEADER_ELECTION in given or unclean:
        settings["unclean_leader_election"] = unclean
    return settings


def _tables(state: ClusterState | SourceTables, *, flat: bool) -> SourceTables:
    """What is to be written, the partitions in the form that is asked for."""
    if isinstance(state, SourceTables):
        if flat == is_flat(state.partitions):
            return state
        if not flat:
            return _with_lists(state)
        state = ClusterState.from_tables(
            state.brokers, state.topics, state.partitions, state.cluster
        )
    tables, provenance = state.to_tables(flat=flat), state.provenance
    return SourceTables(
        "", tables.partitions, tables.topics, tables.brokers, tables.cluster, provenance=provenance
    )


def format_of(path: str | os.PathLike[str]) -> str:
    """Format that the end of a file's name asks for; `ArgumentError` where it asks for none."""
    end = Path(path).suffix.lower()
    for name, ends in FORMATS.items():
        if end in ends:
            return name
    known = ", ".join(f"{' '.join(ends)} ({name})" for name, ends in FORMATS.items() if ends)
    raise ArgumentError(f"{os.fspath(path)}: its name tells no format; give one, or use {known}")
