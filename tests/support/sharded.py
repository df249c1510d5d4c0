"""A sharded cluster beside one machine: what both say, in the same form; and random events."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import kfast
from kfast.io import SourceTables, read_tables, write
from kfast.state.census import take_census

ANNOUNCEMENT = "announce the live brokers"


# --- shards in this process --------------------------------------------------------------------


def without_session(monkeypatch) -> None:
    """Let functions run one after the other where they would be Spark's tasks."""
    from kfast.spark import dataset, sharded, sharded_capacity

    def gather(spark, n, run):
        return pickle.loads(pickle.dumps([run(task) for task in range(n)]))

    for module in (dataset, sharded, sharded_capacity):
        monkeypatch.setattr(module, "gather", gather)
    monkeypatch.setattr(sharded_capacity, "send", lambda spark, content: pickle.dumps(content))
    monkeypatch.setattr(sharded_capacity, "open_sent", pickle.loads)


def split(state: kfast.ClusterState, folder, shards: int) -> None:
    """Write a cluster as shards of whole topics, each with all brokers and its own topics."""
    folder.mkdir(parents=True)
    tables = state.to_tables()
    names = tables.topics["topic"].to_pylist()
    for number in range(shards):
        mine = pa.array(names[number::shards], pa.string())
        partitions = tables.partitions.filter(pc.is_in(tables.partitions["topic"], mine))
        topics = tables.topics.filter(pc.is_in(tables.topics["topic"], mine))
        write(
            SourceTables("", partitions, topics, tables.brokers, tables.cluster),
            folder / f"{number}.parquet",
        )


def joined(folder) -> kfast.ClusterState:
    """A dataset that `fail` wrote, on one machine."""
    parts = [read_tables(path) for path in sorted(Path(folder).glob("*.parquet"))]
    common = read_tables(Path(folder) / "_cluster.arrow")
    return kfast.ClusterState.from_tables(
        common.brokers,
        pa.concat_tables([part.topics for part in parts]),
        pa.concat_tables([part.partitions for part in parts]),
        common.cluster,
    )


def joined_requests(done) -> list[tuple]:
    """`ShardedOutcome.requests` as Spark would put them together, sorted."""
    found: dict[tuple, list[int]] = {}
    for path in sorted((Path(done.run.folder) / "requests").iterdir()):
        for row in pq.read_table(path).to_pylist():
            alone, shards = row.pop("alone"), row.pop("shards")
            n, told = row.pop("requests"), row.pop("partitions")
            have = found.setdefault(tuple(row.values()), [0, 0, 0])
            have[0] = have[0] + n if alone else max(have[0], n)
            have[1] += told
            have[2] += shards
    every = len(done.run.dataset.files)
    return sorted(
        (*key, n, told) for key, (n, told, shards) in found.items()
        if key[1] != ANNOUNCEMENT or shards == every
    )


# --- one machine -------------------------------------------------------------------------------


def happen(controller: kfast.Controller, event) -> Any:
    """Let an event happen that is written as for `kfast.spark.fail`."""
    name, argument = event if isinstance(event, tuple) else (event, None)
    method = getattr(controller, name)
    if name == "elect_leaders":
        return method(**argument or {})
    return method() if argument is None else method(argument)


def alone(state, events, journal, profile):
    """Outcomes of the events on one machine, and the state afterwards."""
    after = state.copy()
    controller = kfast.Controller(after, journal=journal, profile=profile)
    return after, [happen(controller, event) for event in events]


def requests_alone(outcomes) -> list[tuple]:
    """Requests per event, action, occurrence (or broker, or sender), kind and broker."""
    found: dict[tuple, list[int]] = {}
    for at, outcome in enumerate(outcomes):
        seen: Counter[str] = Counter()
        number = []
        senders = iter(outcome.senders)
        moves = []
        for step, action in enumerate(outcome.actions):
            moves.append(action[:2] in ("U:", "A1", "A2", "B1", "B3", "B4", "B8"))
            number.append(0 if moves[-1] else seen[action])
            seen[action] += 1
            if outcome.rebalanced:
                number[-1] = outcome.rebalanced[step]
            if outcome.senders and action == "announce the ISRs":
                number[-1] = next(senders)
        assert next(senders, None) is None
        for r in outcome.request_counts.to_pylist():
            step = r["step"]
            key = (
                at, outcome.actions[step], number[step], r["kind"], r["broker_id"],
            )
            assert moves[step] or key not in found, key
            have = found.setdefault(key, [0, 0])
            have[0] += r["requests"]
            have[1] += r["partitions"]
    return sorted((*key, *have) for key, have in found.items())


def counts_alone(outcomes) -> list[tuple]:
    """`ShardedOutcome.counts` of outcomes of one machine."""
    rows = []
    for at, outcome in enumerate(outcomes):
        counts = outcome.counts
        items = [("transition", f"{a} -> {b}", n) for (a, b), n in counts.transitions.items()]
        items += [("code", code, n) for code, n in counts.codes.items()]
        items += [
            ("total", "leaders_moved", counts.leaders_moved),
            ("total", "unclean_elections", counts.unclean_elections),
            ("total", "remaining", outcome.remaining.size),
        ]
        replies = [code.name for code in outcome.alterations()]
        if outcome.replies is not None:
            replies += [error or "NONE" for error in outcome.replies["error"].to_pylist()]
        items += [("reply", reply, n) for reply, n in Counter(replies).items()]
        rows += [(at, outcome.event, *item) for item in items]
    return sorted(rows)


def assert_same(done, after, outcomes) -> None:
    """Shards came to what one machine came to, but for requests."""
    assert done.errors == tuple(outcome.error for outcome in outcomes)
    assert [tuple(row.values()) for row in done.counts.to_pylist()] == counts_alone(outcomes)
    assert done.digest == after.digest()
    assert done.partitions == after.n_partitions - after.free_rows.size
    assert done.census == take_census(after).counts
    assert joined(done.state).digest() == after.digest()


# --- random events -----------------------------------------------------------------------------


class Teller:
    """Tells random events that can happen, from what one machine knows."""

    def __init__(self, state: kfast.ClusterState, profile: str, seed: int) -> None:
        self.random = Random(seed)
        self.state = state.copy()
        self.controller = kfast.Controller(self.state, profile=profile)
        self.events: list[Any] = []
        self.outcomes: list[Any] = []
        self.made = 0

    def tell(self, n: int) -> None:
        """Let so many events happen, after the controller's start."""
        self._happen("on_controller_failover")
        kinds = [
            (3, self.failure), (4, self.startup), (1, self.shutdown), (2, self.rebalance),
            (4, self.catch_up), (1, self.elect), (1, lambda: "enable_unclean_leader_election"),
            (1, lambda: "on_controller_failover"),
        ]
        while len(self.events) < n:
            event = self.random.choices([k for _, k in kinds], [w for w, _ in kinds])[0]()
            if event is not None:
                self._happen(event)

    def _happen(self, event) -> None:
        self.events.append(event)
        self.outcomes.append(happen(self.controller, event))

    def _brokers(self, up: bool) -> list[int]:
        return self.state.broker_id[self.state.registered == up].tolist()

    def _some(self, items, most: int) -> list[Any]:
        items = list(items)
        return self.random.sample(items, min(len(items), self.random.randint(1, most)))

    def failure(self):
        up = self._brokers(True)
        return ("on_broker_failure", self._some(up, 2)) if len(up) > 4 else None

    def startup(self):
        down = self._brokers(False)
        return ("on_broker_startup", self._some(down, 3)) if down else None

    def shutdown(self):
        return ("controlled_shutdown", self.random.choice(self._brokers(True)))

    def rebalance(self):
        return ("rebalance_leaders", self.random.choice([0, 5, 20]))

    def catch_up(self):
        every = self.state.broker_id.tolist()
        return ("catch_up", every if self.random.random() < 0.5 else self._some(every, 4))

    def elect(self):
        return ("elect_leaders", {
            "type": self.random.choice(["preferred", "unclean"]),
            "trigger": self.random.choice(["AdminClient", "ZkTriggered"]),
        })
