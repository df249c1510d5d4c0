"""Where kfast's journal of an event differs from the twin's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from .reference import Journal, Partition, Row

RECORD = ("leader", "leader_epoch", "isr", "recovery", "version", "controller_epoch", "replicas",
          "adding", "removing", "is_new")
SETS = ("isr", "isr_before", "adding", "removing")


def plain(value: Any, key: str = "") -> Any:
    """A value in which a set's order no longer shows."""
    if isinstance(value, list | tuple) and key in SETS:
        return tuple(sorted(value))
    return tuple(value) if isinstance(value, list) else value


def pick(row: Row, keys: Iterable[str]) -> dict[str, Any]:
    """Some values of a row."""
    return {key: plain(row.get(key), key) for key in keys}


class Steps:
    """Numbers the steps that left a trace, so that a step with nothing to say does not count."""

    def __init__(self, steps: Iterable[int]) -> None:
        self.rank = {step: at for at, step in enumerate(sorted(set(steps)))}

    def __getitem__(self, step: int) -> int:
        return self.rank[step]


def group(rows: Iterable[tuple[Partition, Any]]) -> dict[Partition, list[Any]]:
    """Rows by partition, in order within each."""
    groups: dict[Partition, list[Any]] = {}
    for p, row in rows:
        groups.setdefault(p, []).append(row)
    return groups


def name(row: Row) -> Partition:
    """The partition of a row of kfast's tables."""
    return row["topic"], row["partition"]


class TwinView:
    """The twin's journal as comparable tables."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.tables: dict[str, Any] = {}
        self.added = [row for row in journal.additions if row["kind"] != "UpdateMetadata"]
        shown = [row["step"] for row in (
            *journal.transitions, *journal.elections, *journal.refusals, *self.added
        )]
        shown += [
            step for step, sent in journal.sent
            if sent.update_metadata_brokers or sent.leader_and_isr or sent.stop_replica
            or sent.update_metadata
        ]
        self.steps = Steps(shown)

    def table(self, which: str) -> Any:
        """One table; made once."""
        if which not in self.tables:
            self.tables[which] = getattr(self, which)()
        return self.tables[which]

    def _rows(self, rows: list[Row], keys: tuple[str, ...]) -> dict[Partition, list[Any]]:
        return group(
            (row["partition"], (self.steps[row["step"]], pick(row, keys))) for row in rows
        )

    def transitions(self) -> dict[Partition, list[Any]]:
        return self._rows(self.journal.transitions, ("broker_id", "from_state", "to_state"))

    def refusals(self) -> dict[Partition, list[Any]]:
        keys = ("broker_id", "from_state", "to_state", "code", "error")
        return self._rows(self.journal.refusals, keys)

    def elections(self) -> dict[Partition, list[Any]]:
        return group(
            (row["partition"], (self.steps[row["step"]], election(row)))
            for row in self.journal.elections
        )

    def additions(self) -> dict[Partition, list[Any]]:
        return group(
            (row["partition"], (self.steps[row["step"]], addition(row))) for row in self.added
        )

    def requests(self) -> dict[Partition, list[Any]]:
        rows = []
        for step, sent in self.journal.sent:
            for kind, part in (("LeaderAndIsr", sent.leader_and_isr),
                               ("StopReplica", sent.stop_replica)):
                for b, entries in part.items():
                    for p, entry in entries.items():
                        head = (self.steps[step], kind, b, sent.broker_epochs[b])
                        rows.append((p, (*head, request(kind, entry))))
        return in_order(group(rows))

    def update_metadata(self) -> dict[Partition, list[Any]]:
        return group(
            (p, (self.steps[step], pick(entry, METADATA)))
            for step, sent in self.journal.sent
            for p, entry in sent.update_metadata.items()
        )

    def update_metadata_brokers(self) -> list[Any]:
        return sorted(
            (self.steps[step], b)
            for step, sent in self.journal.sent
            for b in sent.update_metadata_brokers
        )


METADATA = ("controller_epoch", "leader", "leader_epoch", "isr", "version", "replicas",
            "offline_replicas")


def in_order(groups: dict[Partition, list[Any]]) -> dict[Partition, list[Any]]:
    """Rows of each partition in the order (step, kind, broker)."""
    return {p: sorted(rows, key=lambda row: row[:3]) for p, rows in groups.items()}


def addition(row: Row) -> dict[str, Any]:
    """What is compared of an addition to a batch."""
    keys = ("kind", "to", *RECORD) if row["kind"] == "LeaderAndIsr" else ("kind", "to", "delete")
    return pick(row, keys)


def request(kind: str, row: Row) -> dict[str, Any]:
    """What is compared of a partition in a request."""
    return pick(row, RECORD if kind == "LeaderAndIsr" else ("leader_epoch", "delete"))


def election(row: Row) -> dict[str, Any]:
    """What is compared of an election: how it went, and the new record if there is one."""
    seen = pick(row, ("strategy", "code", "unclean"))
    if row["code"] in ("ELECTED", "INITIALIZED"):
        seen |= pick(row, ("leader", "isr", "leader_epoch", "version", "recovery"))
    if row["strategy"] != "INITIALIZATION":
        seen |= pick(row, ("leader_before", "isr_before"))
    return seen


class KfastView:
    """kfast's journal as comparable tables."""

    TABLES = ("transitions", "elections", "refusals", "additions", "requests",
              "update_metadata_brokers")

    def __init__(self, outcome: Any) -> None:
        self.rows = {
            table: getattr(outcome, table).to_pylist()
            for table in (*self.TABLES, "update_metadata")
        }
        self.rows["additions"] = [
            row for row in self.rows["additions"] if row["kind"] != "UpdateMetadata"
        ]
        self.steps = Steps(row["step"] for rows in self.rows.values() for row in rows)

    def table(self, which: str) -> Any:
        """One table."""
        rows = self.rows[which]
        if which == "update_metadata_brokers":
            return sorted((self.steps[row["step"]], row["broker_id"]) for row in rows)
        groups = group((name(row), self._comparable(which, row)) for row in rows)
        return in_order(groups) if which == "requests" else groups

    def _comparable(self, which: str, row: Row) -> Any:
        step = self.steps.rank.get(row["step"], -1)
        if which == "transitions":
            return step, pick(row, ("broker_id", "from_state", "to_state"))
        if which == "refusals":
            return step, pick(row, ("broker_id", "from_state", "to_state", "code", "error"))
        if which == "elections":
            return step, election(row)
        if which == "additions":
            return step, addition(row)
        if which == "update_metadata":
            return step, pick(row, METADATA)
        head = (step, row["kind"], row["broker_id"], row["broker_epoch"])
        return (*head, request(row["kind"], row))


def journals_differ(twin: TwinView, outcome: Any) -> str | None:
    """The first table, partition and row in which two journals differ."""
    kfast = KfastView(outcome)
    for which in (*KfastView.TABLES, "update_metadata"):
        wanted, found = twin.table(which), kfast.table(which)
        if wanted == found:
            continue
        if isinstance(wanted, list):
            return f"{which}: the twin has {wanted}, kfast has {found}"
        for p in sorted({*wanted, *found}):
            if wanted.get(p) != found.get(p):
                return (
                    f"{which} of {p[0]}-{p[1]}:\n  twin  {wanted.get(p)}\n"
                    f"  kfast {found.get(p)}"
                )
    return counts_differ(twin.journal, outcome)


def counts_differ(journal: Journal, outcome: Any) -> str | None:
    """Where the counts of an outcome are not those of the twin's rows."""
    cells = Counter((row["from_state"], row["to_state"]) for row in journal.transitions)
    if cells != Counter(outcome.counts.transitions):
        return f"counts.transitions: the twin has {cells}, kfast has {outcome.counts.transitions}"
    sent = {"LeaderAndIsr": 0, "UpdateMetadata": 0, "StopReplica": 0}
    for _, batch in journal.sent:
        sent["LeaderAndIsr"] += len(batch.leader_and_isr)
        sent["UpdateMetadata"] += len(batch.update_metadata_brokers)
        sent["StopReplica"] += len(batch.stop_replica)
    if sent != dict(outcome.counts.requests):
        return f"counts.requests: the twin has {sent}, kfast has {outcome.counts.requests}"
    return None
