"""Wordings of a controller's two log files, by version, and how each version prints values.

Source: what controllers of 0.10.2, 1.1, 2.0, 2.4, 2.8 and 3.9 were seen to write; the messages
are observable interface. Nothing here is shared with `kfast.replay`, so that each tests the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

VERSIONS = ("0.10", "2.0", "2.4", "2.8", "3.9")
PROFILES = {
    "0.10": "zk-0.10", "2.0": "zk-2.0", "2.4": "zk-2.4", "2.8": "zk-3.9", "3.9": "zk-3.9",
}
"""Profile of kfast that behaves as each version does, or is the nearest."""


class Actor(NamedTuple):
    """Who writes: the prefix of its messages and its logger, in 0.10 and later."""

    old_prefix: str
    prefix: str
    logger: str


def _listener(name: str, owner: str) -> Actor:
    return Actor(f"[{name} on Controller {{id}}]: ", "", f"kafka.controller.{owner}{name}")


_CLASS = "kafka.controller."
ACTORS = {
    "controller": Actor(
        "[Controller {id}]: ", "[Controller id={id}] ", f"{_CLASS}KafkaController"
    ),
    "replicas": Actor(
        "[Replica state machine on controller {id}]: ",
        "[ReplicaStateMachine controllerId={id}] ", f"{_CLASS}{{zk}}ReplicaStateMachine",
    ),
    "partitions": Actor(
        "[Partition state machine on Controller {id}]: ",
        "[PartitionStateMachine controllerId={id}] ", f"{_CLASS}{{zk}}PartitionStateMachine",
    ),
    "deletion": Actor(
        "[Topic Deletion Manager {id}], ", "[Topic Deletion Manager {id}]{comma} ",
        f"{_CLASS}TopicDeletionManager",
    ),
    "thread": Actor(
        "[delete-topics-thread-{id}], ", "", f"{_CLASS}TopicDeletionManager$DeleteTopicsThread"
    ),
    "offline selector": Actor(
        "[OfflinePartitionLeaderSelector]: ", "", f"{_CLASS}OfflinePartitionLeaderSelector"
    ),
    "batch": Actor("", "", f"{_CLASS}ControllerBrokerRequestBatch"),
    "broker listener": _listener("BrokerChangeListener", "ReplicaStateMachine$"),
    "topic listener": _listener("TopicChangeListener", "PartitionStateMachine$"),
    "deletion listener": _listener("DeleteTopicsListener", "PartitionStateMachine$"),
    "isr listener": _listener("IsrChangeNotificationListener", ""),
    "reassigned listener": _listener("ReassignedPartitionsIsrChangeListener", ""),
    "state": Actor(
        "Controller {id} epoch {epoch} ", "[Controller id={id} epoch={epoch}] ",
        "state.change.logger",
    ),
    "broker": Actor("Broker {id} ", "[Broker id={id}] ", "state.change.logger"),
}


class Form(NamedTuple):
    """One wording: the first version that has it, who writes it, its level and its text."""

    since: str
    actor: str
    level: str
    text: str | None


def _same(level: str, actor: str, text: str, since: str = "0.10") -> tuple[Form, ...]:
    return (Form(since, actor, level, text),)


def _lower_first(level: str, text: str, actor: str = "state") -> tuple[Form, ...]:
    """A message that begins in 0.10 after the words for who writes it."""
    old = Form("0.10", actor, level, text[0].lower() + text[1:])
    return (old, Form("2.0", actor, level, text))


def _detail(text: str) -> tuple[Form, ...]:
    """A line of the state-change log that became INFO when it was summed up (Kafka 2.6)."""
    low = _lower_first("TRACE", text)
    return (*low, Form("2.8", "state", "INFO", text))


_ELECTED = "{id} successfully elected as the controller"
_NEW_TOPICS = (
    "New topics: [{topics}], deleted topics: [{gone}], new partition replica assignment "
    "[{assignment}]"
)
_BROKERS = "Newly added brokers: {new}, deleted brokers: {dead}, "
_BEING = " for partition {p} being reassigned"
FORMS: Mapping[str, tuple[Form, ...]] = {
    # Becoming controller.
    "elected": (
        Form("2.0", "controller", "INFO", _ELECTED),
        Form("2.4", "controller", "INFO", _ELECTED
             + ". Epoch incremented to {epoch} and epoch zk version is now {zk_version}"),
    ),
    "become": (
        Form("0.10", "controller", "INFO", "Broker {id} starting become controller state "
             "transition"),
        Form("2.0", "controller", "INFO", "Reading controller epoch from ZooKeeper"),
        Form("2.4", "controller", "INFO", None),
    ),
    "old epoch": (
        Form("0.10", "controller", "INFO",
             "Initialized controller epoch to {old_epoch} and zk version {old_zk_version}"),
        Form("2.4", "controller", "INFO", None),
    ),
    "new epoch": (
        Form("0.10", "controller", "INFO", "Controller {id} incremented epoch to {epoch}"),
        Form("2.0", "controller", "INFO", "Epoch incremented to {epoch}"),
        Form("2.4", "controller", "INFO", None),
    ),
    "registering": _same("INFO", "controller", "Registering handlers", "2.0"),
    "context": _same("INFO", "controller", "Initializing controller context", "2.0"),
    "epochs": _same("INFO", "controller", "Initialized broker epochs cache: {epochs}", "2.4"),
    "active": _same("INFO", "controller", "Currently active brokers in the cluster: {brokers}"),
    "shutting": _same(
        "INFO", "controller", "Currently shutting brokers in the cluster: {brokers}"
    ),
    "topics": _same("INFO", "controller", "Current list of topics in the cluster: {topics}"),
    "queued": _same("INFO", "controller", "List of topics to be deleted: {topics}"),
    "ineligible": _same("INFO", "controller", "List of topics ineligible for deletion: {topics}"),
    "announcing": _same("INFO", "controller", "Sending update metadata request", "2.0"),
    "replicas start": _same("INFO", "replicas", "Initializing replica state", "2.0"),
    "replicas started": (
        Form("0.10", "replicas", "INFO", "Started replica state machine with initial state -> "
             "{states}"),
        Form("2.4", "replicas", "DEBUG", "Started replica state machine with initial state -> "
             "{states}"),
    ),
    "partitions start": _same("INFO", "partitions", "Initializing partition state", "2.0"),
    "partitions started": (
        Form("0.10", "partitions", "INFO", "Started partition state machine with initial state "
             "-> {states}"),
        Form("2.4", "partitions", "DEBUG", "Started partition state machine with initial state "
             "-> {states}"),
    ),
    "ready": (
        Form("0.10", "controller", "INFO", "Broker {id} is ready to serve as the new controller "
             "with epoch {epoch}"),
        Form("2.0", "controller", "INFO", "Ready to serve as the new controller with epoch "
             "{epoch}"),
    ),
    "scheduler": (
        Form("0.10", "controller", "INFO", "starting the partition rebalance scheduler"),
        Form("2.0", "controller", "INFO", "Starting the controller scheduler"),
    ),
    "resigned": (
        Form("0.10", "controller", "INFO", "Broker {id} resigned as the controller"),
        Form("2.0", "controller", "INFO", "Resigned"),
    ),
    # Brokers.
    "brokers changed": (
        Form("0.10", "broker listener", "INFO", _BROKERS + "all live brokers: {live}"),
        Form("2.0", "controller", "INFO", _BROKERS + "all live brokers: {live}"),
        Form("2.4", "controller", "INFO", _BROKERS
             + "bounced brokers: {bounced}, all live brokers: {live}"),
    ),
    "startup": _same("INFO", "controller", "New broker startup callback for {brokers}"),
    "failure": _same("INFO", "controller", "Broker failure callback for {brokers}"),
    "no longer shutting": (
        Form("0.10", "controller", "INFO", "Removed ArrayBuffer({spaced}) from list of shutting "
             "down brokers."),
        Form("2.4", "controller", "INFO", "Removed {brokers} from list of shutting down brokers."),
    ),
    "epochs updated": _same("INFO", "controller", "Updated broker epochs cache: {epochs}", "2.4"),
    "shutting down": _same("INFO", "controller", "Shutting down broker {broker}"),
    "all shutting down": _same("DEBUG", "controller", "All shutting down brokers: {brokers}"),
    "live": _same("DEBUG", "controller", "Live brokers: {brokers}"),
    "all leaders": _same("TRACE", "controller", "All leaders = {leaders}"),
    # Topics.
    "new topics": (
        Form("0.10", "topic listener", "INFO", _NEW_TOPICS),
        Form("2.0", "controller", "INFO", _NEW_TOPICS),
    ),
    "topics created": (
        Form("0.10", "controller", "INFO", "New topic creation callback for {partitions}"),
        Form("2.0", "controller", "INFO", None),
    ),
    "partitions created": _same(
        "INFO", "controller", "New partition creation callback for {partitions}"
    ),
    # The machines.
    "invoking replicas": (
        Form("0.10", "replicas", "INFO", "Invoking state change to {state} for replicas "
             "{replicas}"),
        Form("2.0", "replicas", "INFO", None),
    ),
    "invoking partitions": (
        Form("0.10", "partitions", "INFO", "Invoking state change to {state} for partitions "
             "{partitions}"),
        Form("2.0", "partitions", "INFO", None),
    ),
    "election begun": (
        Form("0.10", "state", "TRACE", "started leader election for partition {p}"),
        Form("2.0", "state", "TRACE", None),
    ),
    "election ended": (
        Form("0.10", "state", "TRACE", "elected leader {leader} for Offline partition {p}"),
        Form("2.0", "state", "TRACE", None),
    ),
    "replica changed": _lower_first(
        "TRACE", "Changed state of replica {broker} for partition {p} from {old} to {new}"
    ),
    "partition is new": _detail(
        "Changed partition {p} state from {old} to {new} with assigned replicas {replicas}"
    ),
    "partition elected": (
        Form("0.10", "state", "TRACE", "changed partition {p} from {old} to {new} with leader "
             "{leader}"),
        *_detail("Changed partition {p} from {old} to {new} with state {record}")[1:],
    ),
    "partition changed": _lower_first("TRACE", "Changed partition {p} state from {old} to {new}"),
    "selected": (
        Form("0.10", "offline selector", "INFO", "Selected new leader and ISR {record} for "
             "offline partition {p}"),
        Form("2.0", "controller", "INFO", None),
    ),
    "isr shrunk": (
        Form("0.10", "controller", "INFO", "New leader and ISR for partition {p} is {record}"),
        Form("2.0", "controller", "INFO", None),
        Form("2.8", "state", "INFO", "Partition {p} state changed to {full} after removing "
             "replica {broker} from the ISR as part of transition to OfflineReplica"),
    ),
    "partition failed": (
        Form("0.10", "state", "ERROR",
             "initiated state change for partition {p} from {old} to {new} failed"),
        Form("2.0", "state", "ERROR", "Controller {id} epoch {epoch} failed to change state for "
             "partition {p} from {old} to {new}"),
    ),
    "replica failed": (
        Form("0.10", "state", "ERROR", "initiated state change of replica {broker} for partition "
             "{p} from {old} to {new} failed"),
        Form("2.0", "state", "ERROR", "Controller {id} epoch {epoch} initiated state change of "
             "replica {broker} for partition {p} from {old} to {new} failed"),
    ),
    # Requests.
    "leader and isr": _lower_first("TRACE", "Sending become-{role} LeaderAndIsr request {record} "
                                   "to broker {broker} for partition {p}"),
    "leader and isr sum": _same("INFO", "state", "Sending LeaderAndIsr request to broker {broker} "
                                "with {leaders} become-leader and {followers} become-follower "
                                "partitions", "2.8"),
    "metadata": (
        *_lower_first("TRACE", "Sending UpdateMetadata request {record} to brokers {brokers} for "
                      "partition {tp}"),
        Form("2.8", "state", "INFO", None),
    ),
    "metadata sum": _same("INFO", "state", "Sending UpdateMetadata request to brokers {brokers} "
                          "for {n} partitions", "2.8"),
    "stop": (
        Form("0.10", "batch", "DEBUG",
             "The stop replica request (delete = {delete}) sent to broker {broker} is {replicas}"),
        Form("2.8", "batch", "DEBUG", None),
    ),
    "stop sum": _same("INFO", "state", "Sending StopReplica request for {n} replicas to broker "
                      "{broker}", "2.8"),
    # Elections.
    "rebalance": _same("INFO", "controller", "Processing automatic preferred replica leader "
                       "election", "2.4"),
    "checking": (
        Form("0.10", "controller", "TRACE", "checking need to trigger partition rebalance"),
        Form("2.0", "controller", "TRACE", "Checking need to trigger auto leader balancing"),
    ),
    "imbalance": (
        Form("0.10", "controller", "TRACE", "leader imbalance ratio for broker {broker} is "
             "{ratio:f}"),
        Form("2.0", "controller", "TRACE", "Leader imbalance ratio for broker {broker} is "
             "{ratio}"),
    ),
    "election": (
        Form("0.10", "controller", "INFO", "Starting preferred replica leader election for "
             "partitions {partitions}"),
        Form("2.4", "controller", "INFO", "Starting replica leader election ({type}) for "
             "partitions {partitions} triggered by {trigger}"),
    ),
    "completed": _same("INFO", "controller", "Partition {p} completed preferred replica leader "
                       "election. New leader is {leader}"),
    # ISR changes.
    "isr notified": (
        Form("0.10", "isr listener", "DEBUG", "Sending MetadataRequest to Brokers:"
             "ArrayBuffer({brokers}) for TopicAndPartitions:{partitions}"),
        Form("2.0", "controller", "DEBUG", "Sending MetadataRequest to Brokers: "
             "ArrayBuffer({brokers}) for TopicPartitions: {partitions}"),
        Form("2.8", "controller", "DEBUG", "Updating ISRs for partitions: {partitions}."),
    ),
    "isr updated": (
        Form("2.8", "controller", "DEBUG", "ISR for partition {p} updated to [{isr}] and "
             "zkVersion updated to [{version}]"),
        Form("3.9", "controller", "DEBUG", "ISR for partition {p} updated to {record}."),
    ),
    # Reassignment.
    "reassigning": (
        Form("0.10", "controller", "INFO", "Handling reassignment of partition {p} to new "
             "replicas {target}"),
        Form("2.4", "controller", "DEBUG", "Updating assignment of partition {p} from {before} to "
             "{after}"),
    ),
    "waiting for": (
        Form("0.10", "controller", "INFO", "New replicas {target}" + _BEING + " not yet caught up "
             "with the leader"),
        Form("2.4", "controller", "INFO", None),
    ),
    "assignment updated": (
        Form("0.10", "controller", "INFO", "Updated assigned replicas" + _BEING + " to "
             "{replicas} "),
        Form("2.0", "controller", "INFO", "Updated assigned replicas" + _BEING + " to "
             "{replicas}"),
        Form("2.4", "controller", "INFO", "Successfully updated assignment of partition {p} to "
             "{after}"),
    ),
    "epoch updated": (
        Form("0.10", "controller", "INFO", "Updated leader epoch for partition {p} to {epoch_of}"),
        Form("2.8", "controller", "INFO",
             "Updated leader epoch for partition {p} to {epoch_of}, zkVersion={version}"),
    ),
    "caught up": (
        Form("0.10", "reassigned listener", "INFO", "{n}/{n} replicas have caught up with the "
             "leader" + _BEING + ".Resuming partition reassignment"),
        Form("2.0", "controller", "INFO", "{n}/{n} replicas have caught up with the leader"
             + _BEING + ". Resuming partition reassignment"),
        Form("2.4", "controller", "INFO", "Target replicas {list} have all caught up with the "
             "leader for reassigning partition {p}"),
    ),
    "leader of reassigned": _same("INFO", "controller", "Leader {leader}" + _BEING + ", {what}"),
    "reassigned": (
        Form("0.10", "controller", "INFO", "Removed partition {p} from the list of reassigned "
             "partitions in zookeeper"),
        Form("2.0", "controller", "INFO", "Removing partitions {set} from the list of reassigned "
             "partitions in zookeeper"),
        Form("2.4", "controller", "INFO", "Removing partitions Map({p} -> Buffer({spaced})) from "
             "the list of reassigned partitions in zookeeper"),
    ),
    # Deletion.
    "deletion asked": (
        Form("0.10", "deletion listener", "INFO", "Starting topic deletion for topics {topics}"),
        Form("2.0", "controller", "INFO", "Starting topic deletion for topics {topics}"),
    ),
    "deletion handled": (
        Form("0.10", "thread", "INFO", "Handling deletion for topics {topics}"),
        Form("2.0", "deletion", "INFO", "Handling deletion for topics {topics}"),
    ),
    "deletion started": (
        Form("0.10", "thread", "INFO", "Deletion of topic {topic} (re)started"),
        Form("2.0", "deletion", "INFO", "Deletion of topic {topic} (re)started"),
    ),
    "deletion answered": (
        Form("0.10", "deletion", "DEBUG", None),
        Form("2.4", "controller", "DEBUG", "Delete topic callback invoked on StopReplica response "
             "received from broker {broker}: request error = NONE, partition errors = {errors}"),
    ),
    "deletion successful": _same("DEBUG", "deletion", "Deletion successfully completed for "
                                 "replicas {replicas}"),
    "deletion done": (
        Form("0.10", "thread", "INFO", "Deletion of topic {topic} successfully completed"),
        Form("2.0", "deletion", "INFO", "Deletion of topic {topic} successfully completed"),
    ),
    # Brokers, in the state-change log.
    "handling": _same("INFO", "broker", "Handling LeaderAndIsr request correlationId {n} from "
                      "controller {controller} for {partitions} partitions", "2.8"),
    "cached": (
        *_lower_first("TRACE", "Cached leader info {record} for partition {tp} in response to "
                      "UpdateMetadata request sent by controller {controller} epoch {epoch} with "
                      "correlation id {n}", "broker"),
        Form("2.8", "broker", "INFO", "Add {added} partitions and deleted {deleted} partitions "
             "from metadata cache in response to UpdateMetadata request sent by controller "
             "{controller} epoch {epoch} with correlation id {n}"),
    ),
}


RECOVERY = ("RECOVERED", "RECOVERING")


class Wording:
    """How one version words a message and prints the values in it."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.age = VERSIONS.index(version)

    def since(self, version: str) -> bool:
        """Whether this version is that one or a later one."""
        return self.age >= VERSIONS.index(version)

    def form(self, name: str) -> Form | None:
        """The wording of a message; None where this version does not write it."""
        forms = [form for form in FORMS[name] if self.since(form.since)]
        return forms[-1] if forms and forms[-1].text is not None else None

    def prefix(self, actor: str) -> str:
        """Prefix of whoever writes, with `{id}` and `{epoch}` left open."""
        comma = "" if self.since("2.4") else ","
        who = ACTORS[actor]
        return who.prefix.replace("{comma}", comma) if self.since("2.0") else who.old_prefix

    def logger(self, actor: str) -> str:
        """Logger of whoever writes."""
        return ACTORS[actor].logger.replace("{zk}", "Zk" if self.since("2.4") else "")

    def partition(self, topic: str, number: int) -> str:
        """A partition as the controller prints it."""
        return f"{topic}-{number}" if self.since("2.0") else f"[{topic},{number}]"

    def some(self, items: Iterable[Any], mutable: bool = False) -> str:
        """A Scala set."""
        listed = list(items)
        hashed = self.since("2.8") and (mutable or len(listed) > 4)
        return f"{'HashSet' if hashed else 'Set'}({', '.join(map(str, listed))})"

    def mapping(self, items: Mapping[str, Any]) -> str:
        """A Scala map."""
        hashed = self.since("2.8") and len(items) > 4
        inner = ", ".join(f"{key} -> {value}" for key, value in items.items())
        return f"{'HashMap' if hashed else 'Map'}({inner})"

    def assignment(
        self, replicas: Sequence[int], adding: Sequence[int] = (), removing: Sequence[int] = ()
    ) -> str:
        """An assignment record; a list before 2.4."""
        if not self.since("2.4"):
            return f"{'Vector' if self.since('2.0') else 'List'}({spaced(replicas)})"
        return (
            f"ReplicaAssignment(replicas={joined(replicas)}, addingReplicas={joined(adding)}, "
            f"removingReplicas={joined(removing)})"
        )

    def full(self, r: Mapping[str, Any]) -> str:
        """A record with its controller epoch."""
        recovery = version = ""
        if self.since("3.9"):
            recovery = f",LeaderRecoveryState:{RECOVERY[r['recovery'] or 0]}"
            version = f",ZkVersion:{r['version']}"
        return (
            f"(Leader:{r['leader']},ISR:{joined(r['isr'])}{recovery},LeaderEpoch:"
            f"{r['leader_epoch']}{version},ControllerEpoch:{r['controller_epoch']})"
        )

    def record(self, r: Mapping[str, Any]) -> str:
        """A record as the store keeps it."""
        if not self.since("2.0"):
            return (
                f'{{"leader":{r["leader"]},"leader_epoch":{r["leader_epoch"]},'
                f'"isr":[{joined(r["isr"])}]}}'
            )
        begin = f"LeaderAndIsr(leader={r['leader']}, leaderEpoch={r['leader_epoch']}, "
        if not self.since("3.9"):
            return f"{begin}isr=List({spaced(r['isr'])}), zkVersion={r['version']})"
        states = ", ".join(f"BrokerState(brokerId={b}, brokerEpoch=-1)" for b in r["isr"])
        return (
            f"{begin}isrWithBrokerEpoch=List({states}), leaderRecoveryState="
            f"{RECOVERY[r['recovery'] or 0]}, partitionEpoch={r['version']})"
        )

    def sent(self, r: Mapping[str, Any], metadata: bool = False) -> str:
        """A partition's state as a request carries it."""
        if not self.since("2.0"):
            return self.full(r)
        end = f"offlineReplicas=[{spaced(r.get('offline_replicas') or [])}])"
        if not self.since("2.4"):
            isr, replicas = joined(r["isr"]), joined(r["replicas"])
            if metadata:
                isr, replicas = f"[{spaced(r['isr'])}]", f"[{spaced(r['replicas'])}]"
            return (
                f"PartitionState(controllerEpoch={r['controller_epoch']}, leader={r['leader']}, "
                f"leaderEpoch={r['leader_epoch']}, isr={isr}, zkVersion={r['version']}, "
                f"replicas={replicas}, {end if metadata else _is_new(r)}"
            )
        kind = "UpdateMetadata" if metadata else "LeaderAndIsr"
        version = "partitionEpoch" if self.since("3.9") and not metadata else "zkVersion"
        lists = (
            f"addingReplicas=[{spaced(r.get('adding') or [])}], "
            f"removingReplicas=[{spaced(r.get('removing') or [])}], "
        )
        return (
            f"{kind}PartitionState(topicName='{r['topic']}', partitionIndex={r['partition']}, "
            f"controllerEpoch={r['controller_epoch']}, leader={r['leader']}, "
            f"leaderEpoch={r['leader_epoch']}, isr=[{spaced(r['isr'])}], "
            f"{version}={r['version']}, replicas=[{spaced(r['replicas'])}], "
            f"{end if metadata else lists + _is_new(r, self.since('3.9'))}"
        )


def _is_new(r: Mapping[str, Any], recovery: bool = False) -> str:
    after = f", leaderRecoveryState={r['recovery'] or 0}" if recovery else ""
    return f"isNew={'true' if r['is_new'] else 'false'}{after})"


def joined(items: Iterable[Any]) -> str:
    """Items with commas alone between them."""
    return ",".join(map(str, items))


def spaced(items: Iterable[Any]) -> str:
    """Items as in a Scala list."""
    return ", ".join(map(str, items))


def replica_name(topic: str, number: int, broker: int) -> str:
    """A replica as every version prints it."""
    return f"[Topic={topic},Partition={number},Replica={broker}]"
