"""A cluster of ZooKeeper mode as JSON, and the twin and kfast that start from it.

A cluster starts as ZooKeeper has it before its controller does: brokers, topics with assignments,
configurations and records, markers of deletions, the controller's epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from kfast.schema import AlterCode, PartitionState, ReassignmentCode
from tests.kafka.zk_events import RECORD_FIELDS, event_of, name_of, partition_of, to_json
from tests.support.event_compare import View, rows_of_kfast, rows_of_twin
from tests.support.kfast_run import KfastRun, RowOrder, Setting
from tests.support.kraft_cases import Json
from tests.support.random_clusters import random_context, store_like
from tests.support.reference import Assignment, Context, Partition, Record
from tests.support.reference_core import Happened
from tests.support.reference_profiles import PROFILES
from tests.support.twin_run import TwinRun
from tests.support.twin_state import partition_rows, row_of_table

STATE_KEYS = ("controller_epoch", "epoch_store_version", "offline_partition_count",
              "preferred_imbalance_count")
TOPIC_SETS = {"topics": "exists", "queued": "queued_for_deletion", "started": "deletion_started",
              "ineligible": "ineligible"}
"""Sets of topics of Kafka's context, and kfast's columns."""
SENT = ("requests", "update_metadata", "update_metadata_brokers")
"""Tables of what was sent."""
STOPS_WITHOUT_EPOCH = ("zk-2.4",)
"""Profiles whose StopReplica has no leader epoch: before 2.6."""


# ------------------------------------------------------------------------------------------ starts


def draw_given(rng: Random, profile: str) -> Json:
    """What ZooKeeper has before a random cluster's controller starts."""
    ctx = random_context(rng, PROFILES[profile])
    topics: dict[str, Json] = {
        topic: {"unclean": ctx.topic_unclean.get(topic), "partitions": {}}
        for topic in sorted(ctx.all_topics)
    }
    for (topic, number), assignment in sorted(ctx.assignments.items()):
        record = ctx.leadership.get((topic, number))
        topics[topic]["partitions"][str(number)] = {
            "replicas": list(assignment.replicas), "adding": list(assignment.adding),
            "removing": list(assignment.removing),
            "record": None if record is None else to_json(record),
        }
    return {
        "controller_id": ctx.controller_id, "controller_epoch": ctx.epoch,
        "epoch_store_version": ctx.epoch_store_version, "default_unclean": ctx.default_unclean,
        "delete_topic_enabled": ctx.delete_topic_enabled, "percentage": rng.choice([0, 10, 10, 50]),
        "brokers": {str(b): epoch for b, epoch in sorted(ctx.live_broker_epochs.items())},
        "topics": topics, "queued": sorted(ctx.topics_to_delete),
    }


def context_of(given: Json, profile: str) -> Context:
    """The twin's context of a cluster that has not started."""
    ctx = Context(
        given["controller_id"], given["controller_epoch"], given["epoch_store_version"],
        profile=PROFILES[profile], default_unclean=given["default_unclean"],
        delete_topic_enabled=given["delete_topic_enabled"],
    )
    ctx.live_broker_epochs = {int(b): epoch for b, epoch in given["brokers"].items()}
    ctx.all_topics, ctx.topics_to_delete = set(given["topics"]), set(given["queued"])
    for topic, listed in given["topics"].items():
        if listed["unclean"] is not None:
            ctx.topic_unclean[topic] = listed["unclean"]
        for number, row in listed["partitions"].items():
            p = topic, int(number)
            ctx.assignments[p] = Assignment(
                *(tuple(row[kind]) for kind in ("replicas", "adding", "removing"))
            )
            if row["record"] is not None:
                record = {**row["record"], "isr": tuple(row["record"]["isr"])}
                ctx.leadership[p] = Record(**record)
    return ctx


def smaller_starts(given: Json) -> Iterator[Json]:
    """A start without one of its topics, partitions, records, brokers or markers."""
    topics = given["topics"]
    for topic in topics:
        rest = {name: listed for name, listed in topics.items() if name != topic}
        yield {**given, "topics": rest, "queued": [t for t in given["queued"] if t != topic]}
    for broker in given["brokers"]:
        rest = {b: epoch for b, epoch in given["brokers"].items() if b != broker}
        yield {**given, "brokers": rest}
    for topic in given["queued"]:
        yield {**given, "queued": [t for t in given["queued"] if t != topic]}
    for topic, listed in topics.items():
        changed = [{**listed, "unclean": None}] if listed["unclean"] is not None else []
        for number, row in listed["partitions"].items():
            others = {n: r for n, r in listed["partitions"].items() if n != number}
            changed.append({**listed, "partitions": others})
            if row["record"] is not None:
                unled = {**listed["partitions"], number: {**row, "record": None}}
                changed.append({**listed, "partitions": unled})
        for smaller in changed:
            yield {**given, "topics": {**topics, topic: smaller}}


# ------------------------------------------------------------------------- what is compared: state


class Rows:
    """Rows in the form that is compared; `make` makes it, again only of a row that changed.

    An event changes few of the rows that are read after it. A row that is given is kept, so that
    nobody may change it.
    """

    def __init__(self, make: Callable[[Any], Json | None]) -> None:
        self.make = make
        self.known: dict[str, tuple[Any, Json | None]] = {}

    def comparable(self, rows: Iterable[tuple[str, Any]]) -> dict[str, Json | None]:
        """The rows of now."""
        now = {}
        for name, row in rows:
            pair = self.known.get(name)
            now[name] = pair if pair is not None and pair[0] == row else (row, self.make(row))
        self.known = now
        return {name: made for name, (_, made) in now.items()}


class KafkaState:
    """Kafka's context in the form that is compared."""

    def __init__(self, with_store: bool) -> None:
        self.with_store = with_store
        self.partitions = Rows(partial(kafka_partition, with_store=with_store))
        self.stored = Rows(stored_record)

    def comparable(self, answer: Json) -> Json:
        """The context and the stored records of an answer."""
        state = answer["state"]
        if not state["active"]:
            return {"active": False}
        out: Json = {"active": True, **{key: state[key] for key in STATE_KEYS if key in state}}
        out["brokers"] = state["brokers"]
        for key in ("shutting_down", *TOPIC_SETS):
            out[key] = sorted(state[key])
        out["partitions"] = compact(self.partitions.comparable(state["partitions"].items()))
        if self.with_store:
            out["stored"] = self.stored.comparable(answer["records"].items())
            out["legacy_node"] = {
                name_of((row["topic"], row["partition"])): row["replicas"]
                for row in answer.get("legacy_node", {"partitions": ()})["partitions"]
            }
        return out


def kafka_partition(row: Json, with_store: bool) -> Json:
    """A partition of Kafka's context in the form that is compared."""
    return {
        "replicas": row.get("replicas"), "adding": sorted(row.get("adding", ())),
        "removing": sorted(row.get("removing", ())),
        "offline_dir": sorted(row.get("offline_dir", ())),
        "partition_state": row.get("partition_state", int(PartitionState.NON_EXISTENT)),
        "replica_states": row.get("replica_states", {}),
        "being_reassigned": row.get("being_reassigned", False),
        "record": cached_record(row, with_store) if "leader" in row else None,
    }


def cached_record(row: Json, with_store: bool) -> Json:
    """A cached record; without a store its controller epoch is not compared: docs/deviations.md."""
    out = {key: row.get(key, 0) for key in RECORD_FIELDS}
    out["isr"] = sorted(out["isr"])
    if not with_store:
        del out["controller_epoch"]
    return out


def stored_record(row: Json | None) -> Json | None:
    """A stored record; None where it does not decode."""
    if row is None:
        return None
    recovery = row.get("recovery", row.get("leader_recovery_state", 0))
    return cached_record({**row, "recovery": recovery}, with_store=True)


def record_that_decodes(record: Any) -> Json | None:
    """A record of the twin's store or of kfast's; None where it does not decode."""
    if not hasattr(record, "isr"):
        return None
    return cached_record({key: getattr(record, key) for key in RECORD_FIELDS}, with_store=True)


def compact(rows: dict[str, Json]) -> dict[str, Json]:
    """Rows that say something: no entry of a partition is as good as NonExistent."""
    nothing = int(PartitionState.NON_EXISTENT)
    return {
        name: row for name, row in rows.items()
        if row["replicas"] is not None or row["record"] is not None or row["replica_states"]
        or row["offline_dir"] or row["being_reassigned"] or row["partition_state"] != nothing
    }


def partition_state(row: Json, with_store: bool) -> Json:
    """A row of `partition_rows` in the form that is compared."""
    state = row["partition_state"]
    known = (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE)
    ids = map(str, row["replica_state_broker_ids"])
    return {
        **{key: row[key] for key in ("replicas", "adding", "removing", "offline_dir")},
        "partition_state": int(state if state in known else PartitionState.NON_EXISTENT),
        "replica_states": dict(zip(ids, row["replica_states"], strict=True)),
        "being_reassigned": row["being_reassigned"],
        "record": cached_record(row, with_store) if row["has_leadership"] else None,
    }


@dataclass
class Seen:
    """What one side answered to an event."""

    state: Json
    answer: Json
    sent: dict[str, list[Json]] | None
    """None where no journal was kept."""


def answers_of(
    error: str | None, remaining: list[Partition], replies: Json, alter: Json, reassigned: Json
) -> Json:
    """Answers in the form that is compared; codes by Kafka's names."""
    accepted = {AlterCode.WRITTEN.name, AlterCode.UNCHANGED.name, ReassignmentCode.STARTED.name}
    return {
        "error": error, "remaining": sorted(map(name_of, remaining)), "replies": replies,
        **{
            key: {name_of(p): "NONE" if code in accepted else code for p, code in codes.items()}
            for key, codes in (("alter_codes", alter), ("reassignment_codes", reassigned))
        },
    }


ERRORS_ANSWERED = ("controlled_shutdown", "alter_partition")
"""Events whose error somebody is told; another event that fails is seen by what it left undone."""


class ZkTwin:
    """The plain Python twin."""

    def __init__(self, case: Json) -> None:
        self.with_store = case["with_store"]
        self.ctx = context_of(case["given"], case["profile"])
        self.store = store_like(self.ctx) if self.with_store else None
        self.twin = TwinRun(self.ctx, self.store)
        self.partitions = Rows(partial(partition_state, with_store=self.with_store))
        self.stored = Rows(record_that_decodes)

    def run(self, event: Json) -> tuple[Seen, Happened]:
        """Handle an event."""
        happened = self.twin.apply(event_of(event))
        error = happened.error if event["op"] in ERRORS_ANSWERED else None
        answer = answers_of(
            error, happened.remaining,
            {name_of(p): reply for p, reply in happened.replies.items()},
            {p: code.name for p, code in happened.alter_codes.items()},
            {p: code.name for p, code in happened.reassignment_codes.items()},
        )
        rows = rows_of_twin(happened.journal)
        return Seen(self.state(), answer, {key: rows[key] for key in SENT}), happened

    def state(self) -> Json:
        """The state in the form that is compared."""
        ctx = self.ctx
        if not self.twin.controller.active:
            return {"active": False}
        out: Json = {
            "active": True, "controller_epoch": ctx.epoch,
            "epoch_store_version": ctx.epoch_store_version,
            "offline_partition_count": ctx.offline_partition_count,
            "preferred_imbalance_count": ctx.preferred_imbalance_count,
            "brokers": {str(b): epoch for b, epoch in ctx.live_broker_epochs.items()},
            "shutting_down": sorted(ctx.shutting_down), "topics": sorted(ctx.all_topics),
            "queued": sorted(ctx.topics_to_delete), "started": sorted(ctx.topics_deletion_started),
            "ineligible": sorted(ctx.topics_ineligible),
            "partitions": compact(self.partitions.comparable(
                (name_of(p), row) for p, row in partition_rows(ctx, ctx.being_reassigned).items()
            )),
        }
        if self.store is not None:
            out["stored"] = self.stored.comparable(
                (name_of(p), record) for p, record in self.store.records.items()
            )
            out["legacy_node"] = {
                name_of(p): list(wanted) for p, wanted in self.twin.controller.legacy_node.items()
            }
        return out


KnownStates = dict[tuple[int, bytes], Json]


class ZkKfast:
    """kfast, through its public interface.

    `known` has states that were read, so that one that is known is not read again; settings share
    it. The key has columns beside the digest, to which a replica in the state NonExistent is as one
    that has none, and a partition that is gone as one that has failed log directories.
    """

    def __init__(
        self, case: Json, setting: Setting, known: KnownStates | None = None
    ) -> None:
        self.with_store = case["with_store"]
        ctx = context_of(case["given"], case["profile"])
        store = store_like(ctx) if self.with_store else None
        self.kfast = KfastRun(ctx, store, setting)
        self.partitions = Rows(
            lambda row: partition_state(row_of_table(row), self.with_store)
        )
        self.known = {} if known is None else known

    @property
    def rank(self) -> RowOrder:
        """Order of rows, which the twin follows where Kafka's order is a hash's."""
        return RowOrder(self.kfast)

    def run(self, event: Json) -> Seen:
        """Handle an event."""
        outcome = self.kfast.apply(event_of(event))
        if outcome is None:
            return Seen(self.state(), answers_of(None, [], {}, {}, {}), None)
        names = self._names()
        named = event.get("records", ())
        alter = {
            partition_of(name): AlterCode(int(code)).name
            for name, code in zip(named, outcome.alter_codes, strict=False)
        }
        reassigned = {
            partition_of(name): ReassignmentCode(int(code)).name
            for name, code in zip(
                event.get("reassignments", ()), outcome.reassignment_codes, strict=False
            )
        }
        replies = {}
        if outcome.event == "elect_leaders" and outcome.replies is not None:
            replies = {
                name_of((row["topic"], row["partition"])): row["error"] or row["leader"]
                for row in outcome.replies.to_pylist()
            } if outcome.error is None else {}
        error = outcome.error if event["op"] in ERRORS_ANSWERED else None
        answer = answers_of(
            error, [names[row] for row in outcome.remaining], replies, alter, reassigned
        )
        if self.kfast.setting.journal != "full":
            return Seen(self.state(), answer, None)
        return Seen(self.state(), answer, rows_of_kfast(outcome, SENT))

    def _names(self) -> list[Partition]:
        state = self.kfast.state
        return [
            (state.topic[int(t)].as_py() if t >= 0 else "", int(p))
            for t, p in zip(state.topic_row, state.partition, strict=True)
        ]

    def state(self) -> Json:
        """The state in the form that is compared."""
        if not self.kfast.controller.active:
            return {"active": False}
        state = self.kfast.state
        key = state.digest(), state.records.tobytes() + state.replica_state.tobytes()
        if key not in self.known:
            self.known[key] = self._tables()
        out = dict(self.known[key])
        if self.kfast.store is not None:
            out["stored"] = {
                name_of(p): record_that_decodes(r)
                for p, r in self.kfast.store.records().items() if r is not None
            }
        return out

    def _tables(self) -> Json:
        """The state without the store's records."""
        state = self.kfast.state
        tables = state.to_tables()
        cluster = tables.cluster.to_pylist()[0]
        brokers, topics = tables.brokers.to_pylist(), tables.topics.to_pylist()
        return {
            "active": True, "controller_epoch": cluster["controller_epoch"],
            "epoch_store_version": cluster["epoch_store_version"],
            "offline_partition_count": state.offline_partition_count,
            "preferred_imbalance_count": state.preferred_imbalance_count,
            "brokers": {str(r["broker_id"]): r["epoch"] for r in brokers if r["registered"]},
            "shutting_down": sorted(r["broker_id"] for r in brokers if r["shutting_down"]),
            **{key: sorted(r["topic"] for r in topics if r[column])
               for key, column in TOPIC_SETS.items()},
            "partitions": compact(self.partitions.comparable(
                (name_of((row["topic"], row["partition"])), row)
                for row in tables.partitions.to_pylist()
            )),
        }


# ---------------------------------------------------------------------- what is compared: requests


def rows_of_kafka(sends: list[Json]) -> dict[str, list[Json]]:
    """What Kafka sent, as rows of the tables that kfast has; each send is a step."""
    tables: dict[str, list[Json]] = {key: [] for key in SENT}
    for step, send in enumerate(sends):
        for kind, key in (("LeaderAndIsr", "leader_and_isr"), ("StopReplica", "stop_replica")):
            for broker, request in send.get(key, {}).items():
                head = {"step": step, "kind": kind, "broker_id": int(broker),
                        "broker_epoch": request["broker_epoch"]}
                tables["requests"] += [
                    {**row, **head, "partition": partition_of(row["partition"])}
                    for row in request["partitions"]
                ]
        tables["update_metadata"] += [
            {**row, "step": step, "partition": partition_of(row["partition"])}
            for row in send.get("update_metadata", ())
        ]
        tables["update_metadata_brokers"] += [
            {"step": step, "broker_id": int(b)} for b in send.get("update_metadata_brokers", {})
        ]
    return tables


def view_of(
    sent: dict[str, list[Json]], apart: bool, profile: str, with_store: bool
) -> View:
    """Requests as comparable tables; what no broker is told is no request."""
    heard = {row["step"] for row in sent["update_metadata_brokers"]}
    sent = {**sent, "update_metadata": [
        row for row in sent["update_metadata"] if row["step"] in heard
    ]}
    if profile in STOPS_WITHOUT_EPOCH:
        sent["requests"] = [
            {**row, "leader_epoch": None} if row["kind"] == "StopReplica" else row
            for row in sent["requests"]
        ]
    rows: dict[str, list[Json]] = {
        key: [] for key in ("transitions", "elections", "refusals", "additions")
    }
    for key, some in sent.items():
        rows[key] = [{**row, "controller_epoch": 0} for row in some] if not with_store else some
    return View(rows, apart, PROFILES[profile])


def requests_differ(
    expected: View, seen: View
) -> str | None:
    """The first table and partition in which what was sent differs."""
    for which in SENT:
        ours, theirs = expected.table(which), seen.table(which)
        if ours == theirs:
            continue
        if isinstance(ours, list):
            return f"{which}: expected {ours}, seen {theirs}"
        for p in sorted({*ours, *theirs}):
            if ours.get(p) != theirs.get(p):
                return f"{which}: {name_of(p)}: expected {ours.get(p)}, seen {theirs.get(p)}"
    return None
