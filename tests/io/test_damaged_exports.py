"""Damaged exports of every kind: refused in one line, or read as the undamaged parts say.

What a reader takes must be a part of what the file said before: where it passes something over, a
note has to say so. A digit that became another digit is nobody's to find, so each damaged place may
change the partition that it is in, and the name of a topic with all its partitions.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import time

import pytest

import kfast
from kfast import io
from kfast.errors import KfastError
from tests.io import test_client_metadata as clients
from tests.io import test_other_tools as tools
from tests.io import test_zookeeper as zookeeper
from tests.support.long_tests import share_of

SECONDS = 10
SAMPLES = {
    "znode lines": zookeeper.lines(zookeeper.ZNODES),
    "znode map": json.dumps(zookeeper.ZNODES, indent=1).encode(),
    "transcript": zookeeper.transcript(zookeeper.ZNODES).encode(),
    "znode snapshot": zookeeper.snapshot(zookeeper.ZNODES),
    "kcat": json.dumps(clients.KCAT).encode(), "kcat text": clients.KCAT_TEXT.encode(),
    "kafka-python": json.dumps(clients.KAFKA_PYTHON, indent=1).encode(),
    "aiokafka": json.dumps(clients.AIOKAFKA).encode(),
    "confluent": json.dumps(clients.CONFLUENT).encode(),
    "confluent described": json.dumps(clients.CONFLUENT_DESCRIBED).encode(),
    "table": clients.TABLE.encode(), "cluster state": json.dumps(tools.STATE).encode(),
    "metadata shell": f"t:\n  0:\n    {tools.REGISTRATION}\n".encode(),
}
BESIDE = {"load": json.dumps(tools.LOAD).encode(), "strimzi": tools.STRIMZI.encode()}
"""What is read beside a file with partitions."""
PROPOSAL = {"goalSummary": [], "proposals": [
    {"topicPartition": {"topic": "t", "partition": 0}, "newReplicas": [1, 2]}]}
OTHERS = {
    "loads": (kfast.read_load, (b'{"records":[{"topic":"t","partition":0,"leader":1,"cpu":1.0,'
              b'"disk":2.0,"networkInbound":3.0,"networkOutbound":4.0,"msg_in":5.0}]}')),
    "log dirs": (kfast.read_load, (b'x\n{"version":1,"brokers":[{"broker":4,"logDirs":[{"logDir":'
                 b'"/d","error":null,"partitions":[{"partition":"t-0","size":1,"offsetLag":0,'
                 b'"isFuture":false}]}]}]}')),
    "capacity": (kfast.read_capacity, (b'{"brokerCapacities":[{"brokerId":"-1","capacity":{"DISK":'
                 b'"1","CPU":"100","NW_IN":"1","NW_OUT":"1"}}]}')),
    "proposals": (kfast.read_plan, json.dumps(PROPOSAL).encode()),
    "plan": (kfast.read_plan, b'{"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'),
    "brokers": (io.read_brokers_file, b"broker_id,rack,registered\n1,a,true\n2,b,false\n"),
    "broker sets": (
        io.read_broker_sets, b'{"brokerSets":[{"brokerSetId":"s","brokerIds":[1]}]}'
    ),
}
"""Readers of what is no cluster: nothing but their errors is looked at."""
PLACED = ("kcat", SAMPLES["kcat"])
FOLDERS = ("exports", "exports_zk39", "kraft_live/exports/mark", "kraft_live/exports/mark-offline")


def read(name, data):
    """A file by itself, or beside another; its partitions by name, and what was assumed."""
    if name in OTHERS:
        OTHERS[name][0]((name, data))
        return {}, set()
    paths = ((name, data), PLACED) if name in BESIDE else ((name, data),)
    state = kfast.read(*paths)
    rows = state.to_tables().partitions.to_pylist()
    return {(row.pop("topic"), row.pop("partition")): row for row in rows}, set(state.assumptions)


def exports(folder):
    """Real exports that are read alone, and samples of every form."""
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for name in FOLDERS for path in sorted((folder / name).iterdir())
    }
    unpacked = {
        name.removesuffix(".gz"): gzip.decompress(data)
        for name, data in files.items() if name.endswith(".gz")
    }
    others = {name: data for name, (_, data) in OTHERS.items()}
    return {
        name: data for name, data in (files | unpacked | SAMPLES | BESIDE | others).items()
        if len(data) < 1 << 19
    }


def flip(draw, data):
    """Turn bits of a few bytes."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5))):
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(draw, data):
    """Cut the end off."""
    return data[: draw.randrange(len(data))]


def drop(draw, data):
    """Leave a few lines out."""
    lines = data.splitlines(keepends=True)
    for _ in range(draw.choice((1, 1, 3))):
        if lines:
            del lines[draw.randrange(len(lines))]
    return b"".join(lines)


def repeat(draw, data):
    """Write a line twice."""
    lines = data.splitlines(keepends=True)
    at = draw.randrange(len(lines))
    return b"".join([*lines[:at], lines[at], *lines[at:]])


def replacing(pattern, values):
    """Put another value at one place that fits a pattern."""
    def replace(draw, data):
        places = list(re.finditer(pattern, data))
        if not places:
            return cut(draw, data)
        place = draw.choice(places)
        return data[: place.start()] + draw.choice(values) + data[place.end() :]
    return replace


HUGE = replacing(rb"\d+", [b"4294967296", b"9" * 30, b"9" * 5000, b"-5", b"1e400", b"2147483648"])
TYPES = replacing(
    rb'"[^"]*"|\[[^\[\]]*\]|\b\d+\b', [b"null", b"{}", b"[]", b'"x"', b"3.5", b"true", b"[[1]]"]
)
DEEP = replacing(rb"\d+", [b"[" * 100_000, b'{"a":' * 50_000, b"[" * 500 + b"]" * 500])
DAMAGES = {"flip": flip, "cut": cut, "drop": drop, "repeat": repeat, "huge": HUGE, "types": TYPES,
           "deep": DEEP}


def problem(name, kind, before, notes, data):
    """What is wrong with how a damaged file is read; None where nothing is."""
    begin = time.perf_counter()
    try:
        rows, said = read(name, data)
    except KfastError as error:
        rows, said = None, set()
        if "\n" in str(error):
            return f"message of several lines: {error}"
    except Exception as error:  # noqa: BLE001 - any other one is a fault, and is reported
        return f"{type(error).__name__}: {error}"
    if time.perf_counter() - begin > SECONDS:
        return "takes too long"
    if rows is None or said - notes:
        return None
    changed = [key for key in rows.keys() & before.keys() if rows[key] != before[key]]
    new = {topic for topic, _ in rows.keys() - before.keys()}
    # Of a list that spans lines, a line is an item.
    if kind in ("cut", "drop", "repeat") and (len(changed) > 3 * (kind == "drop") or new):
        return f"reads otherwise: {changed[:3]} {new}"
    if len({topic for topic, _ in changed}) + len(new) > 5:
        return f"reads {len(changed)} partitions otherwise, and topics {new}"
    return None


def damage_all(folder, n, seed):
    """Damage n files, drawn from all; what is wrong with each, by a line that repeats it."""
    draw = random.Random(seed)
    files, originals, problems, n_read = exports(folder), {}, [], 0
    for name, data in files.items():
        try:
            originals[name] = read(name, data)
        except KfastError:
            originals[name] = {}, set()
        n_read += bool(originals[name][0])
    names = sorted(files)
    for number in range(n):
        # Every file in turn, then again, each time with other damage.
        name, kind = names[number % len(names)], draw.choice(sorted(DAMAGES))
        data = DAMAGES[kind](draw, files[name])
        found = problem(name, kind, *originals[name], data)
        if found:
            problems.append(f"seed {seed}, number {number}: {name}, {kind}: {found[:300]}")
    assert n_read > 30
    assert not problems, "\n".join([f"{len(problems)} of {n}", *problems[:30]])


def test_damaged_exports_are_refused_or_read_rightly(shared_data):
    damage_all(shared_data, 200, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", share_of(range(2, 6)))
def test_a_thousand_damaged_exports_each(shared_data, seed):
    damage_all(shared_data, 1000, seed)
