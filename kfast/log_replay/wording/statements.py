"""From entries to statements: the form of each, or the plain word that it has none."""

from __future__ import annotations

from kfast.log_replay.log_files import STATE_CHANGE, Entry, Logs
from kfast.log_replay.steps import Steps
from kfast.log_replay.wording import controller_log, state_change_log
from kfast.log_replay.wording.forms import Form, Statement, take_prefix

NOT_UNDERSTOOD = "not understood"
NO_FACTS = controller_log.NO_FACTS
UNSIGNED = frozenset({"isr_notified"})
"""Kinds of lines that do not say who writes them (0.10.0): whoever writes that file."""


def understand(logs: Logs, steps: Steps) -> tuple[list[Statement], dict[Form, int]]:
    """Say of each entry what it states; also how often each form occurred."""
    used: dict[str, tuple[Form, int]] = {}
    statements = []
    writers: dict[int, int] = {}
    for entry in steps.over(logs.entries):
        statement, form = read_statement(entry, logs.kinds[entry.file])
        if statement.actor == "controller" and statement.actor_id is not None:
            writers[entry.file] = statement.actor_id
        elif statement.kind in UNSIGNED and not statement.actor:
            statement.actor, statement.actor_id = "controller", writers.get(entry.file)
        statements.append(statement)
        if form is not None:
            key = form.wording
            used[key] = (form, used[key][1] + 1 if key in used else 1)
    return statements, dict(used.values())


def read_statement(entry: Entry, kind: str) -> tuple[Statement, Form | None]:
    """Statement of one entry, and its form."""
    spoken = take_prefix(entry.message, entry.logger or ("state.change" * (kind == STATE_CHANGE)))
    rest = spoken.rest.strip()
    table = state_change_log if _is_state_change(entry, kind) else controller_log
    if table is state_change_log and rest[:1].islower():
        rest = rest[0].upper() + rest[1:]
    found = table.FORMS.find(rest)
    if found is None:
        return Statement(
            NOT_UNDERSTOOD, {}, entry, spoken.actor, spoken.actor_id, spoken.epoch
        ), None
    form, fields = found
    return Statement(
        form.kind, fields, entry, spoken.actor, spoken.actor_id, spoken.epoch
    ), form


def _is_state_change(entry: Entry, kind: str) -> bool:
    if entry.logger:
        return "state.change" in entry.logger
    return kind == STATE_CHANGE
