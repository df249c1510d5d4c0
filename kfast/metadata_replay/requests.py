"""What a leader, an administrator or a periodic task may have asked for, read from a change.

A change that no broker's step explains was asked for. Each candidate is a request under which the
controller would have written exactly this change; the first that gives it is taken.

Source: docs/kraft.md, sections 3, 4 and 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kfast.state.changes import Election
from kfast.state.metadata_records import Brokers, PartitionChangeRecord, Recovery

if TYPE_CHECKING:
    from collections.abc import Container

LEADERS_WISH = "decided by a partition's leader"
PLAN = "planned by an administrator"
CANCELLATION = "a plan cancelled by an administrator"
DIRECTORY = "a replica's directory, said by its broker"
"""Reasons for adopting a change."""


class _Present(Protocol):
    """What is looked at of a partition's registration."""

    @property
    def replicas(self) -> Brokers: ...
    @property
    def isr(self) -> Brokers: ...
    @property
    def removing(self) -> Brokers: ...
    @property
    def adding(self) -> Brokers: ...
    @property
    def leader(self) -> int: ...
    @property
    def recovery(self) -> int: ...
    @property
    def directories(self) -> tuple[str, ...]: ...


class Target(NamedTuple):
    """What a request wants of a partition; None where it leaves the present value.

    `elr_off` builds as if ELR were off.
    """

    isr: Brokers | None = None
    replicas: Brokers | None = None
    removing: Brokers | None = None
    adding: Brokers | None = None
    recovery: int | None = None
    directories: tuple[str | None, ...] | None = None
    election: Election = Election.ONLINE
    elr_off: bool = False


class Request(NamedTuple):
    """One candidate.

    Attributes
    ----------
    kind : str
        `isr`, `plan`, `cancellation`, `directories`, `preferred`, `unclean`, `shutdown`.
    asker : int
        The broker that asks, -1 where nobody of the cluster does. A request has one.
    target : Target
    reason : str
        Why the change is adopted; empty where it follows from the state alone.
    removed : int
        A broker that may neither lead nor stay in the ISR, as in a bulk update; -1 for none.
    """

    kind: str
    asker: int
    target: Target = Target()
    reason: str = ""
    removed: int = -1


def without(brokers: Brokers, removed: Container[int]) -> Brokers:
    """The brokers that are not removed, in their order."""
    return tuple(broker for broker in brokers if broker not in removed)


def candidates(
    change: PartitionChangeRecord, now: _Present, rules: RequestRules,
    offline: Callable[[], frozenset[int]],
) -> Iterator[Request]:
    """Requests that may have led to a change of a partition, the likeliest first.

    Parameters
    ----------
    change : PartitionChangeRecord
    now : PartitionRegistration or Present
        The state that the change is built from.
    rules : RequestRules
    offline : callable
        Gives the brokers whose replica lies in a directory that is offline.
    """
    completes = change.removing_replicas == () or change.adding_replicas == ()
    if change.replicas or change.removing_replicas or change.adding_replicas or completes:
        if completes:
            yield from _leaders_request(change, now, rules)
            yield from _cancellation(now)
        yield from _plans(change, now)
        return
    if change.directories is not None:
        yield from _directories(change, now, rules)
        return
    if change.leader is None and change.isr is not None:
        yield from _leaders_request(change, now, rules)
    if now.leader != now.replicas[0]:
        yield Request("preferred", -1, Target(election=Election.PREFERRED))
    if now.leader < 0:
        yield Request("unclean", -1, Target(election=Election.UNCLEAN))
    if change.leader is not None or change.isr is None:
        yield from _leaders_request(change, now, rules)
    yield from _silent_shutdown(change, now, rules)
    for broker in offline():
        yield Request("directories said", broker, removed=broker)
    yield Request("directories said", -1, Target(elr_off=rules.assigns_without_elr))


class RequestRules(NamedTuple):
    """What the requests of a moment depend on.

    Attributes
    ----------
    active : frozenset of int
        Ids of the brokers that may be in an ISR: registered, neither fenced nor shutting down.
    shutting_down : frozenset of int
        Those whose controlled shutdown needs no record: it has one, or its metadata version knows
        none.
    assigns_without_elr : bool
        Directories are assigned as if ELR were off (docs/kraft.md, section 11).
    """

    active: frozenset[int]
    shutting_down: frozenset[int]
    assigns_without_elr: bool


def _leaders_request(
    change: PartitionChangeRecord, now: _Present, rules: RequestRules
) -> Iterator[Request]:
    """AlterPartition, unless Kafka would have refused it (section 7.1).

    The replicas that a completed reassignment removes were in the leader's ISR or not: what is
    written is the same, so those that are in the present one are taken to be.
    """
    isr = now.isr if change.isr is None else change.isr
    if now.leader in now.removing and now.leader not in isr:
        isr = (*isr, now.leader)
    recovery = change.leader_recovery_state
    becomes_recovering = recovery == Recovery.RECOVERING and now.recovery != Recovery.RECOVERING
    accepted = (
        now.leader in isr and len(set(isr)) == len(isr)
        and rules.active.issuperset(isr) and set(isr) <= set(now.replicas)
        and not becomes_recovering
    )
    if accepted:
        target = Target(isr=isr, recovery=recovery, election=Election.CONFIGURED)
        yield Request("isr", now.leader, target, LEADERS_WISH)


def _cancellation(now: _Present) -> Iterator[Request]:
    """A reassignment that is cancelled (sections 4 and 7.3)."""
    if now.adding or now.removing:
        replicas = without(now.replicas, now.adding)
        target = Target(
            isr=without(now.isr, now.adding) or replicas[:1], replicas=replicas, removing=(),
            adding=(), election=Election.CONFIGURED,
        )
        yield Request("cancellation", -1, target, CANCELLATION)


def _plans(change: PartitionChangeRecord, now: _Present) -> Iterator[Request]:
    """A reassignment: its target is what the record leaves, less what is or was to be removed."""
    replicas = now.replicas if change.replicas is None else change.replicas
    removed = (change.removing_replicas or (), now.removing, ())
    for target in dict.fromkeys(without(replicas, gone) for gone in removed):
        yield Request("plan", -1, _plan(now.replicas, target), PLAN)


def _plan(current: Brokers, target: Brokers) -> Target:
    """Section 4; a list that the plan empties is not passed on (section 7.3)."""
    removing = tuple(sorted(set(current) - set(target)))
    adding = tuple(sorted(set(target) - set(current)))
    return Target(replicas=target + removing, removing=removing or None, adding=adding or None)


def _directories(
    change: PartitionChangeRecord, now: _Present, rules: RequestRules
) -> Iterator[Request]:
    """The one broker whose directory is another says where its replica lies (section 7.4)."""
    assert change.directories is not None
    moved = [
        (broker, directory)
        for broker, directory, was in zip(
            now.replicas, change.directories, now.directories, strict=False
        )
        if directory != was
    ]
    if len(moved) == 1:
        broker, directory = moved[0]
        wanted = tuple(directory if other == broker else None for other in now.replicas)
        target = Target(directories=wanted, elr_off=rules.assigns_without_elr)
        yield Request("directories said", broker, target, DIRECTORY)


def _silent_shutdown(
    change: PartitionChangeRecord, now: _Present, rules: RequestRules
) -> Iterator[Request]:
    """A broker that shuts down leaves the ISR, and no record says so (section 6.3)."""
    if change.isr is not None:
        for broker in now.isr:
            if broker not in change.isr and broker in rules.shutting_down:
                yield Request("shutdown", broker, removed=broker)
