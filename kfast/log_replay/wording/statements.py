"""From entries to statements: the form of each, or the plain word that it has none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from kfast.log_replay.log_files import STATE_CHANGE, Entry, Logs
from kfast.log_replay.steps import Steps
from kfast.log_replay.wording import controller_log, state_change_log
from kfast.log_replay.wording.forms import Form, Statement, take_prefix
from kfast.log_replay.wording.values import Partition, ids

NOT_UNDERSTOOD = "not understood"
NO_FACTS = controller_log.NO_FACTS
_ISR_READ = re.compile(r"ISR brokers are: \[(.*)\]")
"""What stands below a line that an election failed, up to 0.11: the ISR in the store."""

UNSIGNED = frozenset({"isr_notified", "selects_leader", "elects_unclean"})
"""Kinds of lines that do not say who writes them (up to 1.0): whoever writes that file."""

RETRIED_MS = 2_000
"""A leader is selected once more within this time, if the store refuses the first."""


def understand(logs: Logs, steps: Steps) -> tuple[list[Statement], Mapping[Form, int]]:
    """Say of each entry what it states; also how often each form occurred."""
    used: Counter[Form] = Counter()
    statements = []
    writers: dict[int, int | None] = {}
    first_writers: dict[int, int | None] = {}
    selected: dict[tuple[int, Partition], Statement] = {}
    for entry in steps.over(logs.entries):
        statement, form = read_statement(entry, logs.kinds[entry.file])
        if statement.actor == "controller":
            writers[entry.file] = statement.actor_id
            first_writers.setdefault(entry.file, statement.actor_id)
        elif statement.kind in UNSIGNED:
            statement.actor, statement.actor_id = "controller", writers.get(entry.file)
        if statement.kind == "selects_leader":
            _leave_out_refused(statement, selected)
        statements.append(statement)
        if form is not None:
            used[form] += 1
    for statement in statements:
        if statement.kind in UNSIGNED and statement.actor_id is None:  # Its file begins with it.
            statement.actor_id = first_writers.get(statement.entry.file)
    return statements, used


def _leave_out_refused(
    statement: Statement, selected: dict[tuple[int, Partition], Statement]
) -> None:
    """Leave out what a controller selected before, and the store refused: it tries again.

    `selected` are the last of each file and partition.

    Source: Kafka 1.0, PartitionStateMachine.scala, `electLeaderForPartition`.
    """
    fields = statement.fields
    name = statement.entry.file, fields["partition"]
    before = selected.get(name)
    if (
        before is not None and statement.entry.time - before.entry.time < RETRIED_MS
        and before.fields["record"].leader_epoch == fields["record"].leader_epoch
    ):
        before.kind = NO_FACTS
    selected[name] = statement


def read_statement(entry: Entry, kind: str) -> tuple[Statement, Form | None]:
    """Statement of one entry in a file of some kind, and its form."""
    is_state_change = "state.change" in entry.logger if entry.logger else kind == STATE_CHANGE
    prefix = take_prefix(entry.message, is_state_change)
    rest = prefix.rest.strip()
    if is_state_change and rest[:1].islower():
        rest = rest[0].upper() + rest[1:]
    table = state_change_log if is_state_change else controller_log
    form, fields = table.FORMS.find(rest) or (None, {})
    kind = NOT_UNDERSTOOD if form is None else form.kind
    if kind == "partition_failed" and (read := _ISR_READ.search(entry.more)):
        fields = {**fields, "isr": ids(read[1])}
    return Statement(kind, fields, entry, *prefix[:3]), form
