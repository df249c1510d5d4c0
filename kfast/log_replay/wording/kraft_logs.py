"""Forms of what KRaft controllers and brokers log besides the metadata log: how long things took.

`kfast replay` needs none of it, for decisions stand in the metadata log; times do not.
Source: Kafka 4.1, QuorumController.java, PeriodicTaskControlManager.java, ReplicaManager.scala
(`applyLocalLeadersDelta`); a log of a real controller.
"""

from __future__ import annotations

import re

from kfast.log_replay.log_files import Entry
from kfast.log_replay.wording import state_change_log
from kfast.log_replay.wording.forms import Form, Forms, Statement

__all__ = ["read_kraft_statement"]

CONTROLLER_FORMS = Forms((
    Form("task", "Periodic task {task:word} generated {n:int} records in {us:int} microseconds."),
    Form("processed", "Processed {task:word}({:int}) in {us:int} us"),
    Form("processed", "Processed {task:word}[{:int}]({:int}) in {us:int} us"),
))
BROKER_FORMS = Forms((
    Form("transitioning", "Transitioning {n:int} partition(s) to local {role:word}."),
    *state_change_log.BROKER_ROLES,
))

_PREFIX = re.compile(r"(?:[\w.$]+ - )?\[(QuorumController|Broker) id=(\d+)\] *")
"""Some layouts of log4j have the logger first."""


def read_kraft_statement(entry: Entry) -> Statement | None:
    """Statement of an entry of a KRaft node about its times; None of all others."""
    prefix = _PREFIX.match(entry.message)
    if prefix is None:
        return None
    actor, forms = "broker", BROKER_FORMS
    if prefix[1] != "Broker":
        actor, forms = "controller", CONTROLLER_FORMS
    found = forms.find(entry.message[prefix.end() :])
    if found is None:
        return None
    return Statement(found[0].kind, found[1], entry, actor, int(prefix[2]))
