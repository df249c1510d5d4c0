"""Forms: how each message of Kafka's logs is worded, and what it says.

A form is one entry of a table: a kind, and the wording with `{name:type}` where a value stands.
The wording is turned into a regular expression once. Several wordings of the same kind are
several entries. The releases that word it so tell the release of a log (`versions.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from kfast.log_replay.log_files import Entry
from kfast.log_replay.wording import values

_BRACKETS = r"(?:\w*\([^()]*\)|\[[^\]]*\]|[-\d, ]*)"
TYPES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "int": (r"-?\d+", int),
    "some_int": (r"(?:Some\()?-?\d+\)?|None", lambda text: (values.ids(text) or (-1,))[0]),
    "float": (r"-?[\d.,Ee+-]+|NaN", lambda text: float(text.replace(",", "."))),
    "word": (r"[\w.$-]+", str),
    "bool": (r"true|false", lambda text: text == "true"),
    "partition": (r"\[[\w.-]+,\s?\d+\]|[\w.-]+-\d+", values.partition),
    "ids": (_BRACKETS, values.ids),
    "names": (r".*?", values.names),
    "partitions": (r".*?", values.partitions),
    "epochs": (r"\w*\([^()]*\)", values.mapping(int, int)),
    "record": (r"\(Leader:[^()]*\)", values.record),
    "any_record": (r".*", values.any_record),
    "leaders": (r".*", values.mapping(values.partition, values.record)),
    "lists": (r"\w*\(.*\)", values.mapping(values.partition, values.ids)),
    "preferred": (r"\w*\(.*\)", values.mapping(int, values.mapping(values.partition, values.ids))),
    "assignment": (r"\w*\([^()]*\)|[\d,]*", values.assigned),
    "replica_states": (r"\w*\(.*\)", values.mapping(values.replica, str)),
    "replicas": (r".*?", values.replicas),
    "errors": (r"\w*\(.*\)", values.mapping(values.partition, str)),
    "error_codes": (r"\[.*\]", values.error_codes),
    "partition_states": (r"\w*\(.*\)", values.mapping(values.partition, str)),
    "assignments": (r".*", values.assignments),
    "dump": (r".*", values.request),
    "received": (r".*", values.received),
    "text": (r".*?", str),
    "rest": (r".*", str),
}
"""How each type stands in a text, and what makes a value of it."""

Compiled = tuple[re.Pattern[str], tuple[tuple[str, Callable[[str], Any]], ...]]
_PLACE = re.compile(r"\{(\w*):(\w+)\}")


@dataclass
class Statement:
    """What one entry says.

    Attributes
    ----------
    kind : str
        Which form it has.
    fields : dict
        The values by name.
    entry : Entry
    actor : {"controller", "broker", ""}
        Who wrote it.
    actor_id : int or None
        Its broker id.
    epoch : int or None
        Controller epoch of a controller that names it in the line's prefix.
    """

    kind: str
    fields: dict[str, Any]
    entry: Entry
    actor: str = ""
    actor_id: int | None = None
    epoch: int | None = None


@dataclass(frozen=True, eq=False)
class Form:
    """One wording.

    Parameters
    ----------
    kind : str
        What the statement is called.
    wording : str
        Text with `{name:type}` places; `{:type}` is a place whose value is not kept.
    since, until : str
        First and last release that words it so; "" where the range is open.
    fixed : dict
        Values that the wording itself says.
    """

    kind: str
    wording: str
    since: str = ""
    until: str = ""
    fixed: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def compiled(self) -> Compiled:
        """The expression, and the names with what makes their values, group by group."""
        pattern, at, groups = "", 0, []
        for place in _PLACE.finditer(self.wording):
            expression, make = TYPES[place[2]]
            before = self.wording[at : place.start()]
            at = place.end()
            if at == len(self.wording) and before.endswith(" "):
                # An empty list at the end leaves a space, which is cut off when a line is read.
                before, expression = before[:-1], f"(?<= )(?:{expression})|$"
                pattern += re.escape(before) + " ?"
            else:
                pattern += re.escape(before)
            pattern += f"({expression})" if place[1] else f"(?:{expression})"
            if place[1]:
                groups.append((place[1], make))
        pattern += re.escape(self.wording[at:])
        return re.compile(f"{pattern}$", re.S), tuple(groups)

    @property
    def head(self) -> str:
        """Text before the first place."""
        return self.wording.split("{", 1)[0]


class Forms:
    """A table of forms that finds the one a message has.

    Parameters
    ----------
    forms : sequence of Form
        The first that fits is taken.
    """

    def __init__(self, forms: Sequence[Form]) -> None:
        self.forms = tuple(forms)
        self.likely = lru_cache(MOST_BEGINNINGS)(self._likely)

    def find(self, message: str) -> tuple[Form, dict[str, Any]] | None:
        """Form of a message and the values in it; None where no form fits."""
        for form in self.likely(message[:KEY]):
            pattern, groups = form.compiled
            match = pattern.match(message)
            if match is None:
                continue
            with suppress(ValueError):  # Another form may fit.
                places = zip(groups, match.groups(), strict=True)
                return form, form.fixed | {name: make(text) for (name, make), text in places}
        return None

    def _likely(self, beginning: str) -> list[Form]:
        """The forms that a message with some beginning may have."""
        return [form for form in self.forms if beginning.startswith(form.head[:KEY])]


KEY = 12
"""Characters of a wording's head by which forms are looked up."""

MOST_BEGINNINGS = 10_000
"""Beginnings of messages of which it is remembered which forms they may have."""

_PREFIX = re.compile(
    r"\[(?:Controller(?: id=|[ -])|(?P<broker>Broker id=)|Topic Deletion Manager "
    r"|Channel manager on controller |delete-topics-thread-"
    r"|(?:(?:Replica|Partition) ?[Ss]tate ?[Mm]achine|(?!ControllerEvent)\w*(?:Listener|Thread)"
    r"[\w ]*?) ?(?:on (?:[Cc]ontroller )?|controllerId=))"
    r"(?P<id>\d+)(?: epoch=(?P<epoch>-?\d+)|-to-broker-\d+-send-thread)?\][:,]? *"
)
_OLD_PREFIX = re.compile(
    r"(?:Controller|(?P<broker>Broker)) (?P<id>\d+) (?:epoch (?P<epoch>-?\d+) )?"
)
"""Before 1.0, of state-change.log."""


class Prefix(NamedTuple):
    """Who speaks, and what is left of the message."""

    actor: str
    actor_id: int | None
    epoch: int | None
    rest: str


def take_prefix(message: str, is_state_change: bool) -> Prefix:
    """Split a message into who speaks and what is said."""
    match = _PREFIX.match(message) or (_OLD_PREFIX.match(message) if is_state_change else None)
    if match is None:
        return Prefix("", None, None, message)
    epoch = int(match["epoch"]) if match["epoch"] else None
    actor = "broker" if match["broker"] else "controller"
    return Prefix(actor, int(match["id"]), epoch, message[match.end() :])
