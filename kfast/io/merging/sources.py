"""Several sources of one cluster, merged into one.

Sources are put in order: the more exact first (`Exactness`), of equal ones the one that covers
more, then the newer, then the one that was named first. Each partition is taken from the first
source that knows of it; one that an earlier source could list and does not is no partition. Each
value is taken from the first source that has it, and only where that source agrees on the replicas
and the leader. Nothing that a source lacks takes anything away. Wherever a source differs from what
counts, a note says so.

Source: docs/formats.md, section "Several files".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast import schema
from kfast.errors import InputError
from kfast.io.file_kinds import PLAN
from kfast.io.files import abbreviate
from kfast.io.merging.contradictions import Contradictions
from kfast.io.merging.keyed_tables import Combined, Part, combine
from kfast.io.merging.log_dir_comparison import compare_log_dirs
from kfast.io.source_tables import (
    Coverage,
    Exactness,
    SourceTables,
    add_defaults,
    brokers_of,
    cast_columns,
    default_settings,
    set_column,
)
from kfast.state import ClusterState
from kfast.state.controller_change import REASON
from kfast.state.kraft_releases import ELR_VERSION

__all__ = ["merge", "with_standing"]

_STANDING = {
    "arrow": (Exactness.TABLES, Coverage.TOPICS),
    "parquet": (Exactness.TABLES, Coverage.TOPICS),
    "a ZooKeeper snapshot": (Exactness.RECORDS, Coverage.CLUSTER),
    "a ZooKeeper dump (folder)": (Exactness.RECORDS, Coverage.CLUSTER),
    "a ZooKeeper dump (JSON lines)": (Exactness.RECORDS, Coverage.CLUSTER),
    "a ZooKeeper dump (JSON)": (Exactness.RECORDS, Coverage.CLUSTER),
    "a zookeeper-shell transcript": (Exactness.RECORDS, Coverage.CLUSTER),
    PLAN: (Exactness.PLANS, Coverage.TOPICS),
}
"""How much kinds of files count, and which partitions they know of; others are answers."""

_NAMES = {"describe": "kafka-topics --describe", "arrow": "Arrow", "parquet": "Parquet"}
_REPLICAS = ("replicas", "leader")
"""A source fills in the rest of a partition only where it agrees on these."""
_PARTITION_LEADS = {
    "removing": "adding", "being_reassigned": "adding", "last_known_elr": "elr",
    "replica_states": "replica_state_broker_ids",
}
_BROKER_LEADS = dict.fromkeys(
    ("fenced", "shutting_down", "in_controlled_shutdown", "up"), "registered"
)
"""What belongs together is taken from one source."""
_INTERNAL = "__"
"""Names of internal topics begin with it."""
_UP = "up"
"""Registered and not fenced: what is compared."""


def merge(sources: Sequence[SourceTables]) -> SourceTables:
    """Merge the tables of several sources; partitions are not flat.

    Raises
    ------
    InputError
        A source is damaged, none lists partitions, or they are of different clusters.
    """
    ordered = [
        sources[place] for place in sorted(
            range(len(sources)), key=lambda place: (*_rank(sources[place]), place)
        )
    ]
    name = ", ".join(source.source for source in sources)
    if not any(source.coverage for source in ordered):
        raise InputError(
            f"{name}: none of these files lists partitions; right is one more that does, such as"
            " the output of kafka-topics.sh --describe"
        )
    for source in ordered:
        # What is wrong in one file is said with its own name and line.
        ClusterState.from_tables(
            source.brokers, source.topics, source.partitions, source.cluster, source=source.source
        )
    topics = [_topic_names(source).to_pylist() for source in ordered]
    _refuse_other_clusters(ordered, topics)
    report = Contradictions([source.source for source in ordered])
    _compare_topics(ordered, topics, report)
    partitions = _merge_partitions(ordered, report)
    down, unknown, brokers = _merge_brokers(ordered, report)
    controller, cluster = _merge_cluster(ordered, report)
    merged = SourceTables(
        name, partitions, _merge_topics(ordered, partitions, report), brokers, cluster,
        taken_for_down=down, taken_for_up=unknown, log_settings=_merge_settings(ordered, report),
        kind=", ".join(dict.fromkeys(source.kind for source in sources)),
    )
    merged = _of_controller(_with_defaults(merged, ordered, report))
    merged = compare_log_dirs(merged, ordered, report)
    notes = [note for note in controller.notes if note.startswith(REASON)]
    for source in sources:
        notes += [
            note if source.source in note else f"{source.source}: {note}"
            for note in source.notes if not note.startswith(REASON)
        ]
    return replace(
        merged, notes=(*notes, *report.notes), provenance=report.provenance(ordered)
    )


def with_standing(tables: SourceTables, kind: str) -> SourceTables:
    """Tables of a file of some kind with how much they count, unless a reader has said it."""
    if tables.kind:
        return tables
    exactness, coverage = _STANDING.get(kind, (tables.exactness, tables.coverage))
    kind = _NAMES.get(kind, kind)
    return replace(tables, kind=kind, exactness=exactness, coverage=coverage)


def _rank(source: SourceTables) -> tuple[int, ...]:
    """What orders sources: the one that counts most has the lowest."""
    return source.exactness, -source.coverage, -(source.captured_ms or 0)


def _refuse_other_clusters(
    ordered: Sequence[SourceTables], topics: Sequence[list[str]]
) -> None:
    """Refuse a source that has another cluster's id, or no broker that any other one names."""
    ids = {source.cluster_id: source.source for source in ordered if source.cluster_id}
    if len(ids) > 1:
        named = " and ".join(f"{name} ({cluster})" for cluster, name in ids.items())
        raise InputError(f"{named} are of different clusters; right are files of one")
    brokers = [set(brokers_of(source)["broker_id"].to_pylist()) for source in ordered]
    for place, own in enumerate(brokers):
        common = set().union(*brokers[:place], *brokers[place + 1 :])
        if own and common and not own & common:
            raise InputError(
                f"{ordered[place].source}: its brokers, {abbreviate(sorted(own))}, are in no other"
                f" file; those name {abbreviate(sorted(common))}; right are files of one cluster"
            )
    for place, listed in enumerate(topics):
        if listed and not brokers[place]:
            others = set().union(*topics[:place], *topics[place + 1 :])
            if others and others.isdisjoint(listed):
                raise InputError(
                    f"{ordered[place].source}: its topics, {abbreviate(listed, 3)}, are in no"
                    " other file; right are files of one cluster"
                )


def _compare_topics(
    ordered: Sequence[SourceTables], topics: Sequence[list[str]], report: Contradictions
) -> None:
    """Note sources without a common topic; refuse one that a source of the whole cluster excludes.

    Every cluster has the internal topics. Sources that have the same cluster id, or share topics
    with a third one, are of one cluster.
    """
    own = [[name for name in listed if not name.startswith(_INTERNAL)] for listed in topics]
    groups = _connected([
        # No topic has spaces in its name.
        {*names, *([f"cluster id {source.cluster_id}"] if names and source.cluster_id else ())}
        for source, names in zip(ordered, own, strict=True)
    ])
    for group in groups:
        for n in range(len(ordered)):
            covering = [m for m in group if ordered[m].coverage == Coverage.CLUSTER]
            if covering and own[n] and n not in group and ordered[n].partitions.num_rows:
                raise InputError(
                    f"{ordered[n].source}: its topics, {abbreviate(own[n], 3)}, are not in"
                    f" {ordered[covering[0]].source}, which lists all of its cluster; right are"
                    " files of one cluster"
                )
    if len(groups) > 1:
        names = [ordered[n].source for n in sorted(map(min, groups))]
        report.notes.append(
            "these files have no topic in common, internal ones aside, and are taken for files of"
            f" one cluster: {abbreviate(names)}"
        )


def _connected(sets: Sequence[set[str]]) -> list[list[int]]:
    """Places of the sets that are not empty, in groups that have no member in common."""
    groups: list[tuple[set[str], list[int]]] = []
    for place, members in enumerate(sets):
        if members:
            joined = [group for group in groups if not members.isdisjoint(group[0])]
            groups = [group for group in groups if members.isdisjoint(group[0])]
            groups.append((members.union(*(others for others, _ in joined)),
                           sorted([place, *chain.from_iterable(own for _, own in joined)])))
    return [places for _, places in groups]


def _is_complete(source: SourceTables) -> bool:
    """Whether what a source does not say of a row is not so, rather than unknown."""
    return source.exactness == Exactness.RECORDS


def _topic_names(source: SourceTables) -> pa.StringArray:
    """Topics that a source names."""
    names = [_topics_of(source.partitions).dictionary]
    if source.topics is not None:
        names.insert(0, source.topics["topic"].combine_chunks().cast(pa.string()))
    return pc.unique(pa.concat_arrays(names))


def _topics_of(partitions: pa.Table) -> pa.DictionaryArray:
    """Topics of partitions, encoded; each name that is used once in the dictionary."""
    topics = partitions["topic"]
    if pa.types.is_dictionary(topics.type):
        topics = topics.cast(pa.string())
    encoded = pa.chunked_array([topics.combine_chunks()]).dictionary_encode().combine_chunks()
    return encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded


# --- partitions ----------------------------------------------------------------------------------


def _merge_partitions(ordered: Sequence[SourceTables], report: Contradictions) -> pa.Table:
    """All partitions: placement from those that list it, the rest from any that agrees."""
    numbers = sorted(range(len(ordered)), key=lambda n: ordered[n].coverage == Coverage.NOTHING)
    encoded = {n: _topics_of(ordered[n].partitions) for n in numbers}
    names = pc.unique(pa.concat_arrays([topics.dictionary for topics in encoded.values()]))
    parts = []
    for n in numbers:
        topics, number = encoded[n], ordered[n].partitions["partition"].to_numpy()
        code = pc.index_in(topics.dictionary, value_set=names).to_numpy(zero_copy_only=False)
        keys = code.astype(np.int64)[topics.indices.to_numpy(zero_copy_only=False)] << 32 | number
        parts.append(Part(n, cast_columns(ordered[n].partitions, schema.PARTITIONS_SCHEMA),
                          pa.array(keys), _is_complete(ordered[n])))
    keys = _covered_keys(ordered, parts)
    topic = pa.DictionaryArray.from_arrays(pa.array((keys >> 32).astype(np.int32)), names)
    number = pa.array((keys & 0xFFFFFFFF).astype(np.int32))
    for part in parts:
        part.align(pa.array(keys))

    def row_name(row: int) -> str:
        return f"{topic[row].as_py()}-{number[row].as_py()}"

    combined = Combined({}, {})
    placing = [part for part in parts if ordered[part.source].coverage]
    for column in _REPLICAS:
        combined.update(combine(placing, keys.size, [column], {}))
        for part, rows in report.compare(column, parts, combined, row_name):
            agrees = np.ones(keys.size, bool) if part.agrees is None else part.agrees
            agrees[rows] = False
            part.agrees = agrees
    rest = [
        column for column in schema.PARTITIONS_SCHEMA.names
        if column not in ("topic", "partition", *_REPLICAS)
    ]
    combined.update(combine(parts, keys.size, rest, _PARTITION_LEADS))
    for column in ("isr", "elr", "adding", "removing"):
        report.compare(column, parts, combined, row_name)
    report.count(combined)
    _compare_counts(ordered, parts, keys, names, report)
    return pa.table({"topic": topic, "partition": number, **combined.columns})


def _covered_keys(
    ordered: Sequence[SourceTables], parts: Sequence[Part]
) -> npt.NDArray[np.int64]:
    """Keys of all partitions: each that the first source that knows of it lists."""
    keys = np.empty(0, np.int64)
    covered = np.empty(0, np.int64)
    for part in parts:
        source, own = ordered[part.source], part.keys.to_numpy()
        if not source.coverage:
            continue
        keys = np.concatenate([keys, own[~(np.isin(own, keys) | np.isin(own >> 32, covered))]])
        if source.coverage == Coverage.TOPICS:
            covered = np.union1d(covered, own >> 32)
        elif source.coverage == Coverage.CLUSTER:
            break
    return keys


def _compare_counts(
    ordered: Sequence[SourceTables], parts: Sequence[Part], keys: npt.NDArray[np.int64],
    names: pa.StringArray, report: Contradictions,
) -> None:
    """Say which topics have another number of partitions in a source, or only one of both knows."""
    counts = np.bincount(keys >> 32, minlength=len(names))
    first = np.full(len(names), -1)
    for part in parts:
        own_keys = part.keys.to_numpy()
        own = np.bincount(own_keys >> 32, minlength=len(names))
        first[(first < 0) & (own > 0) & (ordered[part.source].coverage > 0)] = part.source
        if ordered[part.source].coverage < Coverage.TOPICS:
            more = np.setdiff1d(own_keys, keys)
            own = (own > 0) * (counts + np.bincount(more >> 32, minlength=len(names)))
        differ = np.flatnonzero((own != counts) & (own > 0) & (counts > 0))
        report.differ("partition counts", part.source, "topics", [
            f"{names[n].as_py()} ({counts[n]}, not {own[n]})" for n in differ[:3].tolist()
        ], differ.size, *dict.fromkeys(first[differ].tolist()))
        absent = np.flatnonzero((counts == 0) & (own > 0))
        report.leave_out(part.source, [names[n].as_py() for n in absent.tolist()])


# --- topics, brokers, cluster --------------------------------------------------------------------


def _merge_topics(
    ordered: Sequence[SourceTables], partitions: pa.Table, report: Contradictions
) -> pa.Table | None:
    """Topics of all sources that list partitions, up to the first that lists the whole cluster."""
    names = [_topics_of(partitions).dictionary]
    for source in ordered:
        if source.coverage:
            names.append(_topic_names(source))
            if source.coverage == Coverage.CLUSTER:
                break
    keys = names[0]
    if len(names) > 1 and ordered[0].coverage:
        keys = pc.unique(pa.concat_arrays([names[1], *names]))
    parts = [
        Part(n, source.topics, source.topics["topic"].combine_chunks().cast(pa.string()),
             _is_complete(source))
        for n, source in enumerate(ordered) if source.topics is not None
    ]
    for part in parts:
        part.align(keys)
        if not ordered[part.source].coverage:
            absent = part.keys.filter(pc.invert(pc.is_in(part.keys, value_set=keys)))
            report.leave_out(part.source, absent.to_pylist())
    if not parts:
        return None
    columns = [name for name in schema.TOPICS_SCHEMA.names if name != "topic"]
    combined = combine(parts, len(keys), columns, {})
    for column in ("topic_id", "min_insync_replicas", "unclean_leader_election"):
        report.compare(column, parts, combined, lambda row: str(keys[row].as_py()))
    report.count(combined)
    return pa.table({"topic": keys, **combined.columns})


def _merge_brokers(
    ordered: Sequence[SourceTables], report: Contradictions
) -> tuple[tuple[int, ...], tuple[int, ...], pa.Table]:
    """All brokers that any source names; those that are taken for down, and for up; the table."""
    tables = [_stated_brokers(source) for source in ordered]
    ids = np.unique(np.concatenate([table["broker_id"].to_numpy() for table in tables]))
    parts = [
        Part(n, table, table["broker_id"].combine_chunks(), _is_complete(ordered[n]))
        for n, table in enumerate(tables)
    ]
    for n, source in enumerate(ordered):
        if source.lists_live_brokers:
            absent = pa.array(np.setdiff1d(ids, tables[n]["broker_id"].to_numpy()), pa.int32())
            down = pa.array(np.zeros(len(absent), bool))
            parts.append(Part(n, pa.table({"registered": down, _UP: down}), absent))
    # Who is listed by one answer is not down because another does not list it.
    parts.sort(key=lambda part: (ordered[part.source].exactness,
                                 "broker_id" not in part.table.column_names))
    for part in parts:
        part.align(pa.array(ids, pa.int32()))
    columns = [name for name in schema.BROKERS_SCHEMA.names if name != "broker_id"]
    combined = combine(parts, ids.size, [*columns, _UP], _BROKER_LEADS)
    for column in ("rack", _UP):
        report.compare(column, parts, combined, lambda row: f"broker {ids[row]}")
    combined.columns.pop(_UP, None)
    report.count(combined)
    silent = np.ones(ids.size, bool)
    if "registered" in combined.origin:
        silent = combined.origin["registered"] < 0
    down = _presumed([source.taken_for_down for source in ordered], ids[silent])
    up = _presumed([source.taken_for_up for source in ordered], np.setdiff1d(ids[silent], down))
    is_up = ~np.isin(ids, down)
    if "registered" in combined.columns:
        is_up &= pc.fill_null(combined.columns["registered"], True).to_numpy(zero_copy_only=False)
    combined.columns["registered"] = pa.array(is_up)
    assumed = np.setdiff1d(ids[silent], [*down, *up]).tolist()
    if assumed:
        report.notes.append(
            f"no file shows whether these brokers are up, and they are taken for up:"
            f" {abbreviate(assumed)}"
        )
    return down, up, pa.table({"broker_id": pa.array(ids, pa.int32()), **combined.columns})


def _presumed(
    lists: Iterable[tuple[int, ...]], silent: npt.NDArray[np.int32]
) -> tuple[int, ...]:
    """Brokers that any source takes for down, or up, and of which no source says more."""
    return tuple(sorted({broker for ids in lists for broker in ids} & set(silent.tolist())))


def _stated_brokers(source: SourceTables) -> pa.Table:
    """What a source says of brokers, not what is presumed; and whether they are up."""
    table = brokers_of(source)
    own = table["broker_id"].to_numpy()
    if "registered" in table.column_names:
        presumed = np.isin(own, [*source.taken_for_down, *source.taken_for_up])
        stated = pc.if_else(pa.array(presumed), None, table["registered"].combine_chunks())
        table = set_column(table, "registered", stated)
    table = cast_columns(table, schema.BROKERS_SCHEMA)
    if "registered" not in table.column_names:
        return table
    is_up = table["registered"]
    if "fenced" in table.column_names:
        is_up = pc.and_(is_up, pc.invert(pc.fill_null(table["fenced"], False)))
    return set_column(table, _UP, is_up)


def _certainty(source: SourceTables) -> int:
    """How a source knows its controller: 0 it says so, 1 inferred, 2 assumed; 3 not at all."""
    reason = next((note for note in source.notes if note.startswith(REASON)), None)
    if reason is not None:
        words = reason.removeprefix(REASON)
        return 2 if words.startswith("assumed") else int(words.startswith("inferred"))
    cluster = source.cluster
    if cluster is None or "controller" not in cluster.column_names:
        return 3
    return 0 if cluster.num_rows and cluster["controller"].null_count == 0 else 3


def _merge_cluster(
    ordered: Sequence[SourceTables], report: Contradictions
) -> tuple[SourceTables, pa.Table | None]:
    """The source that says which controller runs the cluster, and the table of the cluster."""
    chosen = min(ordered, key=_certainty)
    parts = [
        Part(n, cast_columns(source.cluster, schema.CLUSTER_SCHEMA), pa.array([0]))
        for n, source in enumerate(ordered)
        if source.cluster is not None and source.cluster.num_rows
    ]
    for part in parts:
        part.align(pa.array([0]))
    own = ("controller", "features", *default_settings())
    names = [name for name in schema.CLUSTER_SCHEMA.names if name not in own]
    combined = combine(parts, 1, names, {})
    report.count(combined)
    number = ordered.index(chosen)
    for part in parts:
        if part.source == number:
            combined.columns.update(
                (name, part.values(name, np.array([0])))
                for name in ("controller", "features") if name in part.table.column_names
            )
        elif not _certainty(ordered[part.source]):
            theirs = part.table["controller"][0].as_py()
            ours = _controller_of(chosen)
            if theirs != ours:
                report.differ("controller", part.source, "", [f"{ours}, not {theirs}"], 1, number)
    if _certainty(chosen) < 3:
        report.values[("controller", number)] += 1
    _add_elr(combined, parts)
    return chosen, pa.table(combined.columns) if combined.columns else None


def _controller_of(source: SourceTables) -> str:
    if source.cluster is None or "controller" not in source.cluster.column_names:
        return schema.DEFAULT_CONTROLLER
    return str(source.cluster["controller"][0].as_py())


def _add_elr(combined: Combined, parts: Sequence[Part]) -> None:
    """Whether ELR is on, from any source that says it, where the controller's does not."""
    if "features" not in combined.columns or not combined.columns["features"][0].is_valid:
        return
    features = combined.columns["features"][0].as_py()
    for part in parts:
        if any(feature["name"] == ELR_VERSION for feature in features):
            break
        if part.has_value("features")[0]:
            features += [
                feature for feature in part.table["features"][0].as_py()
                if feature["name"] == ELR_VERSION
            ]
    kind = schema.CLUSTER_SCHEMA.field("features").type
    combined.columns["features"] = pa.array([features], kind)


def _with_defaults(
    tables: SourceTables, ordered: Sequence[SourceTables], report: Contradictions
) -> SourceTables:
    """Defaults of the brokers, each from the first source that says it."""
    taken: dict[str, tuple[Any, int]] = {}
    for number, source in enumerate(ordered):
        for column, setting in default_settings().items():
            if source.cluster is None or column not in source.cluster.column_names:
                continue
            value = source.cluster[column][0].as_py()
            if value is None:
                continue
            first = taken.setdefault(setting, (value, number))
            if first[0] != value:
                report.differ("broker defaults", number, "", [
                    f"{setting} ({_shown(first[0])}, not {_shown(value)})"
                ], 1, first[1])
            elif first[1] == number:
                report.values[("broker defaults", number)] += 1
    for column, setting in default_settings().items():
        if setting in taken:
            value, number = taken[setting]
            if ordered[number].exactness <= Exactness.TABLES:
                # Its configurations, where it has any, say the same.
                cell = pa.array([value], schema.CLUSTER_SCHEMA.field(column).type)
                tables = replace(tables, cluster=set_column(tables.cluster, column, cell))
            else:
                tables = add_defaults(tables, {setting: _shown(value)})
    return tables


def _shown(value: object) -> str:
    return str(value).lower()


def _of_controller(tables: SourceTables) -> SourceTables:
    """Tables without columns of ELR that say nothing, which a ZooKeeper cluster cannot have."""
    if tables.is_kraft:
        return tables
    empty = [
        name for name in ("elr", "last_known_elr") if name in tables.partitions.column_names
        and not len(pc.list_flatten(tables.partitions[name]))
    ]
    return replace(tables, partitions=tables.partitions.drop_columns(empty))


def _merge_settings(
    ordered: Sequence[SourceTables], report: Contradictions
) -> dict[str, dict[str, str]]:
    """Settings of logs, each from the first source that has it."""
    merged: dict[str, dict[str, str]] = {}
    origin: dict[tuple[str, str], int] = {}
    for number, source in enumerate(ordered):
        differing: dict[int, list[str]] = {}
        for topic, settings in source.log_settings.items():
            own = merged.setdefault(topic, {})
            for name, value in settings.items():
                if own.setdefault(name, value) != value:
                    differing.setdefault(origin[topic, name], []).append(
                        f"{topic} {name} ({own[name]}, not {value})"
                    )
                elif origin.setdefault((topic, name), number) == number:
                    report.values[("log settings", number)] += 1
        for winner, texts in differing.items():
            report.differ("log settings", number, "settings", texts[:3], len(texts), winner)
    return merged

