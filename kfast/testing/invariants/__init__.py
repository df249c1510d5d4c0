"""What is true of every state: rules of section 9, a function each or for a few of them.

`check` runs the rules that one state shows; `check_step` those that compare a state with the one
before and with what the journal says of the event between. A rule that does not hold is kfast's
own mistake: `InvariantError`.

Here are rules 1 to 19 and 22 to 26, and of 20 and 21 what slots must satisfy. `check_call` is for
rule 22, which speaks of a single call of the partition machine.

Source: docs/controller.md, section 9; the numbers are its numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfast.controllers import DEFAULT_PROFILE, Profile, find_profile
from kfast.controllers.zk.store import Store
from kfast.journal import Outcome
from kfast.state import ClusterState
from kfast.testing.invariants import calls, journals, steps
from kfast.testing.invariants.states import (
    after_broker_failure,
    counters_are_what_they_count,
    kept_survey_is_current,
    masks_fit_the_slots,
    started_topics_are_queued,
)

__all__ = ["after_broker_failure", "check", "check_call", "check_step"]


def check(state: ClusterState, *, offline: bool = True) -> None:
    """Check the rules that one state shows; `InvariantError` names the first that fails.

    Rule 11 is left out where not `offline`. Kafka's own count leaves it when an Offline partition
    outlives its topic (`remove_topic` keeps states, section 1.6) and the name is then deleted or
    made again, or when somebody moves partitions of a started topic by hand.
    """
    counters_are_what_they_count(state, offline=offline)
    kept_survey_is_current(state)
    started_topics_are_queued(state)
    masks_fit_the_slots(state)


def check_step(
    before: ClusterState, after: ClusterState, outcome: Outcome, store: Store | None = None,
    profile: str | Profile = DEFAULT_PROFILE,
) -> None:
    """Check the rules that compare two states with one event of the controller between them.

    Rows that the event added are left out. A failover makes all states anew and is left out of
    rule 1 for its first step, as section 9 says. Rules 2, 4 and 8 do not bind a profile
    that caches what it failed to write, that empties the ISR where unclean election is allowed, or
    that does not cache the epoch which a reassignment raises (section 8.1). With a store, rule 5 is
    left out: the ISR that an election finds there may be newer than the cached one.
    """
    version = find_profile(profile)
    if not version.caches_lost_writes:
        steps.records_only_grow(before, after)
    if not version.empties_unclean_isr:
        steps.isr_never_empties(before, after)
    steps.leaders_stay_in_their_isr(before, after)
    steps.reassignments_end_complete(before, after)
    steps.newer_records_are_left_alone(before, after, outcome)
    calls.triggers_leave_the_online_alone(before, after, outcome)
    if outcome.level != "full":
        return
    journals.transitions_are_legal(outcome, version)
    if store is None:
        journals.isr_never_grows_by_election(outcome)
    journals.unclean_elections_are_marked(after, outcome, version)
    journals.leaders_are_online(before, after, outcome)
    if not version.skips_leading_preferred:
        journals.online_partitions_have_leaders(outcome)
    journals.queued_topics_rest(before, after, outcome, version)
    journals.requests_go_to_registered_brokers(before, after, outcome)
    journals.new_replicas_are_new(outcome)
    journals.deletion_is_marked(after, outcome)
    journals.deleted_topics_were_deleted(before, after, outcome)
    journals.deletion_is_not_retried_under_way(before, after, outcome)
    journals.deletion_follows_offline(outcome)
    journals.metadata_goes_with_leadership(outcome)
    if store is not None and version.touch_is_cached:
        journals.cache_equals_store(after, store, outcome)


def check_call(before: ClusterState, rows: npt.NDArray[np.int32], outcome: Outcome) -> None:
    """Check the rule of one call of `PartitionStateMachine.handle_state_changes`.

    Parameters
    ----------
    before : ClusterState
        As it was before the call.
    rows : (n,) int32
        What was asked for, in the order given.
    outcome : Outcome
    """
    calls.results_are_of_those_with_leaders(before, rows, outcome)
