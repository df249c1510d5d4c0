"""The JSON Schema of answers: `python -m tests.support.answer_schema` makes it from examples.

An answer of each kind is looked at. What only some commands have may be null, and what is null in
every example may be anything. Names that are not in the schema are allowed, so that answers can
have more.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

from kfast.report.answer_schema import PATH, answer_schema
from kfast.report.writing import SCHEMA_VERSION
from tests.support.cli_run import ROOT, run
from tests.support.replay_story import write_logs

BENCH = ROOT / "bench_data"
DESCRIBE = (BENCH / "describe.txt", "--brokers-file", BENCH / "brokers.csv")
LOAD = ("--load", BENCH / "metrics.prom.gz", "--load", BENCH / "log-dirs.json.gz")
LOADS = (*LOAD, "--capacity", BENCH / "capacities.csv")
LATER = BENCH / "describe_later.txt.gz"
PLAN = ("--plan", BENCH / "plan.json")
KEY = re.compile(r"[a-z_][a-z0-9_]*")
MAPS = {"replication_factors"}
"""Objects whose keys are data."""

SHARED = {
    "schema_version": {"const": SCHEMA_VERSION},
    "kfast": {"type": "string"},
    "verdict": {"type": "array", "items": {"type": "string"}},
    "defaults": {
        "type": ["null", "object"], "required": ["file", "options"],
        "properties": {"file": {"type": "string"}, "options": {"type": "object"}},
    },
    "fail_on": {"type": "array", "items": {
        "type": "object", "required": ["condition", "holds", "value"],
        "properties": {"condition": {"type": "string"}, "holds": {"type": "boolean"},
                       "value": {"type": ["null", "number"]}},
    }},
}
"""What every answer has, besides its command."""

EXAMPLES = [
    ("show", *DESCRIBE, "--list", "offline", "--list", "under-min-isr"),
    ("show", *DESCRIBE, "--controller", "zk-3.9"),
    ("fail", *DESCRIBE, "--racks", "a", "--then", 102),
    ("fail", *DESCRIBE, "--brokers", "101,104", "--explain", "scratch-1", "--list", "offline"),
    ("fail", *DESCRIBE, "--brokers", "101", "--controller", "zk-3.9", "--then-start", 101),
    ("reassign", *DESCRIBE, *PLAN, "--brokers", 105),
    ("reassign", *DESCRIBE, *PLAN, "--controller", "zk-3.9"),
    ("delete", *DESCRIBE, "--topics", "scratch", "--brokers", 101),
    ("sweep", *DESCRIBE, "--each-rack"),
    ("sweep", *DESCRIBE, "--every", 1, "--controller", "zk-3.9"),
    ("restart", *DESCRIBE),
    ("restart", *DESCRIBE, "--broker", 105),
    ("restart", *DESCRIBE, "--seconds-per-broker", 180, "--by-rack"),
    ("timeline", *DESCRIBE, "--brokers", 105, "--samples", 20),
    ("timeline", *DESCRIBE, "--brokers", 105, "--controlled", "--samples", 20),
    ("timeline", *DESCRIBE, "--controller", "zk-3.9", "--racks", "a", "--samples", 20),
    ("timeline", *DESCRIBE, "--controller", "kraft-4.1", "--controller-fails", "--samples", 20),
    ("timeline", *DESCRIBE, "--each-rack", "--samples", 20),
    ("timeline", *DESCRIBE, "--brokers", 105, "--samples", 20, *LOAD),
    ("timeline", *DESCRIBE, "--each-rack", "--samples", 20, *LOAD),
    ("timeline", *DESCRIBE, "--brokers", 105, "--samples", 20, "--compare", "kraft,zk"),
    ("timeline", *DESCRIBE, "--brokers", 105, "--samples", 20, "--sensitivity"),
    ("timeline-restart", *DESCRIBE, "--samples", 20),
    ("timeline-restart", *DESCRIBE, "--controller", "zk-3.9", "--samples", 20, *LOADS),
    ("timeline-growth", "--partitions", "1k,2k", "--samples", 20),
    ("risk", *DESCRIBE),
    ("risk", *DESCRIBE, "--mttf", "3y", *LOADS),
    ("compare", *DESCRIBE, "--racks", "a", "--with", "elr=on"),
    ("compare", *DESCRIBE, "--each-rack", "--with", "controller=zk-3.9"),
    ("diff", BENCH / "describe.txt", LATER, "--brokers-file", BENCH / "brokers.csv"),
    ("replay", BENCH / "incident"),
    ("schema",),
    ("capacity show", *DESCRIBE, *LOADS),
    ("capacity sweep", *DESCRIBE, *LOADS, "--each-rack", "--explain", 102),
    ("capacity sweep", *DESCRIBE, *LOADS, "--every", 1, "--restore", "replace"),
    ("capacity forecast", *DESCRIBE, *LOADS, "--growth", "4%", "--months", 2, "--every", 1),
    ("capacity size", *DESCRIBE, *LOADS, "--every", 1, "--class", "large"),
    ("plan check", *DESCRIBE, *LOADS, *PLAN, "--goals", "cruise-control"),
    ("plan improve", *DESCRIBE, *LOADS, "--gap", 0.5),
]
"""Arguments of a command of each kind."""


def answer(*args):
    """What a command answers; the schema that is made anew has no say."""
    return json.loads(run(*args, "--format", "json").stdout)


def examples():
    """An answer of each kind."""
    for command, *arguments in EXAMPLES:
        yield answer(*command.split(), *arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "answer.json")
        path.write_text(json.dumps(answer("show", *DESCRIBE), indent=2))
        yield answer("diff", path, path)
        yield answer("timeline", "--calibrate", write_logs(Path(folder, "logs"), "3.9"))
        prices = Path(folder, "prices.csv")
        prices.write_text("class,price_month\nlarge,500\nold,200\n")
        capacities = Path(folder, "capacities.csv")
        capacities.write_text("broker_id,nw_in,disk_bytes,class\n-1,1e9,1e13,large\n")
        yield answer("capacity", "cost", *DESCRIBE, *LOADS[:-1], capacities, "--prices", prices)


def merge(schema, key, value):
    """Add what a value is to the schema of its place."""
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null",
             list: "array", dict: "object"}
    schema.setdefault("type", set()).add(names[type(value)])
    if isinstance(value, list):
        for item in value:
            merge(schema.setdefault("items", {}), None, item)
    elif isinstance(value, dict):
        is_map = key in MAPS or not all(map(KEY.fullmatch, value))
        for name, item in value.items():
            if is_map:
                merge(schema.setdefault("additionalProperties", {}), None, item)
            else:
                merge(schema.setdefault("properties", {}).setdefault(name, {}), name, item)


def finish(schema, level=0):
    """The schema with lists of types; all but the answer itself may be null."""
    types = schema["type"] | ({"null"} if level else set())
    if "number" in types:
        types -= {"integer"}
    if types == {"null"}:
        return {}
    finished = {"type": sorted(types) if level else "object"}
    if "items" in schema:
        finished["items"] = finish(schema["items"], level + 1)
    if "additionalProperties" in schema:
        finished["additionalProperties"] = finish(schema["additionalProperties"], level + 1)
    if "properties" in schema:
        finished["properties"] = {
            name: finish(part, level + 1) for name, part in schema["properties"].items()
        }
    return finished


def make():
    """The schema of all answers: of what each command's have, and what all of them have."""
    documents = {}
    for document in examples():
        documents.setdefault(document["command"], []).append(document)
    commands = {}
    for command, answers in documents.items():
        schema = {}
        for document in answers:
            merge(schema, None, {name: value for name, value in document.items()
                                 if name not in SHARED and name != "command"})
        required = [name for name in schema["properties"]
                    if all(name in document for document in answers)]
        commands[command] = {**finish(schema), "required": required}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An answer of kfast in JSON",
        "type": "object",
        "required": [*SHARED, "command"],
        "properties": {**SHARED, "command": {"enum": sorted(commands)}},
        "allOf": [
            {"if": {"properties": {"command": {"const": command}}}, "then": schema}
            for command, schema in sorted(commands.items())
        ],
    }


if __name__ == "__main__":
    PATH.write_text(json.dumps(make(), indent=1) + "\n")
    assert answer_schema() == PATH.read_bytes()
