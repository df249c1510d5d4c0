"""What partitions of a KRaft cluster do that operators do not expect (`schema.SURPRISE_KINDS`).

Source: docs/kraft.md, sections 3.2, 6.7 and 8.3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.schema import NO_LEADER, SURPRISES
from kfast.state import ClusterState
from kfast.state.arrays import first_slots
from kfast.state.census import Census
from kfast.state.records import Rows
from kfast.state.tables import broker_ids, id_lists, row_keys

__all__ = ["NO_SURPRISES", "returned_last_leaders", "stuck_partitions"]

NO_SURPRISES = SURPRISES.schema.empty_table()

Flags = npt.NDArray[np.bool_]


def returned_last_leaders(
    before: Census, state: ClusterState, unclean_ids: Collection[int]
) -> pa.Table:
    """Partitions whose last known leader was elected, uncleanly, though the topic forbids that.

    Parameters
    ----------
    before : Census
        Before some brokers returned.
    state : ClusterState
        Just afterwards.
    unclean_ids : collection of int
        Those of them that had stopped uncleanly: they are out of every ELR.
    """
    if state.quorum is None or before.elr is None:
        return NO_SURPRISES
    leader = state.records["leader"]
    elected = (before.leader == NO_LEADER) & (leader != NO_LEADER) & (before.isr == 0)
    elected &= leader == before.elr.last_known
    elected &= ~state.quorum.unclean_leader_election[state.topic_row]
    rows = np.flatnonzero(elected)
    led = before.replicas[rows] == leader[rows, np.newaxis]
    eligible = before.elr.masks[rows].astype(np.uint64) >> led.argmax(axis=1).astype(np.uint64) & 1
    is_unclean = np.isin(state.broker_id[leader[rows]], list(unclean_ids))
    elected[rows] = (eligible == 0) | is_unclean
    alone = state.records["n_replicas"] == 1
    return _table(state, {"last_known_leader": elected & ~alone,
                          "only_replica_unclean": elected & alone})


def stuck_partitions(state: ClusterState, census: Census) -> pa.Table:
    """Partitions that stay offline whoever starts, for their ELR was cleared or is off.

    Parameters
    ----------
    state : ClusterState
    census : Census
        Of this state.
    """
    quorum = state.quorum
    if quorum is None or census.elr is None or not census.flags("only_last_leader").any():
        return NO_SURPRISES
    stuck = census.flags("only_last_leader") & (census.leader == NO_LEADER)
    if quorum.elr_on:
        stuck &= census.elr.last_known < 0
    stuck &= ~quorum.unclean_leader_election[state.topic_row]
    return _table(state, {"elr_cleared": stuck})


def _table(state: ClusterState, flags: Mapping[str, Flags]) -> pa.Table:
    """`schema.SURPRISES` of the partitions that a kind of surprise is true of."""
    parts = []
    for kind, surprising in flags.items():
        rows: Rows = np.flatnonzero(surprising).astype(np.int32)
        records = state.records.take(rows)
        parts.append(SURPRISES.table({
            **row_keys(state, rows),
            "surprise": pa.array([kind] * rows.size, pa.string()),
            "leader": pa.array(broker_ids(state, records["leader"])),
            "replicas": id_lists(state, rows, first_slots(records["n_replicas"])),
        }))
    return pa.concat_tables(parts)
