"""The text of `kafka-topics --describe`, every version from 0.8 to 4.x, read into tables.

What the text does not have (racks, epochs, brokers' defaults) is left out of the tables. Which
brokers are up is concluded: one that leads nothing and is in the ISR of no partition that has a
leader is taken for down, unless it is named only where a reassignment adds it: a replica that is
being added has yet to catch up, so that shows nothing, and the broker is taken for up. A note says
what was concluded.

Source: docs/formats.md, section "Describe text"; Kafka 4.1, TopicCommand.java, `describeTopic`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast.io.controller_inference import infer_controller
from kfast.io.describe import errors as describe_errors
from kfast.io.describe import notes as describe_notes
from kfast.io.describe.parser import Parsed, Progress, parse
from kfast.io.source_tables import Coverage, SourceTables
from kfast.io.text_columns import words_at
from kfast.kernels.describe import Key
from kfast.state.table_columns import distinct_ids

__all__ = ["read_describe"]

BrokerIds: TypeAlias = npt.NDArray[np.int32]
_ID = 2**32 - 1
"""The bits of a broker id that is packed with the row of a partition."""
_ID_LENGTH = 22
_ZERO_ID = "A" * _ID_LENGTH
_CONFIGS = b"Configs:"
_POLICY = rb"(?:compact|delete)(?:,(?:compact|delete))*"
_SETTING = re.compile(
    rb"(?:^|[\s,])(cleanup\.policy)=(" + _POLICY + rb")?(?=[\s,]|$)"
    rb"|(?:^|[\s,])((?:local\.)?retention\.(?:ms|bytes)|segment\.(?:ms|bytes)"
    rb"|remote\.storage\.enable)=([^\s,]*)"
)
"""A setting in `Configs` that says how large a log becomes; values of others have commas too."""


def read_describe(name: str, text: bytes, progress: Progress | None = None) -> SourceTables:
    """Read a describe text.

    Parameters
    ----------
    name : str
        What messages call the file.
    text : bytes
        All of it, in UTF-8.
    progress : callable, optional
        Called with the bytes done and the bytes there are, now and then.

    Raises
    ------
    InputError
        A line is damaged, the text is cut off, or it holds two dumps. The message says where.
    """
    parsed = parse(name, text, progress)
    describe_errors.check(name, parsed)
    names, log_settings = _names(parsed), _log_settings(parsed)
    brokers, down, unknown = _brokers(parsed)
    has_headers = bool((parsed.topics["header_line"] >= 0).any())
    tables = SourceTables(
        source=name,
        partitions=_partitions(parsed, names, down),
        topics=_topics(parsed, names),
        brokers=brokers,
        taken_for_down=tuple(down.tolist()),
        taken_for_up=tuple(unknown.tolist()),
        notes=tuple(describe_notes.notes(name, parsed)),
        log_settings=log_settings,
        # Without headers it shows the partitions that an option picks, not whole topics.
        coverage=Coverage.TOPICS if has_headers else Coverage.PARTITIONS,
    )
    return infer_controller(tables, parsed)


def _names(parsed: Parsed) -> pa.StringArray:
    """Names of all topics."""
    return words_at(parsed.text, parsed.topics["name_at"], parsed.topics["name_length"])


def _topics(parsed: Parsed, names: pa.StringArray) -> pa.Table:
    """The topics table: what the headers say."""
    topics = parsed.topics
    has_id = topics["topic_id_at"] >= 0
    lengths = np.where(has_id, _ID_LENGTH, 0).astype(np.int32)
    ids = words_at(parsed.text, np.where(has_id, topics["topic_id_at"], 0), lengths)
    has_id &= ~np.asarray(pc.equal(ids, _ZERO_ID))
    unclean, min_isr = topics["unclean"], topics["min_insync_replicas"]
    columns = {
        "topic": names,
        "topic_id": pc.if_else(pa.array(has_id), ids, None),
        "unclean_leader_election": pa.array(unclean == 1, mask=unclean < 0),
        "min_insync_replicas": pa.array(min_isr, mask=min_isr < 0),
    }
    if parsed.has(Key.MARKED_FOR_DELETION):
        columns["queued_for_deletion"] = pa.array(topics["marked"] == 1)
    return pa.table(columns)


def _log_settings(parsed: Parsed) -> Mapping[str, Mapping[str, str]]:
    """Settings in the headers that say how large logs become, by topic; those that have any."""
    text, settings = parsed.text, {}
    with_header = np.flatnonzero(parsed.topics["header_line"] >= 0)
    for topic, at in zip(
        with_header.tolist(), parsed.topics["name_at"][with_header].tolist(), strict=True
    ):
        end = text.find(b"\n", at)
        line = text[at : end if end >= 0 else None]
        start = line.find(_CONFIGS)
        of_topic = {} if start < 0 else {
            (match[1] or match[3]).decode(): (match[2] or match[4] or b"").decode()
            for match in _SETTING.finditer(line[start + len(_CONFIGS) :])
        }
        if of_topic:
            settings[parsed.topic_name(topic)] = of_topic
    return settings


def _partitions(parsed: Parsed, names: pa.StringArray, down: BrokerIds) -> pa.Table:
    """The partitions table."""
    rows = parsed.partitions
    topic = pa.DictionaryArray.from_arrays(pa.array(np.ascontiguousarray(rows["topic"])), names)
    columns = {
        "topic": topic,
        "partition": pa.array(np.ascontiguousarray(rows["partition"])),
        "replicas": parsed.list_of(Key.REPLICAS),
        "leader": pa.array(np.ascontiguousarray(rows["leader"])),
        "isr": parsed.list_of(Key.ISR),
        "line": pa.array(np.ascontiguousarray(rows["line"])),
    }
    if parsed.has(Key.ADDING) or parsed.has(Key.TOPIC_ID) or parsed.has(Key.ELR):
        moving = rows["keys"] & (1 << Key.ADDING | 1 << Key.REMOVING) != 0
        for name, key in (("adding", Key.ADDING), ("removing", Key.REMOVING)):
            lists = parsed.list_of(key)
            if parsed.cursor["n_stale"]:
                lists = pc.if_else(pa.array(moving), lists, pa.scalar([], lists.type))
            columns[name] = lists
        columns["being_reassigned"] = pa.array(moving)
    for name, key in (("elr", Key.ELR), ("last_known_elr", Key.LAST_KNOWN_ELR)):
        if parsed.values_of(key).size:
            columns[name] = parsed.list_of(key)
    if parsed.has(Key.OFFLINE):
        columns["offline_dir"] = _without(parsed.list_of(Key.OFFLINE), down)
    return pa.table(columns)


def _without(lists: pa.ListArray, brokers: npt.NDArray[np.int32]) -> pa.ListArray:
    """Lists without some brokers."""
    values, offsets = lists.values.to_numpy(), lists.offsets.to_numpy()
    kept = ~np.isin(values, brokers)
    count = np.concatenate([[0], np.cumsum(kept)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(count[offsets]), pa.array(values[kept]))


def _brokers(parsed: Parsed) -> tuple[pa.Table, BrokerIds, BrokerIds]:
    """The brokers table, the brokers that are taken for down, and those that may be either."""
    leader = parsed.partitions["leader"]
    led = leader >= 0
    isr = parsed.values_of(Key.ISR)
    up = [leader, isr]
    if not led.all():
        up = [leader[led], isr[np.repeat(led, np.diff(parsed.offsets_of(Key.ISR)))]]
    lists = range(Key.REPLICAS, Key.LAST_KNOWN_ELR + 1)
    named = [up[0], *(parsed.values_of(Key(key)) for key in lists)]
    ids, alive = (distinct_ids(lists) for lists in (named, up))
    idle = np.setdiff1d(ids, alive)
    unknown = np.setdiff1d(idle, _not_only_added(parsed, idle)) if idle.size else idle
    down = np.setdiff1d(idle, unknown)
    registered = np.isin(ids, down, invert=True)
    table = pa.table({"broker_id": pa.array(ids), "registered": pa.array(registered)})
    return table, down, unknown


def _not_only_added(parsed: Parsed, brokers: BrokerIds) -> BrokerIds:
    """Those of some brokers that a text names elsewhere than where a reassignment adds them."""
    adding = parsed.values_of(Key.ADDING)
    if not np.isin(brokers, adding).any():
        return brokers
    assigned, added = (_placed(parsed, key, brokers) for key in (Key.REPLICAS, Key.ADDING))
    others = [
        parsed.values_of(key)
        for key in (Key.ISR, Key.REMOVING, Key.OFFLINE, Key.ELR, Key.LAST_KNOWN_ELR)
    ]
    return distinct_ids([(np.setdiff1d(assigned, added) & _ID).astype(np.int32), *others])


def _placed(parsed: Parsed, key: Key, brokers: BrokerIds) -> npt.NDArray[np.int64]:
    """Each place of some brokers in one of the lists: the partition's row and the id, packed."""
    values = parsed.values_of(key)
    at = np.flatnonzero(np.isin(values, brokers))
    row = np.searchsorted(parsed.offsets_of(key), at, side="right") - 1
    return row << 32 | values[at]
