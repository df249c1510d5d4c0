"""A sharded cluster beside one machine: what both say, in the same form; and random events."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import kfast
from kfast import schema
from kfast.io import SourceTables, read_tables, write
from kfast.schema import ReassignmentCode
from kfast.state.census import take_census

ANNOUNCEMENT = "announce the live brokers"


# --- shards in this process --------------------------------------------------------------------


class Gathered:
    """What `over_hands` gives, made at once."""

    def __init__(self, n, run, wanted):
        batches = [batch for number in range(n) for batch in run(number)]
        self.table = pa.Table.from_batches(batches, wanted)

    def toArrow(self) -> pa.Table:  # noqa: N802 - PySpark's name
        """All rows."""
        return self.table


def without_session(monkeypatch) -> None:
    """Let hands run one after the other where they would be Spark's tasks."""
    from kfast.spark import dataset, sharded

    for module in (dataset, sharded):
        monkeypatch.setattr(
            module, "over_hands", lambda spark, n, run, wanted: Gathered(n, run, wanted)
        )


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
    if name == "on_partition_modifications":
        return method(*next(iter(argument.items())))
    return method() if argument is None else method(argument)


def alone(state, events, journal, profile):
    """Outcomes of the events on one machine, and the state afterwards."""
    after = state.copy()
    controller = kfast.Controller(after, journal=journal, profile=profile)
    return after, [happen(controller, event) for event in events]


def requests_alone(outcomes) -> list[tuple]:
    """Requests per event, action, scope, occurrence (or broker, or sender), kind and broker."""
    found: dict[tuple, list[int]] = {}
    for at, outcome in enumerate(outcomes):
        seen: Counter[tuple[str, str]] = Counter()
        number = []
        senders = iter(outcome.senders)
        moves = []
        for step, action in enumerate(outcome.actions):
            key = (action, outcome.scopes[step])
            moves.append(action[:2] in ("U:", "A1", "A2", "B1", "B3", "B4", "B8"))
            number.append(0 if moves[-1] else seen[key])
            seen[key] += 1
            if outcome.rebalanced:
                number[-1] = outcome.rebalanced[step]
            if outcome.senders and action == "announce the ISRs":
                number[-1] = next(senders)
        assert next(senders, None) is None
        for r in outcome.request_counts.to_pylist():
            step = r["step"]
            key = (
                at, outcome.actions[step], outcome.scopes[step], number[step], r["kind"],
                r["broker_id"],
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
        said = [code.name for code in outcome.alterations()]
        said += [ReassignmentCode(code).name for code in outcome.reassignment_codes.tolist()]
        if outcome.replies is not None:
            said += [error or "NONE" for error in outcome.replies["error"].to_pylist()]
        items += [("reply", reply, n) for reply, n in Counter(said).items()]
        rows += [(at, outcome.event, *item) for item in items]
    return sorted(rows)


def replies_alone(events, outcomes) -> list[list[tuple] | None]:
    """`ShardedOutcome.replies`, elections sorted, of one machine."""
    found: list[list[tuple] | None] = []
    for event, outcome in zip(events, outcomes, strict=True):
        name, argument = event if isinstance(event, tuple) else (event, None)
        if outcome.error is not None or not argument:
            found.append(None)
        elif name == "elect_leaders" and argument.get("partitions") is not None:
            rows = outcome.replies.drop_columns("partition_row").to_pylist()
            found.append(sorted(map(repr, rows)))
        elif name in ("alter_partition_reassignments", "reassign_partitions"):
            codes = [ReassignmentCode(code) for code in outcome.reassignment_codes.tolist()]
            found.append([(*key, code.name if code else None)
                          for key, code in zip(argument, codes, strict=True)])
        else:
            found.append(None)
    return found


def replies_joined(events, done) -> list[list[tuple] | None]:
    """The same of shards."""
    found: list[list[tuple] | None] = []
    for event, table in zip(events, done.replies, strict=True):
        rows = None if table is None else table.to_pylist()
        if rows is not None and event[0] == "elect_leaders":
            found.append(sorted(map(repr, rows)))
        else:
            found.append(rows and [tuple(row.values()) for row in rows])
    return found


def assert_same(done, events, after, outcomes) -> None:
    """Shards came to what one machine came to, but for requests."""
    assert done.errors == tuple(outcome.error for outcome in outcomes)
    assert [tuple(row.values()) for row in done.counts.to_pylist()] == counts_alone(outcomes)
    assert done.digest == after.digest()
    assert done.partitions == after.n_partitions - after.free_rows.size
    assert done.census == take_census(after).counts
    assert replies_joined(events, done) == replies_alone(events, outcomes)
    assert [list(notes) for notes in done.notes] == [
        list(outcome.notes) if event[0] == "delete_topics" else []
        for event, outcome in zip(events, outcomes, strict=True)
    ]
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
            (4, self.catch_up), (2, self.elect), (4, self.delete), (5, self.acknowledge),
            (5, self.plan), (2, self.create), (2, self.extend), (1, self.unclean),
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

    def _topics(self, most: int) -> list[str]:
        exists = self.state.topic.filter(pa.array(self.state.topic_exists)).to_pylist()
        return self._some(exists, most)

    def _partitions(self, most: int) -> list[tuple[str, int]]:
        assigned = (self.state.records["flags"] & schema.FLAG_ASSIGNED).nonzero()[0].tolist()
        names = self.state.topic.to_pylist()
        return [
            (names[self.state.topic_row[row]], int(self.state.partition[row]))
            for row in self._some(assigned, most)
        ]

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
        asked: dict[str, Any] = {
            "type": self.random.choice(["preferred", "unclean"]),
            "trigger": self.random.choice(["AdminClient", "ZkTriggered"]),
        }
        if self.random.random() < 0.8:
            asked["partitions"] = [*self._partitions(5), ("nothing", 0), *self._partitions(2)]
        return ("elect_leaders", asked)

    def delete(self):
        return ("delete_topics", [*self._topics(2), "nothing"])

    def acknowledge(self):
        named = self.random.random() < 0.3
        return ("acknowledge_deletions", self._some(self._brokers(True), 4) if named else None)

    def plan(self):
        node = self.random.random() < 0.4
        plan: dict[tuple[str, int], Any] = {}
        for key in self._partitions(4):
            brokers = self._some(self._brokers(True), 3)
            if not node and self.random.random() < 0.3:
                brokers = self.random.choice([None, [], [1, 1], self._brokers(False)[:1]])
            plan[key] = brokers
        plan["nothing", 3] = [1]
        if not node:
            plan["nothing", 4] = None
        return ("reassign_partitions" if node else "alter_partition_reassignments", plan)

    def create(self):
        self.made += 1
        brokers = self.state.broker_id.tolist()
        return ("on_topic_change", {
            f"made-{self.made}-{at}": {p: self._some(brokers, 3) for p in range(1 + at)}
            for at in range(self.random.randint(1, 3))
        })

    def extend(self):
        topic = self._topics(1)
        brokers = self.state.broker_id.tolist()
        numbers = self.random.sample(range(60), 2)
        return topic and ("on_partition_modifications",
                          {topic[0]: {p: self._some(brokers, 3) for p in numbers}})

    def unclean(self):
        return ("enable_unclean_leader_election", self._topics(2))
