"""Soft state of the active controller: sessions and heartbeat states, which no log has.

Sessions of 4.0 and later stand in the product's table: a JVM's own answers are its truth
(`tests/kraft/test_session_order.py`).

Source: docs/kraft.md, sections 1.3, 2 (`hb_register`), 6.4, 6.5, 9.4 and 11.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kfast.controllers.kraft.hash_orders import ConcurrentTable
from kfast.state.kraft_releases import Release
from tests.support.kraft_reference.errors import FaultError
from tests.support.kraft_reference.hash_orders import int32

FENCED = "fenced"
UNFENCED = "unfenced"
CONTROLLED_SHUTDOWN = "in controlled shutdown"
SHUTDOWN_NOW = "may shut down"

NOT_ACTIVE = (FENCED, SHUTDOWN_NOW)
"""States in which a broker is fenced."""


@dataclass
class HeartbeatState:
    """What the controller remembers of one broker; -1 means unknown, and none."""

    fenced: bool
    metadata_offset: int = -1
    shutdown_offset: int = -1

    @property
    def name(self) -> str:
        """The state of section 6.4, step 3."""
        if self.shutdown_offset >= 0:
            return CONTROLLED_SHUTDOWN
        return FENCED if self.fenced else UNFENCED


class Heartbeats:
    """Heartbeat states of registered brokers, and the times of contact.

    From 4.0 on a contact is that of a broker and an epoch (`sessions`); in 3.x that of a broker
    (`contacts`, the latest at the end).
    """

    def __init__(self, release: Release, session_timeout_ms: int, now_ms: int = 0) -> None:
        self.release = release
        self.session_timeout_ms = session_timeout_ms
        self.now_ms = now_ms
        self.states: dict[int, HeartbeatState] = {}
        self.contacts: dict[int, int] = {}
        self.sessions: ConcurrentTable[tuple[int, int]] = ConcurrentTable(self._hash)

    def _hash(self, session: tuple[int, int]) -> int:
        """Section 9.4: of a broker and its epoch."""
        broker, epoch = session
        hash_of_epoch = int32(epoch ^ epoch >> 32)
        if self.release.session_hash_is_record:
            return int32(31 * broker + hash_of_epoch)
        return int32(31 * (31 + broker) + hash_of_epoch)

    def state(self, broker: int) -> HeartbeatState:
        """The heartbeat state of a registered broker; up to 3.6 one that is missing is made."""
        if broker not in self.states:
            if self.release.forgets_metadata_offset:
                raise FaultError(f"broker {broker} has no heartbeat state")
            self.states[broker] = HeartbeatState(fenced=True)
        return self.states[broker]

    def register(self, broker: int, fenced: bool) -> None:
        """Section 2, `hb_register`; up to 3.6 nothing happens where `fenced` stays."""
        known = broker in self.states
        state = self.states.setdefault(broker, HeartbeatState(fenced))
        changes = state.fenced != fenced
        if changes or not known or self.release.forgets_metadata_offset:
            self.touch(broker, fenced, state.metadata_offset if changes else -1)

    def touch(self, broker: int, fenced: bool, metadata_offset: int) -> None:
        """Store what a heartbeat or a record says (6.4, step 5); in 3.x that is a contact too."""
        state = self.state(broker)
        state.fenced, state.metadata_offset = fenced, metadata_offset
        if fenced:
            state.shutdown_offset = -1
        if not self.release.sessions_by_epoch:
            self.contacts.pop(broker, None)
            self.contacts[broker] = self.now_ms

    def remove(self, broker: int) -> None:
        """Forget a broker; from 4.0 on its sessions stay."""
        self.states.pop(broker, None)
        self.contacts.pop(broker, None)

    def contact(self, broker: int, epoch: int) -> None:
        """A broker made contact."""
        if self.release.sessions_by_epoch:
            self.sessions.put((broker, epoch), self.now_ms)
        elif broker in self.states:
            self.touch(broker, self.states[broker].fenced, self.states[broker].metadata_offset)

    def _is_expired(self, contact_ms: int) -> bool:
        return contact_ms + self.session_timeout_ms < self.now_ms

    def has_valid_session(self, broker: int, epoch: int) -> bool:
        """Whether this incarnation of a broker is still alive (sections 6.7 and 11)."""
        if self.release.sessions_by_epoch:
            times = self.sessions.times
            return (broker, epoch) in times and not self._is_expired(times[broker, epoch])
        unfenced = broker in self.states and not self.states[broker].fenced
        return unfenced and not self._is_expired(self.contacts[broker])

    def remove_expired_session(self) -> tuple[int, int] | None:
        """Take out the first expired session (section 6.5)."""
        expired = (s for s in self.sessions if self._is_expired(self.sessions.times[s]))
        session = next(expired, None)
        if session is not None:
            self.sessions.remove(session)
        return session

    def stale_broker(self) -> int | None:
        """The unfenced broker with the oldest contact, if its session has expired (3.x)."""
        unfenced = [broker for broker in self.contacts if not self.states[broker].fenced]
        if unfenced and self._is_expired(self.contacts[unfenced[0]]):
            return unfenced[0]
        return None

    def next_state(
        self, broker: int, want_fence: bool, want_shut_down: bool, caught_up: bool,
        leads_something: bool,
    ) -> str:
        """The next state: the first row of the table in section 6.4, step 3, that holds."""
        state = self.state(broker)
        lowest_offset = min(
            (s.metadata_offset for s in self.states.values() if s.name == UNFENCED),
            default=math.inf,
        )
        rows = {
            FENCED: (
                (want_shut_down, SHUTDOWN_NOW),
                (not want_fence and caught_up, UNFENCED),
            ),
            UNFENCED: (
                (want_fence and want_shut_down, SHUTDOWN_NOW),
                (want_fence, FENCED),
                (want_shut_down and leads_something, CONTROLLED_SHUTDOWN),
                (want_shut_down, SHUTDOWN_NOW),
            ),
            CONTROLLED_SHUTDOWN: (
                (leads_something, CONTROLLED_SHUTDOWN),
                (state.shutdown_offset <= lowest_offset, SHUTDOWN_NOW),
            ),
        }
        return next((following for holds, following in rows[state.name] if holds), state.name)
