"""Who leads what others should, kept from one automatic rebalance to the next.

A rebalance asks for every partition that another than its preferred replica leads. The first one
looks at all rows; after it, what moves leaders marks the rows that it visits, and the next one
looks at marked rows only. Whatever else changes assignments or leadership makes the state forget.

Source: docs/controller.md, section 6.8, auto, steps 1 and 2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfast.kernels import census, hosting
from kfast.state.arrays import StateArrays
from kfast.state.records import LeaderSurvey, Rows

Counts = npt.NDArray[np.int64]


def has_survey(state: StateArrays) -> bool:
    """Whether there is a survey of the columns as they are, in which every partition counts."""
    if state.survey is None or state.any_queued:
        return False
    records, replicas = state.survey.columns
    return records is state.records and replicas is state.replicas


def survey_leaders(state: StateArrays) -> tuple[Counts, Counts, Rows]:
    """Per broker row its preferred partitions and those led by others, and the rows of these."""
    others = np.zeros(state.n_brokers, np.int64)
    survey = state.survey
    if survey is not None and has_survey(state):
        marked = state.list_marked(survey.bits)
        rows = np.empty(marked.size, np.int32)
        n = census.recheck_leaders(state.columns, marked, survey.bits, others, rows)
        return survey.preferred, others, rows[:n]
    preferred = np.zeros(state.n_brokers, np.int64)
    # Memory for all: memory is taken as it is written.
    rows = np.empty(state.n_partitions, np.int32)
    n = census.survey_leaders(state.columns, state.any_queued, preferred, others, rows)
    rows = rows[:n].copy()
    state.survey = None
    if not state.any_queued:
        state.survey = LeaderSurvey(preferred, state.new_bitmap(), (state.records, state.replicas))
        hosting.mark_rows(rows, state.survey.bits)
    return preferred, others, rows
