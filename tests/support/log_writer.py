"""Writes the logs of a controller (and a little of its brokers) for events run in kfast.

A `LogWriter` stands between a test and a `Controller`: each of its methods runs one event and
writes what a controller of a given version would have logged, in the order seen in real logs.
Source: wordings as in `log_forms`; values from the outcome's tables, never from `kfast.replay`.
Left out: channels, stack frames, the shrink of queued topics (no request carries its record).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from kfast import ClusterState, Controller
from kfast.controllers.zk.profiles import find_profile
from kfast.controllers.zk.store import Store
from kfast.journal import Outcome
from tests.support.log_forms import PROFILES
from tests.support.log_texts import Wording, joined, replica_name

Row = dict[str, Any]
Before = Mapping[str, Callable[[], None]]
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
        # Without a store of its own no controller shows what is stored and not yet cached.
        store = None if profile.touch_is_cached else Store(state)
        self.controller = Controller(state, store=store, journal="full", profile=profile)
        self.words = Wording(version)
        self.trace = not self.words.since("2.8") if trace is None else trace
        self.files: dict[str, list[str]] = defaultdict(list)
        self.time_ms = 1_600_000_000_000
        self.correlation = 0

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
        self, outcome: Outcome, before: Before | None = None,
        only: Collection[tuple[str, int]] | None = None,
    ) -> Outcome:
        """Write the steps of an outcome, of all partitions or of some that had own batches.

        `before` holds what precedes actions that begin so.
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
            if only is not None and not (here["transitions"] or here["requests"]):
                continue
            for begins, write in (before or {}).items():
                if action.startswith(begins):
                    write()
            self._machine(action, here)
            self._send(here)
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
        for r in replicas:
            key = (r["topic"], r["partition"], r["broker_id"])
            if key in shrunk:
                self.say("isr shrunk", p=self.words.partition(*key[:2]), broker=key[2],
                         record=self.words.record(shrunk[key]), full=self.words.full(shrunk[key]))
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
            if not self.words.since("2.0"):
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
        told = here["update_metadata"]
        if brokers or here["transitions"] or here["refusals"]:
            self.say("metadata sum", brokers=self.words.some(brokers, mutable=True), n=len(told))
        for r in told:
            self.say("metadata", record=self.words.sent(r, metadata=True),
                     brokers=self.words.some(brokers), tp=f"{r['topic']}-{r['partition']}")
        for broker in brokers:
            self._answer_metadata(broker, told)
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
        if self.words.since("2.8"):
            if rows:
                self.say("cached", broker, added=len(rows) - deleted, deleted=deleted, **shared)
            return
        for r in rows:
            if r["leader"] == -2:
                continue
            record = self.words.sent(r, metadata=True)
            if not self.words.since("2.0"):
                record = (
                    f"(LeaderAndIsrInfo:{record},ReplicationFactor:{len(r['replicas'])}),"
                    f"AllReplicas:{joined(r['replicas'])})"
                )
            self.say("cached", broker, record=record, tp=f"{r['topic']}-{r['partition']}", **shared)

    def _send_stop_replica(self, broker: int, rows: list[Row]) -> None:
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

    def states(self, replicas: bool) -> str:
        """States of all replicas or partitions, as a machine prints them when it has started."""
        states: dict[str, str] = {}
        for row in self.rows():
            topic, number = self.named(row)
            if not replicas:
                states[self.name(row)] = self.state.partition_state(row).label
                continue
            for broker, state in self.state.replica_states_of(row).items():
                states[replica_name(topic, number, broker)] = state.label
        return self.words.mapping(states)

    def leaders(self) -> str:
        """The whole leadership cache."""
        listed = []
        for row in self.rows():
            record = self.state.leadership(row)
            if record is not None:
                said = {
                    name: getattr(record, name)
                    for name in ("leader", "isr", "leader_epoch", "version", "controller_epoch",
                                 "recovery")
                }
                listed.append(f"{self.name(row)} -> {self.words.full(said)}")
        return joined(listed)

    def topics(self, rows: Iterable[int] | None = None) -> list[str]:
        """Names of the topics that some rows belong to; of all rows by default."""
        some = self.rows() if rows is None else rows
        return list(dict.fromkeys(self.named(row)[0] for row in some))
