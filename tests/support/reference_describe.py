"""A plain Python twin of the parser of describe texts: one dictionary per topic and partition."""

from __future__ import annotations

import re

KEYS = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "leader": "LEADER",
    "replicas": "REPLICAS",
    "isr": "ISR",
    "adding replicas": "ADDING",
    "removing replicas": "REMOVING",
    "offline": "OFFLINE",
    "partitioncount": "PARTITION_COUNT",
    "replicationfactor": "REPLICATION_FACTOR",
    "topicid": "TOPIC_ID",
    "configs": "CONFIGS",
    "markedfordeletion": "MARKED_FOR_DELETION",
    "elr": "ELR",
    "lastknownelr": "LAST_KNOWN_ELR",
    "observers": "OBSERVERS",
    "liveobservers": "LIVE_OBSERVERS",
}
LISTS = ("REPLICAS", "ISR", "ADDING", "REMOVING", "OFFLINE")
ELRS = ("ELR", "LAST_KNOWN_ELR")
NUMBERS = ("PARTITION", "PARTITION_COUNT", "REPLICATION_FACTOR")
BLANK = "[ \t\r]"
KEY = re.compile(rf"(?:(?:adding|removing){BLANK}+replicas|[a-z]+):", re.I | re.A)
WORD = re.compile(r"[^ \t\r]*")
VALUE = {
    "TOPIC": re.compile(r"[A-Za-z0-9._-]{1,249}(?![^ \t\r])"),
    "TOPIC_ID": re.compile(r"[A-Za-z0-9._-]{22}(?![^ \t\r])"),
    "LEADER": re.compile(r"(?:none|-?[0-9]+)(?![^ \t\r])"),
    "MARKED_FOR_DELETION": re.compile(r"(?:true|false)(?![A-Za-z])", re.I | re.A),
    **{name: re.compile(r"-?[0-9]+(?![^ \t\r])") for name in NUMBERS},
    **{name: re.compile(r"(?:-0+|[0-9]+)(?:,(?:-0+|[0-9]+))*(?![^ \t\r])") for name in LISTS},
    **{
        name: re.compile(r"(?:N/A|(?:-0+|[0-9]+)(?:,(?:-0+|[0-9]+))*)(?![^ \t\r])")
        for name in ELRS
    },
}
MOST = 2**31 - 1


class DamagedError(Exception):
    """A line is not right; `args` are its number and what is wrong, as `Trouble` names it."""


def key_at(line, at):
    """(key, where its colon ends), or (None, at)."""
    match = KEY.match(line, at)
    name = re.sub(f"{BLANK}+", " ", match[0][:-1].lower()) if match else None
    return (KEYS[name], match.end()) if name in KEYS else (None, at)


def skip(line, at):
    """The first place from `at` on that is not blank."""
    return re.compile(f"{BLANK}*").match(line, at).end()


def looks_like_key(line, at):
    """Whether the word at `at` begins with a letter and ends with a colon."""
    word = WORD.match(line, at)[0]
    return word.endswith(":") and re.match("[A-Za-z]", word) is not None


def integers(text):
    """Integers of a list, or None where one is too large."""
    found = [int(word) for word in text.split(",")]
    return None if any(abs(number) > MOST for number in found) else found


def settings(line, at, number):
    """(minimum ISR, unclean permission, where the value ends) of `Configs:`; None if damaged."""
    end = at
    begins = True
    while end < len(line) and line[end] != "\t":
        if begins and key_at(line, end)[0] == "MARKED_FOR_DELETION":
            break
        begins = line[end] == " "
        end += 1
    text = line[at:end]
    min_isr = unclean = None
    for match in re.finditer(r"(?:^|,)(min\.insync\.replicas|unclean[a-z.]+\.enable)=", text):
        value = re.match(r"[^, \t\r]*", text[match.end() :])[0]
        ours = {"min.insync.replicas": min_isr, "unclean.leader.election.enable": unclean}
        if ours.get(match[1]) is not None and match.end() < len(text):
            raise DamagedError(number, "SETTING_TWICE")
        if match[1] == "min.insync.replicas" and match.end() < len(text):
            if not re.fullmatch("-?[0-9]+", value, re.A) or not 1 <= int(value) <= MOST:
                return None
            min_isr = int(value)
        elif match[1] == "unclean.leader.election.enable" and match.end() < len(text):
            if value.lower() not in ("true", "false"):
                return None
            unclean = value.lower() == "true"
    return min_isr, unclean, end


def fields_of(line, number):
    """Every key of a line with its value."""
    fields = {}
    at = skip(line, 0)
    while at < len(line):
        key, after = key_at(line, at)
        if key is None:
            if not looks_like_key(line, at):
                raise DamagedError(number, "STRAY_TEXT")
            at = WORD.match(line, at).end()
            while at < len(line) and key_at(line, skip(line, at))[0] is None:
                at = WORD.match(line, skip(line, at)).end()
            at = skip(line, at)
            continue
        if key in fields:
            raise DamagedError(number, "KEY_TWICE")
        at = skip(line, after)
        fields[key], at = value_of(line, at, key, number)
        at = skip(line, at)
    return fields


def value_of(line, at, key, number):
    """(value, where it ends)."""
    empty = at == len(line) or key_at(line, at)[0] or looks_like_key(line, at)
    if key in (*LISTS, *ELRS) and empty:
        return [], at
    if key == "CONFIGS":
        found = settings(line, at, number)
        if found is None:
            raise DamagedError(number, "BAD_VALUE")
        return found[:2], found[2]
    if key not in VALUE:
        return None, at if looks_like_key(line, at) else WORD.match(line, at).end()
    match = VALUE[key].match(line, at)
    if not match:
        raise DamagedError(number, "BAD_VALUE")
    value = match[0]
    if key in LISTS or (key in ELRS and value != "N/A"):
        value = integers(value)
    elif key in NUMBERS or (key == "LEADER" and value != "none"):
        value = (integers(value) or [None])[0]
        if value is not None and value < (-1 if key == "LEADER" else 0):
            value = None
    elif key == "MARKED_FOR_DELETION":
        value = value.lower() == "true"
    if value is None:
        raise DamagedError(number, "BAD_VALUE")
    return -1 if value == "none" and key == "LEADER" else value, match.end()


def listed(value):
    """A list; N/A is none."""
    return [] if value == "N/A" else value


def is_moving(fields):
    """Whether a line is of a partition that is being reassigned: of replicas that it has."""
    moved = [*fields.get("ADDING", []), *fields.get("REMOVING", [])]
    return bool({"ADDING", "REMOVING"} & fields.keys()) and {*moved} <= {*fields["REPLICAS"]}


def parse(text):
    """Read a text without wrapped lines.

    Returns
    -------
    topics : dict
        Name -> {header_line, count, factor, topic_id, min_insync_replicas, unclean, marked, lines,
        highest, sizes}.
    partitions : list of dict
        topic, partition, leader, line, the seven lists, whether it is being reassigned, and whether
        an Elr is not N/A.
    """
    topics, partitions, last = {}, [], None
    for number, line in enumerate(text.split("\n"), 1):
        first, _ = key_at(line, skip(line, 0))
        if first not in ("TOPIC", "PARTITION"):
            words = {key_at(line, match.start())[0] for match in re.finditer(r"[^ \t\r]+", line)}
            if "PARTITION_COUNT" in words or {"REPLICAS", "ISR"} <= words:
                raise DamagedError(number, "TEXT_BEFORE")
            continue
        fields = fields_of(line, number)
        is_header = "PARTITION_COUNT" in fields and "PARTITION" not in fields
        if not is_header:
            for key in ("PARTITION", "LEADER", "REPLICAS", "ISR"):
                if key not in fields:
                    raise DamagedError(number, "MISSING_KEY")
        name = fields.get("TOPIC", last)
        if name is None:
            raise DamagedError(number, "NO_TOPIC")
        if not is_header and fields["LEADER"] not in (-1, *fields["REPLICAS"]):
            raise DamagedError(number, "LEADER_NOT_ASSIGNED")
        topic = topics.setdefault(
            name,
            {"header_line": None, "lines": 0, "marked": False, "first_line": number}
            | {"highest": -1, "sizes": []},
        )
        topic["marked"] |= bool(fields.get("MARKED_FOR_DELETION"))
        if is_header:
            if topic["header_line"] is not None:
                raise DamagedError(number, "TOPIC_TWICE")
            min_isr, unclean = fields.get("CONFIGS", (None, None))
            topic |= {
                "header_line": number,
                "count": fields["PARTITION_COUNT"],
                "factor": fields.get("REPLICATION_FACTOR"),
                "topic_id": fields.get("TOPIC_ID"),
                "min_insync_replicas": min_isr,
                "unclean": unclean,
            }
            topics[name] = topic
            last = name
        else:
            n, n_adding = len(fields["REPLICAS"]), len(fields.get("ADDING", []))
            topic["lines"] += 1
            topic["highest"] = max(topic["highest"], fields["PARTITION"])
            topic["sizes"] += [(n - n_adding, n)]
            partitions.append(
                {"topic": name, "partition": fields["PARTITION"], "leader": fields["LEADER"]}
                | {"line": number}
                | {key: fields.get(key, []) for key in LISTS}
                | {key: listed(fields.get(key, "N/A")) for key in ELRS}
                | {"moving": is_moving(fields)}
                | {"knows_elr": any(fields.get(key, "N/A") != "N/A" for key in ELRS)}
            )
    return topics, partitions
