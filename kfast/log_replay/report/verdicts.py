"""The last pass: the settled history of every partition, and a verdict on every fact."""

from __future__ import annotations

import bisect
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np

from kfast.log_replay.brokers import BrokerSide
from kfast.log_replay.checks import MISSING, Check, agrees
from kfast.log_replay.comparison.absent_controllers import Receivers
from kfast.log_replay.comparison.cluster_claims import Claim, ClusterView
from kfast.log_replay.comparison.cluster_lines import CLUSTER_COMPARE
from kfast.log_replay.comparison.counts import broker_epoch, counted_requests
from kfast.log_replay.comparison.facts import (
    BEFORE,
    BELOW_LEVEL,
    INFERRED,
    LAST_MEMBER,
    PARTLY_LOGGED,
    REMEMBERED,
    REPLACED,
    REPORTED,
    UNASSIGNED,
    UNCLEAN,
    UNNAMED,
    WRITES,
    WRITTEN,
    Fact,
    name_of,
    unjudged_facts,
    unpredicted,
)
from kfast.log_replay.comparison.missing_decisions import Decisions
from kfast.log_replay.comparison.partition_lines import LED_BY_PREFERRED
from kfast.log_replay.comparison.worlds import World, compare_of, run_event
from kfast.log_replay.engine.rows import UNKNOWN_EPOCH, Possibility, Start, least_counts, made_anew
from kfast.log_replay.engine.simulation import Ran, Simulation
from kfast.log_replay.events.events import POINTS, LogEvent, is_hole
from kfast.log_replay.histories.explorer import Explorer
from kfast.log_replay.lookahead.clusters import Cluster
from kfast.log_replay.report.timeline import Watcher, describe, unclean_elections
from kfast.log_replay.terms.absent_controllers import HANDLED_MS
from kfast.log_replay.terms.holes import LONG_SILENCE_MS
from kfast.log_replay.terms.terms import Term, hides_isr_changes
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Partition
from kfast.replay_results.verdicts import ADOPTED, CONTRADICTED, PREDICTED, UNKNOWN
from kfast.schema import FLAG_BEING_REASSIGNED, PartitionState, ReplicaState
from kfast.state import Leadership

OUTDATED = frozenset({("is_new", True), ("leader", -1)})
"""What a request may say of a partition that is another one by the time at which a log goes on."""

SILENT = frozenset({
    "shutdown", "isr_updating", "isr_notified", "rebalance", "rebalance_check", "new_topics",
    "partitions_added", "delete_topics", "delete_fired", "stop_response", "connected",
    "resigning", "resigned", "process_started", "log_dir_failure", "replicas_offline",
    "pending_elections", "broker_modified", "unclean_enabled", "unclean_enabled_topic",
    "no_longer_shutting", "replicas_deleted", "replicas_successful", "deletion_handled",
    "deletion_started",
    "deletion_done", "deletion_failed", "deletion_halted", "deletion_answered",
    "topics_to_delete", "reassign", "reassign_waits",
    "caught_up", "not_caught_up", "reassign_resumed", "delete_unknown", "delete_disabled",
    "assignment_updating", "assignment_stored", "epoch_read",
    "elects_unclean", "last_isr_kept", "stop_answered", "scheduler_started", "queued_replicas_up",
})
"""Kinds of lines that announce events: what they say is what is replayed."""


class Checker:
    """Replays a cluster as it was found to have been, and judges every fact.

    Parameters
    ----------
    explorer : Explorer
        That has gone through the cluster.
    """

    def __init__(self, explorer: Explorer) -> None:
        self.cluster = cluster = explorer.cluster
        self.statements = statements = explorer.statements
        self.steps = explorer.steps
        self.reached = -1
        self.world = World(Simulation(explorer.profile, cluster.unclean), BrokerSide())
        self.cluster_view = ClusterView(
            cluster, self.world, _true_epochs(cluster, statements),
            unlogged=frozenset(
                id(term) for term in cluster.terms if hides_isr_changes(statements, term)
            ),
        )
        self.histories = explorer.histories
        self.points = _points(cluster.events)
        self.adopted = explorer.adopted
        self.facts: list[Fact] = []
        self.watcher = Watcher(cluster)
        self.inferred_from: set[int] = set()
        self.sources: dict[tuple[Partition, str], str] = {}
        """Reason why the next fact of a partition's field is adopted."""
        self.announced = {
            statements[number].fields["partition"][0] for number in cluster.lines
            if statements[number].kind == "elects_unclean"
        }
        self.decisions = Decisions(cluster, explorer.decision_lines)
        self.reported = _reported(cluster, statements)
        self.least: dict[tuple[Partition, str], int] = {}
        self.stated: dict[tuple[Partition, str], int] = {}
        """The last count of a partition's field that a line states and that is right."""
        self.doubts: dict[str, list[int]] = {}
        """Places of facts that other assignments may explain: by partition, and all counts."""

    def check(self) -> None:
        """Go through the log once more, and judge every fact."""
        absent = set(self.cluster.absent_controller_lines)
        receivers = Receivers(None if self.cluster.terms else LONG_SILENCE_MS)
        for number in sorted([*self.cluster.lines, *absent]) if absent else ():
            received = list(receivers.facts(self.statements[number], number))
            self.facts += received if number in absent else ()
        for begun in self.cluster.partly_logged_lines:
            receivers = Receivers(None, PARTLY_LOGGED)
            for number in begun:
                self.facts += receivers.facts(self.statements[number], number)
        for number in self.cluster.replaced_lines:
            self.facts += unjudged_facts(self.statements[number], number, REPLACED)
            for request in counted_requests(self.statements[number]):
                for key in (request, (*request[:3], None, self.statements[number].epoch)):
                    self.cluster_view.replaced_requests.setdefault(key, number)
        pending = deque(self.cluster.events)
        for number in self.steps.over(self.cluster.lines):
            while pending and pending[0].at <= number:
                self._run(pending.popleft())
            line = self.statements[number]
            if line.kind == "process_started":
                self.world.brokers.start_by(line)
            else:
                self._check_line(line, number)
            self.reached = number
        self._settle_doubts()
        if self.steps.is_over:
            return
        for event in pending:
            self._run(event)
        self.facts += self.decisions.unstated(self.cluster_view.taken)

    def _run(self, event: LogEvent) -> None:
        point = self.points.get(id(event))
        if point is not None:
            self._adopt(point)
            if is_hole(point):
                self.cluster_view.doubtful |= set(self.cluster_view.known_epochs)
        ran = run_event(self.world, event)
        if event.kind == "hidden_isr":
            self.cluster_view.hidden_changes.append(event.at)
        for partition in event.fields.get("supposed", ()):
            self.cluster_view.supposed_changes.setdefault(partition, []).append(event.at)
        if event.kind == "isr" and event.fields.get("notified"):
            named = event.fields.get("updates", {})
            self.cluster_view.changed_at.update(
                (partition, event.at) for partition in event.fields["partitions"]
                if partition not in named
            )
        self.watcher.note(ran, self.world.simulation)
        self.decisions.note(ran, describe(event), self.cluster_view)
        self._note_sources(ran)

    def _note_sources(self, ran: Ran) -> None:
        """Take down which facts an event is made from, so that they are not predicted by it."""
        event = ran.event
        if event.inferred and event.batches:
            self.inferred_from.update(event.batches[0].statements)
        for partition in ran.last_members:
            self.sources[partition, "isr"] = LAST_MEMBER
        for partition in event.fields.get("ahead", ()):
            self.sources[partition, "version"] = WRITES
        if event.kind == "isr_written":
            for partition in event.fields["updates"]:
                self.sources[partition, "isr"] = WRITTEN
        for partition, _ in unclean_elections(ran):
            if partition[0] in self.cluster.unclean.keys() - self.announced:
                self.sources[partition, "leader"] = self.sources[partition, "isr"] = UNCLEAN

    def _adopt(self, point: LogEvent) -> None:
        """Give partitions the records that were found for this point."""
        simulation = self.world.simulation
        added = []
        replaced: set[int] = set()
        for partition, possibility in self.histories.items():
            for start in possibility.starts:
                if start.point is not point:
                    continue
                rows = simulation.rows_of(partition)
                if rows and start.is_written:
                    self._readopt(rows[0], start)
                else:
                    replaced.update(simulation.rows.get(partition, ()))  # Also one of no replicas.
                    plain = Possibility(partition, 0, [start])
                    for name in ("adding", "removing", "recovery"):
                        if getattr(start, name):
                            self.sources[partition, name] = start.reason
                    added.append((plain, simulation.row_of(plain)))
        if added:
            self.world.rebuild(replaced, added)

    def _note_least(self, row: int, start: Start, before: Leadership) -> None:
        """Epochs never fall: an adopted one below the last is contradicted by it.

        Where ISR changes may be hidden, by the last that a line stated.
        """
        possibility = self.world.simulation.possibility[row]
        epoch_open, version_open, _ = possibility.unknown()
        if not epoch_open and not version_open and made_anew(start, before):
            return
        counts = least_counts(start, before)
        for name, is_open in (("leader_epoch", epoch_open), ("version", version_open)):
            adopted, least = getattr(start, name), counts[name]
            if possibility.partition in self.cluster_view.supposed_changes or (
                self.cluster_view.why_unknown([possibility.partition])
            ):
                least = self.stated.get((possibility.partition, name), 0)
            if not is_open and adopted is not None and adopted < least:
                self.least[possibility.partition, name] = least

    def _readopt(self, row: int, start: Start) -> None:
        """Give a row another record; its brokers remember nothing of the one before."""
        simulation = self.world.simulation
        state = simulation.state
        before = state.leadership(row)
        if before is not None:
            self._note_least(row, start, before)
        simulation.possibility[row].starts.append(start)
        if (start.replicas, start.adding, start.removing) != astuple(state.assignment(row)):
            state.set_assignment(row, start.replicas, start.adding, start.removing)
            flags = state.records["flags"]
            if start.adding or start.removing:
                flags[row] |= FLAG_BEING_REASSIGNED
            else:  # What was under way has ended in the hole.
                state.reassignment_targets.pop(row, None)
                flags[row] &= 255 - FLAG_BEING_REASSIGNED
            state.n_reassigned = int(np.count_nonzero(flags & FLAG_BEING_REASSIGNED))
        known = {name: getattr(start, name) for name in
                 ("leader_epoch", "version", "controller_epoch")}
        state.set_leadership(row, leader=start.leader, isr=start.isr, recovery=start.recovery, **{
            name: getattr(before, name, 0) if value is None else value
            for name, value in known.items()
        })
        if start.recovery:
            self.sources[simulation.possibility[row].partition, "recovery"] = start.reason
        simulation.items.pop(row, None)
        simulation.unread.pop(row, None)
        self.world.brokers.rows[row].heard.clear()
        if start.point.kind == "resume":
            states = simulation.row_of(simulation.possibility[row])
            state.set_partition_state(row, PartitionState(states["partition_state"]))
            for broker, replica_state in zip(
                states["replica_state_broker_ids"], states["replica_states"], strict=True
            ):
                state.set_replica_state(row, broker, ReplicaState(replica_state))
        simulation.stored[row] = (
            int(state.records["version"][row]), int(state.records["controller_epoch"][row])
        )

    # --- lines ----------------------------------------------------------------------------------

    def _check_line(self, line: Statement, number: int) -> None:
        self.cluster_view.move_to(number)
        term = self.cluster_view.term
        if line.actor == "controller" and term is not None:
            if line.actor_id != term.controller:
                self._say(number, Claim("controller", "controller", line.actor_id, term.controller))
            if line.epoch is not None:
                self._say(number, Claim("controller epoch", "controller", line.epoch, term.epoch))
        check = CLUSTER_COMPARE.get(line.kind) or (
            broker_epoch if line.actor == "broker" else None
        )
        for fields in check(self.cluster_view, line) if check is not None else ():
            self._say(number, fields)
        self._check_partitions(line, number, id(term))

    def _say(self, number: int, fields: Claim) -> None:
        """Judge a value that a line says of the whole cluster."""
        if fields.reason == UNASSIGNED and fields.predicted is not None:
            self._doubt("counts")
        if fields.predicted is None:
            reason = fields.reason or BEFORE
            verdict = unpredicted(reason)
        elif fields.predicted is not MISSING and fields.logged == fields.predicted:
            reason = INFERRED if number in self.inferred_from else ""
            verdict = ADOPTED if reason else PREDICTED
        else:
            verdict, reason = CONTRADICTED, ""
        self.facts.append(Fact(
            number, fields.kind, fields.subject, fields.logged, fields.predicted, verdict, reason
        ))

    def _check_partitions(self, line: Statement, number: int, term: int) -> None:
        compare = compare_of(line)
        if compare is None:
            return
        simulation, case = self.world.simulation, self.world.case(line, term)
        for partition, fields in subjects(line):
            rows = simulation.rows_of(partition) or simulation.freed.get(partition, [])
            if rows:
                checks = compare(case._replace(fields=fields, row=rows[0]))
                if not all(map(agrees, checks)) and self._is_of_replaced(line, number):
                    self.facts += unjudged_facts(line, number, REPLACED)
                    continue
                if self._is_from_before(line, rows[0], checks):
                    checks = [check if agrees(check) else check._replace(predicted=None)
                              for check in checks]
                for check in checks:
                    self._judge(number, partition, check)
                record = fields.get("record")
                if record is not None and all(
                    agrees(check) for check in checks if check.field in ("leader", "isr")
                ):
                    self.cluster_view.stated_at[partition] = number
            elif line.actor == "broker" and not simulation.ran:
                self.facts.append(Fact(number, "partition", name_of(partition), "exists", None,
                                       ADOPTED, REMEMBERED))
            elif partition[0] in self.cluster.unlisted_topics | self.cluster_view.unnamed:
                self.facts.append(Fact(number, "partition", name_of(partition), "exists", None,
                                       UNKNOWN, UNASSIGNED))
            else:
                self.facts.append(Fact(number, "partition", name_of(partition), "exists", MISSING,
                                       CONTRADICTED))
        if line.kind == "not_preferred":  # One fact of all others, unless one is not led by it.
            wrong = frozenset(
                name_of(simulation.possibility[row].partition)
                for row, check in self.world.unlisted(line) if not agrees(check)
            )
            subject = f"broker {line.fields['broker']}"
            self._say(number, Claim("all others led by it", subject, frozenset(), wrong))

    def _is_of_replaced(self, line: Statement, number: int) -> bool:
        """Whether a broker's line may be about what a controller sent that had been replaced."""
        if line.kind != "cached_partition":
            return False
        controller, epoch = line.fields["controller"], line.fields["controller_epoch"]
        key = controller, "UpdateMetadata", line.actor_id, None, epoch
        return number > self.cluster_view.replaced_requests.get(key, number)

    def _is_from_before(self, line: Statement, row: int, checks: Sequence[Check]) -> bool:
        """Whether a broker's line is about a request that was made before the log goes on.

        It says the record that there is by then, or an older one, that the partition is new, or
        without a leader.
        """
        start = next(iter(self.world.simulation.possibility[row].starts[-1:]), None)
        if line.actor != "broker" or start is None or start.point.kind != "resume" or (
            line.entry.time > start.point.time + HANDLED_MS
        ) or self.cluster_view.why_unknown([self.world.simulation.possibility[row].partition]):
            return False
        epoch = start.leader_epoch or 0
        least = {"leader_epoch": epoch, "previous leader epoch": epoch,
                 "version": start.version or 0}
        return any(
            check.logged <= least[check.field] if check.field in least
            else (check.field, check.logged) in OUTDATED
            for check in checks if not agrees(check)
        )

    def _judge(self, number: int, partition: Partition, check: Check) -> None:
        """Judge a value that a line says of a partition."""
        name = (partition, check.field)
        reason = REPORTED if (number, *name) in self.reported else (
            self.adopted.get((number, *name), "")
        )
        if check.predicted == UNKNOWN_EPOCH:
            check, reason = check._replace(predicted=None), reason or BEFORE
        hidden = ""
        if agrees(check):
            if check.counted:
                self.stated[name] = check.logged
            source = self.sources.pop(name, "")
            reason = reason or source or (INFERRED if number in self.inferred_from else "")
            verdict = ADOPTED if reason else PREDICTED
        elif check.predicted is not None:
            verdict, reason, hidden = CONTRADICTED, "", self._why_hidden(partition, check)
        if check.predicted is None or hidden in (BELOW_LEVEL, UNNAMED, WRITES) or (
            hidden and check.field == LED_BY_PREFERRED  # Depends on nothing but the assignment.
        ):
            check, reason = check._replace(predicted=None), reason or hidden or REMEMBERED
            verdict, hidden = unpredicted(reason), ""
        least = self.least.pop(name, None)
        if least is not None and check.logged < least:
            check = check._replace(predicted=f"at least {least}")
            verdict, reason, hidden = CONTRADICTED, "", ""
        if hidden:
            self._doubt(name_of(partition))
        self.facts.append(Fact(
            number, check.field.replace("_", " "), name_of(partition), check.logged,
            check.predicted, verdict, reason,
        ))

    def _doubt(self, subject: str) -> None:
        """Note that another assignment, which no line names, may explain the next fact."""
        self.doubts.setdefault(subject, []).append(len(self.facts))

    def _settle_doubts(self) -> None:
        """Where several lines disagree the assignment is another; a single one is wrong."""
        for places in self.doubts.values():
            if len({self.facts[at].number for at in places}) > 1:
                for at in places:
                    self.facts[at] = self.facts[at]._replace(
                        predicted=None, verdict=UNKNOWN, reason=UNASSIGNED
                    )

    def _why_hidden(self, partition: Partition, check: Check) -> str:
        """Why events that changed a record may not be logged; empty where they would be.

        Each raises counts: one that is behind is not the record of later events, unless some of
        those were only supposed to be of the partition.
        """
        is_count = check.counted and check.predicted is not MISSING
        n_hidden, n_supposed = self.cluster_view.n_hidden(partition)
        if is_count:
            n_ahead = check.logged - check.predicted
            if check.field == "version" and -n_supposed <= n_ahead <= n_hidden:
                return UNNAMED
            if n_ahead < 0:  # The number of writes is known for the time of a later line only.
                is_written = self.sources.get((partition, check.field)) == WRITES
                last = self.stated.get((partition, check.field), 0)
                return WRITES if is_written and check.logged >= last else ""
        elif check.field == "isr" and check.predicted is not MISSING and n_hidden + n_supposed:
            return UNNAMED
        why = self.cluster_view.why_unknown([partition])
        return "" if is_count and why == UNASSIGNED else why


# --- what was adopted ---------------------------------------------------------------------------


def _points(events: Sequence[LogEvent]) -> dict[int, LogEvent]:
    """The point of each stretch by its first event: before it leaders may have written ISRs."""
    found = {}
    for place, point in enumerate(events):
        if point.kind in POINTS:
            while place and events[place - 1].kind == "isr_written":
                place -= 1
            found[id(events[place])] = point
    return found


def _reported(
    cluster: Cluster, statements: Sequence[Statement]
) -> set[tuple[int, Partition, str]]:
    """Facts from which an ISR change was taken that a leader decided.

    One that no line announces is inferred from the first that names it, so its version is too.
    """
    found: set[tuple[int, Partition, str]] = set()
    ends = [*(event.at for event in cluster.events[1:]), len(statements)]
    for event, end in zip(cluster.events, ends, strict=False):
        if event.kind != "isr":
            continue
        named_by = event.fields.get("named_by", {})
        for partition, number in named_by.items():
            found |= {(number, partition, "isr"), (number, partition, "version")}
        wanted = set(event.fields.get("updates", ())) - set(named_by)
        lines = cluster.lines
        for number in lines[bisect.bisect_left(lines, event.at) : bisect.bisect_left(lines, end)]:
            if not wanted:
                break
            line = statements[number]
            if line.kind not in ("isr_updated", "isr_record", "sent_update_metadata_partition"):
                continue
            for partition, _ in subjects(line):
                if partition in wanted:
                    wanted.discard(partition)
                    found.add((number, partition, "isr"))
    return found


def _true_epochs(
    cluster: Cluster, statements: Sequence[Statement]
) -> dict[int, dict[int, int]]:
    """Epoch of every broker at each line that lists them: what most lines of a registration say.

    In a hole it may have registered again.
    """
    runs: dict[int, list[list[tuple[int, int]]]] = {}
    last_term: Term | None = None
    holes = [event.at for event in reversed(cluster.events) if is_hole(event)]
    for number in cluster.lines:
        line = statements[number]
        term = cluster.term_of.get(number)
        if term is not None and term is not last_term:
            if last_term is not None and term.start < last_term.start:
                continue  # A sender ends later than its controller: it has the epochs from then.
            last_term = term
        while holes and holes[-1] <= number:
            holes.pop()
            for some in runs.values():
                some.append([])
        if line.kind == "broker_epochs":
            listed = line.fields["epochs"]
            for broker in runs:
                if (line.fields["initial"] or broker not in listed) and runs[broker][-1]:
                    runs[broker].append([])
            for broker, epoch in listed.items():
                runs.setdefault(broker, [[]])[-1].append((number, epoch))
        elif line.kind == "broker_change":
            for broker in line.fields.get("bounced", ()):
                runs.setdefault(broker, [[]]).append([])
        elif line.kind == "send_failed" and line.fields["request"].broker_epoch is not None:
            runs.setdefault(line.fields["broker"], [[]])[-1].append(
                (number, line.fields["request"].broker_epoch)
            )
    found: dict[int, dict[int, int]] = {}
    for broker, some in runs.items():
        last: int | None = None
        for run in some:
            votes = Counter(epoch for _, epoch in run)
            if not votes:
                continue
            last = max(votes, key=lambda e: (votes[e], e == last))
            for number, _ in run:
                found.setdefault(number, {})[broker] = last
    return found
