"""Soft state of the active controller: sessions and heartbeat states, which no log has.

Source: docs/kraft.md, sections 1.3, 2 (`hb_register`), 6.4, 6.5 and 9.4; Kafka 4.1,
BrokerHeartbeatManager.java, BrokerHeartbeatTracker.java.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kfast.controllers.kraft.hash_orders import ConcurrentTable
from tests.support.kraft_reference.hash_orders import hash_of_long, int32
from tests.support.kraft_reference.records import FaultError
from tests.support.kraft_reference.versions import Release

BrokerIdAndEpoch = tuple[int, int]


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


@dataclass
class HeartbeatState:
    """What the controller remembers of one broker; -1 means unknown, and none."""

    fenced: bool
    metadata_offset: int = -1
    shutdown_offset: int = -1

    @property
    def shutting_down(self) -> bool:
        """Whether a controlled shutdown has begun."""
        return self.shutdown_offset >= 0


class EpochSessions:
    """Contact times by broker and epoch (4.0 and later).

    Source: BrokerHeartbeatTracker.java.
    """

    def __init__(self, session_timeout_ms: int, hash_is_record: bool) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.first_factor = 0 if hash_is_record else 1
        self.table: ConcurrentTable[BrokerIdAndEpoch] = ConcurrentTable(self._hash)

    def _hash(self, key: BrokerIdAndEpoch) -> int:
        broker, epoch = key
        return int32(31 * (31 * self.first_factor + broker) + hash_of_long(epoch))

    def touch(self, broker: int, epoch: int, now_ms: int) -> None:
        """A broker made contact."""
        self.table.put((broker, epoch), now_ms)

    def is_valid(self, broker: int, epoch: int, now_ms: int) -> bool:
        """Whether a contact time exists that has not expired."""
        time = self.table.times.get((broker, epoch))
        return time is not None and not self._is_expired(time, now_ms)

    def _is_expired(self, time_ms: int, now_ms: int) -> bool:
        return time_ms + self.session_timeout_ms < now_ms

    def remove_expired(self, now_ms: int) -> BrokerIdAndEpoch | None:
        """Take the first expired entry out, in the order of the hash table."""
        for key in self.table:
            if self._is_expired(self.table.times[key], now_ms):
                self.table.remove(key)
                return key
        return None


class Heartbeats:
    """Heartbeat states of registered brokers, and their sessions."""

    def __init__(self, release: Release, session_timeout_ms: int, now_ms: int = 0) -> None:
        self.release = release
        self.now_ms = now_ms
        self.states: dict[int, HeartbeatState] = {}
        self.session_timeout_ms = session_timeout_ms
        self.sessions = EpochSessions(session_timeout_ms, release.session_hash_is_record)
        self.last_contact_ms: dict[int, int] = {}
        """By broker, before 4.0; in the order of contact."""

    def state(self, broker: int) -> HeartbeatState:
        """The heartbeat state of a registered broker."""
        if not self.release.forgets_metadata_offset:
            return self.states.setdefault(broker, HeartbeatState(fenced=True))
        if broker not in self.states:
            raise FaultError(f"broker {broker} has no heartbeat state")
        return self.states[broker]

    def register(self, broker: int, fenced: bool) -> None:
        """Section 2, `hb_register`: the metadata offset is kept only if `fenced` changes.

        Source: BrokerHeartbeatManager.java, `register`.
        """
        metadata_offset = -1
        if broker not in self.states:
            self.states[broker] = HeartbeatState(fenced)
        elif self.states[broker].fenced != fenced:
            metadata_offset = self.states[broker].metadata_offset
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
        """Forget a broker; its contact times stay."""
        self.states.pop(broker, None)
        self.last_contact_ms.pop(broker, None)

    def fence(self, broker: int) -> None:
        """Mark a broker as fenced whose session has expired."""
        if broker in self.states:
            self.states[broker].fenced = True

    def contact(self, broker: int, epoch: int) -> None:
        """A broker made contact (ClusterControlManager.java, `trackBrokerHeartbeat`)."""
        if self.release.sessions_by_epoch:
            self.sessions.touch(broker, epoch, self.now_ms)
        elif broker in self.states:
            self.touch(broker, self.states[broker].fenced, self.states[broker].metadata_offset)

    def has_valid_session(self, broker: int, epoch: int) -> bool:
        """Whether another incarnation of this broker is still alive.

        Source: BrokerHeartbeatManager.java, `hasValidSession`; section 11 for 3.x.
        """
        if self.release.sessions_by_epoch:
            return self.sessions.is_valid(broker, epoch, self.now_ms)
        state = self.states.get(broker)
        return state is not None and not state.fenced and not self._is_stale(broker)

    def _is_stale(self, broker: int) -> bool:
        return self.last_contact_ms[broker] + self.session_timeout_ms < self.now_ms

    def first_stale_unfenced(self) -> int | None:
        """The unfenced broker with the oldest contact, if its session has expired (3.x).

        Source: Kafka 3.9, BrokerHeartbeatManager.java, `findOneStaleBroker`.
        """
        for broker in self.last_contact_ms:
            if not self.states[broker].fenced:
                return broker if self._is_stale(broker) else None
        return None

    def lowest_active_offset(self) -> float:
        """Lowest metadata offset of the brokers that are neither fenced nor shutting down."""
        active = (s for s in self.states.values() if not s.fenced and not s.shutting_down)
        return min((s.metadata_offset for s in active), default=float("inf"))

    def next_state(
        self,
        broker: int,
        want_fence: bool,
        want_shut_down: bool,
        caught_up: bool,
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
        if want_fence:
            shut_down = want_shut_down
        elif want_shut_down:
            if has_leaderships:
                return current, BrokerControlState.CONTROLLED_SHUTDOWN
            shut_down = True
        else:
            return current, current
        return current, (
            BrokerControlState.SHUTDOWN_NOW if shut_down else BrokerControlState.FENCED
        )
