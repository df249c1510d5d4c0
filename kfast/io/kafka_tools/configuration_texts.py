"""Configurations as `kafka-configs --describe` prints them, of topics, brokers and all brokers.

With `--all` each line has the value that holds, and where it comes from: a topic's own value is one
of which the first synonym is DYNAMIC_TOPIC_CONFIG. Up to Kafka 2.4 the tool prints a line for each
topic or broker, with its own settings only.

Source: docs/formats.md, section "What supplements a cluster"; Kafka 4.1, ConfigCommand.java,
`describeResourceConfig`; Kafka 2.4, ConfigCommand.scala, `describeConfigWithZk`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from kfast import schema
from kfast.arguments import MAX_BROKER_ID, config_boolean
from kfast.errors import ArgumentError, InputError
from kfast.io.files import abbreviate
from kfast.io.source_tables import NO_PARTITIONS, Coverage, Exactness, SourceTables
from kfast.io.topic_settings import default_columns, log_settings, setting_columns
from kfast.state.controller_change import REASON

__all__ = ["read_configurations"]

_HEAD = re.compile(
    r"(?P<which>Dynamic|All) configs for (?P<kind>[\w-]+) (?P<name>.+) are:"
    r"|Default configs for (?P<default>[\w-]+) in the cluster are:"
    r"|Configs for (?P<old_kind>[\w-]+?)s? '(?P<old_name>[^']*)' are ?(?P<old>.*)"
)
_LINE = re.compile(
    r"\s+(?P<key>[\w.-]+)=(?P<value>.*) sensitive=(?:true|false) synonyms=\{(?P<synonyms>.*)\}\s*"
)
_NEXT = re.compile(r",(?=[a-z][\w.-]*=)")
_DEFAULTS = ("min.insync.replicas", "unclean.leader.election.enable", "delete.topic.enable")
_RELEASE = re.compile(r"[0-9]+\.[0-9]+")


@dataclass
class _Settings:
    """Settings by whose they are."""

    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    brokers: dict[int, dict[str, str]] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    """Brokers that gave all of their settings, so that they are up."""

    def place(self, where: str, kind: str, name: str) -> dict[str, str] | None:
        """Where the settings of a resource go; None for one that kfast has no use for."""
        if kind == "topic":
            return self.topics.setdefault(name, {})
        if kind != "broker":
            return None
        if name in ("", "<default>"):
            return self.defaults
        if not re.fullmatch("[0-9]{1,10}", name) or int(name) > MAX_BROKER_ID:
            raise InputError(f"{where}: found broker {name!r}; right is a broker id")
        return self.brokers.setdefault(int(name), {})


def read_configurations(name: str, data: bytes, _start: int) -> SourceTables:
    """Read the tool's output; of several runs together, too.

    Raises
    ------
    InputError
        A broker or a value in it is not right.
    """
    settings = _Settings()
    for target, own, key, value in _lines(name, data.decode(), settings):
        if own and value != "null":
            target[key] = value
    topics = [*settings.topics]
    brokers = [*settings.brokers]
    defaults, notes = _brokers_defaults(name, settings)
    cluster = default_columns(name, defaults)
    if "delete.topic.enable" in defaults:
        cluster["delete_topic_enabled"] = pa.array([_boolean(name, defaults)])
    controller = _zookeeper_release(settings)
    if controller:
        cluster["controller"] = pa.array([controller])
        notes.append(
            f"{REASON}inferred: inter.broker.protocol.version and an empty process.roles in {name};"
            " --controller overrides"
        )
    up = [True if broker in settings.answered else None for broker in brokers]
    return SourceTables(
        name, NO_PARTITIONS,
        topics=pa.table({
            "topic": pa.array(topics, pa.string()),
            **setting_columns(name, topics, settings.topics),
        }) if topics else None,
        brokers=pa.table({
            "broker_id": pa.array(brokers, pa.int32()),
            "rack": pa.array([settings.brokers[b].get("broker.rack") for b in brokers],
                             pa.string()),
            "registered": pa.array(up, pa.bool_()),
        }) if brokers else None,
        cluster=pa.table(cluster) if cluster else None,
        notes=tuple(notes), log_settings=log_settings(settings.topics),
        kind="kafka-configs --describe", exactness=Exactness.SETTINGS, coverage=Coverage.NOTHING,
    )


def _lines(
    name: str, text: str, settings: _Settings
) -> Iterator[tuple[dict[str, str], bool, str, str]]:
    """Each setting: where it goes, whether it is the resource's own, key and value."""
    target: dict[str, str] | None = None
    is_topic = False
    for number, line in enumerate(text.split("\n"), 1):
        head = _HEAD.match(line.rstrip("\r"))
        if head is not None:
            where = f"{name} line {number}"
            kind = head["kind"] or head["old_kind"] or head["default"].removesuffix("s")
            target = settings.place(where, kind, head["name"] or head["old_name"] or "")
            is_topic = kind == "topic"
            if is_topic and head["default"]:
                target = None
            if head["which"] == "All" and kind == "broker" and head["name"] != "<default>":
                settings.answered.add(int(head["name"]))
            if target is not None and head["old"]:
                for pair in _NEXT.split(head["old"]):
                    key, _, value = pair.partition("=")
                    yield target, True, key.strip(), value.strip()
            continue
        match = _LINE.fullmatch(line) if target is not None else None
        if match is not None and target is not None:
            own = not is_topic or match["synonyms"].startswith("DYNAMIC_TOPIC_CONFIG:")
            yield target, own, match["key"], match["value"]


def _brokers_defaults(name: str, settings: _Settings) -> tuple[dict[str, str], list[str]]:
    """Settings that hold for all brokers; where brokers differ, those of the first, and a note.

    What is set for a single broker alone, as the tool prints without `--all`, holds for no other.
    """
    defaults, notes = {}, []
    single = sorted(broker for broker in settings.brokers.keys() - settings.answered
                    if not settings.brokers[broker].keys().isdisjoint(_DEFAULTS))
    if single:
        notes.append(f"{name}: settings of single brokers are not read: those of"
                     f" {abbreviate(single)}")
    for key in _DEFAULTS:
        values: dict[str, list[int]] = {}
        for broker, of_broker in settings.brokers.items():
            if key in of_broker and broker in settings.answered:
                values.setdefault(of_broker[key], []).append(broker)
        if key in settings.defaults:
            defaults[key] = settings.defaults[key]
        elif values:
            defaults[key] = next(iter(values))
        if len(values) > 1:
            shown = ", ".join(f"{value} (broker {abbreviate(brokers, 3)})"
                              for value, brokers in values.items())
            notes.append(
                f"contradiction: {key} of brokers in {name}: {shown}; {defaults[key]} counts"
            )
    return defaults, notes


def _boolean(name: str, defaults: dict[str, str]) -> bool:
    try:
        return bool(config_boolean(f"{name}: delete.topic.enable", defaults["delete.topic.enable"]))
    except ArgumentError as error:
        raise InputError(str(error)) from error


def _zookeeper_release(settings: _Settings) -> str | None:
    """The controller in ZooKeeper mode that brokers' settings tell; None for KRaft, or nothing."""
    for of_broker in settings.brokers.values():
        release = _RELEASE.match(of_broker.get("inter.broker.protocol.version", ""))
        if release and not of_broker.get("process.roles") and "zookeeper.connect" in of_broker:
            controller = f"zk-{release[0]}"
            return controller if controller in schema.CONTROLLERS else schema.DEFAULT_CONTROLLER
    return None
