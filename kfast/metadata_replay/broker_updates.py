"""What brokers do, as the log says it, and the bulk updates that the controller then runs.

A record of a broker is written by an operation that also rebuilds partitions: before it where a
broker goes, after it where one comes or begins to shut down.

Source: docs/kraft.md, sections 5 and 6.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kfast.state.kraft_releases import Release
from kfast.state.metadata_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    Fencing,
    MetadataRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from kfast.state.registrations import BrokerRegistration

FENCING, UNFENCING, SHUTDOWN = "fencing", "unfencing", "shutdown"
REGISTRATION, UNREGISTRATION, FAILED_DIRECTORIES = "registration", "unregistration", "directories"
"""Causes of a broker's steps."""

ISR, ELR, LEADERLESS, DIRECTORIES = "isr", "elr", "leaderless", "directories"
"""Where a step finds the partitions that it visits."""


class _Cluster(Protocol):
    """What a step depends on (`Simulation`)."""

    @property
    def release(self) -> Release: ...
    @property
    def elr_on(self) -> bool: ...
    def broker(self, broker_id: int) -> BrokerRegistration | None: ...


class Step(NamedTuple):
    """One operation of a broker.

    Attributes
    ----------
    cause, what : str
        Its kind, and in words.
    broker : int
    remove, add, unclean : int
        Arguments of the bulk update, broker ids or -1.
    visits : tuple of str
        Where the partitions are found.
    directories : tuple of str
        Those that failed.
    """

    cause: str
    what: str
    broker: int
    remove: int = -1
    add: int = -1
    unclean: int = -1
    visits: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()


def step_after(record: MetadataRecord) -> Step | None:
    """The step whose changes follow this record."""
    if isinstance(record, UnfenceBrokerRecord):
        return _unfencing(record.id)
    if isinstance(record, BrokerRegistrationChangeRecord):
        broker = record.broker_id
        if record.fenced == Fencing.UNFENCE:
            return _unfencing(broker)
        if record.in_controlled_shutdown:
            return Step(
                SHUTDOWN, f"broker {broker} asks to shut down", broker, remove=broker, visits=(ISR,)
            )
    return None


def _unfencing(broker: int) -> Step:
    return Step(
        UNFENCING, f"broker {broker} is unfenced", broker, add=broker, visits=(LEADERLESS,)
    )


def steps_before(cluster: _Cluster, record: MetadataRecord | None) -> list[Step]:
    """The steps, one of which has written this record and the changes before it; none: no step."""
    if isinstance(record, FenceBrokerRecord):
        return [_fencing(record.id)]
    if isinstance(record, RegisterBrokerRecord):
        return _registrations(cluster, record)
    if isinstance(record, UnregisterBrokerRecord):
        broker = record.broker_id
        return [Step(
            UNREGISTRATION, f"broker {broker} is unregistered", broker, remove=broker,
            visits=(ISR, ELR),
        )]
    if isinstance(record, BrokerRegistrationChangeRecord):
        if record.fenced == Fencing.FENCE:
            return [_fencing(record.broker_id)]
        if not record.fenced and not record.in_controlled_shutdown:
            return _failed_directories(cluster, record)
    return []


def _fencing(broker: int) -> Step:
    return Step(FENCING, f"broker {broker} is fenced", broker, remove=broker, visits=(ISR,))


def _registrations(cluster: _Cluster, record: RegisterBrokerRecord) -> list[Step]:
    """A new incarnation leaves ISRs, and ELRs too if the log shows that it stopped uncleanly.

    Source: docs/kraft.md, section 6.7; what the broker knew of its last epoch is in no log.
    """
    broker = record.broker_id
    present = cluster.broker(broker)
    if present is not None and present.incarnation_id == record.incarnation_id:
        return [Step(REGISTRATION, f"broker {broker} registers again", broker)]
    what = f"broker {broker} registers"
    if not cluster.release.restart_leaves_isrs:
        return [Step(REGISTRATION, what, broker)]
    steps = [Step(REGISTRATION, what, broker, remove=broker, visits=(ISR,))]
    if cluster.elr_on:
        steps.append(Step(
            REGISTRATION, f"{what} after an unclean stop", broker, unclean=broker,
            visits=(ISR, ELR),
        ))
    return steps


def _failed_directories(
    cluster: _Cluster, record: BrokerRegistrationChangeRecord
) -> list[Step]:
    """Directories that are no longer listed; an empty list means that none is left.

    Source: docs/kraft.md, section 6.6.
    """
    broker = record.broker_id
    present = cluster.broker(broker)
    if present is None or record.cordoned_log_dirs is not None:
        return []
    online = record.log_dirs or ()
    failed = tuple(one for one in present.directories if one not in online)
    n = len(failed)
    what = f"{n} log {'directory' if n == 1 else 'directories'} of broker {broker} failed"
    return [Step(
        FAILED_DIRECTORIES, what, broker, remove=broker, visits=(DIRECTORIES,), directories=failed
    )]
