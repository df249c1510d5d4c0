"""Where kfast's journal of an event differs from the twin's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from kfast.schema import LEADER_DURING_DELETE
from tests.support.reference import Journal, Partition, Row
from tests.support.reference_profiles import ZK_3_9, Profile

RECORD = ("leader", "leader_epoch", "isr", "recovery", "version", "controller_epoch", "replicas",
          "adding", "removing", "is_new")
SETS = frozenset({"isr", "isr_before", "adding", "removing"})
LISTS = frozenset({"replicas", "to", "offline_replicas"})


@cache
def lists_among(keys: tuple[str, ...]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """Those keys whose values are lists, and what makes each comparable: a set has no order."""
    return tuple(
        (key, sorted if key in SETS else list) for key in keys if key in SETS | LISTS
    )


def pick(row: Row, keys: tuple[str, ...]) -> dict[str, Any]:
    """Some values of a row, in which a set's order no longer shows."""
    picked = dict(zip(keys, map(row.get, keys), strict=True))
    for key, comparable in lists_among(keys):
        if picked[key] is not None:
            picked[key] = comparable(picked[key])
    return picked


class Steps:
    """Numbers the steps that left a trace, so that a step with nothing to say does not count.

    Where kfast takes a step for many partitions that Kafka takes one after another, the steps of
    each partition are numbered by themselves (`apart`).
    """

    def __init__(self, traces: Iterable[tuple[Partition | None, int]], apart: bool) -> None:
        self.apart = apart
        steps: dict[Partition | None, set[int]] = {}
        for p, step in traces:
            steps.setdefault(p if apart else None, set()).add(step)
        self.ranks = {
            p: {step: at for at, step in enumerate(sorted(some))} for p, some in steps.items()
        }

    def of(self, p: Partition | None, step: int) -> int:
        """The number of a step; -1 where it left no trace."""
        return self.ranks.get(p if self.apart else None, {}).get(step, -1)


def group(rows: Iterable[tuple[Partition, Any]]) -> dict[Partition, list[Any]]:
    """Rows by partition, in order within each."""
    groups: dict[Partition, list[Any]] = {}
    for p, row in rows:
        groups.setdefault(p, []).append(row)
    return groups


TABLES = ("transitions", "elections", "refusals", "additions", "requests",
          "update_metadata_brokers", "update_metadata")
"""Tables of a full journal."""

METADATA = ("controller_epoch", "leader", "leader_epoch", "isr", "version", "replicas",
            "offline_replicas")


def rows_of_twin(journal: Journal) -> dict[str, list[Row]]:
    """The twin's journal as rows of the tables that kfast has."""
    requests = [
        {**entry, "partition": p, "step": step, "kind": kind, "broker_id": b,
         "broker_epoch": sent.broker_epochs[b]}
        for step, sent in journal.sent
        for kind, by_broker in (("LeaderAndIsr", sent.leader_and_isr),
                                ("StopReplica", sent.stop_replica))
        for b, entries in by_broker.items() for p, entry in entries.items()
    ]
    metadata = [
        {**entry, "partition": p, "step": step}
        for step, sent in journal.sent for p, entry in sent.update_metadata.items()
    ]
    brokers = [
        {"step": step, "broker_id": b}
        for step, sent in journal.sent for b in sent.update_metadata_brokers
    ]
    return {
        **{table: list(getattr(journal, table)) for table in TABLES[:4]}, "requests": requests,
        "update_metadata": metadata, "update_metadata_brokers": brokers,
    }


def rows_of_kfast(outcome: Any, names: Iterable[str] = TABLES) -> dict[str, list[Row]]:
    """Rows of an outcome's tables; a partition is its topic and number."""
    tables = {table: getattr(outcome, table).to_pylist() for table in names}
    for rows in tables.values():
        for row in rows:
            if "topic" in row:
                row["partition"] = row["topic"], row["partition"]
    return tables


class View:
    """A journal as comparable tables: what it says of each partition, in order."""

    def __init__(
        self, rows: dict[str, list[Row]], apart: bool = False, profile: Profile = ZK_3_9
    ) -> None:
        self.rows, self.apart, self.profile = rows, apart, profile
        rows["additions"] = [r for r in rows["additions"] if r["kind"] != "UpdateMetadata"]
        if apart and profile.metadata_has_deleted:
            rows["update_metadata"] = [r for r in rows["update_metadata"] if not deleted(r)]
        self.steps = Steps(
            ((row.get("partition"), row["step"]) for some in rows.values() for row in some), apart
        )
        self.tables: dict[str, Any] = {}

    def table(self, which: str) -> Any:
        """One table; made once."""
        if which not in self.tables:
            self.tables[which] = self._table(which, self.rows[which])
        return self.tables[which]

    def _table(self, which: str, rows: list[Row]) -> Any:
        if which == "update_metadata_brokers":
            return metadata_brokers(self.steps, [(row["step"], row["broker_id"]) for row in rows])
        groups = group((row["partition"], self._comparable(which, row)) for row in rows)
        return in_order(groups) if which == "requests" else groups

    def _comparable(self, which: str, row: Row) -> Any:
        step = self.steps.of(row["partition"], row["step"])
        if which == "transitions":
            return step, pick(row, ("broker_id", "from_state", "to_state"))
        if which == "refusals":
            return step, pick(row, ("broker_id", "from_state", "to_state", "code", "error"))
        if which == "elections":
            return step, election(row)
        if which == "additions":
            return step, addition(row, self.profile)
        if which == "update_metadata":
            return step, pick(row, METADATA)
        head = (step, row["kind"], row["broker_id"], row["broker_epoch"])
        return (*head, request(row["kind"], row))


class TwinView(View):
    """The twin's journal as comparable tables."""

    def __init__(
        self, journal: Journal, apart: bool = False, profile: Profile = ZK_3_9
    ) -> None:
        super().__init__(rows_of_twin(journal), apart, profile)
        self.journal = journal


def deleted(row: Row) -> bool:
    """Whether an entry of UpdateMetadata says that its topic is queued.

    Before 2.0 every batch names all such partitions, so that their steps are those of others.
    """
    return bool(row["leader"] == LEADER_DURING_DELETE)


def metadata_brokers(steps: Steps, pairs: list[tuple[int, int]]) -> list[Any]:
    """(step, broker) of UpdateMetadata; brokers alone where steps are of partitions."""
    if steps.apart:
        return sorted({b for _, b in pairs})
    return sorted((steps.of(None, step), b) for step, b in pairs)


def in_order(groups: dict[Partition, list[Any]]) -> dict[Partition, list[Any]]:
    """Rows of each partition in the order (step, kind, broker)."""
    return {p: sorted(rows, key=lambda row: row[:3]) for p, rows in groups.items()}


def addition(row: Row, profile: Profile) -> dict[str, Any]:
    """What is compared of an addition to a batch; before 2.4 a bump told a set of replicas."""
    keys = ("kind", "to", *RECORD) if row["kind"] == "LeaderAndIsr" else ("kind", "to", "delete")
    compared = pick(row, keys)
    if not profile.cancels_reassignments:
        compared["to"].sort()
    return compared


def request(kind: str, row: Row) -> dict[str, Any]:
    """What is compared of a partition in a request."""
    return pick(row, RECORD if kind == "LeaderAndIsr" else ("leader_epoch", "delete"))


def election(row: Row) -> dict[str, Any]:
    """What is compared of an election: how it went, and the new record if there is one."""
    compared = pick(row, ("strategy", "code", "unclean"))
    if row["code"] in ("ELECTED", "INITIALIZED"):
        compared |= pick(row, ("leader", "isr", "leader_epoch", "version", "recovery"))
    if row["strategy"] != "INITIALIZATION":
        compared |= pick(row, ("leader_before", "isr_before"))
    return compared


def journals_differ(twin: TwinView, outcome: Any) -> str | None:
    """The first table, partition and row in which two journals differ."""
    kfast = View(rows_of_kfast(outcome), twin.apart, twin.profile)
    for which in TABLES:
        expected, actual = twin.table(which), kfast.table(which)
        if expected == actual:
            continue
        if isinstance(expected, list):
            return f"{which}: the twin has {expected}, kfast has {actual}"
        for p in sorted({*expected, *actual}):
            if expected.get(p) != actual.get(p):
                return (
                    f"{which} of {p[0]}-{p[1]}:\n  twin  {expected.get(p)}\n"
                    f"  kfast {actual.get(p)}"
                )
    return counts_differ(twin.journal, outcome)


def full_journals_differ(outcome: Any, other: Any) -> str | None:
    """The first table in which two full journals of kfast's differ."""
    names = (*TABLES, "counts")
    return next((n for n in names if getattr(outcome, n) != getattr(other, n)), None)


def counts_differ(journal: Journal, outcome: Any) -> str | None:
    """Where the counts of an outcome are not those of the twin's rows."""
    cells = Counter((row["from_state"], row["to_state"]) for row in journal.transitions)
    if cells != Counter(outcome.counts.transitions):
        return f"counts.transitions: the twin has {cells}, kfast has {outcome.counts.transitions}"
    sent, named = request_counts(journal)
    requests, partitions = outcome.counts.requests, outcome.counts.request_partitions
    for which, expected, actual in (("requests", sent, requests),
                                 ("request_partitions", named, partitions)):
        totals = Counter(dict.fromkeys(KINDS, 0))
        for (kind, _), count in expected.items():
            totals[kind] += count
        if totals != Counter(actual):
            return f"counts.{which}: the twin has {totals}, kfast has {actual}"
    return None


KINDS = ("LeaderAndIsr", "UpdateMetadata", "StopReplica")


def request_counts(journal: Journal) -> tuple[Counter[tuple[str, int]], Counter[tuple[str, int]]]:
    """By kind and broker: requests, and the partitions that they name."""
    sent: Counter[tuple[str, int]] = Counter()
    named: Counter[tuple[str, int]] = Counter()
    for _, batch in journal.sent:
        shared = dict.fromkeys(batch.update_metadata_brokers, batch.update_metadata)
        for kind, parts in zip(
            KINDS, (batch.leader_and_isr, shared, batch.stop_replica), strict=True
        ):
            for b, part in parts.items():
                sent[kind, b] += 1
                named[kind, b] += len(part)
    return sent, named


def request_counts_differ(journal: Journal, outcome: Any) -> str | None:
    """Where the requests of some broker are not as many as the twin's, or name fewer."""
    sent, named = request_counts(journal)
    n_requests: Counter[tuple[str, int]] = Counter()
    n_partitions: Counter[tuple[str, int]] = Counter()
    for row in outcome.request_counts.to_pylist():
        n_requests[row["kind"], row["broker_id"]] += row["requests"]
        n_partitions[row["kind"], row["broker_id"]] += row["partitions"]
    for what, expected, actual in (
        ("requests", sent, n_requests), ("partitions named", named, n_partitions)
    ):
        if expected != actual:
            return f"{what} by broker: the twin has {+expected}, kfast has {+actual}"
    return None
