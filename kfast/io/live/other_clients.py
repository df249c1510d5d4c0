"""What confluent-kafka's `AdminClient` is asked; aiokafka's answers are taken as they are.

Neither gives features, reassignments or eligible leader replicas.

Source: confluent-kafka 2.16, confluent_kafka.admin.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

from kfast.errors import ArgumentError, InputError
from kfast.io.files import abbreviate
from kfast.io.live.admin_answers import BROKER_SETTINGS, TOPIC_SETTINGS

__all__ = ["ask_confluent"]

_TIMEOUT_S = 60.0


def ask_confluent(admin: Any, name: str) -> tuple[dict[str, Any], list[str]]:
    """Answers as kafka-python gives them, and notes.

    Raises
    ------
    ArgumentError
        The client is asynchronous.
    InputError
        The brokers do not answer.
    """
    if iscoroutinefunction(admin.describe_cluster):
        raise ArgumentError(
            f"{name}: its answers must be awaited; right is a mapping of them:"
            " {'describe_cluster': await client.describe_cluster(),"
            " 'describe_topics': await client.describe_topics()}"
        )
    client = import_module("confluent_kafka.admin")  # of which `admin` is
    try:
        nodes = admin.describe_cluster(request_timeout=_TIMEOUT_S).result()
        metadata = admin.list_topics(timeout=_TIMEOUT_S)
    except client.KafkaException as error:
        raise InputError(f"{name}: {error.args[0].name()} ({error.args[0].str()})") from error
    kinds = {"topic": client.ConfigResource.Type.TOPIC, "broker": client.ConfigResource.Type.BROKER}
    names = {"topic": [*metadata.topics], "broker": [str(node.id) for node in nodes.nodes]}
    settings: dict[str, dict[str, Any]] = {}
    notes = []
    for kind, heeded in (("topic", TOPIC_SETTINGS), ("broker", BROKER_SETTINGS)):
        futures = admin.describe_configs(
            [client.ConfigResource(kinds[kind], resource) for resource in names[kind]],
            request_timeout=_TIMEOUT_S,
        ) if names[kind] else {}
        refused: dict[str, list[str]] = {}
        of_kind = settings.setdefault(kind, {})
        for resource, future in futures.items():
            try:
                entries = future.result()
            except client.KafkaException as error:
                refused.setdefault(error.args[0].name(), []).append(resource.name)
                continue
            of_kind[resource.name] = {
                key: _setting(entries[key]) for key in heeded if key in entries
            }
        notes += [
            f"{name}: configurations of {kind}s {abbreviate(resources)} are refused ({reason})"
            for reason, resources in refused.items()
        ]
    return {
        "describe_cluster": {
            "brokers": [{"broker_id": node.id, "rack": node.rack} for node in nodes.nodes],
            "controller_id": nodes.controller.id if nodes.controller else -1,
        },
        "describe_topics": [_topic(topic) for topic in metadata.topics.values()],
        "describe_configs": settings,
    }, notes


def _topic(topic: Any) -> Mapping[str, Any]:
    return {
        "name": topic.topic, "error_code": topic.error.code() if topic.error else 0,
        "partitions": [
            {
                "partition_index": of.id, "leader_id": of.leader, "replica_nodes": of.replicas,
                "isr_nodes": of.isrs, "error_code": of.error.code() if of.error else 0,
            }
            for of in topic.partitions.values()
        ],
    }


def _setting(entry: Any) -> Mapping[str, Any]:
    synonyms = [
        {"name": synonym.name, "source": synonym.source, "value": synonym.value}
        for synonym in (entry.synonyms or {}).values()
    ]
    return {"value": entry.value, "config_source": entry.source, "synonyms": synonyms}
