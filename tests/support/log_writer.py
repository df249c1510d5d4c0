"""Writes the logs of a controller (and a little of its brokers) for events run in kfast.

A `LogWriter` stands between a test and a `Controller`: each of its methods runs one event and
writes what a controller of a given version would have logged, in the order seen in real logs.
Source: wordings as in `log_forms`; values from the outcome's tables, never from `kfast.replay`.
Left out: channels, stack frames.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from kfast import ClusterState, Controller
from kfast.controllers.zk.profiles import find_profile
from kfast.controllers.zk.store import Store
from kfast.journal import Outcome
from tests.support.log_forms import PROFILES, Wording, joined, replica_name, spaced

Row = dict[str, Any]
ByAction = Mapping[str, Callable[[], None]]
"""Writes what precedes or follows the actions of an outcome that begin so."""
STRATEGIES = {
    "OFFLINE": "OfflinePartitionLeaderElectionStrategy",
    "REASSIGN": "ReassignPartitionLeaderElectionStrategy",
    "PREFERRED_REPLICA": "PreferredReplicaPartitionLeaderElectionStrategy",
    "CONTROLLED_SHUTDOWN": "ControlledShutdownPartitionLeaderElectionStrategy",
}


class LogWriter:
    """Runs events of a controller and writes its logs as text.

    Parameters
    ----------
    state : ClusterState
        The cluster before the log begins.
    version : str
        One of `log_forms.VERSIONS`.
    trace : bool
        Whether TRACE lines are written to the state-change log; None is the version's default.
    """

    def __init__(
        self, state: ClusterState, version: str, trace: bool | None = None
    ) -> None:
        self.state = state
        profile = find_profile(PROFILES[version])
        # Only with a store of its own do what is stored and what is cached differ, as in Kafka.
        self.controller = Controller(state, store=Store(state), journal="full", profile=profile)
        self.words = Wording(version)
        self.trace = not self.words.since("2.8") if trace is None else trace
        self.files: dict[str, list[str]] = defaultdict(list)
        self.time_ms = 1_600_000_000_000
        self.correlation = 0
        self.deleted: dict[tuple[str, int], Row] = {}
        """Records of the partitions of topics that are being deleted."""

    # --- lines -----------------------------------------------------------------------------------

    def say(self, name: str, by: int | None = None, **facts: Any) -> None:
        """Write one message, where the version has it."""
        form = self.words.form(name)
        if form is None:
            return
        state_change = form.actor in ("state", "broker")
        if state_change and form.level == "TRACE" and not self.trace:
            return
        own = int(self.state.controller_id)
        broker = own if by is None else by
        known = {"id": broker, "epoch": self.state.controller_epoch, **facts}
        message = self.words.prefix(form.actor).format(**known) + str(form.text).format(**known)
        kind = "state-change" if state_change else "controller"
        self.write(broker, kind, f"{form.level} {message} ({self.words.logger(form.actor)})")

    def pause(self) -> None:
        """Let time go by until the next event begins."""
        self.time_ms += 10_000

    def write(self, broker: int, kind: str, line: str) -> None:
        """Write one line with the time; the clock goes on by a millisecond."""
        self.time_ms += 1
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.time_ms // 1000))
        self.files[f"broker-{broker}/{kind}.log"].append(
            f"[{at},{self.time_ms % 1000:03d}] {line}"
        )

    def save(self, directory: Path) -> None:
        """Write the files below a directory."""
        for name, lines in self.files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines) + "\n")

    # --- what every event shares -----------------------------------------------------------------

    def tell(
        self, outcome: Outcome, before: ByAction | None = None,
        only: Collection[tuple[str, int]] | None = None, after: ByAction | None = None,
    ) -> Outcome:
        """Write the steps of an outcome, of all partitions or of some that had own batches.

        `before` and `after` hold what precedes and follows actions that begin so.
        """
        tables = {name: table.to_pylist() for name, table in outcome.tables.items()}
        if only is not None:
            tables = {
                name: [r for r in rows if "topic" not in r
                       or (r["topic"], r["partition"]) in only]
                for name, rows in tables.items()
            }
        for step, action in enumerate(outcome.actions):
            here = {
                name: [row for row in rows if row["step"] == step]
                for name, rows in tables.items()
            }
            if only is not None and not (
                here["transitions"] or here["requests"] or here["refusals"]
            ):
                continue
            for begins, write in (before or {}).items():
                if action.startswith(begins):
                    write()
            self._machine(action, here)
            self._send(here)
            for begins, write in (after or {}).items():
                if action.startswith(begins):
                    write()
        return outcome

    def _machine(self, action: str, here: dict[str, list[Row]]) -> None:
        replicas = [r for r in here["transitions"] if r["broker_id"] is not None]
        replicas.sort(key=lambda r: (r["broker_id"], r["topic"], r["partition"]))
        state = action.split(" to ")[-1]
        if replicas:
            self.say("invoking replicas", state=state, replicas=joined(
                replica_name(r["topic"], r["partition"], r["broker_id"]) for r in replicas
            ))
        shrunk = self._shrunk(here) if state == "OfflineReplica" else {}
        if state == "OfflineReplica":
            shrunk.update(self._shrunk_when_deleted(replicas))
        for r in replicas:
            key = (r["topic"], r["partition"], r["broker_id"])
            if key in shrunk:
                self.say("isr shrunk", p=self.words.partition(*key[:2]), broker=key[2],
                         record=self.words.record(shrunk[key]), full=self.words.full(shrunk[key]))
            if self._says_change(r, here["additions"]):
                self.say("replica changed", **self._changed(r))
        elected = {(r["topic"], r["partition"]): r for r in here["elections"]}
        moved = [r for r in here["transitions"] if r["broker_id"] is None]
        if moved and not any(r["from_state"] == "OfflinePartition" for r in moved):
            self.say("invoking partitions", state=moved[0]["to_state"], partitions=joined(
                self.words.partition(r["topic"], r["partition"]) for r in moved
            ))
        for r in here["refusals"]:
            self._refused(r, elected)
        for r in moved:
            self._partition_changed(r, elected.get((r["topic"], r["partition"])))

    def _shrunk(self, here: dict[str, list[Row]]) -> dict[tuple[str, int, int], Row]:
        """Record that each replica left behind: the LeaderAndIsr added after its StopReplica."""
        shrunk, stopped = {}, None
        for r in here["additions"]:
            if r["kind"] == "StopReplica":
                stopped = (r["topic"], r["partition"], r["to"][0])
            elif r["kind"] == "LeaderAndIsr" and stopped is not None:
                shrunk[stopped], stopped = r, None
        return shrunk

    def _shrunk_when_deleted(self, replicas: list[Row]) -> dict[tuple[str, int, int], Row]:
        """The same of topics that are being deleted, which no request carries."""
        shrunk = {}
        for r in sorted(replicas, key=self._stays):
            record = self.deleted.get((r["topic"], r["partition"]))
            if record is not None:
                record = {**record, "controller_epoch": self.state.controller_epoch}
                broker, isr = r["broker_id"], record["isr"]
                if broker in isr:
                    record = {
                        **record, "isr": [b for b in isr if b != broker] or isr,
                        "leader": -1 if record["leader"] == broker else record["leader"],
                        "leader_epoch": record["leader_epoch"] + 1,
                        "version": record["version"] + 1,
                    }
                shrunk[r["topic"], r["partition"], broker] = record
                self.deleted[r["topic"], r["partition"]] = record
        return shrunk

    def _stays(self, replica: Row) -> bool:
        """Whether a replica is alone in its ISR after the event: it goes last."""
        record = self.state.leadership(self.row(replica["topic"], replica["partition"]))
        return record is not None and record.isr == (replica["broker_id"],)

    def _says_change(self, r: Row, additions: list[Row]) -> bool:
        """Before 1.1 nothing is said of a replica that is up and whose partition has no record."""
        return (
            self.words.since("1.1") or r["to_state"] != "OnlineReplica"
            or r["from_state"] == "NewReplica"
            or any((a["topic"], a["partition"]) == (r["topic"], r["partition"]) for a in additions)
        )

    def _changed(self, r: Row) -> dict[str, Any]:
        return {
            "p": self.words.partition(r["topic"], r["partition"]), "broker": r["broker_id"],
            "old": r["from_state"], "new": r["to_state"],
        }

    def _partition_changed(self, r: Row, election: Row | None) -> None:
        changed = self._changed(r)
        if r["to_state"] == "NewPartition":
            replicas = self.assignment(r["topic"], r["partition"]).replicas
            self.say("partition is new", replicas=joined(replicas), **changed)
        elif election is not None:
            record = self.words.record(election)
            chosen = election["strategy"] != "INITIALIZATION"
            if chosen:
                self.say("election begun", **changed)
            if election["strategy"] == "OFFLINE":
                self.say("selected", record=record, **changed)
            if chosen:
                self.say("election ended", leader=election["leader"], **changed)
            self.say("partition elected", leader=election["leader"], record=record, **changed)
        elif r["to_state"] == "OnlinePartition":  # Its preferred replica led it already.
            led = self.state.leadership(self.row(r["topic"], r["partition"]))
            assert led is not None
            self.say("partition elected", leader=led.leader, **changed)
        else:
            self.say("partition changed", **changed)

    def _refused(self, r: Row, elected: dict[tuple[str, int], Row]) -> None:
        changed = self._changed(r)
        self.say("partition failed" if r["broker_id"] is None else "replica failed", **changed)
        election = elected.get((r["topic"], r["partition"]))
        error, why = "kafka.common.StateChangeFailedException", r["code"]
        if r["code"] == "NO_ELIGIBLE_LEADER" and election is not None:
            allowed = "(false)" if self.words.since("2.4") else ""
            strategy = STRATEGIES[election["strategy"]]
            why = (
                f"Failed to elect leader for partition {changed['p']} under strategy {strategy}"
                f"{allowed if election['strategy'] == 'OFFLINE' else ''}"
            )
            if not self.words.since("1.1"):
                error, why = "kafka.common.NoReplicaOnlineException", "No broker in ISR is alive"
        elif r["error"] == "IllegalState":
            error = "java.lang.IllegalStateException"
            why = f"Instead it is in {r['from_state']} state"
        name = f"broker-{self.state.controller_id}/state-change.log"
        self.files[name].append(f"{error}: {why}\n\tat kafka.controller.Machine.handle")

    def _send(self, here: dict[str, list[Row]]) -> None:
        by_broker: dict[tuple[str, int], list[Row]] = defaultdict(list)
        for r in here["requests"]:
            by_broker[r["kind"], r["broker_id"]].append(r)
        for (kind, broker), rows in sorted(by_broker.items()):
            if kind == "LeaderAndIsr":
                self._send_leader_and_isr(broker, rows)
        brokers = [r["broker_id"] for r in here["update_metadata_brokers"]]
        entries = here["update_metadata"]
        if brokers or any(here[name] for name in ("requests", "transitions", "refusals")):
            self.say("metadata sum", brokers=self.words.some(brokers, mutable=True), n=len(entries))
        for r in entries:
            self.say("metadata", record=self.words.sent(r, metadata=True),
                     brokers=self.words.some(brokers), tp=f"{r['topic']}-{r['partition']}")
        for broker in brokers:
            self._answer_metadata(broker, entries)
        for (kind, broker), rows in sorted(by_broker.items()):
            if kind == "StopReplica":
                self._send_stop_replica(broker, rows)

    def _send_leader_and_isr(self, broker: int, rows: list[Row]) -> None:
        led = sum(r["leader"] == broker for r in rows)
        for r in rows:
            self.say("leader and isr", record=self.words.sent(r), broker=broker,
                     role="leader" if r["leader"] == broker else "follower",
                     p=self.words.partition(r["topic"], r["partition"]))
        self.say("leader and isr sum", broker=broker, leaders=led, followers=len(rows) - led)
        self.correlation += 1
        self.say("handling", broker, n=self.correlation, controller=self.state.controller_id,
                 partitions=len(rows))

    def _answer_metadata(self, broker: int, rows: list[Row]) -> None:
        self.correlation += 1
        shared = {"n": self.correlation, "controller": self.state.controller_id}
        deleted = sum(r["leader"] == -2 for r in rows)
        if self.words.since("2.8") and rows:
            self.say("cached", broker, added=len(rows) - deleted, deleted=deleted, **shared)
        name = "cached partition" if self.words.since("2.8") else "cached"
        for r in rows:
            if r["leader"] == -2:
                continue
            record = self.words.sent(r, metadata=True)
            if not self.words.since("1.0"):
                record = (
                    f"(LeaderAndIsrInfo:{record},ReplicationFactor:{len(r['replicas'])}),"
                    f"AllReplicas:{joined(r['replicas'])})"
                )
            self.say(name, broker, record=record, tp=f"{r['topic']}-{r['partition']}", **shared)

    def _send_stop_replica(self, broker: int, rows: list[Row]) -> None:
        for r in rows:
            self.say("stop of", partition=r["partition"], leader_epoch=r["leader_epoch"],
                     delete=str(r["delete"]).lower(), broker=broker,
                     p=self.words.partition(r["topic"], r["partition"]))
        self.say("stop sum", broker=broker, n=len(rows))
        for delete in (True, False):
            named = [
                replica_name(r["topic"], r["partition"], broker)
                for r in rows if r["delete"] == delete
            ]
            if self.words.since("2.4"):
                named = [f"StopReplicaRequestInfo({n},{str(delete).lower()})" for n in named]
            if named or not self.words.since("2.4"):
                self.say("stop", delete=str(delete).lower(), broker=broker, replicas=joined(named))

    # --- what the state says ---------------------------------------------------------------------

    def row(self, topic: str, number: int) -> int:
        """Row of a partition."""
        return int(self.state.find_partitions([(topic, number)])[0])

    def assignment(self, topic: str, number: int) -> Any:
        """Assignment of a partition."""
        return self.state.assignment(self.row(topic, number))

    def name(self, row: int) -> str:
        """A partition as the controller prints it."""
        return self.words.partition(*self.named(row))

    def named(self, row: int) -> tuple[str, int]:
        """Topic and number of a partition row."""
        topic = self.state.topic[int(self.state.topic_row[row])].as_py()
        return topic, int(self.state.partition[row])

    def rows(self) -> list[int]:
        """Rows of all partitions that have an assignment."""
        n = int(self.state.partition.size)
        return [row for row in range(n) if self.state.assignment(row).replicas]

    def registered(self, shutting: bool | None = None) -> list[int]:
        """Ids of registered brokers: all, or those (not) shutting down."""
        listed = []
        for row in range(self.state.n_brokers):
            status = int(self.state.broker_status[row])
            if status & 1 and (shutting is None or bool(status & 2) == shutting):
                listed.append(int(self.state.broker_id[row]))
        return listed

    def epochs(self) -> str:
        """Epochs of the registered brokers."""
        by_id = zip(self.state.broker_id.tolist(), self.state.broker_epoch.tolist(), strict=True)
        live = set(self.registered())
        return self.words.mapping({str(b): epoch for b, epoch in by_id if b in live})

    def states(self, replicas: bool, queued: Mapping[int, int]) -> str:
        """States of all replicas or partitions, as a machine prints them when it has started.

        `queued` are rows of topics to delete with their leaders: deletion goes on later.
        """
        states: dict[str, str] = {}
        live = set(self.registered())
        for row in self.rows():
            topic, number = self.named(row)
            if not replicas:
                label = "OnlinePartition" if queued.get(row) in live else "OfflinePartition"
                states[self.name(row)] = label if row in queued else (
                    self.state.partition_state(row).label
                )
                continue
            for broker, state in self.state.replica_states_of(row).items():
                dead = "OfflineReplica" if self.words.since("2.4") else "ReplicaDeletionIneligible"
                label = "OnlineReplica" if broker in live else dead
                states[replica_name(topic, number, broker)] = (
                    label if row in queued else state.label
                )
        return self.words.mapping(states)

    def queued(self) -> list[int]:
        """Rows of topics that are queued for deletion."""
        queued = self.state.topic_queued_for_deletion
        return [row for row in self.rows() if queued[self.state.topic_row[row]]]

    def leaders(self) -> str:
        """The whole leadership cache."""
        listed = []
        for row in self.rows():
            record = self.state.leadership(row)
            if record is not None:
                record_of_row = {
                    name: getattr(record, name)
                    for name in ("leader", "isr", "leader_epoch", "version", "controller_epoch",
                                 "recovery")
                }
                listed.append(f"{self.name(row)} -> {self.words.full(record_of_row)}")
        return joined(listed)

    def topics(self, rows: Iterable[int] | None = None) -> list[str]:
        """Names of the topics that some rows belong to; of all rows by default."""
        some = self.rows() if rows is None else rows
        return list(dict.fromkeys(self.named(row)[0] for row in some))


Partition = tuple[str, int]


def partitions_of(outcome: Outcome) -> list[Partition]:
    """Partitions that an outcome moved or could not move, in order."""
    tables = (outcome.transitions, outcome.refusals)
    rows = sorted((r for table in tables for r in table.to_pylist()), key=lambda r: r["step"])
    return list(dict.fromkeys((r["topic"], r["partition"]) for r in rows))


class LoggedController:
    """A controller whose every event is logged.

    Parameters
    ----------
    state : ClusterState
        The cluster before the log begins.
    version : str
        One of `log_forms.VERSIONS`.
    trace : bool, optional
        Whether the state-change log has TRACE lines; the version's default otherwise.
    """

    def __init__(self, state: ClusterState, version: str, trace: bool | None = None) -> None:
        self.log = LogWriter(state, version, trace)
        self.state = state
        self.controller = self.log.controller

    def fail_over(
        self, controller_id: int, reassignments: Mapping[Partition, Sequence[int]] | None = None
    ) -> Outcome:
        """A broker becomes controller; the one before it, if any, resigns.

        `reassignments` are what it finds in the node that asks for them.
        """
        log, words, state = self.log, self.log.words, self.state
        resigned, queued = int(state.controller_id), self._leaders_of_queued()
        topics, resumed = log.topics(queued), self._resumed()
        epoch, zk_version = int(state.controller_epoch), int(state.epoch_store_version)
        ineligible = [row for row in log.rows() if self._is_ineligible(row)]
        state.controller_id = controller_id
        moves = [(p, target, log.assignment(*p)) for p, target in (reassignments or {}).items()]
        outcome = self.controller.on_controller_failover(reassignments=reassignments)
        self.log.pause()
        facts = {"old_epoch": epoch, "old_zk_version": zk_version,
                 "zk_version": state.epoch_store_version}
        if resigned >= 0 and resigned != controller_id:
            log.say("resigned", resigned)
        for name in ("elected", "become", "old epoch", "new epoch", "registering", "context"):
            log.say(name, **facts)
        log.say("epochs", epochs=log.epochs())
        log.say("active", brokers=words.some(log.registered()))
        log.say("shutting", brokers=words.some([], mutable=True))
        log.say("topics", topics=words.some(log.topics(), mutable=True))
        log.say("queued", topics=joined(topics))
        log.say("ineligible", topics=joined(log.topics(ineligible)))
        log.say("announcing")

        def machines() -> None:
            log.say("replicas started", states=log.states(replicas=True, queued=queued))
            log.say("partitions start")

        def reassigned() -> None:
            if moves:  # Else it goes on with one that was under way.
                partition, target, before = moves.pop(0)
                self._log_start(*partition, target, before)
                record = self.state.leadership(log.row(*partition))
                log.say("epoch updated", p=words.partition(*partition),
                        epoch_of=record.leader_epoch, version=record.version)

        log.tell(outcome, {
            "A1": reassigned,
            "announce the live": lambda: log.say("replicas start"),
            "partition states at startup": machines, "announce the deletion": resumed,
        })
        log.say("partitions started", states=log.states(replicas=False, queued=queued))
        log.say("ready")
        log.say("election", partitions="", type="PREFERRED", trigger="ZkTriggered")
        log.say("scheduler")
        return outcome

    def _leaders_of_queued(self) -> dict[int, int]:
        """Leaders of partitions whose topic is queued for deletion."""
        records = {row: self.state.leadership(row) for row in self.log.queued()}
        return {row: -1 if record is None else record.leader for row, record in records.items()}

    def _resumed(self) -> Callable[[], None]:
        """Write that the deletion of the topics that are queued now starts again."""
        topics = self.log.topics(self.log.queued())

        def resumed() -> None:
            for topic in topics:
                self.log.say("deletion started", topic=topic)

        return resumed

    def _ineligible(self, outcome: Outcome) -> list[Row]:
        """Replicas that are made, or refuse to be, ineligible for deletion."""
        return [
            r for table in (outcome.transitions, outcome.refusals) for r in table.to_pylist()
            if outcome.actions[r["step"]] == "replicas to ReplicaDeletionIneligible"
        ]

    def _failed(self, outcome: Outcome) -> Callable[[], None]:
        """Write that replicas cannot be deleted, as their broker is gone."""
        failed = self._ineligible(outcome)
        return lambda: self.log.say(
            "deletion failed", topics=self.log.words.some({r["topic"] for r in failed}),
            replicas=joined(
                replica_name(r["topic"], r["partition"], r["broker_id"]) for r in failed
            ),
        )

    def _halted(self, outcome: Outcome) -> ByAction:
        """Write, after replicas could not be deleted, that the deletion of their topics halts."""
        action = "replicas to ReplicaDeletionIneligible"
        topics = sorted({r["topic"] for r in self._ineligible(outcome)})

        def halted() -> None:
            self.log.say("deletion halted", topics=joined(topics))
            self.log.say("deletion handled", topics=joined(self.log.topics(self.log.queued())))

        return {action: halted}

    def _is_ineligible(self, row: int) -> bool:
        """Whether a replica is on a dead broker, or a reassignment is under way."""
        live, assigned = set(self.log.registered()), self.state.assignment(row)
        is_moving = assigned.adding or assigned.removing or row in self.state.reassignment_targets
        return bool(is_moving) or not live.issuperset(assigned.replicas)

    def change_brokers(
        self, started: Sequence[int] = (), bounced: Sequence[int] = (), failed: Sequence[int] = ()
    ) -> Outcome:
        """Brokers registered, re-registered or vanished; who registers has the highest epoch."""
        log = self.log
        shutting = set(log.registered(shutting=True))
        epochs = count(int(self.state.broker_epoch.max()) + 1)
        outcome = self.controller.on_broker_change(
            dict(zip(started, epochs, strict=False)), dict(zip(bounced, epochs, strict=False)),
            failed,
        )
        self.log.pause()
        log.say("brokers changed", new=joined(started), dead=joined(failed),
                bounced=joined(bounced), live=joined(log.registered()))

        def failure(brokers: Sequence[int]) -> None:
            gone = sorted(shutting & set(brokers))
            log.say("failure", brokers=joined(brokers))
            log.say("no longer shutting", brokers=joined(gone), spaced=spaced(gone))

        if failed or bounced:
            failure([*failed, *bounced])
        if started:
            log.say("startup", brokers=joined(started))
        before = {"announce the deletion": self._resumed()}
        if failed and not started and not bounced:
            before["replicas to ReplicaDeletionIneligible"] = self._failed(outcome)
        if bounced:
            before["tell the others"] = lambda: log.say("startup", brokers=joined(bounced))
        after = {} if started or bounced else self._halted(outcome)
        log.tell(outcome, before, after=after)
        log.say("epochs updated", epochs=log.epochs())
        return outcome

    def fail_dir(self, broker: int, partitions: Sequence[Partition]) -> None:
        """A broker's log directory with some partitions fails; the broker is asked, and answers."""
        log = self.log
        outcome = self.controller.on_broker_log_dir_failure([broker])
        log.pause()
        log.say("dir failed", broker=broker)
        log.tell(outcome)
        rows = [log.row(*partition) for partition in partitions]
        outcome = self.controller.on_leader_and_isr_response(broker, offline=rows)
        if outcome.actions:
            log.say("replicas offline", broker=broker,
                    partitions=joined(log.words.partition(*p) for p in partitions))
        log.tell(outcome)

    def die(self, controller_id: int) -> None:
        """The controller dies: nobody is there to write a line about it."""
        self.state.remove_live_brokers([controller_id])

    def shut_down(self, broker: int) -> Outcome:
        """A broker asks for a controlled shutdown."""
        log = self.log
        outcome = self.controller.controlled_shutdown(broker)
        self.log.pause()
        log.say("shutting down", broker=broker)
        log.say("all shutting down", brokers=joined(log.registered(shutting=True)))
        log.say("live", brokers=joined(log.registered(shutting=False)))
        if log.words.since("1.1"):
            log.tell(outcome)
        else:
            queued = list(map(log.named, log.queued()))  # Each batch has them too.
            for partition in partitions_of(outcome):
                log.tell(outcome, only=[partition, *queued])
        if not any("stop followed" in action for action in outcome.actions):
            log.say("metadata sum", brokers=log.words.some([], mutable=True), n=0)
        log.say("all leaders", leaders=log.leaders())
        return outcome

    def create_topics(self, topics: Mapping[str, Sequence[Sequence[int]]]) -> Outcome:
        """Topics with these assignments appeared."""
        log, words = self.log, self.log.words
        created = {topic: dict(enumerate(lists)) for topic, lists in topics.items()}
        log.deleted = {name: r for name, r in log.deleted.items() if name[0] not in created}
        names = [(topic, n) for topic, lists in created.items() for n in lists]
        assignment: Any = {
            words.partition(t, n): words.assignment(created[t][n]) for t, n in names
        }
        printed = words.mapping(assignment)
        if words.since("2.8"):
            printed = words.some(
                f"TopicIdReplicaAssignment({t},Some(aO-NJyktRN2WN_VZyRacTA),"
                + words.mapping({f"{t}-{n}": words.assignment(created[t][n]) for n in created[t]})
                + ")" for t in created
            )
        outcome = self.controller.on_topic_change(created)
        self.log.pause()
        listed = joined(words.partition(*name) for name in names)
        log.say("new topics", topics=words.some(created), gone=words.some([], mutable=True),
                assignment=printed)
        log.say("topics created", partitions=listed)
        log.say("partitions created", partitions=listed)
        return log.tell(outcome)

    def rebalance(self) -> Outcome:
        """The periodic check for leaders that are not the preferred replica."""
        log, words = self.log, self.log.words
        outcome = self.controller.rebalance_leaders()
        self.log.pause()
        log.say("rebalance")
        log.say("checking")
        queued = list(map(log.named, log.queued()))  # Each batch has them too.
        tried = {(r["topic"], r["partition"]): r for r in outcome.elections.to_pylist()}
        first = {p: log.assignment(*p).replicas[0] for p in tried}
        assert outcome.imbalance is not None
        for r in outcome.imbalance.to_pylist():
            log.say("imbalance", broker=r["broker_id"], ratio=float(r["ratio"]))
            mine = [p for p, b in first.items() if b == r["broker_id"]]
            groups = [mine] if words.since("1.1") else [[p] for p in mine]
            for group in groups if r["ratio"] > 0.1 else []:
                listed = joined(words.partition(*p) for p in group)
                log.say("election", partitions=listed, type="PREFERRED", trigger="AutoTriggered")
                log.tell(outcome, only=[*group, *queued])
                for p in group:
                    if tried[p]["code"] == "ELECTED":
                        log.say("completed", p=words.partition(*p), leader=r["broker_id"])
        return outcome

    def elect(self, partitions: Sequence[Partition]) -> Outcome:
        """A preferred election asked for through the node in the store."""
        log, words = self.log, self.log.words
        outcome = self.controller.elect_leaders(partitions, "preferred", "ZkTriggered")
        self.log.pause()
        tried = {(r["topic"], r["partition"]): r for r in outcome.elections.to_pylist()}
        names = joined(
            words.partition(*partition) for partition in partitions
            if partition in tried or not words.since("2.4")
        )
        log.say("election", partitions=names, type="PREFERRED", trigger="ZkTriggered")
        log.tell(outcome)
        for partition, r in tried.items():
            if r["code"] == "ELECTED":
                log.say("completed", p=words.partition(*partition), leader=r["leader"])
        return outcome

    def reassign(self, topic: str, number: int, target: Sequence[int]) -> Outcome:
        """A reassignment of one partition is asked for through the node in the store."""
        before = self.log.assignment(topic, number)
        outcome = self.controller.reassign_partitions({(topic, number): list(target)})
        return self._begin(outcome, (topic, number), target, before)

    def cancel(self, topic: str, number: int) -> Outcome:
        """The reassignment of a partition is called off."""
        before = self.log.assignment(topic, number)
        outcome = self.controller.alter_partition_reassignments({(topic, number): None})
        return self._begin(outcome, (topic, number), before.origin, before)

    def _begin(
        self, outcome: Outcome, partition: Partition, target: Sequence[int], before: Any
    ) -> Outcome:
        self.log.pause()
        self._log_start(*partition, target, before)
        return self._complete(outcome, partition, target, {})

    def _log_start(self, topic: str, number: int, target: Sequence[int], before: Any) -> None:
        log, words = self.log, self.log.words
        origin = [b for b in before.replicas if b not in before.adding]
        full = list(dict.fromkeys([*target, *origin]))
        after = words.assignment(
            full, [b for b in full if b not in origin], [b for b in full if b not in target]
        )
        facts: dict[str, Any] = {
            "p": words.partition(topic, number), "target": joined(target), "after": after,
            "replicas": joined(full),
            "before": words.assignment(before.replicas, before.adding, before.removing),
        }
        log.say("reassigning", **facts)
        if len(full) > len(origin):
            log.say("waiting for", **facts)
        log.say("assignment updated", **facts)

    def _complete(
        self, outcome: Outcome, partition: Partition, target: Sequence[int], before: ByAction,
        caught_up: int = 0,
    ) -> Outcome:
        """Write an outcome in which one partition is, or may be, reassigned to its end."""
        log, words = self.log, self.log.words
        name = words.partition(*partition)
        listed = f"ArrayBuffer({spaced(target)})"
        touched = [r for r in outcome.additions.to_pylist() if r["kind"] == "LeaderAndIsr"
                   and (r["topic"], r["partition"]) == partition
                   and outcome.actions[r["step"]].startswith(("A1", "B3: raise"))]

        def raised() -> None:
            log.say("epoch updated", p=name, epoch_of=touched[0]["leader_epoch"],
                    version=touched[0]["version"])

        def moved(how: str) -> None:
            begun()
            record = self.state.leadership(log.row(*partition))
            leader = touched[0]["leader"] if how == "touch" or record is None else old_leader
            among = f"is already in the new list of replicas {joined(target)} and is alive"
            if how != "touch":
                among = f"is not in the new list of replicas {joined(target)}. Re-electing leader"
            log.say("leader of reassigned", p=name, leader=leader, what=among)
            if how == "touch":
                raised()

        moves = [r for r in outcome.elections.to_pylist() if r["strategy"] == "REASSIGN"]
        old_leader = moves[0]["leader_before"] if moves else -1

        announced: list[bool] = []

        def begun() -> None:
            if caught_up and not announced:
                log.say("caught up", n=caught_up, list=listed, p=name)
            announced.append(True)

        def done() -> None:
            log.say("assignment updated", p=name, replicas=joined(target),
                    after=words.assignment(target))
            log.say("reassigned", p=name, spaced=spaced(target), set=words.some([name]))

        return log.tell(outcome, {
            **before, "A1": raised, "B1": begun, "B3: raise": lambda: moved("touch"),
            "B3: partitions": lambda: moved("election"), "B8": done,
        })

    def catch_up(
        self, brokers: Sequence[int], reassigned: tuple[Partition, Sequence[int]] | None = None
    ) -> Outcome:
        """Brokers join the ISRs of what they host; it may complete a reassignment."""
        log, words = self.log, self.log.words
        outcome = self.controller.catch_up(brokers)
        log.pause()
        altered = {log.named(row) for row in outcome.altered.tolist()}
        entries = [
            r for r in outcome.update_metadata.to_pylist()
            if (r["topic"], r["partition"]) in altered  # Besides topics that are being deleted.
        ]
        steps = [
            step for step, action in enumerate(outcome.actions)
            if action.startswith("announce the ISRs")
        ]

        def reported() -> None:
            step = steps.pop(0)
            here = [r for r in entries if r["step"] == step]
            names = [words.partition(r["topic"], r["partition"]) for r in here]
            log.say("isr notified", partitions=words.some(names), brokers=spaced(log.registered()))
            for name, r in zip(names, here, strict=True):
                log.say("isr updated", p=name, isr=joined(r["isr"]), version=r["version"],
                        record=words.record({**r, "recovery": 0}))

        before = {"announce the ISRs": reported}
        if reassigned is None:
            return log.tell(outcome, before)
        partition, target = reassigned
        return self._complete(outcome, partition, target, before, len(target))

    def delete(self, topics: Sequence[str]) -> Outcome:
        """Deletion markers of these topics appeared."""
        log = self.log
        for row in log.rows():
            record = log.state.leadership(row)
            if log.named(row)[0] in topics and record is not None:
                log.deleted[log.named(row)] = {**asdict(record), "isr": list(record.isr)}
        outcome = self.controller.delete_topics(list(topics))
        self.log.pause()
        log.say("deletion asked", topics=joined(topics))
        log.say("deletion handled", topics=joined(topics))
        for topic in topics:
            log.say("deletion started", topic=topic)
        return log.tell(outcome)

    def acknowledge(self, topics: Sequence[str]) -> Outcome:
        """Every broker that was told to delete replicas of these topics answers that it did."""
        log = self.log
        outcome = self.controller.acknowledge_deletions()
        self.log.pause()
        changed = outcome.transitions.to_pylist()
        successful = [
            [r for r in changed if r["step"] == step]
            for step, action in enumerate(outcome.actions)
            if action.endswith("to ReplicaDeletionSuccessful")
        ]

        def answered() -> None:
            rows = successful.pop(0)
            errors = {f"{r['topic']}-{r['partition']}": "NONE" for r in rows}
            log.say("deletion answered", broker=rows[0]["broker_id"],
                    errors=log.words.mapping(errors))
            log.say("deletion successful", replicas=joined(
                replica_name(r["topic"], r["partition"], r["broker_id"]) for r in rows
            ))

        log.tell(outcome, {
            "replicas to ReplicaDeletionSuccessful": answered,
            "announce the deletion": self._resumed(),
        }, after={"replicas to ReplicaDeletionSuccessful": lambda: log.say(
            "deletion handled", topics=joined(topics)
        )})
        for topic in topics:
            if topic not in log.topics():
                log.say("deletion done", topic=topic)
        return outcome

    def refuse(self, topic: str, broker: int) -> Outcome:
        """A broker answers that it could not delete its replicas of a topic."""
        log, words = self.log, self.log.words
        rows = [row for row in log.rows() if log.named(row)[0] == topic
                and broker in self.state.assignment(row).replicas]
        names = [log.named(row) for row in rows]
        outcome = self.controller.on_stop_replica_response(broker, rows, failed=rows)
        self.log.pause()

        def answered() -> None:
            errors = {f"{name}-{number}": "KAFKA_STORAGE_ERROR" for name, number in names}
            log.say("deletion answered", broker=broker, errors=words.mapping(errors))
            log.say("deletion failed", topics=words.some([topic]), replicas=joined(
                replica_name(*name, broker) for name in names
            ))

        return log.tell(outcome, {"replicas to ReplicaDeletionIneligible": answered},
                        after=self._halted(outcome))
