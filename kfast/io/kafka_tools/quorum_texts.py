"""What small tools print of a KRaft cluster: its id, its controller, its features, its brokers.

Source: docs/formats.md, section "What supplements a cluster"; Kafka 4.1, FeatureCommand.java,
MetadataQuorumCommand.java, ClusterTool.java.
"""

from __future__ import annotations

import re

import pyarrow as pa

from kfast import schema
from kfast.arguments import MAX_INT
from kfast.errors import InputError
from kfast.io.files import quote
from kfast.io.source_tables import NO_PARTITIONS, Coverage, Exactness, SourceTables
from kfast.state.controller_change import REASON
from kfast.state.kraft_releases import METADATA_VERSION

__all__ = ["read_cluster_tool", "read_features", "read_quorum"]

_FEATURE = re.compile(
    r"^Feature: (?P<name>\S+)\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: (?P<most>\S+)"
    r"\s+FinalizedVersionLevel: (?P<level>\S+)", re.M,
)
_METADATA_NAME = re.compile(r"(?P<release>[0-9]+\.[0-9]+)(?:-IV(?P<step>[0-9]{1,2}))?")
_FIRST_LEVELS = {
    "3.0": 0, "3.1": 2, "3.2": 3, "3.3": 4, "3.4": 8, "3.5": 9, "3.6": 12, "3.7": 15, "3.8": 20,
    "3.9": 21, "4.0": 22, "4.1": 26, "4.2": 28, "4.3": 30,
}
"""Level of the first metadata version of each release, IV0."""
_QUORUM = {
    key: re.compile(rf"^{key}:[ \t]+(\S+)", re.M) for key in ("ClusterId", "LeaderId")
}
_CLUSTER_ID = re.compile(r"^Cluster ID: (\S+)\s*$", re.M)
_ENDPOINT = re.compile(
    r"^(?P<id>[0-9]{1,10})[ \t]+\S+[ \t]+[0-9]+[ \t]+(?P<rack>\S+)"
    r"(?:[ \t]+(?P<state>fenced|unfenced))?[ \t]+broker\s*$", re.M,
)


def _supplement(
    name: str, kind: str, *, brokers: pa.Table | None = None, cluster: pa.Table | None = None,
    cluster_id: str = "", version: str = "", notes: tuple[str, ...] = (),
    lists_live_brokers: bool = False,
) -> SourceTables:
    return SourceTables(
        name, NO_PARTITIONS, brokers=brokers, cluster=cluster, notes=notes, kind=kind,
        version=version, cluster_id=cluster_id, lists_live_brokers=lists_live_brokers,
        exactness=Exactness.SETTINGS, coverage=Coverage.NOTHING,
    )


def read_features(name: str, data: bytes, _start: int) -> SourceTables:
    """Read the output of `kafka-features describe`: feature levels, and so the controller.

    Raises
    ------
    InputError
        A level is none, or metadata.version is missing.
    """
    features, controller, release = [], None, ""
    for match in _FEATURE.finditer(data.decode()):
        level = match["level"]
        if match["name"] == METADATA_VERSION:
            release = match["most"].partition("-")[0]
            controller = f"kraft-{release}"
            level = str(_metadata_level(name, level))
        if not re.fullmatch("[0-9]{1,4}", level):
            raise InputError(f"{name}: found level {quote(level)} of {match['name']}; right is 1")
        if int(level):
            features.append({"name": match["name"], "level": int(level)})
    if controller is None:
        raise InputError(f"{name}: has no feature {METADATA_VERSION}; right is the whole output")
    if controller not in schema.CONTROLLERS:
        raise InputError(
            f"{name}: found {METADATA_VERSION} up to that of {controller}; kfast knows"
            f" {schema.CONTROLLERS[-1]} and older ones"
        )
    kind = schema.CLUSTER_SCHEMA.field("features").type
    cluster = {"controller": pa.array([controller]), "features": pa.array([features], kind)}
    return _supplement(
        name, "kafka-features describe", cluster=pa.table(cluster),
        notes=(f"{REASON}read from {name}",), version=release,
    )


def _metadata_level(name: str, text: str) -> int:
    """Level of a metadata version by its name, 4.1-IV1, or its number."""
    if re.fullmatch("[0-9]{1,4}", text):
        return int(text)
    match = _METADATA_NAME.fullmatch(text)
    if match is None or match["release"] not in _FIRST_LEVELS:
        raise InputError(f"{name}: found {METADATA_VERSION} {quote(text)}; right is 4.1-IV1")
    return _FIRST_LEVELS[match["release"]] + int(match["step"] or 0)


def read_quorum(name: str, data: bytes, _start: int) -> SourceTables:
    """Read the output of `kafka-metadata-quorum describe`: cluster id and active controller."""
    text = data.decode()
    cluster_id, leader = (_QUORUM[key].search(text) for key in ("ClusterId", "LeaderId"))
    cluster = None
    if leader is not None:
        if not re.fullmatch("[0-9]{1,10}", leader[1]) or int(leader[1]) > MAX_INT:
            raise InputError(f"{name}: found LeaderId {quote(leader[1])}; right is a node id")
        cluster = pa.table({"controller_id": pa.array([int(leader[1])], pa.int32())})
    return _supplement(
        name, "kafka-metadata-quorum describe", cluster=cluster,
        cluster_id=cluster_id[1] if cluster_id else "",
    )


def read_cluster_tool(name: str, data: bytes, _start: int) -> SourceTables:
    """Read the output of `kafka-cluster cluster-id` or `list-endpoints`.

    Raises
    ------
    InputError
        A broker in it is not right.
    """
    text = data.decode()
    cluster_id = _CLUSTER_ID.search(text)
    if cluster_id is not None:
        return _supplement(name, "kafka-cluster cluster-id", cluster_id=cluster_id[1])
    rows = list(_ENDPOINT.finditer(text))
    ids = [int(row["id"]) for row in rows]
    if not ids or len(set(ids)) < len(ids) or max(ids) > MAX_INT:
        raise InputError(f"{name}: found brokers {ids}; right is each broker once")
    columns = {
        "broker_id": pa.array(ids, pa.int32()),
        "rack": pa.array([None if row["rack"] == "null" else row["rack"] for row in rows],
                         pa.string()),
        "registered": pa.array([True] * len(rows)),
    }
    if all(row["state"] for row in rows):
        columns["fenced"] = pa.array([row["state"] == "fenced" for row in rows])
    return _supplement(
        name, "kafka-cluster list-endpoints", brokers=pa.table(columns), lists_live_brokers=True
    )
