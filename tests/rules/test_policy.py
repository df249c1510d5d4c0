"""A user's rule elects inside the events as its plain Python twin says, or nothing happens at all.

The kernels are `decide`, `count_led` and `raised` of `kfast.kernels.policies`; `bring_online`,
`choose`, `fail_brokers` and `shut_down_broker` take what they decide.
"""

from __future__ import annotations

import functools
import pickle
import re
import subprocess
import sys
from collections import Counter
from copy import copy
from random import Random

import numpy as np
import pytest

import kfast
from kfast import PolicyError
from kfast.controllers.zk import policy
from kfast.kernels import policies
from kfast.state.racks import numbered_racks
from tests.conftest import ROOT
from tests.rules.test_random_events import settings_of
from tests.support.event_run import Sequence
from tests.support.kfast_run import SETTINGS, KfastRun, RowOrder
from tests.support.random_clusters import random_context, store_like
from tests.support.random_events import Generator
from tests.support.twin_run import TwinRun
from tests.support.twin_state import difference

pytestmark = pytest.mark.kernels
SEEDS = (30, 32)
EVENTS = 30


def twin_led_least(ctx, p, record, candidates):
    """The candidate that led least when the event began; of equals the first."""
    return min(candidates, key=lambda broker: ctx.led[broker])


def twin_stay_in_rack(ctx, p, record, candidates):
    """The first candidate in the rack of the leader, or of the preferred replica."""
    home = record.leader if record.leader >= 0 else ctx.assignment(p).replicas[0]
    near = [b for b in candidates if home in ctx.racks and ctx.racks.get(b) == ctx.racks[home]]
    return (near or candidates)[0]


def last_or_nobody(candidates, n_replicas, isr, live, brokers):
    """The last candidate; nobody where all assigned replicas are live and in sync."""
    everybody = (1 << n_replicas) - 1
    if candidates & isr & live & everybody == everybody:
        return -1
    last = -1
    for slot in range(n_replicas):
        if (candidates >> slot) & 1 and brokers[slot] >= 0:
            last = slot
    return last


def twin_last_or_nobody(ctx, p, record, candidates):
    """The same with broker ids."""
    assigned = ctx.assignment(p).replicas
    if len(candidates) == len(assigned) and set(candidates) <= set(record.isr):
        return None
    return candidates[-1]


RULES = {
    "first_candidate": (policy.first_candidate, None),
    "led_least": (policy.led_least, twin_led_least),
    "stay_in_rack": (policy.stay_in_rack, twin_stay_in_rack),
    "last_or_nobody": (last_or_nobody, twin_last_or_nobody),
}


@pytest.mark.parametrize("with_store", [False, True], ids=["cache", "store"])
@pytest.mark.parametrize("name", list(RULES))
@pytest.mark.parametrize("seed", SEEDS)
def test_events_with_a_rule_are_those_of_the_twin(seed, name, with_store):
    """Random events, both layouts, 1 and 2 threads, every journal; Kafka's rule is its restated."""
    rule, twin_rule = RULES[name]
    settings = settings_of(seed, with_store)
    Sequence(seed, with_store, settings=settings, policy=rule, rule=twin_rule).run(EVENTS)


def picky(candidates, leader, n_replicas, isr):
    """Kafka's rule, but it cannot bear some of the states."""
    first = 0
    while not (candidates >> first) & 1:
        first += 1
    if isr == 2:
        raise ValueError("one in-sync replica, and not the preferred one")
    if isr == 5:
        return n_replicas
    if isr == 3 and n_replicas == 3:
        return 2
    if leader == 2 and isr != 7:
        return 100 // (isr - isr)
    return first


def contents(state, store):
    """Everything that a state and its store hold; a survey is a hint that can be made again."""
    held = {
        name: value.tobytes() if isinstance(value, np.ndarray) else copy(value)
        for name, value in vars(state).items() if not name.startswith("_") and name != "survey"
    }
    if store is not None:
        held |= {"records": store.records(), "calls": list(store.calls)}
    return held


def error_of(run, event):
    """Do an event; what the rule's error says, if it fails."""
    try:
        run.apply(event)
    except PolicyError as error:
        return str(error)
    return None


@pytest.mark.parametrize("with_store", [False, True], ids=["cache", "store"])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_an_event_whose_rule_fails_changes_nothing(setting, with_store):
    """Random events: each one either is the twin's, or raises and leaves everything as it was."""
    failed, done = Counter(), Counter()
    for seed in range(4):
        generator = Random(seed)
        ctx = random_context(generator)
        twin_store = store_like(ctx) if with_store else None
        run = KfastRun(ctx, twin_store, setting, picky)
        twin = TwinRun(ctx, twin_store)
        source = Generator(generator, ctx, twin_store, twin.controller)
        for number in range(40):
            event = source.failover() if number == 0 else source.next()
            before = contents(run.state, run.store)
            error = error_of(run, event)
            if error is not None:
                assert "nothing was changed" in error
                assert contents(run.state, run.store) == before
                assert run.controller.journal.actions == []
                failed[event.name] += 1
                continue
            done[event.name] += 1
            twin.controller.rank = RowOrder(run)
            twin.apply(event)
            assert difference(ctx, run.state) is None
    assert sum(failed.values()) >= 5
    assert sum(done.values()) >= 100


@functools.cache
def started(replication_factor):
    """A cluster after the controller's start; broker 4 has enough replicas for two threads."""
    state = kfast.generate(
        brokers=10, partitions=120_000, racks=2, seed=5, replication_factor=replication_factor
    )
    kfast.Controller(state).on_controller_failover()
    return state


def healthy(replication_factor=3):
    """A copy of it."""
    return started(replication_factor).copy()


def raises(candidates):
    """A rule that raises."""
    if candidates:
        raise ValueError("no opinion")
    return 0


def out_of_range(n_replicas):
    """A slot after the last one."""
    return n_replicas


def the_dead(leader):
    """The leader until now, which has just died."""
    return leader


def wrong_index(brokers):
    """A slot that nobody has."""
    return brokers[len(brokers)]


WRONG = {
    "raises": (raises, "raised ValueError: no opinion"),
    "out_of_range": (out_of_range, "returned 3: the slot is out of range; allowed: [1, 2], or -1"),
    "the_dead": (the_dead, "returned 0: the slot (broker 4) is not live; allowed: [1, 2], or -1"),
    "wrong_index": (wrong_index, "raised IndexError: index 3 is out of bounds"),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("event", ["on_broker_failure", "controlled_shutdown"])
@pytest.mark.parametrize("name", list(WRONG))
def test_a_wrong_answer_names_the_first_row(name, event, threads):
    """In one visit to each partition: what was found, what is allowed, and nothing was changed."""
    rule, message = WRONG[name]
    state = healthy()
    row = int(np.flatnonzero(state.records["leader"] == 4)[0])
    topic, number = state.topic[int(state.topic_row[row])].as_py(), state.partition[row]
    before = contents(state, None)
    controller = kfast.Controller(state, policy=rule, threads=threads)
    with pytest.raises(PolicyError) as caught:
        getattr(controller, event)([4] if event == "on_broker_failure" else 4)
    text = str(caught.value)
    assert text.startswith(f"policy {name} on {topic}-{number} (row {row}) {message}")
    assert text.endswith("; nothing was changed")
    assert contents(state, None) == before
    getattr(kfast.Controller(state), event)([4] if event == "on_broker_failure" else 4)
    assert not (state.records["leader"] == 4).any()


def test_the_rows_are_copied_only_where_the_rule_may_fail_after_a_change(monkeypatch):
    """Fused events ask the rule first or not at all; a partition that waits for a leader is late.

    Of a policy's cost the copy is nearly all where few rows change.
    """
    state, copies, made = healthy(), Counter(), kfast.ClusterState.copy
    monkeypatch.setattr(
        kfast.ClusterState, "copy", lambda state: copies.update(["copy"]) or made(state)
    )
    controller = kfast.Controller(state, policy=policy.first_candidate)
    controller.on_broker_failure([4])
    controller.on_broker_startup([4])
    controller.catch_up([4])
    controller.controlled_shutdown(5)
    controller.elect_leaders(type="unclean")
    assert not copies
    controller.on_broker_failure(range(10))
    controller.on_broker_startup([4])
    assert copies["copy"] == 1
    controller.on_controller_failover()
    assert copies["copy"] == 2


def test_the_digest_depends_on_the_rule_alone():
    """Kafka's rule restated gives Kafka's digest; threads and the journal change none."""
    digests = {}
    for name, (rule, _) in {"kafka": (None, None), **RULES}.items():
        found = set()
        for threads, journal in ((1, "counts"), (2, "off"), (2, "full")):
            state = healthy(replication_factor=4)
            controller = kfast.Controller(state, threads=threads, journal=journal, policy=rule)
            controller.on_broker_failure([0, 3, 4])
            controller.controlled_shutdown(5)
            found.add(state.digest())
        assert len(found) == 1
        digests[name] = found.pop()
    assert digests["first_candidate"] == digests["kafka"]
    assert len(set(digests.values())) == len(digests) - 1


def test_leaders_stay_in_their_rack():
    """4 replicas in 2 racks: after a failure every new leader is in the old one's rack."""
    state = healthy(replication_factor=4)
    rack = numbered_racks(state)[1]
    old = state.records["leader"].copy()
    kfast.Controller(state, policy=policy.stay_in_rack).on_broker_failure([4])
    moved = state.records["leader"] != old
    assert moved.any()
    assert (rack[state.records["leader"][moved]] == rack[old[moved]]).all()
    assert policy.number_racks(state) == {"a": 0, "b": 1}


def test_leaders_are_counted_like_numpy_counts_them():
    """`count_led` on any number of threads."""
    state = healthy()
    expected = np.bincount(state.records["leader"], minlength=10)
    for threads in (1, 2, 5):
        led = np.zeros((threads, 10), np.int64)
        policies.count_led(state.columns, led)
        assert led.sum(axis=0).tolist() == expected.tolist()


def chosen_by(number):
    """A rule that differs from its kin by its closure alone."""
    def rule(n_replicas):
        return number
    return rule


def test_a_rule_is_compiled_once():
    """By code, constants and closure: equal ones share, others do not, 1 is not True."""
    first = policy.compile_rule(chosen_by(1))
    assert policy.compile_rule(chosen_by(1)) is first
    assert policy.compile_rule(first) is first
    assert policy.compile_rule(chosen_by(2)) is not first
    keys = [policy._key(chosen_by(value), ()) for value in (1, 1.0, True, 0.0, -0.0, (1,), "1")]
    assert len(set(keys)) == len(keys)
    again = pickle.loads(pickle.dumps(policy.compile_rule(policy.led_least)))
    assert again is policy.compile_rule(policy.led_least)


REFUSED = {
    "candidate": (lambda candidate: 0, "parameter candidate is nothing that a rule can see"),
    "keyword": (lambda *, isr: 0, "is nothing that a rule can see; allowed: leader, n_replicas"),
    "float": (lambda isr: 0.5, "returns float64; a rule returns a slot, an integer"),
    "sometimes": (lambda isr: 1 if isr else None, "a rule returns a slot, an integer"),
    "unknown": (lambda isr: isr.nothing, "cannot be compiled"),
    "no function": (len, "is not a Python function"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_cannot_be_a_rule_is_refused_at_once(name):
    """Before any event: a parameter, a return type or a body that is not allowed."""
    rule, message = REFUSED[name]
    with pytest.raises(PolicyError, match=message):
        kfast.Controller(kfast.generate(brokers=3, partitions=4), policy=rule)


def test_numba_is_asked_for_only_when_a_rule_is_compiled():
    """`import kfast` imports no numba; without it the error says what to install."""
    code = """if True:
        import sys, kfast
        assert "numba" not in sys.modules
        sys.modules["numba"] = None
        try:
            kfast.Controller(
                kfast.generate(brokers=3, partitions=4), policy=kfast.controllers.led_least
            )
        except kfast.MissingExtraError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "policy led_least needs numba (not installed): pip install 'kfast[numba]'\n"
    )


def test_the_page_about_rules_runs(capsys):
    """docs/policy.md: its code runs and prints what it says."""
    text = (ROOT / "docs" / "policy.md").read_text()
    code, printed = re.findall(r"```(?:python|text)\n(.*?)```", text, re.DOTALL)[:2]
    exec(compile(code, "docs/policy.md", "exec"), {})
    assert capsys.readouterr().out == printed
    assert all(f"`{name}`" in text for name in policy.VISIBLE)
