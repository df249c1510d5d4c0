"""Which state may follow which.

Source: Kafka 3.9, `PartitionState.validPreviousStates` and `ReplicaState.validPreviousStates`;
Kafka 2.0, `ReplicaStateMachine`; docs/controller.md, sections 2.1, 3.1 and 8.1.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from enum import IntEnum

from kfast.schema import PartitionState as P
from kfast.schema import ReplicaState as R

PARTITION_PREVIOUS: Mapping[P, frozenset[P]] = {
    P.NEW: frozenset({P.NON_EXISTENT}),
    P.ONLINE: frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.OFFLINE: frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.NON_EXISTENT: frozenset({P.OFFLINE}),
}
"""Target state of a partition: the states it may be entered from."""

REPLICA_PREVIOUS: Mapping[R, frozenset[R]] = {
    R.NEW: frozenset({R.NON_EXISTENT}),
    R.ONLINE: frozenset({R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE}),
    R.OFFLINE: frozenset({R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE}),
    R.DELETION_STARTED: frozenset({R.OFFLINE}),
    R.DELETION_SUCCESSFUL: frozenset({R.DELETION_STARTED}),
    R.DELETION_INELIGIBLE: frozenset({R.OFFLINE, R.DELETION_STARTED}),
    R.NON_EXISTENT: frozenset({R.DELETION_SUCCESSFUL}),
}
"""Target state of a replica: the states it may be entered from."""

REPLICA_PREVIOUS_BEFORE_2_3: Mapping[R, frozenset[R]] = {
    **REPLICA_PREVIOUS, R.DELETION_INELIGIBLE: frozenset({R.DELETION_STARTED}),
}
"""The same before Kafka 2.3: a replica that is only Offline cannot become ineligible."""


@functools.cache
def previous_mask(previous: frozenset[P] | frozenset[R]) -> int:
    """Bit f set for every state f that the target may be entered from."""
    mask = 0
    for state in previous:
        mask |= 1 << int(state)
    return mask


def valid_transitions(previous: Mapping[IntEnum, frozenset[IntEnum]]) -> set[tuple[str, str]]:
    """The legal cells of a matrix as (from, to) names of states."""
    return {(f.name, to.name) for to, sources in previous.items() for f in sources}
