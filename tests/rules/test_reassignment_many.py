"""Many partitions at once, slots that grow and shrink, and a store that agrees.

Source: docs/controller.md, section 6.7.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

import kfast
from kfast import ArgumentError, Controller, Store
from kfast.testing import invariants
from tests.rules.test_reassignment import is_being_reassigned
from tests.support.kernel_calls import LAYOUTS, row_names
from tests.support.readings import answers
from tests.support.states import read_state


def generated(seed=5, **options):
    """A cluster of 40 partitions on 12 brokers, two of which are down."""
    state = kfast.generate(partitions=40, brokers=12, replication_factor=3, seed=seed)
    controller = Controller(state, journal="full", **options)
    controller.on_controller_failover()
    controller.on_broker_failure(state.broker_id[[2, 7]].tolist())
    return controller


def wishes(generator, state, *, cancel=0.0):
    """Random targets for most partitions, all of them live; some cancel."""
    live = state.broker_id[state.registered & ~state.shutting_down].tolist()
    names = [name for name in sorted(row_names(state)) if generator.random() < 0.8]
    return {
        name: None if generator.random() < cancel
        else generator.sample(live, min(generator.randint(1, 4), len(live)))
        for name in names
    }


def total(outcomes):
    """Requests and transitions of several outcomes together."""
    requests, partitions, transitions = Counter(), Counter(), Counter()
    for outcome in outcomes:
        requests += Counter(outcome.counts.requests)
        partitions += Counter(outcome.counts.request_partitions)
        transitions += Counter(outcome.counts.transitions)
    return requests, partitions, transitions


def join(outcomes):
    """What every broker is sent, one outcome after the other."""
    found = {}
    for outcome in outcomes:
        for broker, said in outcome.by_broker().items():
            found.setdefault(broker, []).extend(said)
    return found


def bring_in_sync(state):
    """Every live assigned replica is in its ISR, where the leader is live."""
    for row in range(state.n_partitions):
        record = state.leadership(row)
        if record is not None and state.is_replica_online(record.leader, row):
            live = [b for b in state.assignment(row).replicas if state.is_replica_online(b, row)]
            isr = dict.fromkeys((*record.isr, *live))
            state.set_leadership(row, leader=record.leader, isr=isr,
                                 leader_epoch=record.leader_epoch, version=record.version + 1,
                                 controller_epoch=record.controller_epoch)


@pytest.mark.parametrize("seed", range(4))
def test_many_at_once_are_as_many_one_by_one(seed):
    """Section 6.7: one call for each partition; same state, codes, counts, and requests in order.

    Begun, changed or cancelled in mid-flight, and completed.
    """
    generator = Random(seed)
    together, alone = generated(seed), generated(seed)
    for cancel in (0.0, 0.3):
        asked = wishes(generator, together.state, cancel=cancel)
        one = together.alter_partition_reassignments(asked)
        others = [alone.alter_partition_reassignments({p: asked[p]}) for p in asked]
        assert answers(one) == [code for other in others for code in answers(other)]
        assert together.state.digest() == alone.state.digest()
        assert total([one]) == total(others)
        assert join([one]) == join(others)
        invariants.check(together.state)
    rows = np.array([r for r in range(40) if is_being_reassigned(together.state, r)])
    for controller in (together, alone):
        bring_in_sync(controller.state)
    order = np.array(sorted(rows, key=row_names(together.state).__getitem__))
    one = together.on_partition_reassignment(generator.sample(rows.tolist(), rows.size))
    others = [alone.on_partition_reassignment([row]) for row in order]
    assert together.state.digest() == alone.state.digest()
    assert total([one]) == total(others)
    assert join([one]) == join(others)
    assert rows.size > 9
    assert not any(is_being_reassigned(together.state, row) for row in rows)
    invariants.check(together.state)


# --- slots --------------------------------------------------------------------------------------

FIVE = """
    partition  ar         isr        leader  epoch  state
    t-0        1,2,3,4,5  1,2,3,4,5  1       7      ONLINE
    t-1        2,1        2          2       7      ONLINE
"""


def test_slots_grow_and_the_layout_widens():
    """Design: ten brokers in flight need the wide layout; nothing else shows."""
    seen = []
    for layout in LAYOUTS:
        controller = Controller(read_state(FIVE, brokers=range(6, 12), layout=layout))
        state = controller.state
        assert state.layout == layout
        controller.alter_partition_reassignments({("t", 0): [6, 7, 8, 9, 10], ("t", 1): [3]})
        assert (state.layout, state.records["n_slots"].tolist()) == ("wide", [10, 3])
        middle = state.digest()
        invariants.check(state)
        controller.catch_up([3, 6, 7, 8, 9, 10])
        assert state.records["n_slots"].tolist() == [5, 1]
        assert state.assignment(0).replicas == (6, 7, 8, 9, 10)
        invariants.check(state)
        seen.append((middle, state.digest()))
    assert seen[0] == seen[1]


def test_slots_shrink_when_replicas_go():
    """Design: a partition that wanders over all brokers never tracks more than it must."""
    state = read_state(FIVE, brokers=range(6, 40), layout="narrow")
    controller = Controller(state)
    for first in range(3, 40, 3):
        controller.alter_partition_reassignments({("t", 1): [first % 40, first % 40 - 1]})
        controller.catch_up([first % 40, first % 40 - 1])
        assert state.records["n_slots"][1] == 2
    assert (state.layout, state.n_slots) == ("narrow", 5)
    assert state.replicas_on_brokers([2]).rows.tolist() == [0]


def test_a_broker_that_moved_in_is_found_when_it_fails():
    """The hosting index hears of slots that a reassignment gives."""
    controller = Controller(read_state(FIVE, brokers=[9]))
    controller.on_broker_failure([4])
    controller.alter_partition_reassignments({("t", 1): [9, 1]})
    controller.catch_up([1, 9])
    assert controller.state.leadership(1).leader == 9
    controller.on_broker_failure([9])
    assert (controller.state.leadership(1).leader, controller.state.leadership(1).isr) == (1, (1,))


SIXTY = ",".join(map(str, range(60)))
MANY = f"""
    partition  ar       isr      leader  epoch  state
    t-0        1        1        1       7      ONLINE
    t-1        {SIXTY}  {SIXTY}  1       7      ONLINE
"""


@pytest.mark.parametrize("with_store", [False, True])
def test_more_than_64_brokers_are_refused_before_anything_changes(with_store):
    """Design: by name; no partition of the call has moved, nothing was written, no slot is lost."""
    state = read_state(MANY, brokers=range(60, 80))
    store = Store(state) if with_store else None
    controller = Controller(state, store=store)
    before = state.copy()
    with pytest.raises(ArgumentError, match="brokers; at most 64 are allowed"):
        controller.alter_partition_reassignments({("t", 0): [2], ("t", 1): list(range(60, 69))})
    assert state == before
    assert not (store.calls if store else ())
    asked = {("t", 0): [2], ("t", 1): list(range(70, 74))}
    assert answers(controller.alter_partition_reassignments(asked)) == ["STARTED", "STARTED"]
    controller.catch_up([2, *range(70, 74)])
    assert state.assignment(1).replicas == (70, 71, 72, 73)
    invariants.check(state)


def test_only_what_would_move_needs_room():
    """Section 6.7: a partition that is refused anyway has its code, however long its list is."""
    state = read_state(FIVE + "    q-0  1  1  1  7  ONLINE\n", brokers=range(6, 90), queued=["q"])
    controller, many = Controller(state), list(range(1, 71))
    assert answers(controller.alter_partition_reassignments(
        {("n", 0): many, ("q", 0): many, ("t", 0): [1] * 70, ("t", 1): [*range(1, 65)]}
    )) == [
        "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION", "INVALID_REPLICA_ASSIGNMENT",
        "STARTED",
    ]
    assert state.records["n_slots"][1] == 64
    nothing = Controller(kfast.ClusterState.from_tables())
    assert answers(nothing.alter_partition_reassignments({("t", 0): None})) == [
        "NO_REASSIGNMENT_IN_PROGRESS",
    ]
