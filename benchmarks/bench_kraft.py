"""How long events of a KRaft controller take, beside the same work in numpy and in numba.

All forms start from the same healthy cluster and must end with the same leaders, ISRs, ELRs, last
known leaders and epochs. Kafka's own classes (4.1.2) take 35 to 70 ms for a fencing of 10 000
replicas, 8.2 s for a rack of 100 such brokers.
"""

from __future__ import annotations

import numpy as np
import pytest

import kfast
from benchmarks import plain_kraft
from benchmarks.plain_kraft import CHANGING, UNKNOWN, Columns

ROUNDS = 9
EARLIER, BROKER = 0, 1
"""One broker is fenced before an event of a controller that runs; they share partitions."""

SHARE = 3
"""A rack: every third broker, from the second one on."""

EVENTS = {
    "start": "a controller becomes active",
    "first": "one broker is fenced, the first event: kfast makes its hosting index for it",
    "fence": "one broker is fenced",
    "rack": "a rack is fenced, one broker after another",
    "shutdown": "one broker begins a controlled shutdown",
    "unfence": "one broker is unfenced, and nobody is to be elected",
}
RUNNING = ("fence", "rack", "shutdown", "unfence")
"""Events of a controller that runs."""


class Case:
    """A cluster, and one event in one form that is to be run on it, once."""

    def __init__(self, state, form, event):
        self.form, self.event = form, event
        if form == "kfast":
            self.state = state.copy()
            self.controller = kfast.QuorumController(self.state)
            if event != "start":
                self.controller.activate()
            if event in RUNNING:
                self.controller.fence_broker(EARLIER)
        else:
            self.columns = Columns.of(state)
            self.start, self.fence = plain_kraft.FORMS[form]
            if event != "start":
                self.start(self.columns)
            if event in RUNNING:
                self.fence(self.columns, EARLIER)

    def act(self):
        """Run the event."""
        rack = range(BROKER, self._n_brokers, SHARE)
        if self.form == "kfast":
            run = {
                "start": self.controller.activate,
                "first": lambda: self.controller.fence_broker(BROKER),
                "fence": lambda: self.controller.fence_broker(BROKER),
                "rack": lambda: [self.controller.fence_broker(broker) for broker in rack],
                "shutdown": lambda: self.controller.begin_controlled_shutdown(BROKER),
                "unfence": lambda: self.controller.unfence_broker(EARLIER),
            }
        else:
            run = {
                "start": lambda: self.start(self.columns),
                "first": lambda: self.fence(self.columns, BROKER),
                "fence": lambda: self.fence(self.columns, BROKER),
                "rack": lambda: [self.fence(self.columns, broker) for broker in rack],
                "shutdown": lambda: self.fence(self.columns, BROKER),
            }
        run[self.event]()

    @property
    def _n_brokers(self):
        return self.state.n_brokers if self.form == "kfast" else self.columns.live.size

    def ends(self):
        """The columns that events change."""
        if self.form != "kfast":
            return [getattr(self.columns, name) for name in CHANGING]
        records, quorum = self.state.records, self.state.quorum
        elr, known = quorum.elr, quorum.last_known_elr
        return [
            records["leader"], records["isr"],
            np.zeros_like(records["isr"]) if elr is None else elr,
            records["leader_epoch"], records["version"],
            np.full_like(records["leader"], UNKNOWN) if known is None else known,
        ]


@pytest.fixture(scope="session", params=[False, True], ids=["elr-off", "elr-on"])
def quorum_cluster(request, shape):
    """A healthy KRaft cluster, with min.insync.replicas 2."""
    state = kfast.generate(**shape, min_insync_replicas=2)
    return kfast.with_controller(state, "kraft-4.1", elr=request.param)


@pytest.mark.parametrize("form", ["kfast", *plain_kraft.FORMS])
@pytest.mark.parametrize("event", EVENTS)
def test_quorum_event(benchmark, quorum_cluster, event, form):
    """Every form of an event ends as plain numpy does."""
    if event == "unfence" and form != "kfast":
        pytest.skip("nothing is to be done")
    benchmark.group = event
    cases = []

    def setup():
        cases.append(Case(quorum_cluster, form, event))
        return (cases.pop(),), {}

    def run(case):
        case.act()
        ends[:] = [case]

    ends: list[Case] = []
    benchmark.pedantic(run, setup=setup, rounds=ROUNDS, warmup_rounds=1)
    benchmark.extra_info.update(partitions=quorum_cluster.n_partitions)
    if event == "unfence":
        return
    expected = Case(quorum_cluster, "numpy", event)
    expected.act()
    for name, found, wanted in zip(CHANGING, ends[0].ends(), expected.ends(), strict=True):
        assert np.array_equal(found, wanted), name
