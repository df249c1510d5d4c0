"""Running clusters, read and never changed: over Kafka's protocol, or from ZooKeeper.

`kafka_admin.py` puts the questions through kafka-python, `client_properties.py` reads the
properties of `--command-config`, `admin_answers.py` makes tables of answers, `other_clients.py` of
what confluent-kafka and aiokafka give; `zookeeper.py` reads znodes through kazoo.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from kfast.errors import ArgumentError, InputError, require_extra
from kfast.io.files import Source, abbreviate, name_of
from kfast.io.live.admin_answers import tables_of_answers
from kfast.io.live.client_properties import client_arguments
from kfast.io.source_tables import Coverage, Exactness, SourceTables

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

__all__ = ["LiveSource", "is_live", "log_directories", "name_of_source", "read_live"]

LiveSource: TypeAlias = Any
"""An address such as kafka://host:9092, an admin client, or a mapping of answers."""

_ADDRESS = re.compile(r"(kafka|zk)://(.*)", re.DOTALL)
_SERVER = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+))(?::([0-9]{1,5}))?")
_KAFKA_PORT = 9092
_BOOTSTRAP_MS = 15_000
"""How long brokers have to answer the first question, unless the properties say it."""
_CONNECT_S = 10.0


def is_live(source: object) -> bool:
    """Whether a source is a running cluster, and no file."""
    if isinstance(source, str):
        return _ADDRESS.fullmatch(source) is not None
    return isinstance(source, Mapping) or hasattr(source, "describe_cluster")


def name_of_source(source: Source | LiveSource) -> str:
    """What messages call a source, be it a running cluster or a file."""
    if isinstance(source, Mapping):
        return "answers"
    return name_of(source) if isinstance(source, (str, os.PathLike, tuple)) else (
        type(source).__name__
    )


def read_live(source: LiveSource, command_config: Source | None = None) -> SourceTables:
    """Read the cluster that runs at an address, or that a client is connected to.

    Parameters
    ----------
    source : str, client or mapping
        `kafka://host:9092,host2:9092`, `zk://host:2181/chroot`, an admin client of kafka-python or
        confluent-kafka, or the answers of one by the names of its methods.
    command_config : path, optional
        Properties of Kafka's own clients, for `kafka://`.

    Raises
    ------
    InputError
        Nobody answers, or not all that is needed; the message says what, and Kafka's reason.
    ArgumentError
        The address is none.
    MissingExtraError
        The client of the extra `live` is not installed.
    """
    captured_ms = time.time_ns() // 1_000_000
    tables = _read(source, name_of_source(source), command_config)
    is_zookeeper = isinstance(source, str) and source.startswith("zk:")
    return replace(
        tables, coverage=Coverage.CLUSTER, lists_live_brokers=True,
        exactness=Exactness.RECORDS if is_zookeeper else Exactness.ANSWERS,
        kind="ZooKeeper" if is_zookeeper else "answers of brokers",
        captured_ms=None if isinstance(source, Mapping) else captured_ms,
    )


def _read(source: LiveSource, name: str, command_config: Source | None) -> SourceTables:
    if isinstance(source, Mapping):
        return tables_of_answers(name, source)
    if isinstance(source, str) and source.startswith("zk:"):
        from kfast.io.live.zookeeper import PORT, read_ensemble

        servers, chroot = parse_address(source, PORT)
        check_reachable(source, servers)
        return read_ensemble(source, servers, chroot)
    if isinstance(source, str):
        with _connected(source, command_config) as (admin, notes):
            return _ask_and_tell(admin, name, notes)
    if command_config is not None:
        raise ArgumentError("command_config: a client has its own; it is for kafka://host:9092")
    if hasattr(source, "describe_topic_partitions"):
        return _ask_and_tell(source, name, [])
    from kfast.io.live.other_clients import ask_confluent

    return tables_of_answers(name, *ask_confluent(source, name))


def _ask_and_tell(admin: KafkaAdminClient, name: str, notes: list[str]) -> SourceTables:
    from kfast.io.live.kafka_admin import ask_brokers

    answers, more = ask_brokers(admin, name)
    return tables_of_answers(name, answers, [*notes, *more])


def log_directories(source: LiveSource, command_config: Source | None = None) -> bytes:
    """Sizes of all replicas, as the JSON that `kafka-log-dirs --describe` prints.

    Raises
    ------
    ArgumentError
        The source is no address of brokers.
    InputError
        As `read_live` raises it.
    """
    if not isinstance(source, str) or not source.startswith("kafka:"):
        raise ArgumentError(
            f"sizes: {name_of_source(source)} cannot be asked for sizes; right is kafka://host:9092"
        )
    with _connected(source, command_config) as (admin, _):
        from kfast.io.live import kafka_admin

        return msgspec.json.encode(kafka_admin.log_directories(admin, source))


@contextmanager
def _connected(
    address: str, command_config: Source | None
) -> Iterator[tuple[KafkaAdminClient, list[str]]]:
    """A client of kafka-python that is connected to some brokers, and notes."""
    servers, _ = parse_address(address)
    arguments, notes = client_arguments(command_config)
    require_extra("live", address)
    from kafka import KafkaAdminClient, errors

    from kfast.io.live.kafka_admin import reason_of

    check_reachable(address, servers)
    try:
        admin = KafkaAdminClient(**{
            "bootstrap_servers": [_text(server) for server in servers],
            "bootstrap_timeout_ms": _BOOTSTRAP_MS, "client_id": "kfast", **arguments,
        })
    except (errors.KafkaTimeoutError, errors.IncompatibleBrokerVersion) as error:
        raise InputError(
            f"{address}: a server listens there, but does not answer as a Kafka broker"
            f" ({reason_of(error)}); right is the address of a broker's listener, and"
            " --command-config with security.protocol where it has SASL or TLS"
        ) from error
    except errors.KafkaError as error:
        raise InputError(f"{address}: {reason_of(error)}") from error
    with admin:
        yield admin, notes


def _text(server: tuple[str, int]) -> str:
    host, port = server
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(address: str, port: int = _KAFKA_PORT) -> tuple[list[tuple[str, int]], str]:
    """Hosts and ports of an address, and the path behind them.

    Raises
    ------
    ArgumentError
        It has another form.
    """
    match = _ADDRESS.fullmatch(address)
    assert match is not None
    hosts, slash, path = match[2].partition("/")
    servers = []
    for part in hosts.split(","):
        server = _SERVER.fullmatch(part.strip())
        if server is None or not 0 < int(server[3] or port) < 1 << 16:
            raise ArgumentError(
                f"{address}: {part!r} is no host and port; right is kafka://host:9092,host2:9092 or"
                " zk://host:2181/chroot"
            )
        servers.append((server[1] or server[2], int(server[3] or port)))
    if path and match[1] == "kafka":
        raise ArgumentError(f"{address}: has a path, {path!r}; right is kafka://host:9092")
    return servers, slash + path


def check_reachable(address: str, servers: list[tuple[str, int]]) -> None:
    """Refuse an address where no server listens, with the reason of each."""
    reasons = []
    for host, port in servers:
        try:
            with socket.create_connection((host, port), _CONNECT_S):
                return
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    raise InputError(f"{address}: cannot be reached: {abbreviate(reasons)}")
