"""Cases run against kfast's public machines, elections, requests and state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kfast import (
    Assignment,
    ClusterState,
    Controller,
    Leadership,
    PartitionStateMachine,
    ReplicaStateMachine,
    Store,
)
from kfast.controllers.zk import topic_deletion
from kfast.controllers.zk.store import UNDECODABLE
from kfast.errors import ArgumentError
from kfast.schema import (
    BROKERS_SCHEMA,
    CLUSTER_SCHEMA,
    PARTITIONS_SCHEMA,
    TOPICS_SCHEMA,
    Code,
    PartitionState,
    ReplicaState,
)
from kfast.testing import request_batch as kfast_requests
from kfast.testing import single_elections as kfast_elections
from tests.support.cases_format import (
    PARTITION_STATES,
    RECOVERY,
    REPLICA_STATES,
    STORE_OPS,
    STRATEGIES,
    UnknownError,
    as_written,
    describe_assignment,
    describe_record,
    name_of,
    partition_of,
    replica_of,
    strategy_of,
)

UNCLEAN = "unclean.leader.election.enable"


def assignments(case: dict[str, Any]) -> dict[str, Any]:
    """Assignment by partition; some cases give one assignment of no partition."""
    given: dict[str, Any] = case["given"].get("assignment", {})
    return {} if "replicas" in given else given


def named_in(value: Any, key: str = "") -> Iterator[str]:
    """Every partition name in the arguments of an operation."""
    if isinstance(value, dict):
        for inner, part in value.items():
            yield from named_in(part, inner)
    elif isinstance(value, list):
        for item in value:
            yield from named_in(item, key)
    elif isinstance(value, str) and key in ("partition", "partitions", "replicas"):
        yield value.partition("@")[0]


def partition_names(case: dict[str, Any]) -> list[str]:
    """Every partition that a case names, in order of topic and number."""
    given, when = case["given"], case["when"]
    names = [*assignments(case)]
    for key in ("leadership", "store", "partition_states"):
        names += given.get(key, {})
    names += [replica.partition("@")[0] for replica in given.get("replica_states", {})]
    names += [p for listed in given.get("offline_dirs", {}).values() for p in listed]
    if when["op"] != "context.get_assignment":
        names += named_in(when["args"])
    return sorted(set(names), key=partition_of)


def replica_states(case: dict[str, Any]) -> dict[str, dict[int, int]]:
    """States by partition and broker id."""
    found: dict[str, dict[int, int]] = {}
    for replica, state in case["given"].get("replica_states", {}).items():
        partition = replica.partition("@")[0]
        found.setdefault(partition, {})[replica_of(replica)[1]] = int(REPLICA_STATES[state])
    return found


def partitions_table(case: dict[str, Any]) -> pa.Table:
    """The partitions, with everything that the case says of them."""
    given, listed, states = case["given"], assignments(case), replica_states(case)
    dirs = given.get("offline_dirs", {})
    rows = []
    for name in partition_names(case):
        topic, partition = partition_of(name)
        assignment, record = listed.get(name), given.get("leadership", {}).get(name)
        state = given.get("partition_states", {}).get(name)
        row: dict[str, Any] = {
            "topic": topic, "partition": partition, "replicas": None, "adding": [], "removing": [],
            "offline_dir": [int(b) for b, names in dirs.items() if name in names],
            "partition_state": PARTITION_STATES[state] if state else PartitionState.NO_ENTRY,
            "replica_state_broker_ids": list(states.get(name, {})),
            "replica_states": list(states.get(name, {}).values()),
            "being_reassigned": False, "has_leadership": record is not None,
            "leader": -1, "isr": [], "leader_epoch": 0, "version": 0, "controller_epoch": 0,
            "recovery": 0,
        }
        if assignment is not None:
            row |= {"adding": [], "removing": [], **assignment}
        if record is not None:
            row |= {**record, "recovery": RECOVERY.index(record["recovery"])}
        rows.append(row)
    return pa.Table.from_pylist(rows, PARTITIONS_SCHEMA)


def brokers_table(case: dict[str, Any]) -> pa.Table:
    """The registered brokers, and those that are only said to be shutting down."""
    given = case["given"]
    epochs = {int(b): entry["epoch"] for b, entry in given.get("brokers", {}).items()}
    down = set(given.get("shutting_down", ()))
    rows = [
        {
            "broker_id": b, "rack": None, "registered": b in epochs, "shutting_down": b in down,
            "epoch": epochs.get(b, 0),
        }
        for b in sorted(set(epochs) | down)
    ]
    return pa.Table.from_pylist(rows, BROKERS_SCHEMA)


def topics_table(case: dict[str, Any]) -> pa.Table:
    """Every topic that a case names."""
    given = case["given"]
    configs = {t: c for t, c in given.get("topic_configs", {}).items() if t != "__broker__"}
    queued = set(given.get("topics_queued_for_deletion", ()))
    started = set(given.get("topics_deletion_started", ()))
    ineligible = set(given.get("topics_ineligible", ()))
    names = {partition_of(p)[0] for p in partition_names(case)} | set(given.get("topics", ()))
    rows = []
    for topic in sorted(names | set(configs) | queued | started | ineligible):
        unclean = configs.get(topic, {}).get(UNCLEAN)
        rows.append({
            "topic": topic, "topic_id": None, "exists": True,
            "unclean_leader_election": None if unclean is None else unclean == "true",
            "min_insync_replicas": None, "queued_for_deletion": topic in queued,
            "deletion_started": topic in started, "ineligible": topic in ineligible,
        })
    return pa.Table.from_pylist(rows, TOPICS_SCHEMA)


def cluster_table(case: dict[str, Any]) -> pa.Table:
    """The controller and the broker defaults."""
    given = case["given"]
    controller = given.get("controller", {})
    default = given.get("topic_configs", {}).get("__broker__", {}).get(UNCLEAN)
    row = {
        "controller_id": controller.get("id", -1), "controller_epoch": controller.get("epoch", 0),
        "epoch_store_version": 0, "default_unclean_leader_election": default == "true",
        "default_min_insync_replicas": 1,
        "delete_topic_enabled": given.get("delete_topic_enabled", True),
        "leader_recovery_supported": given.get("leader_recovery_supported", True),
        "unclean_elections": 0,
    }
    return pa.Table.from_pylist([row], CLUSTER_SCHEMA)


def known_topics(controller: Controller) -> set[str]:
    """Topics that the controller knows."""
    state = controller.state
    names = zip(state.topic.to_pylist(), state.topic_exists.tolist(), strict=True)
    return {name for name, exists in names if exists}


def run_deletion(controller: Controller, name: str, args: dict[str, Any]) -> list[list[Any]]:
    """Do one operation; what it must have asked of the store, told from what is left."""
    state, topics = controller.state, list(args.get("topics", ()))
    asked = [replica.partition("@") for replica in args.get("replicas", ())]
    replicas = state.find_replicas([(*partition_of(p), int(b)) for p, _, b in asked])
    there = known_topics(controller)
    if name == "init":
        topics = list(args["topics_to_delete"])
        topic_deletion.init(controller, topics, args["ineligible"])
        if topics and not np.any(state.topic_queued_for_deletion):
            return [["delete_deletion_markers", sorted(topics)]]
    elif name == "enqueue":
        topic_deletion.enqueue(controller, topics)
    elif name == "resume_for":
        topic_deletion.resume_deletion_for(controller, state.find_topics(topics))
    elif name == "fail_replicas":
        topic_deletion.fail_replica_deletion(controller, replicas)
    elif name == "complete_replicas":
        topic_deletion.complete_replicas(controller, replicas)
    else:
        raise UnknownError(f"unknown operation topic_deletion.{name}")
    gone = sorted(there - known_topics(controller))
    return [[call, topic] for topic in gone for call in ("mute", "delete_topic")]


ALGORITHMS = {
    "offline": kfast_elections.offline_leader,
    "reassign": kfast_elections.reassign_leader,
    "preferred": kfast_elections.preferred_leader,
    "controlled_shutdown": kfast_elections.controlled_shutdown_leader,
}


def record_of(row: dict[str, Any]) -> Leadership:
    """A record as kfast has it."""
    return Leadership(
        row["leader"], row["leader_epoch"], tuple(row["isr"]),
        RECOVERY.index(row["recovery"]), row["version"], row.get("controller_epoch", 0),
    )


def assignment_of(row: dict[str, Any]) -> Assignment:
    """An assignment as kfast has it."""
    return Assignment(*(tuple(row.get(key, ())) for key in ("replicas", "adding", "removing")))


def fill_store(store: Store, given: dict[str, Any]) -> None:
    """The records and faults that a case gives."""
    for name, row in given.get("store", {}).items():
        topic, partition = partition_of(name)
        if row == "garbage":
            store.put_garbage(topic, partition)
        else:
            values = {**row, "recovery": RECOVERY.index(row["recovery"])}
            store.put(topic, partition, **values)
    for fault in given.get("store_faults", ()):
        named = fault.get("partitions")
        only = None if named is None else [partition_of(p) for p in named]
        store.fail(
            STORE_OPS[fault["op"]], fault["fault"], partitions=only, times=fault.get("times", 1)
        )
    for topic, config in given.get("topic_configs", {}).items():
        if "fault" in config:
            store.fail("topic_config", config["fault"], topics=[topic])
    if "store_next_version" in given:
        store.next_version = given["store_next_version"]


class KfastAdapter:
    """Sets up kfast as a case says, and runs the operations of the format."""

    def __init__(self, case: dict[str, Any], no_store: bool = False) -> None:
        self.given = given = case["given"]
        self.state = ClusterState.from_tables(
            brokers_table(case), topics_table(case), partitions_table(case), cluster_table(case)
        )
        self.store: Store | None = None
        if not no_store:
            self.store = Store(self.state, empty=True)
            fill_store(self.store, given)
        self.controller = Controller(self.state, store=self.store, journal="full")
        self.client_calls: list[list[Any]] = []
        self.batch: kfast_requests.RequestBatch | None = None
        self.sent: kfast_requests.SentRequests | None = None

    def run(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        """See `cases_format.Adapter.run`."""
        family, _, name = op.partition(".")
        handler = getattr(self, f"_{family}", None)
        if handler is None:
            raise UnknownError(f"unknown operation {op}")
        seen: dict[str, Any] = handler(name, args)
        return seen

    def observe(self, key: str) -> Any:
        """See `cases_format.Adapter.observe`."""
        state, store = self.state, self.store
        views = {
            "partition_states": self._partition_states,
            "replica_states": self._replica_states,
            "assignment": self._assignments,
            "leadership": self._leaderships,
            "store": self._records,
            "counters": lambda: {
                "offline_partition_count": state.offline_partition_count,
                "preferred_replica_imbalance_count": state.preferred_imbalance_count,
                "unclean_elections": state.unclean_elections,
            },
            "unclean_elections": lambda: state.unclean_elections,
            "topics_queued_for_deletion": lambda: self._topics(state.topic_queued_for_deletion),
            "topics_deletion_started": lambda: self._topics(state.topic_deletion_started),
            "topics_ineligible": lambda: self._topics(state.topic_ineligible),
            "store_calls": lambda: [
                f"{op}:{','.join(sorted(map(name_of, listed)))}"
                for op, listed in (store.calls if store is not None else ())
            ],
            "client_calls": lambda: self.client_calls,
            "raised": lambda: None,
        }
        if key not in views:
            raise UnknownError(f"unknown key {key}")
        return views[key]()

    # -- the state as a case writes it ----------------------------------------------------------

    def _rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.state.to_tables().partitions.to_pylist()
        return rows

    def _topics(self, flags: Any) -> list[str]:
        return [t for t, flag in zip(self.state.topic.to_pylist(), flags, strict=True) if flag]

    def _partition_states(self) -> dict[str, str]:
        return {
            name_of((row["topic"], row["partition"])): PartitionState(row["partition_state"]).label
            for row in self._rows()
            if row["partition_state"] not in (None, PartitionState.NO_ENTRY)
        }

    def _replica_states(self) -> dict[str, str]:
        return {
            f"{name_of((row['topic'], row['partition']))}@{b}": ReplicaState(s).label
            for row in self._rows()
            for b, s in zip(row["replica_state_broker_ids"], row["replica_states"], strict=True)
        }

    def _assignments(self) -> dict[str, Any]:
        return {
            name_of((row["topic"], row["partition"])): {
                key: row[key] or [] for key in ("replicas", "adding", "removing")
            }
            for row in self._rows()
            if row["replicas"] is not None
        }

    def _leaderships(self) -> dict[str, Any]:
        found = {}
        for at, row in enumerate(self._rows()):
            record = self.state.leadership(at)
            if record is not None:
                found[name_of((row["topic"], row["partition"]))] = describe_record(record)
        return found

    def _records(self) -> dict[str, Any]:
        if self.store is None:
            return {}
        return {
            name_of(p): "garbage" if record is UNDECODABLE else describe_record(record)
            for p, record in self.store.records().items()
        }

    # -- the machines ---------------------------------------------------------------------------

    def _outcome_seen(self, outcome: Any) -> dict[str, Any]:
        """What every operation of a machine shows."""
        errors = []
        for row in outcome.refusals.to_pylist():
            place = name_of((row["topic"], row["partition"]))
            if row["broker_id"] is None:
                at = {"partition": place}
            else:
                at = {"replica": f"{place}@{row['broker_id']}"}
            errors.append({
                **at, "from": row["from_state"], "to": row["to_state"], "error": row["error"]
            })
        raised = None
        if outcome.failure is not None:
            failure = Code(outcome.failure)
            moved = failure == Code.CONTROLLER_MOVED
            raised = failure.error if moved else None
            errors.append({"batch_failure": "controller_moved" if moved else failure.error})
        return {
            "batch_adds": [self._addition(row) for row in outcome.additions.to_pylist()],
            "errors_logged": errors,
            "requests_by_broker": outcome.by_broker(),
            "valid": not (outcome.codes == Code.ILLEGAL_STATE).any(),
            "raised": raised,
        }

    def _addition(self, row: dict[str, Any]) -> dict[str, Any]:
        place = (row.pop("topic"), row["partition"])
        del row["partition_row"]
        if row["kind"] == "UpdateMetadata":
            registered = self.state.broker_id[self.state.registered].tolist()
            to = registered if row["to"] is None else row["to"]
            return as_written({"kind": row["kind"], "to": to, "partitions": [place]})
        if row["kind"] == "StopReplica":
            del row["leader_epoch"]
        filled = {key: value for key, value in row.items() if value is not None}
        return as_written({**filled, "partition": place})

    def _partition_sm(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        machine = PartitionStateMachine(self.state, self.store, journal="full")
        if name == "startup":
            return self._outcome_seen(machine.startup())
        if name != "change_state":
            raise UnknownError(f"unknown operation partition_sm.{name}")
        rows = self.state.find_partitions([partition_of(p) for p in args["partitions"]])
        target, strategy = PARTITION_STATES[args["target"]], strategy_of(args.get("strategy"))
        outcome = machine.handle_state_changes(rows, target, strategy)
        results = {
            p: self._result(row, code, outcome.failure)
            for p, row, code, listed in zip(
                args["partitions"], rows, outcome.codes, outcome.in_result, strict=True
            )
            if listed
        }
        return {"results": results, **self._outcome_seen(outcome)}

    def _result(self, row: int, code: int, failure: Code | None) -> dict[str, Any]:
        error = Code(code if failure is None else failure).error
        if error is not None:
            return {"error": error}
        record = self.state.leadership(row)
        assert record is not None
        return {"ok": describe_record(record, with_controller=False)}

    def _replica_sm(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        machine = ReplicaStateMachine(self.state, self.store, journal="full")
        if name == "startup":
            return self._outcome_seen(machine.startup())
        if name != "change_state":
            raise UnknownError(f"unknown operation replica_sm.{name}")
        triples = []
        for replica in args["replicas"]:
            partition, _, broker = replica.partition("@")
            triples.append((*partition_of(partition), int(broker)))
        replicas = self.state.find_replicas(triples)
        target = REPLICA_STATES[args["target"]]
        return self._outcome_seen(machine.handle_state_changes(replicas, target))

    # -- the deletion manager -------------------------------------------------------------------

    def _topic_deletion(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        self.client_calls += run_deletion(self.controller, name, args)
        return self._outcome_seen(self.controller.journal.finish(name))

    # -- the state's own operations -------------------------------------------------------------

    def _row(self, name: str) -> int:
        return int(self.state.find_partitions([partition_of(name)])[0])

    def _context(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        state = self.state
        if name == "set_assignment":
            state.set_assignment(
                self._row(args["partition"]), args["replicas"], args.get("adding", ()),
                args.get("removing", ()),
            )
        elif name == "set_leadership":
            state.set_leadership(
                self._row(args["partition"]), leader=args["leader"], isr=args["isr"]
            )
        elif name == "is_replica_online":
            row = self._row(args["partition"])
            online = state.is_replica_online(args["broker"], row, args["include_shutting_down"])
            return {"value": online}
        elif name == "get_assignment":
            return {"values": {p: self._describe(p) for p in args["partitions"]}}
        elif name == "get_replicas_for_topic":
            rows = state.topic_partitions(args["topic"])
            return {"value": {str(row): list(state.assignment(row).replicas) for row in rows}}
        elif name == "queue_topic_deletion":
            state.queue_topic_deletion(args["topics"])
        elif name == "begin_topic_deletion":
            state.begin_topic_deletion(args["topics"])
        elif name == "add_live_brokers":
            state.add_live_brokers({int(b): d["epoch"] for b, d in args["brokers"].items()})
        elif name == "remove_live_brokers":
            state.remove_live_brokers(args["brokers"])
        else:
            raise UnknownError(f"unknown operation context.{name}")
        return {}

    def _describe(self, name: str) -> dict[str, Any]:
        try:
            row = self._row(name)
        except ArgumentError:
            return describe_assignment(Assignment())
        return describe_assignment(self.state.assignment(row))

    def _assignment(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        assignment = assignment_of(self.given["assignment"])
        if name == "reassign_to":
            assignment = assignment.reassign_to(args["target"])
        elif name != "describe":
            raise UnknownError(f"unknown operation assignment.{name}")
        return {
            "assignment": describe_assignment(assignment),
            "origin": list(assignment.origin),
            "target": list(assignment.target),
            "being_reassigned": assignment.being_reassigned,
        }

    # -- elections and requests -----------------------------------------------------------------

    def _algorithm(self, name: str, _args: dict[str, Any]) -> dict[str, Any]:
        given = self.given
        if name not in ALGORITHMS:
            raise UnknownError(f"unknown operation algorithm.{name}")
        lists = [given["assigned"], given["isr"], given["live"]]
        options = {
            key: given[key] for key in ("unclean_enabled", "shutting_down") if key in given
        }
        choice = ALGORITHMS[name](*lists, **options)
        return {"leader": choice.leader, "unclean_elections": int(choice.unclean)}

    def _election(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        if name not in STRATEGIES:
            raise UnknownError(f"unknown operation election.{name}")
        election = kfast_elections.elect(
            self.state, self._row(args["partition"]), STRATEGIES[name],
            record=record_of(self.given["record"]),
            unclean_enabled=self.given.get("unclean_enabled", False),
        )
        chosen = election.elected
        return {
            "elected": None if chosen is None else describe_record(chosen, with_controller=False),
            "recipients": list(election.recipients),
            "unclean_elections": int(election.unclean),
        }

    def _request(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        if name != "version":
            raise UnknownError(f"unknown operation request.{name}")
        table = [list(step) for step in kfast_requests.request_versions(args["kind"])]
        seen: dict[str, Any] = {"table": table}
        if args["kind"] == "LeaderAndIsr":
            seen["recovery_state_carried_from"] = kfast_requests.RECOVERY_CARRIED_FROM
        return seen

    def _batch(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        if name == "new":
            self.batch = kfast_requests.RequestBatch(self.state, ibp=self.given.get("ibp", "3.9"))
            return {}
        if self.batch is None:
            raise UnknownError(f"batch.{name} before batch.new")
        if name == "add_leader_and_isr":
            assignment = assignment_of(args["assignment"])
            self.batch.add_leader_and_isr(
                args["to"], self._row(args["partition"]), assignment, args["is_new"]
            )
        elif name == "add_stop_replica":
            self.batch.add_stop_replica(args["to"], self._row(args["partition"]), args["delete"])
        elif name == "add_update_metadata":
            rows = self.state.find_partitions([partition_of(p) for p in args["partitions"]])
            self.batch.add_update_metadata(args["to"], rows)
        elif name == "send":
            self.sent = self.batch.send()
            return {"requests_by_broker": self.sent.by_broker()}
        elif name == "respond_ok_all" and self.sent is not None:
            return {"events": self.sent.respond_ok()}
        else:
            raise UnknownError(f"unknown operation batch.{name}")
        return {}
