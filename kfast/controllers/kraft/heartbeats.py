"""Soft state of the active controller: sessions and heartbeat states, which no log has.

Source: docs/kraft.md, sections 1.3, 2 (`hb_register`), 6.4, 6.5 and 9.4; Kafka 4.1,
BrokerHeartbeatManager.java, BrokerHeartbeatTracker.java.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kfast.controllers.kraft.faults import Fault
from kfast.controllers.kraft.hash_orders import ConcurrentTable, hash_of_long, int32
from kfast.state.kraft_releases import Release

DEFAULT_SESSION_TIMEOUT_MS = 9000
"""`broker.session.timeout.ms`."""


class BrokerControlState(Enum):
    """What a heartbeat leaves a broker in. Source: BrokerControlState.java."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "in controlled shutdown"
    SHUTDOWN_NOW = "may shut down"

    @property
    def fenced(self) -> bool:
        """Whether the broker is fenced in this state."""
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


@dataclass(slots=True)
class HeartbeatState:
    """What the controller remembers of one broker; -1 means unknown, and none."""

    fenced: bool
    metadata_offset: int = -1
    shutdown_offset: int = -1

    @property
    def shutting_down(self) -> bool:
        """Whether a controlled shutdown has begun."""
        return self.shutdown_offset >= 0


class Heartbeats:
    """Heartbeat states of registered brokers by id, and when they last made contact.

    From 4.0 a session belongs to a broker id and epoch (`sessions`); in 3.x to a broker
    (`last_contact_ms`, in the order of contact).
    """

    def __init__(self, release: Release, session_timeout_ms: int, now_ms: int = 0) -> None:
        self.release = release
        self.session_timeout_ms = session_timeout_ms
        self.now_ms = now_ms
        self.states: dict[int, HeartbeatState] = {}
        factor = 0 if release.session_hash_is_record else 31 * 31
        self.sessions: ConcurrentTable[tuple[int, int]] = ConcurrentTable(
            lambda key: int32(factor + 31 * key[0] + hash_of_long(key[1]))
        )
        self.last_contact_ms: dict[int, int] = {}

    def state(self, broker: int) -> HeartbeatState:
        """State of a registered broker; before 3.7 one that is missing counts as fenced.

        Source: BrokerHeartbeatManager.java, `heartbeatStateOrThrow`.
        """
        if not self.release.forgets_metadata_offset:
            return self.states.setdefault(broker, HeartbeatState(fenced=True))
        if broker not in self.states:
            raise Fault(f"broker {broker} has no heartbeat state")
        return self.states[broker]

    def register(self, broker: int, fenced: bool) -> None:
        """Section 2, `hb_register`: the metadata offset is kept only if `fenced` changes.

        Source: BrokerHeartbeatManager.java, `register`.
        """
        metadata_offset = -1
        state = self.states.get(broker)
        if state is None:
            self.states[broker] = HeartbeatState(fenced)
        elif state.fenced != fenced:
            metadata_offset = state.metadata_offset
        elif not self.release.forgets_metadata_offset:
            return
        self.touch(broker, fenced, metadata_offset)

    def touch(self, broker: int, fenced: bool, metadata_offset: int) -> None:
        """Store what a heartbeat or a record says; a fenced broker leaves controlled shutdown.

        Source: BrokerHeartbeatManager.java, `touch`.
        """
        state = self.state(broker)
        state.fenced = fenced
        state.metadata_offset = metadata_offset
        if fenced:
            state.shutdown_offset = -1
        if not self.release.sessions_by_epoch:
            self.last_contact_ms.pop(broker, None)
            self.last_contact_ms[broker] = self.now_ms

    def remove(self, broker: int) -> None:
        """Forget a broker; from 4.0 its sessions stay."""
        self.states.pop(broker, None)
        self.last_contact_ms.pop(broker, None)

    def fence(self, broker: int) -> None:
        """Mark a broker as fenced whose session has expired."""
        if broker in self.states:
            self.states[broker].fenced = True

    def contact(self, broker: int, epoch: int) -> None:
        """A broker made contact (ClusterControlManager.java, `trackBrokerHeartbeat`)."""
        if self.release.sessions_by_epoch:
            self.sessions.put((broker, epoch), self.now_ms)
        elif broker in self.states:
            self.touch(broker, self.states[broker].fenced, self.states[broker].metadata_offset)

    def forget_session(self, broker: int, epoch: int) -> None:
        """End the session of an incarnation, as its silence would."""
        if (broker, epoch) in self.sessions.times:
            self.sessions.remove((broker, epoch))
        if not self.release.sessions_by_epoch and broker in self.states:
            self.states[broker].fenced = True

    def is_expired(self, contact_ms: int) -> bool:
        """Whether a session whose last contact was then has ended."""
        return contact_ms + self.session_timeout_ms < self.now_ms

    def has_valid_session(self, broker: int, epoch: int) -> bool:
        """Whether an incarnation of a broker is still alive (section 6.7; section 11 for 3.x).

        Source: BrokerHeartbeatManager.java, `hasValidSession`.
        """
        if self.release.sessions_by_epoch:
            time = self.sessions.times.get((broker, epoch))
            return time is not None and not self.is_expired(time)
        state = self.states.get(broker)
        if state is None or state.fenced:
            return False
        return not self.is_expired(self.last_contact_ms[broker])

    def remove_expired_session(self) -> tuple[int, int] | None:
        """Take the first expired broker id and epoch out, in the order of the hash table."""
        for key in self.sessions:
            if self.is_expired(self.sessions.times[key]):
                self.sessions.remove(key)
                return key
        return None

    def first_stale_broker(self) -> int | None:
        """The unfenced broker with the oldest contact, if its session has expired (3.x).

        Source: Kafka 3.9, BrokerHeartbeatManager.java, `findOneStaleBroker`.
        """
        for broker, time in self.last_contact_ms.items():
            if not self.states[broker].fenced:
                return broker if self.is_expired(time) else None
        return None

    def lowest_active_offset(self) -> float:
        """Lowest metadata offset of the brokers that are neither fenced nor shutting down."""
        active = (s for s in self.states.values() if not s.fenced and not s.shutting_down)
        return min((s.metadata_offset for s in active), default=float("inf"))

    def next_state(
        self, broker: int, want_fence: bool, want_shut_down: bool, caught_up: bool,
        has_leaderships: bool,
    ) -> tuple[BrokerControlState, BrokerControlState]:
        """The current and the next state of a broker whose heartbeat says this.

        Source: section 6.4, step 3; BrokerHeartbeatManager.java, `calculateNextBrokerState`.
        """
        state = self.state(broker)
        if state.shutting_down:
            current = BrokerControlState.CONTROLLED_SHUTDOWN
            if not has_leaderships and state.shutdown_offset <= self.lowest_active_offset():
                return current, BrokerControlState.SHUTDOWN_NOW
            return current, current
        if state.fenced:
            current = BrokerControlState.FENCED
            if want_shut_down:
                return current, BrokerControlState.SHUTDOWN_NOW
            if not want_fence and caught_up:
                return current, BrokerControlState.UNFENCED
            return current, current
        current = BrokerControlState.UNFENCED
        if want_fence and not want_shut_down:
            return current, BrokerControlState.FENCED
        if want_shut_down and has_leaderships and not want_fence:
            return current, BrokerControlState.CONTROLLED_SHUTDOWN
        return current, BrokerControlState.SHUTDOWN_NOW if want_shut_down else current
