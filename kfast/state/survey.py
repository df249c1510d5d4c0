"""Who leads what others should, kept from one automatic rebalance to the next.

A rebalance asks for every partition that another than its preferred replica leads. The first one
looks at all rows; after it, what moves leaders marks the rows that it visits, and the next one
looks at marked rows only. Whatever else changes assignments or leadership makes the state forget.

Source: docs/controller.md, section 6.8, auto, steps 1 and 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kfast.kernels import census, hosting
from kfast.state.records import Rows

if TYPE_CHECKING:
    from kfast.state.cluster import ClusterState

Counts = npt.NDArray[np.int64]


class Survey:
    """Partitions by their preferred replica, and a bitmap of rows that others may lead."""

    def __init__(self, state: ClusterState, preferred: Counts, rows: Rows) -> None:
        self.preferred = preferred
        self.bits = state.new_bitmap()
        # A column that was made anew, as when the layout widens or rows move, is another one.
        self.columns: tuple[Any, Any] = state.records, state.replicas
        hosting.mark_rows(rows, self.bits)

    def speaks_of(self, state: ClusterState) -> bool:
        """Whether the columns are those that were surveyed, and every partition counts."""
        records, replicas = self.columns
        return records is state.records and replicas is state.replicas and not state.any_queued


def survey_leaders(state: ClusterState) -> tuple[Counts, Counts, Rows]:
    """Per broker row its preferred partitions and those led by others, and the rows of these."""
    others = np.zeros(state.n_brokers, np.int64)
    kept = state.survey
    if kept is not None and kept.speaks_of(state):
        marked = state.list_marked(kept.bits)
        rows = np.empty(marked.size, np.int32)
        n = census.recheck_leaders(state.columns, marked, kept.bits, others, rows)
        return kept.preferred, others, rows[:n]
    preferred = np.zeros(state.n_brokers, np.int64)
    # Memory for all: memory is taken as it is written.
    rows = np.empty(state.n_partitions, np.int32)
    n = census.survey_leaders(state.columns, state.any_queued, preferred, others, rows)
    rows = rows[:n].copy()
    state.survey = None if state.any_queued else Survey(state, preferred, rows)
    return preferred, others, rows


def mark_led(state: ClusterState, rows: Rows) -> None:
    """Note that some rows may have another leader."""
    if state.survey is not None:
        hosting.mark_rows(rows, state.survey.bits)


def forget_survey(state: ClusterState) -> None:
    """Note that assignments, leadership or topics changed in ways that nothing marks."""
    state.survey = None
