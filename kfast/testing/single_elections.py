"""The four elections by themselves: who would lead, given lists of broker ids.

These are the rules that the partition machine runs over whole clusters, asked for one partition.

Source: docs/controller.md, section 4; Kafka 3.9, `PartitionLeaderElectionAlgorithms` and
`Election`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kfast.controllers import DEFAULT_PROFILE, Profile, find_profile
from kfast.errors import ArgumentError
from kfast.kernels import election as kernel
from kfast.kernels import hosting
from kfast.schema import MAX_SLOTS, Strategy
from kfast.state import ClusterState, Leadership, mutators

__all__ = [
    "Choice", "Election", "controlled_shutdown_leader", "elect", "offline_leader",
    "preferred_leader", "reassign_leader",
]


@dataclass(frozen=True)
class Choice:
    """Whom an election algorithm picks: a broker id or None, and whether it is outside the ISR."""

    leader: int | None
    unclean: bool


@dataclass(frozen=True)
class Election:
    """Result of an election: the new record (None: nobody), who is told, and how it was chosen."""

    elected: Leadership | None
    recipients: tuple[int, ...]
    unclean: bool


def _mask(slots: Sequence[int], members: Sequence[int]) -> int:
    return sum(1 << slots.index(b) for b in set(members))


def _choose(
    strategy: Strategy, assigned: Sequence[int], isr: Sequence[int], live: Sequence[int],
    shutting_down: Sequence[int] = (), unclean: bool = False,
) -> Choice:
    slots = list(dict.fromkeys([*assigned, *isr, *live, *shutting_down]))
    if len(slots) > MAX_SLOTS:
        raise ArgumentError(f"{len(slots)} brokers are named; at most {MAX_SLOTS} are allowed")
    first = (1 << len(assigned)) - 1
    up, down = _mask(slots, live), _mask(slots, shutting_down)
    slot, _, _, outside = kernel.choose_one(
        int(strategy), first, first, _mask(slots, isr), up & ~down, up, down, unclean
    )
    return Choice(slots[slot] if slot >= 0 else None, bool(outside))


def offline_leader(
    assigned: Sequence[int], isr: Sequence[int], live: Sequence[int], unclean_enabled: bool = False
) -> Choice:
    """First assigned replica that is live and in sync; else, if permitted, the first live one."""
    return _choose(Strategy.OFFLINE, assigned, isr, live, unclean=unclean_enabled)


def reassign_leader(target: Sequence[int], isr: Sequence[int], live: Sequence[int]) -> Choice:
    """First target replica that is live and in sync."""
    return _choose(Strategy.REASSIGN, target, isr, live)


def preferred_leader(assigned: Sequence[int], isr: Sequence[int], live: Sequence[int]) -> Choice:
    """Take the first assigned replica, if it is live and in sync."""
    return _choose(Strategy.PREFERRED_REPLICA, assigned, isr, live)


def controlled_shutdown_leader(
    assigned: Sequence[int], isr: Sequence[int], live: Sequence[int], shutting_down: Sequence[int]
) -> Choice:
    """First assigned replica that is up, in sync and not shutting down."""
    return _choose(Strategy.CONTROLLED_SHUTDOWN, assigned, isr, live, shutting_down)


def elect(
    state: ClusterState, row: int, strategy: Strategy, *, record: Leadership,
    unclean_enabled: bool = False, profile: str | Profile = DEFAULT_PROFILE,
) -> Election:
    """Elect a leader for one partition on a given record, without changing anything but slots.

    Parameters
    ----------
    state : ClusterState
        For the assignment and for liveness.
    row : int
        Partition row.
    strategy : Strategy
    record : Leadership
        The record to decide on.
    unclean_enabled : bool
        A leader outside the ISR is permitted by configuration.
    profile : str or Profile
        Whose election; that the preferred replica may lead already is the machine's business.

    Returns
    -------
    Election
        The record as it would be written, before the store gives it a version.
    """
    named = [*record.isr, *([record.leader] if record.leader >= 0 else [])]
    of_version = find_profile(profile)
    number = of_version.kernel_strategy(strategy)
    brokers = mutators.add_brokers(state, named)
    at = np.asarray([row], np.int32)
    slots = mutators.track(state, np.repeat(at, brokers.size).astype(np.int32), brokers)
    live, up = np.empty(1, np.uint64), np.empty(1, np.uint64)
    hosting.live_slots(state.columns, at, live, up)
    assigned = (1 << int(state.records["n_replicas"][row])) - 1
    isr = sum(1 << int(slot) for slot in slots[: len(record.isr)])
    used = state.replicas[row, : int(state.records["n_slots"][row])]
    down = sum(1 << s for s, b in enumerate(used.tolist()) if state.shutting_down[b])
    slot, new_isr, recipient_mask, unclean = kernel.choose_one(
        number, assigned, assigned & ~int(state.records["removing"][row]), isr,
        int(live[0]), int(up[0]), down, unclean_enabled or strategy.allows_unclean,
    )
    recipients = state.ids_of(row, recipient_mask)
    if slot < 0:
        return Election(None, recipients, False)
    marked = unclean and state.leader_recovery_supported and of_version.marks_recovery
    recovery = 1 if marked else record.recovery
    elected = replace(
        record, leader=int(state.broker_id[used[slot]]), leader_epoch=record.leader_epoch + 1,
        isr=state.ids_of(row, new_isr), recovery=recovery,
    )
    return Election(elected, recipients, bool(unclean))
