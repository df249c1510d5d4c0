"""How large the log of a partition becomes by its retention, where no size is measured.

A log is deleted segment by segment, and the segment that is written to is never deleted. So a
partition holds what comes in during the retention time, or retention.bytes if that is less, and one
segment more. A compacted log has no such bound.

Source: docs/capacity.md, section "Disk"; Kafka 3.9, LogConfig.java (defaults), KafkaConfig.scala
(names of the brokers' defaults).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.arguments import MAX_LONG, plural
from kfast.capacity.loads.shares import Amounts
from kfast.errors import InputError
from kfast.io.loads.tables import PARTITION_BOUNDS
from kfast.state import ClusterState
from kfast.state.metadata_records import ResourceType

__all__ = ["DEFAULTS", "Retention", "retained_bytes", "retention_of"]

DEFAULTS = {
    "retention.ms": 604_800_000, "retention.bytes": -1, "segment.bytes": 1_073_741_824,
    "segment.ms": 604_800_000, "local.retention.ms": -2, "local.retention.bytes": -2,
}
"""Kafka's defaults; -1 is no limit, -2 of the local retention that of the whole log."""
_OF_BROKERS = {
    "retention.ms": (
        ("log.retention.ms", 1), ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    ),
    "retention.bytes": (("log.retention.bytes", 1),),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
}
"""Names of the brokers' defaults of each setting, the first that is set counts, and its unit."""
_INTERNAL = ("__consumer_offsets", "__transaction_state")
"""Topics that Kafka itself creates as compacted ones."""
_LIMIT = PARTITION_BOUNDS["disk_bytes"]


@dataclass(frozen=True)
class Retention:
    """Settings of each topic that say how large its logs become.

    Parameters
    ----------
    time_ms, bytes, segment_bytes, segment_ms : (T,) int64
        -1 for no limit.
    compacted : (T,) bool
        `compact` is in cleanup.policy.
    deleted : (T,) bool
        `delete` is in cleanup.policy.
    assumptions : tuple of str
        Which settings are not known.
    """

    time_ms: Amounts
    bytes: Amounts
    segment_bytes: Amounts
    segment_ms: Amounts
    compacted: npt.NDArray[np.bool_]
    deleted: npt.NDArray[np.bool_]
    assumptions: tuple[str, ...] = ()


def retention_of(state: ClusterState) -> Retention:
    """Settings of the topics of a cluster: their own, the brokers' defaults, Kafka's.

    A metadata log has configurations, a describe text what is set in its headers; for what neither
    says Kafka's defaults are taken, and it is said. Kafka's own topics of offsets and transactions
    are compacted.

    Raises
    ------
    InputError
        A configuration is no whole number.
    """
    brokers = _broker_settings(state)
    values = {
        key: np.full(state.n_topics, _broker_default(key, brokers), np.int64) for key in DEFAULTS
    }
    policy = brokers.get("log.cleanup.policy", "delete")
    policies = [policy] * state.n_topics
    tiered = np.zeros(state.n_topics, np.bool_)
    names = {name: row for row, name in enumerate(state.topic.to_pylist())}
    for name in _INTERNAL:
        if name in names:
            policies[names[name]] = "compact"
    n_topics = n_silent = int(state.topic_exists.sum())
    for name, settings in _topic_settings(state).items():
        row = names.get(name)
        if row is None:
            continue
        own_keys = DEFAULTS.keys() & settings.keys()
        for key in own_keys:
            values[key][row] = _whole(f"{key} of topic {name}", settings[key])
        policies[row] = settings.get("cleanup.policy", policies[row])
        n_silent -= bool(own_keys) or "cleanup.policy" in settings
        tiered[row] = settings.get("remote.storage.enable", "false").lower() == "true"
    time_ms, most = (
        np.where(tiered & (values[f"local.{key}"] != -2), values[f"local.{key}"], values[key])
        for key in ("retention.ms", "retention.bytes")
    )
    kinds = [{part.strip() for part in text.split(",")} for text in policies]
    return Retention(
        time_ms, most, values["segment.bytes"], values["segment.ms"],
        np.array(["compact" in kind for kind in kinds], np.bool_),
        np.array(["delete" in kind for kind in kinds], np.bool_),
        _not_given(n_silent, n_topics, brokers),
    )


def _topic_settings(state: ClusterState) -> Mapping[str, Mapping[str, str]]:
    """Settings of topics by name."""
    configurations = {} if state.quorum is None else state.quorum.configurations
    return {**state.log_settings, **{
        name: {**state.log_settings.get(name, {}), **settings}
        for (kind, name), settings in configurations.items() if kind == ResourceType.TOPIC
    }}


def _not_given(n_silent: int, n_topics: int, brokers: Mapping[str, str]) -> tuple[str, ...]:
    """That Kafka's defaults are taken, where neither topics nor brokers say anything."""
    keys = {key for names in _OF_BROKERS.values() for key, _ in names}
    if not n_silent or keys & brokers.keys():
        return ()
    return ((
        f"retention and cleanup.policy of {n_silent} of {plural(n_topics, 'topic')} are not"
        " given: Kafka's defaults are taken, 7 days without a limit of bytes, segments of 1 GiB,"
        " deletion"
    ),)


def _broker_settings(state: ClusterState) -> Mapping[str, str]:
    """What the brokers' configurations say, the cluster's over the file's."""
    if state.quorum is None:
        return {}
    dynamic = state.quorum.configurations.get((ResourceType.BROKER, ""), {})
    return {**state.quorum.static_configuration, **dynamic}


def _broker_default(key: str, brokers: Mapping[str, str]) -> int:
    for name, factor in _OF_BROKERS[key]:
        if name in brokers:
            value = _whole(f"{name} of the brokers", brokers[name], MAX_LONG // factor)
            return value * factor if value > 0 else value
    return DEFAULTS[key]


def _whole(name: str, text: str, most: int = MAX_LONG) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -3
    if not -2 <= value <= most:
        raise InputError(f"{name} is {text!r}: a whole number from -2 to {most} is needed")
    return value


def retained_bytes(bytes_in: Amounts, topic_row: npt.NDArray[np.int32], of: Retention) -> Amounts:
    """Bytes of one replica's log of each partition; -1 where they have no bound or are unknown.

    Parameters
    ----------
    bytes_in : (n,) int64
        Bytes a second, less than 2^40.
    topic_row : (n,) int32
    of : Retention

    Returns
    -------
    (n,) int64
        At most 2^50, which stands for more.
    """
    time_ms, most = of.time_ms[topic_row], of.bytes[topic_row]
    by_time = _in_time(bytes_in, time_ms)
    segment = np.minimum(
        of.segment_bytes[topic_row], _in_time(bytes_in, of.segment_ms[topic_row])
    )
    full_segments = np.where(most >= 0, np.minimum(by_time, most), by_time)
    unbounded = (time_ms < 0) & (most < 0) & (bytes_in > 0)
    unknown = unbounded | ~of.deleted[topic_row]
    total = np.minimum(full_segments + np.minimum(segment, _LIMIT), _LIMIT)
    sizes: Amounts = np.where(unknown, -1, total)
    return sizes


def _in_time(bytes_in: Amounts, time_ms: Amounts) -> Amounts:
    """Bytes that come in during a time, rounded half to even; at most 2^50, as for no limit."""
    seconds, rest_ms = np.divmod(time_ms, 1000)
    over = bytes_in > _LIMIT // np.maximum(seconds, 1)
    exact = np.where(over, 0, bytes_in)
    fraction = exact * np.where(time_ms < 0, 0, rest_ms)
    quotient, remainder = np.divmod(fraction, 1000)
    product = exact * np.where(time_ms < 0, 0, seconds)
    odd = (product + quotient) & 1
    quotient += (remainder > 500) | ((remainder == 500) & (odd == 1))
    full = np.minimum(product + quotient, _LIMIT)
    return np.where(over | (time_ms < 0) & (bytes_in > 0), _LIMIT, full)
