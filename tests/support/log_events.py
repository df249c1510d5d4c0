"""Events of a controller, run in kfast and logged as a controller of a given version would.

Source: the order of the lines is that of real logs of each version (see `log_forms`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kfast import ClusterState
from kfast.journal import Outcome
from tests.support.log_texts import joined, replica_name, spaced
from tests.support.log_writer import Before, LogWriter

Partition = tuple[str, int]


def partitions_of(outcome: Outcome) -> list[Partition]:
    """Partitions that an outcome moved, in order."""
    moved = outcome.transitions.to_pylist()
    return list(dict.fromkeys((r["topic"], r["partition"]) for r in moved))


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

    def fail_over(self, controller_id: int) -> Outcome:
        """A broker becomes controller; the one before it, if any, resigns."""
        log, words, state = self.log, self.log.words, self.state
        resigned = int(state.controller_id)
        epoch, zk_version = int(state.controller_epoch), int(state.epoch_store_version)
        state.controller_id = controller_id
        outcome = self.controller.on_controller_failover()
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
        log.say("queued", topics="")
        offline = [row for row in log.rows() if self._has_offline(row)]
        log.say("ineligible", topics=joined(log.topics(offline)))
        log.say("announcing")

        def machines() -> None:
            log.say("replicas started", states=log.states(replicas=True))
            log.say("partitions start")

        log.tell(outcome, {
            "announce the live": lambda: log.say("replicas start"),
            "partition states at startup": machines,
        })
        log.say("partitions started", states=log.states(replicas=False))
        log.say("ready")
        log.say("election", partitions="", type="PREFERRED", trigger="ZkTriggered")
        log.say("scheduler")
        return outcome

    def _has_offline(self, row: int) -> bool:
        live = set(self.log.registered())
        return any(b not in live for b in self.state.assignment(row).replicas)

    def change_brokers(
        self, started: Sequence[int] = (), bounced: Sequence[int] = (), failed: Sequence[int] = ()
    ) -> Outcome:
        """Brokers registered, re-registered or vanished."""
        log = self.log
        shutting = set(log.registered(shutting=True))
        outcome = self.controller.on_broker_change(started, bounced, failed)
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
        before = {}
        if bounced:
            before["tell the others"] = lambda: log.say("startup", brokers=joined(bounced))
        log.tell(outcome, before)
        log.say("epochs updated", epochs=log.epochs())
        return outcome

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
        if log.words.since("2.0"):
            log.tell(outcome)
        else:
            for partition in partitions_of(outcome):
                log.tell(outcome, only=[partition])
        log.say("all leaders", leaders=log.leaders())
        return outcome

    def create_topics(self, topics: Mapping[str, Sequence[Sequence[int]]]) -> Outcome:
        """Topics with these assignments appeared."""
        log, words = self.log, self.log.words
        created = {topic: dict(enumerate(lists)) for topic, lists in topics.items()}
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
        elected = [r for r in outcome.elections.to_pylist() if r["code"] == "ELECTED"]
        first = {
            (r["topic"], r["partition"]): log.assignment(r["topic"], r["partition"]).replicas[0]
            for r in elected
        }
        assert outcome.imbalance is not None
        for r in outcome.imbalance.to_pylist():
            log.say("imbalance", broker=r["broker_id"], ratio=float(r["ratio"]))
            mine = [p for p, b in first.items() if b == r["broker_id"]]
            groups = [mine] if words.since("2.0") else [[p] for p in mine]
            for group in groups if r["ratio"] > 0.1 else []:
                listed = joined(words.partition(*p) for p in group)
                log.say("election", partitions=listed, type="PREFERRED", trigger="AutoTriggered")
                log.tell(outcome, only=group)
                for topic, n in group:
                    log.say("completed", p=words.partition(topic, n), leader=r["broker_id"])
        return outcome

    def elect(self, partitions: Sequence[Partition]) -> Outcome:
        """A preferred election asked for through the node in the store."""
        log, words = self.log, self.log.words
        outcome = self.controller.elect_leaders(partitions, "preferred", "ZkTriggered")
        self.log.pause()
        elected = [r for r in outcome.elections.to_pylist() if r["code"] == "ELECTED"]
        names = [words.partition(r["topic"], r["partition"]) for r in elected]
        log.say("election", partitions=joined(names), type="PREFERRED", trigger="ZkTriggered")
        log.tell(outcome)
        for name, r in zip(names, elected, strict=True):
            log.say("completed", p=name, leader=r["leader"])
        return outcome

    def reassign(self, topic: str, number: int, target: Sequence[int]) -> Outcome:
        """A reassignment of one partition is asked for through the node in the store."""
        log = self.log
        before = log.assignment(topic, number)
        outcome = self.controller.reassign_partitions({(topic, number): list(target)})
        self.log.pause()
        self._log_start(topic, number, target, before)
        return self._complete(outcome, (topic, number), target, {})

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
        self, outcome: Outcome, partition: Partition, target: Sequence[int], before: Before,
        caught_up: int = 0,
    ) -> Outcome:
        """Write an outcome in which one partition is, or may be, reassigned to its end."""
        log, words = self.log, self.log.words
        name = words.partition(*partition)
        listed = f"ArrayBuffer({spaced(target)})"
        touched = [r for r in outcome.additions.to_pylist() if r["kind"] == "LeaderAndIsr"
                   and (r["topic"], r["partition"]) == partition]

        def raised() -> None:
            log.say("epoch updated", p=name, epoch_of=touched[0]["leader_epoch"],
                    version=touched[0]["version"])

        def moved(how: str) -> None:
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

        def begun() -> None:
            if caught_up:
                log.say("caught up", n=caught_up, list=listed, p=name)

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
        told = outcome.update_metadata.to_pylist()
        steps = [
            step for step, action in enumerate(outcome.actions)
            if action.startswith("announce the ISRs")
        ]

        def reported() -> None:
            step = steps.pop(0)
            here = [r for r in told if r["step"] == step]
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
            log.say("deletion handled", topics=joined(topics))

        log.tell(outcome, {"replicas to ReplicaDeletionSuccessful": answered})
        for topic in topics:
            if topic not in log.topics():
                log.say("deletion done", topic=topic)
        return outcome
