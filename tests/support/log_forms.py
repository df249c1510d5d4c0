"""Wordings of a controller's two log files, by version, and how each version prints values.

Source: what controllers of 0.10.2, 1.1, 2.0, 2.4, 2.8 and 3.9 were seen to write; the messages
are observable interface. Nothing here is shared with `kfast.replay`, so that each tests the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

VERSIONS = ("0.10", "1.0", "1.1", "2.0", "2.4", "2.8", "3.9")
PROFILES = {version: f"zk-{version}" for version in VERSIONS}
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


def read_forms() -> dict[str, tuple[Form, ...]]:
    """The wordings in `log_forms.txt`, by message, the oldest version first."""
    forms: dict[str, tuple[Form, ...]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            name, since, actor, level, text = (part.strip() for part in line.split("|"))
            wording = None if text == "-" else text.replace("{blank}", " ")
            forms[name] = (*forms.get(name, ()), Form(since, actor, level, wording))
    return forms


FORMS = read_forms()
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
        return who.prefix.replace("{comma}", comma) if self.since("1.0") else who.old_prefix

    def logger(self, actor: str) -> str:
        """Logger of whoever writes."""
        return ACTORS[actor].logger.replace("{zk}", "Zk" if self.since("2.4") else "")

    def partition(self, topic: str, number: int) -> str:
        """A partition as the controller prints it."""
        return f"{topic}-{number}" if self.since("1.0") else f"[{topic},{number}]"

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
        if not self.since("1.1"):
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
        if not self.since("1.0"):
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
