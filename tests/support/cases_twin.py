"""Cases run against the plain Python twin: it must give Kafka's own answers."""

from __future__ import annotations

from typing import Any

from kfast.schema import Code
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
    describe_requests,
    name_of,
    partition_of,
    replica_of,
    strategy_of,
)
from tests.support.reference import (
    GARBAGE,
    RECOVERY_CARRIED_FROM,
    VERSIONS,
    Assignment,
    CacheStore,
    Context,
    ControllerMovedError,
    Election,
    Journal,
    PartitionStateMachine,
    Record,
    ReplicaStateMachine,
    RequestBatch,
    Sent,
    TwinStore,
    controlled_shutdown_leader,
    elect,
    offline_leader,
    preferred_leader,
    reassign_leader,
)
from tests.support.reference_controller import Controller
from tests.support.reference_core import Happened

from . import reference_deletion as deletion


def record_of(row: dict[str, Any]) -> Record:
    """A record as a case writes it."""
    return Record(
        row["leader"], row.get("leader_epoch", 0), tuple(row["isr"]),
        RECOVERY.index(row.get("recovery", "RECOVERED")), row.get("version", 0),
        row.get("controller_epoch", 0),
    )


def assignment_of(row: dict[str, Any]) -> Assignment:
    """An assignment as a case writes it."""
    return Assignment(*(tuple(row.get(key, ())) for key in ("replicas", "adding", "removing")))


def describe_result(result: Record | Code) -> dict[str, Any]:
    """An entry of the result map as a case writes it."""
    if isinstance(result, Record):
        return {"ok": describe_record(result, with_controller=False)}
    return {"error": result.error}


def context_of(given: dict[str, Any]) -> Context:
    """The context that a case gives; queued and started topics are set first."""
    controller = given.get("controller", {})
    ctx = Context(controller.get("id", -1), controller.get("epoch", 0))
    ctx.live_broker_epochs = {int(b): d["epoch"] for b, d in given.get("brokers", {}).items()}
    ctx.shutting_down = set(given.get("shutting_down", ()))
    ctx.offline_dir_replicas = {
        int(b): {partition_of(p) for p in listed}
        for b, listed in given.get("offline_dirs", {}).items()
    }
    ctx.topics_to_delete = set(given.get("topics_queued_for_deletion", ()))
    ctx.topics_deletion_started = set(given.get("topics_deletion_started", ()))
    ctx.topics_ineligible = set(given.get("topics_ineligible", ()))
    ctx.all_topics = {p.rpartition("-")[0] for p in given.get("assignment", {})}
    ctx.all_topics |= set(given.get("topics", ()))
    ctx.leader_recovery_supported = given.get("leader_recovery_supported", True)
    ctx.delete_topic_enabled = given.get("delete_topic_enabled", True)
    for topic, config in given.get("topic_configs", {}).items():
        value = config.get("unclean.leader.election.enable")
        if topic == "__broker__":
            ctx.default_unclean = value == "true"
        elif value is not None:
            ctx.topic_unclean[topic] = value == "true"
    if "replicas" not in given.get("assignment", {}):
        for name, row in given.get("assignment", {}).items():
            ctx.set_assignment(partition_of(name), assignment_of(row))
    for name, row in given.get("leadership", {}).items():
        ctx.put_leadership(partition_of(name), record_of(row))
    for name, state in given.get("partition_states", {}).items():
        ctx.put_partition_state(partition_of(name), PARTITION_STATES[state])
    for name, state in given.get("replica_states", {}).items():
        ctx.replica_states[replica_of(name)] = REPLICA_STATES[state]
    return ctx


def store_of(given: dict[str, Any]) -> TwinStore:
    """The store that a case gives."""
    store = TwinStore(next_version=given.get("store_next_version"))
    for name, row in given.get("store", {}).items():
        store.records[partition_of(name)] = GARBAGE if row == "garbage" else record_of(row)
    for fault in given.get("store_faults", ()):
        named = fault.get("partitions")
        only = None if named is None else [partition_of(p) for p in named]
        store.fail(STORE_OPS[fault["op"]], fault["fault"], only, fault.get("times", 1))
    configs = given.get("topic_configs", {})
    store.config_faults = {topic for topic, config in configs.items() if "fault" in config}
    return store


class TwinAdapter:
    """Sets up the twin as a case says, and runs the operations of the format."""

    def __init__(self, case: dict[str, Any], no_store: bool = False) -> None:
        self.given = given = case["given"]
        self.ctx = context_of(given)
        self.own = store_of(given)
        self.own.controller_epoch = self.ctx.epoch
        self.store = CacheStore(self.ctx) if no_store else self.own
        self.core = Controller(self.ctx, self.store)
        self.batch = RequestBatch(self.ctx)
        self.sent: Sent | None = None

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
        ctx = self.ctx
        views = {
            "partition_states": lambda: {
                name_of(p): s.label for p, s in ctx.partition_states.items()
            },
            "replica_states": lambda: {
                f"{name_of(p)}@{b}": s.label for (p, b), s in ctx.replica_states.items()
            },
            "assignment": lambda: {
                name_of(p): describe_assignment(a) for p, a in ctx.assignments.items()
            },
            "leadership": lambda: {
                name_of(p): describe_record(r) for p, r in ctx.leadership.items()
            },
            "store": lambda: {
                name_of(p): r if isinstance(r, str) else describe_record(r)
                for p, r in self.own.records.items()
            },
            "counters": lambda: {
                "offline_partition_count": ctx.offline_partition_count,
                "preferred_replica_imbalance_count": ctx.preferred_imbalance_count,
                "unclean_elections": ctx.unclean_elections,
            },
            "unclean_elections": lambda: ctx.unclean_elections,
            "topics_queued_for_deletion": lambda: list(ctx.topics_to_delete),
            "topics_deletion_started": lambda: list(ctx.topics_deletion_started),
            "topics_ineligible": lambda: list(ctx.topics_ineligible),
            "client_calls": lambda: self.core.client_calls,
            "store_calls": lambda: [
                f"{op}:{','.join(sorted(map(name_of, ps)))}" for op, ps in self.own.calls
            ],
            "raised": lambda: None,
        }
        if key not in views:
            raise UnknownError(f"unknown key {key}")
        return views[key]()

    def _journal_seen(self, journal: Journal, raised: str | None) -> dict[str, Any]:
        """What every operation of a machine shows."""
        errors = []
        for row in journal.refusals:
            place = name_of(row["partition"])
            if row["broker_id"] is None:
                at = {"partition": place}
            else:
                at = {"replica": f"{place}@{row['broker_id']}"}
            errors.append({
                **at, "from": row["from_state"], "to": row["to_state"], "error": row["error"]
            })
        errors += [{"batch_failure": failure} for failure in journal.batch_failures]
        illegal = any(row["code"] == Code.ILLEGAL_STATE.name for row in journal.refusals)
        return {
            "batch_adds": [as_written(row) for row in journal.additions],
            "errors_logged": errors,
            "requests_by_broker": describe_requests(journal.by_broker()),
            "valid": not illegal,
            "raised": raised,
        }

    def _partition_sm(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        machine = PartitionStateMachine(self.ctx, self.store)
        seen, raised = {}, None
        try:
            if name == "startup":
                machine.startup()
            elif name == "change_state":
                results = machine.handle(
                    [partition_of(p) for p in args["partitions"]],
                    PARTITION_STATES[args["target"]],
                    strategy_of(args.get("strategy")),
                )
                seen["results"] = {name_of(p): describe_result(r) for p, r in results.items()}
            else:
                raise UnknownError(f"unknown operation partition_sm.{name}")
        except ControllerMovedError:
            raised = Code.CONTROLLER_MOVED.error
        return seen | self._journal_seen(machine.journal, raised)

    def _replica_sm(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        machine, raised = ReplicaStateMachine(self.ctx, self.store), None
        try:
            if name == "startup":
                machine.startup()
            elif name == "change_state":
                replicas = [replica_of(r) for r in args["replicas"]]
                machine.handle(replicas, REPLICA_STATES[args["target"]])
            else:
                raise UnknownError(f"unknown operation replica_sm.{name}")
        except ControllerMovedError:
            raised = Code.CONTROLLER_MOVED.error
        return self._journal_seen(machine.journal, raised)

    def _topic_deletion(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        core, raised = self.core, None
        core.now = Happened(name)
        replicas = [replica_of(r) for r in args.get("replicas", ())]
        steps = {
            "init": lambda: deletion.init(core, args["topics_to_delete"], args["ineligible"]),
            "enqueue": lambda: deletion.enqueue(core, args["topics"]),
            "resume_for": lambda: deletion.resume_deletion_for(core, args["topics"]),
            "fail_replicas": lambda: deletion.fail_replica_deletion(core, replicas),
            "complete_replicas": lambda: deletion.complete_replicas(core, replicas),
        }
        if name not in steps:
            raise UnknownError(f"unknown operation topic_deletion.{name}")
        try:
            steps[name]()
        except ControllerMovedError:
            raised = Code.CONTROLLER_MOVED.error
        return self._journal_seen(core.now.journal, raised)

    def _context(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        ctx = self.ctx
        p = partition_of(args["partition"]) if "partition" in args else ("", 0)
        if name == "set_assignment":
            ctx.set_assignment(p, assignment_of(args))
        elif name == "set_leadership":
            ctx.put_leadership(p, record_of({"controller_epoch": ctx.epoch, **args}))
        elif name == "is_replica_online":
            return {
                "value": ctx.is_replica_online(args["broker"], p, args["include_shutting_down"])
            }
        elif name == "get_assignment":
            found = {q: ctx.assignment(partition_of(q)) for q in args["partitions"]}
            return {"values": {q: describe_assignment(a) for q, a in found.items()}}
        elif name == "get_replicas_for_topic":
            found = {}
            for q, b in ctx.replicas_for_topic(args["topic"]):
                found.setdefault(name_of(q), []).append(b)
            return {"value": found}
        elif name == "queue_topic_deletion":
            ctx.queue_topic_deletion(args["topics"])
        elif name == "begin_topic_deletion":
            ctx.begin_topic_deletion(args["topics"])
        elif name == "add_live_brokers":
            ctx.live_broker_epochs |= {int(b): d["epoch"] for b, d in args["brokers"].items()}
        elif name == "remove_live_brokers":
            for b in args["brokers"]:
                ctx.live_broker_epochs.pop(b, None)
        else:
            raise UnknownError(f"unknown operation context.{name}")
        return {}

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

    def _algorithm(self, name: str, _args: dict[str, Any]) -> dict[str, Any]:
        given = self.given
        lists = (given["assigned"], given["isr"], given["live"])
        if name == "offline":
            leader, unclean = offline_leader(*lists, given["unclean_enabled"])
            return {"leader": leader, "unclean_elections": int(unclean)}
        if name == "preferred":
            return {"leader": preferred_leader(*lists)}
        if name == "reassign":
            return {"leader": reassign_leader(*lists)}
        if name == "controlled_shutdown":
            return {"leader": controlled_shutdown_leader(*lists, given["shutting_down"])}
        raise UnknownError(f"unknown operation algorithm.{name}")

    def _election(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        if name not in STRATEGIES:
            raise UnknownError(f"unknown operation election.{name}")
        p, record = partition_of(args["partition"]), record_of(self.given["record"])
        allowed = self.given.get("unclean_enabled", False)
        election: Election = elect(self.ctx, p, record, STRATEGIES[name], allowed)
        chosen = election.elected
        return {
            "elected": None if chosen is None else describe_record(chosen, with_controller=False),
            "recipients": list(election.recipients),
        }

    def _request(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        if name != "version":
            raise UnknownError(f"unknown operation request.{name}")
        seen: dict[str, Any] = {"table": [list(step) for step in VERSIONS[args["kind"]]]}
        if args["kind"] == "LeaderAndIsr":
            seen["recovery_state_carried_from"] = RECOVERY_CARRIED_FROM
        return seen

    def _batch(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        batch = self.batch
        if name == "new":
            self.batch = RequestBatch(self.ctx, self.given.get("ibp", "3.9"))
        elif name == "add_leader_and_isr":
            p = partition_of(args["partition"])
            batch.add_leader_and_isr(
                args["to"], p, self.ctx.leadership[p], assignment_of(args["assignment"]),
                args["is_new"],
            )
        elif name == "add_stop_replica":
            batch.add_stop_replica(args["to"], partition_of(args["partition"]), args["delete"])
        elif name == "add_update_metadata":
            batch.add_update_metadata(args["to"], [partition_of(p) for p in args["partitions"]])
        elif name == "send":
            self.sent = batch.send(self.ctx.epoch)
            return {"requests_by_broker": describe_requests(self.sent.by_broker())}
        elif name == "respond_ok_all" and self.sent is not None:
            return {"events": [as_written(row) for row in self.sent.respond_ok(self.ctx)]}
        else:
            raise UnknownError(f"unknown operation batch.{name}")
        return {}
