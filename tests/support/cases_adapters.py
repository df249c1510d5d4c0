"""What runs the operations of a cases file: kfast's public interface, and the plain Python twin.

What a case gives becomes the twin's context and store; kfast's state and store are made from these.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from kfast import Assignment, Controller, Leadership, PartitionStateMachine, ReplicaStateMachine
from kfast.controllers.zk import topic_deletion
from kfast.controllers.zk.store import UNDECODABLE
from kfast.errors import ArgumentError
from kfast.schema import FLAG_ASSIGNED, Code, PartitionState, Strategy
from kfast.testing import request_batch, single_elections
from tests.support import reference, reference_controller, reference_deletion
from tests.support.cases_format import (
    PARTITION_STATES,
    RECOVERY,
    REPLICA_STATES,
    STORE_OPS,
    STRATEGIES,
    Case,
    Seen,
    UnknownError,
    as_written,
    describe_assignment,
    describe_record,
    describe_requests,
    name_of,
    partition_of,
    replica_of,
    strategy_of,
)
from tests.support.kernel_calls import row_names
from tests.support.reference_core import Happened
from tests.support.twin_state import state_of, store_of

UNCLEAN = "unclean.leader.election.enable"
NAMES = ("partition", "partitions", "replicas")
"""Arguments of operations that name partitions, or replicas."""


def assignment_of(row: Case, kind: Any = Assignment) -> Any:
    """An assignment as a case writes it."""
    return kind(*(tuple(row.get(key, ())) for key in ("replicas", "adding", "removing")))


def record_of(row: Case, kind: Any = reference.Record) -> Any:
    """A record as a case writes it."""
    return kind(
        row["leader"], row.get("leader_epoch", 0), tuple(row["isr"]),
        RECOVERY.index(row.get("recovery", "RECOVERED")), row.get("version", 0),
        row.get("controller_epoch", 0),
    )


def named_in(value: Any, key: str = "") -> Iterator[str]:
    """Every partition that the arguments of an operation name."""
    if isinstance(value, dict):
        for inner, part in value.items():
            yield from named_in(part, inner)
    elif isinstance(value, list):
        for item in value:
            yield from named_in(item, key)
    elif isinstance(value, str) and key in NAMES:
        yield value.partition("@")[0]


def context_of(given: Case) -> reference.Context:
    """The context that a case gives; queued and started topics are set first."""
    controller = given.get("controller", {})
    ctx = reference.Context(controller.get("id", -1), controller.get("epoch", 0))
    ctx.live_broker_epochs = {int(b): d["epoch"] for b, d in given.get("brokers", {}).items()}
    ctx.shutting_down = set(given.get("shutting_down", ()))
    ctx.offline_dir_replicas = {
        int(b): set(map(partition_of, listed))
        for b, listed in given.get("offline_dirs", {}).items()
    }
    ctx.topics_to_delete = set(given.get("topics_queued_for_deletion", ()))
    ctx.topics_deletion_started = set(given.get("topics_deletion_started", ()))
    ctx.topics_ineligible = set(given.get("topics_ineligible", ()))
    listed = given.get("assignment", {})
    if "replicas" in listed:  # one assignment, of no partition
        listed = {}
    ctx.all_topics = {partition_of(p)[0] for p in listed} | set(given.get("topics", ()))
    ctx.leader_recovery_supported = given.get("leader_recovery_supported", True)
    ctx.delete_topic_enabled = given.get("delete_topic_enabled", True)
    for topic, config in given.get("topic_configs", {}).items():
        if topic == "__broker__":
            ctx.default_unclean = config.get(UNCLEAN) == "true"
        elif UNCLEAN in config:
            ctx.topic_unclean[topic] = config[UNCLEAN] == "true"
    for name, row in listed.items():
        ctx.set_assignment(partition_of(name), assignment_of(row, reference.Assignment))
    for name, row in given.get("leadership", {}).items():
        ctx.put_leadership(partition_of(name), record_of(row))
    for name, state in given.get("partition_states", {}).items():
        ctx.put_partition_state(partition_of(name), PARTITION_STATES[state])
    for name, state in given.get("replica_states", {}).items():
        ctx.replica_states[replica_of(name)] = REPLICA_STATES[state]
    return ctx


def twin_store_of(given: Case, ctx: reference.Context) -> reference.TwinStore:
    """The store that a case gives."""
    store = reference.TwinStore(
        controller_epoch=ctx.epoch, next_version=given.get("store_next_version")
    )
    for name, row in given.get("store", {}).items():
        record = reference.GARBAGE if row == "garbage" else record_of(row)
        store.records[partition_of(name)] = record
    for fault in given.get("store_faults", ()):
        named = fault.get("partitions")
        only = None if named is None else [partition_of(p) for p in named]
        store.fail(STORE_OPS[fault["op"]], fault["fault"], only, fault.get("times", 1))
    configs = given.get("topic_configs", {})
    store.config_faults = {topic for topic, config in configs.items() if "fault" in config}
    return store


DELETION = {
    "init": "init", "enqueue": "enqueue", "resume_for": "resume_deletion_for",
    "fail_replicas": "fail_replica_deletion", "complete_replicas": "complete_replicas",
}
"""Operations of the deletion manager: the case's name, and that of both modules."""


class CaseAdapter:
    """What both have in common: an operation is a method, its arguments are those of the case."""

    given: Case
    client_calls: list[list[Any]]
    known: Any
    """What has the counters and knows who is online: the twin's context, or the state."""
    batch: Any = None
    sent: Any = None

    def run(self, op: str, args: Case) -> Seen:
        """Run one operation; what is to be seen of it beyond the state, by key."""
        family, _, name = op.partition(".")
        operation = getattr(self, f"{family}_{name}", None)
        if operation is None and name in getattr(self, family, ()):
            operation = partial(getattr(self, f"any_{family}"), name)
        if operation is None:
            raise UnknownError(f"unknown operation {op}")
        seen: Seen = operation(**args) or {}
        return seen

    def observe(self, key: str) -> Any:
        """The part of the state that a key of `expect` names."""
        written = {
            "partition_states": lambda states: {name_of(p): s.label for p, s in states.items()},
            "replica_states": lambda states: {
                f"{name_of(p)}@{b}": s.label for (p, b), s in states.items()
            },
            "assignment": lambda listed: {
                name_of(p): describe_assignment(a) for p, a in listed.items()
            },
            "leadership": lambda records: {
                name_of(p): r if isinstance(r, str) else describe_record(r)
                for p, r in records.items()
            },
            "counters": lambda known: {
                "offline_partition_count": known.offline_partition_count,
                "preferred_replica_imbalance_count": known.preferred_imbalance_count,
                "unclean_elections": known.unclean_elections,
            },
            "store_calls": lambda calls: [
                f"{op}:{','.join(sorted(map(name_of, listed)))}" for op, listed in calls
            ],
        }
        views = {
            **self.views(), "counters": lambda: self.known, "raised": lambda: None,
            "unclean_elections": lambda: self.known.unclean_elections,
            "client_calls": lambda: self.client_calls,
        }
        if key not in views:
            raise UnknownError(f"unknown key {key}")
        write = written.get("leadership" if key == "store" else key)
        return views[key]() if write is None else write(views[key]())

    def seen(
        self, additions: Any, refusals: Any, failures: Any, requests: Any, raised: Any
    ) -> Seen:
        """What every operation of a machine shows."""
        errors = []
        for row in refusals:
            place, b = name_of(row["partition"]), row["broker_id"]
            at = {"partition": place} if b is None else {"replica": f"{place}@{b}"}
            errors.append({
                **at, "from": row["from_state"], "to": row["to_state"], "error": row["error"]
            })
        return {
            "batch_adds": [as_written(row) for row in additions],
            "errors_logged": errors + [{"batch_failure": failure} for failure in failures],
            "requests_by_broker": requests, "raised": raised,
            "valid": not any(row["code"] == Code.ILLEGAL_STATE.name for row in refusals),
        }

    # -- operations -----------------------------------------------------------------------------

    def assignment_describe(self, assignment: Any = None) -> Seen:
        """Section 1.3, of the assignment that the case gives."""
        assignment = assignment or self.assignment_of(self.given["assignment"])
        return {
            "assignment": describe_assignment(assignment), "origin": list(assignment.origin),
            "target": list(assignment.target), "being_reassigned": assignment.being_reassigned,
        }

    def assignment_reassign_to(self, target: list[int]) -> Seen:
        return self.assignment_describe(
            self.assignment_of(self.given["assignment"]).reassign_to(target)
        )

    algorithm = STRATEGIES
    election = STRATEGIES
    topic_deletion = DELETION

    def any_algorithm(self, name: str) -> Seen:
        """Section 4.3."""
        options = {"offline": ["unclean_enabled"], "controlled_shutdown": ["shutting_down"]}
        keys = ("assigned", "isr", "live", *options.get(name, ()))
        choice = getattr(self.elections, f"{name}_leader")(*(self.given[key] for key in keys))
        return self.chosen(choice)

    def any_election(self, name: str, partition: str) -> Seen:
        """Section 4.1."""
        allowed = self.given.get("unclean_enabled", False)
        done = self.elect(self.place(partition), STRATEGIES[name], allowed)
        record = done.elected and describe_record(done.elected, with_controller=False)
        return {
            "elected": record, "recipients": list(done.recipients),
            "unclean_elections": int(done.unclean),
        }

    def any_topic_deletion(self, name: str, **lists: list[str]) -> Seen:
        """Section 6.12."""
        asked = [self.replicas(v) if key == "replicas" else v for key, v in lists.items()]
        return self.delete(DELETION[name], *asked)

    def request_version(self, kind: str) -> Seen:
        """Section 5.5."""
        seen: Seen = {"table": [list(step) for step in self.requests.VERSIONS[kind]]}
        if kind == "LeaderAndIsr":
            seen["recovery_state_carried_from"] = self.requests.RECOVERY_CARRIED_FROM
        return seen

    def context_is_replica_online(
        self, broker: int, partition: str, include_shutting_down: bool
    ) -> Seen:
        place = self.place(partition)
        return {"value": self.known.is_replica_online(broker, place, include_shutting_down)}

    def context_get_assignment(self, partitions: list[str]) -> Seen:
        return {"values": {p: describe_assignment(self.assignment(p)) for p in partitions}}

    def context_queue_topic_deletion(self, topics: list[str]) -> None:
        self.known.queue_topic_deletion(topics)

    def context_begin_topic_deletion(self, topics: list[str]) -> None:
        self.known.begin_topic_deletion(topics)

    def batch_new(self) -> None:
        """Section 5.1."""
        self.batch = self.requests.RequestBatch(self.known, ibp=self.given.get("ibp", "3.9"))

    def batch_add_stop_replica(self, to: list[int], partition: str, delete: bool) -> None:
        self.batch.add_stop_replica(to, self.place(partition), delete)

    def batch_add_update_metadata(self, to: list[int], partitions: list[str]) -> None:
        self.batch.add_update_metadata(to, [self.place(p) for p in partitions])


class TwinAdapter(CaseAdapter):
    """Sets up the twin as a case says."""

    requests = elections = reference

    def __init__(self, case: Case, no_store: bool = False) -> None:
        self.given = case["given"]
        self.ctx = self.known = context_of(self.given)
        self.own = twin_store_of(self.given, self.ctx)
        self.store = reference.CacheStore(self.ctx) if no_store else self.own
        self.core = reference_controller.Controller(self.ctx, self.store)
        self.client_calls = self.core.client_calls

    def views(self) -> dict[str, Callable[[], Any]]:
        """The state, by key of `expect`."""
        ctx = self.ctx
        return {
            "partition_states": lambda: ctx.partition_states,
            "replica_states": lambda: ctx.replica_states,
            "assignment": lambda: ctx.assignments,
            "leadership": lambda: ctx.leadership,
            "store": lambda: self.own.records,
            "store_calls": lambda: self.own.calls,
            "topics_queued_for_deletion": lambda: list(ctx.topics_to_delete),
            "topics_deletion_started": lambda: list(ctx.topics_deletion_started),
            "topics_ineligible": lambda: list(ctx.topics_ineligible),
        }

    def place(self, partition: str) -> reference.Partition:
        return partition_of(partition)

    def replicas(self, names: list[str]) -> list[reference.Replica]:
        return [replica_of(name) for name in names]

    def assignment_of(self, row: Case) -> reference.Assignment:
        return assignment_of(row, reference.Assignment)

    def assignment(self, partition: str) -> reference.Assignment:
        return self.ctx.assignment(partition_of(partition))

    def journaled(self, journal: reference.Journal, operation: Any, *args: Any) -> Seen:
        """Run an operation of a machine, and show its result and what is in its journal then."""
        raised = results = None
        try:
            results = operation(*args)
        except reference.ControllerMovedError:
            raised = Code.CONTROLLER_MOVED.error
        seen = self.seen(
            journal.additions, journal.refusals, journal.batch_failures,
            describe_requests(journal.by_broker()), raised,
        )
        return seen if results is None else {**seen, "results": {
            name_of(p): {"ok": describe_record(result, with_controller=False)}
            if isinstance(result, reference.Record) else {"error": result.error}
            for p, result in results.items()
        }}

    def partition_sm_startup(self) -> Seen:
        machine = reference.PartitionStateMachine(self.ctx, self.store)
        return self.journaled(machine.journal, machine.startup)

    def partition_sm_change_state(
        self, partitions: list[str], target: str, strategy: Case | None = None
    ) -> Seen:
        machine = reference.PartitionStateMachine(self.ctx, self.store)
        return self.journaled(
            machine.journal, machine.handle, [partition_of(p) for p in partitions],
            PARTITION_STATES[target], strategy_of(strategy),
        )

    def replica_sm_startup(self) -> Seen:
        machine = reference.ReplicaStateMachine(self.ctx, self.store)
        return self.journaled(machine.journal, machine.startup)

    def replica_sm_change_state(self, replicas: list[str], target: str) -> Seen:
        machine = reference.ReplicaStateMachine(self.ctx, self.store)
        seen = self.journaled(
            machine.journal, machine.handle, self.replicas(replicas), REPLICA_STATES[target]
        )
        return {key: value for key, value in seen.items() if key != "results"}

    def delete(self, name: str, *args: Any) -> Seen:
        self.core.now = Happened(name)
        operation = getattr(reference_deletion, name)
        return self.journaled(self.core.now.journal, operation, self.core, *args)

    def context_set_assignment(self, partition: str, **lists: list[int]) -> None:
        self.ctx.set_assignment(partition_of(partition), self.assignment_of(lists))

    def context_set_leadership(self, partition: str, **record: Any) -> None:
        row = {"controller_epoch": self.ctx.epoch, **record}
        self.ctx.put_leadership(partition_of(partition), record_of(row))

    def context_get_replicas_for_topic(self, topic: str) -> Seen:
        brokers: dict[str, list[int]] = {}
        for p, b in self.ctx.replicas_for_topic(topic):
            brokers.setdefault(name_of(p), []).append(b)
        return {"value": brokers}

    def context_add_live_brokers(self, brokers: Case) -> None:
        self.ctx.live_broker_epochs |= {int(b): d["epoch"] for b, d in brokers.items()}

    def context_remove_live_brokers(self, brokers: list[int]) -> None:
        for b in brokers:
            self.ctx.live_broker_epochs.pop(b, None)

    def chosen(self, choice: Any) -> Seen:
        """What an algorithm says: a leader, and from one of them whether it is unclean."""
        leader, unclean = choice if isinstance(choice, tuple) else (choice, False)
        return {"leader": leader, "unclean_elections": int(unclean)}

    def elect(self, p: reference.Partition, strategy: Strategy, unclean: bool) -> Any:
        return reference.elect(self.ctx, p, record_of(self.given["record"]), strategy, unclean)

    def batch_add_leader_and_isr(
        self, to: list[int], partition: str, assignment: Case, is_new: bool
    ) -> None:
        p = partition_of(partition)
        record = self.ctx.leadership[p]
        self.batch.add_leader_and_isr(to, p, record, self.assignment_of(assignment), is_new)

    def batch_send(self) -> Seen:
        self.sent = self.batch.send(self.ctx.epoch)
        return {"requests_by_broker": describe_requests(self.sent.by_broker())}

    def batch_respond_ok_all(self) -> Seen:
        return {"events": [as_written(row) for row in self.sent.respond_ok(self.ctx)]}


class KfastAdapter(CaseAdapter):
    """Sets up kfast as a case says."""

    requests, elections = request_batch, single_elections

    def __init__(self, case: Case, no_store: bool = False) -> None:
        self.given, when = case["given"], case["when"]
        self.client_calls = []
        ctx = context_of(self.given)
        twin = twin_store_of(self.given, ctx)
        named = () if when["op"] == "context.get_assignment" else named_in(when["args"])
        also = {*map(partition_of, named), *twin.records}
        self.state = self.known = state_of(ctx, also=also)
        for p, a in ctx.assignments.items():  # in the order of the lists
            if a.being_reassigned:
                self.state.set_assignment(self.place(name_of(p)), a.replicas, a.adding, a.removing)
        self.store = None if no_store else store_of(ctx, twin, self.state)
        if self.store is not None:
            self.store.next_version = twin.next_version
            for fault in twin.faults:
                only = None if fault.partition is None else [fault.partition]
                self.store.fail(fault.op, fault.fault, partitions=only, times=fault.times)
            for topic in twin.config_faults:
                self.store.fail("topic_config", "CONFIG_READ_FAILED", topics=[topic])
        self.controller = Controller(self.state, store=self.store, journal="full")

    def views(self) -> dict[str, Callable[[], Any]]:
        """The state, by key of `expect`."""
        state, store = self.state, self.store

        def of_partitions(value: Callable[[int], Any], *nothing: Any) -> Any:
            found = {p: value(row) for row, p in enumerate(row_names(state))}
            return {p: v for p, v in found.items() if v not in nothing}

        def of_topics(flags: Any) -> list[str]:
            return [t for t, flag in zip(state.topic.to_pylist(), flags, strict=True) if flag]

        return {
            "partition_states": lambda: of_partitions(
                state.partition_state, PartitionState.NO_ENTRY
            ),
            "replica_states": lambda: {
                (p, b): s for p, states in of_partitions(state.replica_states_of).items()
                for b, s in states.items()
            },
            "assignment": lambda: of_partitions(
                lambda row: state.assignment(row)
                if state.records["flags"][row] & FLAG_ASSIGNED else None, None
            ),
            "leadership": lambda: of_partitions(state.leadership, None),
            "store": lambda: {
                p: reference.GARBAGE if r is UNDECODABLE else r
                for p, r in (store.records() if store is not None else {}).items()
            },
            "store_calls": lambda: () if store is None else store.calls,
            "topics": lambda: of_topics(state.topic_exists),
            "topics_queued_for_deletion": lambda: of_topics(state.topic_queued_for_deletion),
            "topics_deletion_started": lambda: of_topics(state.topic_deletion_started),
            "topics_ineligible": lambda: of_topics(state.topic_ineligible),
        }

    def place(self, partition: str) -> int:
        return int(self.state.find_partitions([partition_of(partition)])[0])

    def replicas(self, names: list[str]) -> Any:
        return self.state.find_replicas([(*p, b) for p, b in map(replica_of, names)])

    def assignment_of(self, row: Case) -> Assignment:
        return assignment_of(row)

    def assignment(self, partition: str) -> Assignment:
        try:
            return self.state.assignment(self.place(partition))
        except ArgumentError:
            return Assignment()

    def outcome_seen(self, outcome: Any) -> Seen:
        """What is in the tables of an outcome."""
        additions, refusals = (
            [{**row, "partition": (row["topic"], row["partition"])} for row in table.to_pylist()]
            for table in (outcome.additions, outcome.refusals)
        )
        moved = outcome.failure == Code.CONTROLLER_MOVED
        error = None if outcome.failure is None else Code(outcome.failure).error
        failures = ["controller_moved"] if moved else [error] if error else []
        return self.seen(
            map(self.addition, additions), refusals, failures, outcome.by_broker(),
            error if moved else None,
        )

    def addition(self, row: Case) -> Case:
        """An addition to a batch as the twin has it."""
        del row["topic"], row["partition_row"]
        if row["kind"] == "UpdateMetadata":
            to = self.state.broker_id[self.state.registered].tolist()
            return {"kind": row["kind"], "to": to, "partitions": [row["partition"]]}
        if row["kind"] == "StopReplica":
            del row["leader_epoch"]
        return {key: value for key, value in row.items() if value is not None}

    def partition_sm_startup(self) -> Seen:
        machine = PartitionStateMachine(self.state, self.store, journal="full")
        return self.outcome_seen(machine.startup())

    def partition_sm_change_state(
        self, partitions: list[str], target: str, strategy: Case | None = None
    ) -> Seen:
        machine = PartitionStateMachine(self.state, self.store, journal="full")
        rows = [self.place(p) for p in partitions]
        outcome = machine.handle_state_changes(
            rows, PARTITION_STATES[target], strategy_of(strategy)
        )
        results = {}
        for at in np.flatnonzero(outcome.in_result):
            code = outcome.codes[at] if outcome.failure is None else outcome.failure
            error, record = Code(code).error, self.state.leadership(rows[at])
            results[partitions[at]] = (
                {"ok": describe_record(record, with_controller=False)} if error is None
                else {"error": error}
            )
        return {"results": results, **self.outcome_seen(outcome)}

    def replica_sm_startup(self) -> Seen:
        machine = ReplicaStateMachine(self.state, self.store, journal="full")
        return self.outcome_seen(machine.startup())

    def replica_sm_change_state(self, replicas: list[str], target: str) -> Seen:
        machine = ReplicaStateMachine(self.state, self.store, journal="full")
        return self.outcome_seen(
            machine.handle_state_changes(self.replicas(replicas), REPLICA_STATES[target])
        )

    def delete(self, name: str, topics: Any, *ineligible: Any) -> Seen:
        """What it asked of the store is told from the topics that are left."""
        before = self.views()["topics"]()
        if name == "resume_deletion_for":
            topics = self.state.find_topics(topics)
        getattr(topic_deletion, name)(self.controller, topics, *ineligible)
        gone = sorted({*before} - {*self.views()["topics"]()})
        self.client_calls += [[call, t] for t in gone for call in ("mute", "delete_topic")]
        if name == "init" and topics and not np.any(self.state.topic_queued_for_deletion):
            self.client_calls.append(["delete_deletion_markers", sorted(topics)])
        return self.outcome_seen(self.controller.journal.finish(name))

    def context_set_assignment(self, partition: str, **lists: list[int]) -> None:
        self.state.set_assignment(self.place(partition), **lists)

    def context_set_leadership(self, partition: str, **record: Any) -> None:
        self.state.set_leadership(self.place(partition), **record)

    def context_get_replicas_for_topic(self, topic: str) -> Seen:
        rows = self.state.topic_partitions(topic)
        return {"value": {str(row): list(self.state.assignment(row).replicas) for row in rows}}

    def context_add_live_brokers(self, brokers: Case) -> None:
        self.state.add_live_brokers({int(b): d["epoch"] for b, d in brokers.items()})

    def context_remove_live_brokers(self, brokers: list[int]) -> None:
        self.state.remove_live_brokers(brokers)

    def chosen(self, choice: single_elections.Choice) -> Seen:
        return {"leader": choice.leader, "unclean_elections": int(choice.unclean)}

    def elect(self, row: int, strategy: Strategy, unclean: bool) -> single_elections.Election:
        record = record_of(self.given["record"], Leadership)
        return single_elections.elect(
            self.state, row, strategy, record=record, unclean_enabled=unclean
        )

    def batch_add_leader_and_isr(
        self, to: list[int], partition: str, assignment: Case, is_new: bool
    ) -> None:
        listed = assignment_of(assignment)
        self.batch.add_leader_and_isr(to, self.place(partition), listed, is_new)

    def batch_send(self) -> Seen:
        self.sent = self.batch.send()
        return {"requests_by_broker": self.sent.by_broker()}

    def batch_respond_ok_all(self) -> Seen:
        return {"events": self.sent.respond_ok()}
