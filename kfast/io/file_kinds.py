"""Which kind of file this is. Source: docs/formats.md, section "How a kind is recognised"."""

from __future__ import annotations

import re

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from kfast.errors import InputError
from kfast.io.files import LOOK_BYTES, line_of, quote
from kfast.io.metadata.files import FOLDER, is_batch
from kfast.kernels.json_documents import document_end

__all__ = ["PLAN", "check_plan", "first_line", "identify", "json_kind", "json_part", "recognise"]

READS = (
    "the output of kafka-topics.sh --describe, reassignment plans (JSON, also in the output of"
    " kafka-reassign-partitions.sh --generate and --execute), metadata logs and snapshots of KRaft"
    " (also the text of kafka-dump-log), dumps and snapshots of ZooKeeper, kcat -L (text or -J),"
    " kafka_cluster_state of Cruise Control, JSON of admin clients and of REST Proxy, rpk topic"
    " describe, and Arrow IPC and Parquet with a table of partitions; beside one of these also"
    " Cruise Control's load, Strimzi's resources, and the output of kafka-broker-api-versions,"
    " kafka-configs --describe, kafka-log-dirs, kafka-reassign-partitions --list and --verify,"
    " kafka-features, kafka-metadata-quorum and kafka-cluster"
)
PLAN = "a reassignment plan"

_MAGIC = (
    (b"ARROW1", "arrow"),
    (b"\xff\xff\xff\xff", "arrow"),
    (b"PAR1", "parquet"),
    (b"ZKSN", "a ZooKeeper snapshot"),
    (b"FEA1", "a Feather file of version 1"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"\xfd7zXZ\x00", "an xz archive; unpack it first"),
    (b"BZh", "a bzip2 archive; unpack it first"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\xff\xfe", "UTF-16 text, as PowerShell writes it; save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text; save it as UTF-8"),
)
_TAR_AT, _TAR = 257, b"ustar"
_CLUSTERS = (
    "arrow", "parquet", "describe", "metadata", "metadata dump", "json", PLAN,
    "a ZooKeeper snapshot", "a zookeeper-shell transcript", "a ZooKeeper dump (JSON lines)",
    "a ZooKeeper dump (JSON)", "kcat metadata (JSON)", "a kcat listing (text)",
    "JSON of an admin client", "a Cruise Control cluster state", "a Cruise Control load",
    "output of kafka-assigner", "output of rpk or kcl", "output of kafka-metadata-shell",
    "Strimzi custom resources (YAML)",
    "output of kafka-broker-api-versions", "output of kafka-configs --describe",
    "output of kafka-log-dirs --describe", "output of kafka-reassign-partitions --list",
    "output of kafka-reassign-partitions --verify", "output of kafka-metadata-quorum",
    "output of kafka-features", "output of kafka-cluster",
)
"""Kinds that are clusters, or may be."""
_HEAD = 1 << 16
"""How many bytes are looked at to tell kinds apart that kfast does not read."""
_JSON = re.compile(rb'^[ \t]*(?=\{\s*"|\{\s*\}|\[\s*\{)', re.M)

_ZNODE_MAP = re.compile(rb'\{\s*"/')

_DUMP = re.compile(rb'payload: \{"type":"[A-Z_]+_RECORD"|^Dumping .*\.(checkpoint|log)\s*$', re.M)

_TOPIC_LINE = re.compile(
    rb"\btopic:[ \t]*[^\s:]*\s+(topicid:(\s*\S+)?\s+)?partition(count)?:"
    rb"|^[ \t]*topic:[ \t]?[\w.-]+[ \t]+\w"
    rb"|^[ \t]*partition:[ \t]*\d+\s+leader:",
    re.I | re.M,
)
_LEADER = re.compile(rb'"leader(?:_id)?"\s*:')
"""A key, and not a topic of that name."""
_HINTS = (b"Topic:", b"topic:", b"Partition:", b"partition:", b"PartitionCount:")

_TEXTS = tuple(
    (re.compile(pattern, re.M), kind)
    for pattern, kind in (
        (
            rb"^[ \t]*(?:- )?apiVersion:[ \t]*[\"']?kafka\.strimzi\.io/",
            "Strimzi custom resources (YAML)",
        ),
        (rb"^broker_id,", "a brokers file; give it as brokers_file (--brokers-file)"),
        (rb"^[ \t]*\d+ brokers:|^[ \t]*topic \".*\" with \d+ partitions:", "a kcat listing (text)"),
        (rb"^Status of partition reassignment:", "output of kafka-reassign-partitions --verify"),
        (
            rb"^Current partition reassignments:|^No partition reassignments found",
            "output of kafka-reassign-partitions --list",
        ),
        (
            rb"^(Dynamic|All|Default) configs for |^Configs for [a-z-]+ '.*' are",
            "output of kafka-configs --describe",
        ),
        (rb"\(id: \d+ rack: .*\) -> ", "output of kafka-broker-api-versions"),
        (
            rb"^cZxid = |^\[zk: .*\] +(get|ls) ", "a zookeeper-shell transcript"
        ),
        (
            rb"^ClusterId:[ \t]+\S+\s+LeaderId:|^NodeId[ \t].*LogEndOffset",
            "output of kafka-metadata-quorum",
        ),
        (
            rb"^ *(Partition|Broker|Controller)Registration\(", "output of kafka-metadata-shell"
        ),
        (
            rb"^[ \t]*PARTITION[ \t]+LEADER[ \t].*\bREPLICAS\b|^ID[ \t]+HOST[ \t]+PORT[ \t]*$",
            "output of rpk or kcl",
        ),
        (rb"^Feature: \S+[ \t]+SupportedMinVersion:", "output of kafka-features"),
        (rb"\ACluster ID: \S+\s*\Z|^ID +HOST +PORT +RACK ", "output of kafka-cluster"),
        (rb"^(?=[\d.-]*[a-zA-Z_])[\w.-]+:\d+:\d+[ \t\r]*$", "output of kafka-get-offsets"),
        (rb"^# (HELP|TYPE) ", "Prometheus metrics"),
        (rb"^Error while executing topic command", "an error message of kafka-topics"),
    )
)


class _Keys(Struct):
    """The keys of a JSON object that tell what it is."""

    originating_broker: Raw | UnsetType = UNSET
    brokers: Raw | UnsetType = UNSET
    partitions: Raw | UnsetType = UNSET
    topics: Raw | UnsetType = UNSET
    kafka_broker_state: Raw | UnsetType = msgspec.field(default=UNSET, name="KafkaBrokerState")
    records: Raw | UnsetType = UNSET
    hosts: Raw | UnsetType = UNSET
    capacities: Raw | UnsetType = msgspec.field(default=UNSET, name="brokerCapacities")
    goal_summary: Raw | UnsetType = msgspec.field(default=UNSET, name="goalSummary")
    user_tasks: Raw | UnsetType = msgspec.field(default=UNSET, name="userTasks")
    path: Raw | UnsetType = UNSET
    before: Raw | UnsetType = UNSET
    broker_sets: Raw | UnsetType = msgspec.field(default=UNSET, name="brokerSets")
    describe_topics: Raw | UnsetType = UNSET
    list_topics: Raw | UnsetType = UNSET
    describe_cluster: Raw | UnsetType = UNSET
    capital_partitions: Raw | UnsetType = msgspec.field(default=UNSET, name="Partitions")


_OBJECTS = (
    ("originating_broker", b"", "kcat metadata (JSON)"),
    ("brokers", b'"logDirs"', "output of kafka-log-dirs --describe"),
    ("kafka_broker_state", b"", "a Cruise Control cluster state"),
    ("records", b"", "a Cruise Control partition load"),
    ("hosts", b"", "a Cruise Control load"),
    ("capacities", b"", "a Cruise Control capacity file"),
    ("broker_sets", b"", "broker sets of Cruise Control; kfast plan check takes them"),
    ("describe_topics", b"", "JSON of an admin client"),
    ("list_topics", b"", "JSON of an admin client"),
    ("capital_partitions", b'"Replicas"', "JSON of an admin client"),
    ("goal_summary", b"", "a Cruise Control proposal"),
    ("user_tasks", b"", "Cruise Control user tasks"),
    ("path", b"", "a ZooKeeper dump (JSON lines)"),
    ("before", b"", "output of kafka-assigner"),
)
_READERS = {
    "a Cruise Control partition load": "kfast.read_load",
    "a Cruise Control capacity file": "kfast.read_capacity",
    "Prometheus metrics": "kfast.read_load",
    "a Cruise Control proposal": "kfast.read_plan (--plan)",
}
"""Kinds that are no cluster, and what reads them."""


def _refuse(name: str, kind: str) -> InputError:
    """Say what a file is, and what kfast reads."""
    reader = _READERS.get(kind)
    if reader is not None:
        return InputError(
            f"{name}: is {kind}, which kfast does not read as a cluster but by {reader}; it reads"
            f" {READS}"
        )
    return InputError(f"{name}: is {kind}, which kfast does not read yet; it reads {READS}")


def recognise(name: str, head: bytes) -> tuple[str, int]:
    """Say what a file is by its first bytes; `load` calls it.

    Parameters
    ----------
    name : str
        What messages call the file.
    head : bytes
        Its first `LOOK_BYTES`.

    Returns
    -------
    kind, start
        "arrow", "parquet", "describe", "metadata" (a log or snapshot), "metadata dump" or "json",
        and of the last where it begins.

    Raises
    ------
    InputError
        The file is of another kind, or of none that shows there.
    """
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        raise InputError(
            f"{name}: is a tar archive; unpack it (tar -xf {name}) and give the file in it, or the"
            f" folder {FOLDER}"
        )
    found = identify(head)
    if found is None:
        where = f" in its first {LOOK_BYTES} bytes" if len(head) == LOOK_BYTES else ""
        raise InputError(
            f"{name}: is not recognised{where}, it begins with {quote(first_line(head))}; kfast"
            f" reads {READS}"
        )
    if found[0] not in _CLUSTERS:
        raise _refuse(name, found[0])
    return found


def identify(head: bytes) -> tuple[str, int] | None:
    """Say what a file is by its first bytes, whether kfast reads it or not.

    Returns
    -------
    kind, start, or None
        As `recognise` returns them, or a kind in words and 0; None where nothing shows there.
    """
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind, 0
    if is_batch(head):
        return "metadata", 0
    if _DUMP.search(head[:_HEAD]):
        return "metadata dump", 0
    if any(hint in head for hint in _HINTS) and _TOPIC_LINE.search(head):
        return "describe", 0
    for pattern, kind in _TEXTS:
        if pattern.search(head[:_HEAD]):
            return kind, 0
    json = _JSON.search(head)
    return ("json", json.end()) if json else None


def first_line(head: bytes) -> bytes:
    """The first line of a file that is not blank."""
    return head.lstrip().split(b"\n", 1)[0]


def json_part(data: bytes, start: int) -> bytes:
    """The JSON document that begins at a byte, without the prose that may follow it."""
    end = document_end(data, start)
    return data[start : end if end >= 0 else None]


def check_plan(name: str, data: bytes, start: int) -> None:
    """Refuse a JSON document that is no reassignment plan; `InputError` says what it is."""
    kind = json_kind(name, data, start)
    if kind != PLAN:
        raise InputError(
            f"{name}: is {kind}, which says how a cluster is; right is a plan of"
            " kafka-reassign-partitions, in JSON"
        )


def json_kind(name: str, data: bytes, start: int) -> str:
    """Say which kind of cluster a JSON document is, by its keys.

    Raises
    ------
    InputError
        It is none, or damaged.
    """
    where = f"{name} line {line_of(data, start)}"
    text = json_part(data, start)
    if text.startswith(b"["):
        if b'"partitions"' in text[:_HEAD] and b'"logDirs"' not in text[:_HEAD]:
            return "JSON of an admin client"
        raise _refuse(name, "a JSON list")
    if _ZNODE_MAP.match(text):
        return "a ZooKeeper dump (JSON)"
    try:
        keys = msgspec.json.decode(text, type=_Keys)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(
            f"{where}: damaged JSON: {error}; right is a whole document, all brackets closed"
        ) from error
    for key, within, kind in _OBJECTS:
        value = getattr(keys, key)
        if value is not UNSET and within in bytes(memoryview(value)[:_HEAD]):
            if kind not in _CLUSTERS:
                raise _refuse(name, kind)
            return kind
    if isinstance(keys.partitions, Raw):
        inside = bytes(memoryview(keys.partitions)[:_HEAD])
        if inside.startswith(b"{"):
            raise _refuse(name, "a ZooKeeper topic node")
        if _LEADER.search(inside):
            return "JSON of an admin client"
        if b'"replicas"' in inside or b'"topic"' not in inside:
            return PLAN
        raise _refuse(name, "a list of partitions for kafka-leader-election")
    if keys.topics is not UNSET and b'"partitions"' in bytes(memoryview(keys.topics)[:_HEAD]):
        return "JSON of an admin client"
    if keys.topics is not UNSET:
        raise _refuse(name, "a list of topics for kafka-reassign-partitions --generate")
    raise InputError(f"{where}: JSON of an unknown kind, {quote(text)}; kfast reads {READS}")
