"""Settings of Kafka and ZooKeeper that times follow from, by their own names.

Source: docs/timeline.md, section "Settings"; Kafka 3.9, `ZkConfigs`, `KRaftConfigs`,
`QuorumConfig`, `ServerConfigs`, `CommonClientConfigs`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from kfast import arguments
from kfast.arguments import check_instance, shown
from kfast.errors import ArgumentError

__all__ = ["SETTINGS", "Settings"]

LARGEST_MS = 2**31 - 1


@dataclass(frozen=True)
class Settings:
    """Settings in milliseconds, but two counts; the defaults are those of Kafka 3.9.

    Attributes
    ----------
    zookeeper_session : int
        zookeeper.session.timeout.ms
    zookeeper_tick : int
        tickTime of ZooKeeper's servers.
    broker_session, broker_heartbeat : int
        broker.session.timeout.ms, broker.heartbeat.interval.ms
    fetch_timeout, election_timeout : int
        controller.quorum.fetch.timeout.ms, controller.quorum.election.timeout.ms
    request_timeout, retry_backoff_max : int
        request.timeout.ms and retry.backoff.max.ms of clients.
    quorum_voters : int
        Controllers in controller.quorum.voters.
    retry_backoff : int
        retry.backoff.ms of clients.
    shutdown_backoff, shutdown_retries : int
        controlled.shutdown.retry.backoff.ms, controlled.shutdown.max.retries
    """

    zookeeper_session: int = 18_000
    zookeeper_tick: int = 2_000
    broker_session: int = 9_000
    broker_heartbeat: int = 2_000
    fetch_timeout: int = 2_000
    election_timeout: int = 1_000
    request_timeout: int = 30_000
    retry_backoff_max: int = 1_000
    quorum_voters: int = 3
    retry_backoff: int = 100
    shutdown_backoff: int = 5_000
    shutdown_retries: int = 3

    @classmethod
    def of(cls, values: Any = None) -> Settings:
        """The defaults with some replaced: a mapping of names in `SETTINGS` to whole numbers.

        Raises
        ------
        ArgumentError
            A name is unknown, a value is outside its range, or two contradict each other.
        """
        if isinstance(values, cls):
            return values
        by_field: dict[str, int] = {}
        if values is not None:
            check_instance("settings", values, Mapping)
            for name, value in values.items():
                if name not in SETTINGS:
                    near = difflib.get_close_matches(str(name), SETTINGS, n=1, cutoff=0.0)[0]
                    raise ArgumentError(f"setting {shown(name)} is unknown; the nearest is {near}")
                lowest = 0 if name.startswith("broker.heartbeat") else 1
                by_field[SETTINGS[name]] = arguments.whole(name, value, lowest, LARGEST_MS)
        settings = cls(**by_field)
        settings.check()
        return settings

    def check(self) -> None:
        """Refuse settings that contradict each other."""
        if self.broker_session < self.broker_heartbeat:
            raise ArgumentError(
                f"broker.session.timeout.ms is {self.broker_session}, and "
                f"broker.heartbeat.interval.ms {self.broker_heartbeat}: a session cannot be "
                "shorter than the heartbeats that keep it"
            )
        if self.zookeeper_session < 2 * self.zookeeper_tick:
            raise ArgumentError(
                f"zookeeper.session.timeout.ms is {self.zookeeper_session}; ZooKeeper grants no "
                f"less than two ticks (tickTime {self.zookeeper_tick})"
            )

    @property
    def by_name(self) -> dict[str, int]:
        """Every setting by Kafka's name."""
        names = {field: name for name, field in SETTINGS.items()}
        return {names[field.name]: getattr(self, field.name) for field in fields(self)}


SETTINGS: Mapping[str, str] = MappingProxyType({
    "zookeeper.session.timeout.ms": "zookeeper_session",
    "tickTime": "zookeeper_tick",
    "broker.session.timeout.ms": "broker_session",
    "broker.heartbeat.interval.ms": "broker_heartbeat",
    "controller.quorum.fetch.timeout.ms": "fetch_timeout",
    "controller.quorum.election.timeout.ms": "election_timeout",
    "request.timeout.ms": "request_timeout",
    "retry.backoff.max.ms": "retry_backoff_max",
    "controller.quorum.voters": "quorum_voters",
    "retry.backoff.ms": "retry_backoff",
    "controlled.shutdown.retry.backoff.ms": "shutdown_backoff",
    "controlled.shutdown.max.retries": "shutdown_retries",
})
"""Field of `Settings` of each setting."""
