"""Write a cluster as `kafka-topics --describe` prints it, in the form of 2.8 and later.

Source: Kafka 3.9 and 4.1, TopicCommand.java, `printDescription` of topics and partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.errors import ArgumentError
from kfast.io.source_tables import set_column
from kfast.io.text_columns import by_topic, id_texts, joined, rows_in_chunks, write_strings

__all__ = ["write_describe"]

_ELR = ("elr", "last_known_elr")
_MARK = "\tMarkedForDeletion: true"
CONTROL = r"[\x00-\x1f\x7f\x{85}\x{2028}\x{2029}]"
"""Characters that end a line, or that separate fields."""


def write_describe(
    topics: pa.Table, partitions: pa.Table, file: BinaryIO,
    defaults: Mapping[str, object], *, elr_on: bool = False,
) -> None:
    """Write topics and their partitions.

    Racks, epochs, states and brokers that no partition names have no place in this form.

    Parameters
    ----------
    topics, partitions : pa.Table
        Columns as in `schema.TOPICS_SCHEMA` and `schema.PARTITIONS_SCHEMA`.
    file : BinaryIO
        Where to write.
    defaults : mapping of str to object
        Settings of the brokers, by the columns of `topics`: each is printed for the topics that
        have none of their own.
    elr_on : bool
        The brokers know the eligible leader replicas; they are printed too where there are any.

    Raises
    ------
    ArgumentError
        The name of a topic has a control character: it would be read as other lines or fields.
    """
    partitions = by_topic(partitions)
    if partitions.num_rows == 0:
        return
    for name, value in defaults.items():
        own = _column(topics, name, pa.scalar(value).type)
        topics = set_column(topics, name, pc.fill_null(own, value))
    elr_on = elr_on or any(_lengths(partitions, name).any() for name in _ELR)
    names = partitions["topic"].combine_chunks().dictionary
    _check_names(names)
    row = pc.index_in(names, topics["topic"].combine_chunks())
    topics = topics.take(row)
    indices = partitions["topic"].combine_chunks().indices.to_numpy()
    starts = np.flatnonzero(np.diff(indices, prepend=-1))
    headers = _headers(names, topics, partitions, indices, starts)
    marked = pc.if_else(_truth(topics, "queued_for_deletion"), _MARK, "")
    is_start = np.zeros(partitions.num_rows, bool)
    is_start[starts] = True
    done = 0
    for rows in rows_in_chunks(partitions):
        here = indices[done : done + rows.num_rows]
        first = pa.array(is_start[done : done + rows.num_rows])
        own = pa.array(here)
        head = pc.if_else(first, headers.take(pc.if_else(first, own, int(here[0]))), "")
        write_strings(file, _lines(
            head, names.take(own), rows, marked.take(own), elr_on=elr_on
        ))
        done += rows.num_rows


def _check_names(names: pa.StringArray) -> None:
    wrong = names.filter(pc.match_substring_regex(names, CONTROL))
    if len(wrong):
        raise ArgumentError(
            f"the topic {wrong[0].as_py()!r} has a control character, and a text as of"
            " kafka-topics --describe cannot hold it; right is another format, such as Parquet"
        )


def _truth(table: pa.Table, name: str) -> pa.BooleanArray:
    """A column of true and false; a null is false."""
    if name not in table.column_names:
        return pa.array(np.zeros(table.num_rows, bool))
    return pc.fill_null(table[name].combine_chunks(), False)


def _headers(
    names: pa.StringArray,
    topics: pa.Table,
    partitions: pa.Table,
    indices: np.ndarray,
    starts: np.ndarray,
) -> pa.StringArray:
    """Header of each topic, with its line break."""
    count = np.bincount(indices, minlength=len(names)).astype(np.int32)
    factor = np.zeros(len(names), np.int64)
    lowest = partitions.take(pa.array(starts))
    factor[indices[starts]] = _lengths(lowest, "replicas") - _lengths(lowest, "adding")
    topic_id = _column(topics, "topic_id", pa.string())
    has_id = pc.fill_null(pc.greater(pc.binary_length(topic_id), 0), False)
    id_text = pc.if_else(
        has_id, pc.binary_join_element_wise("\tTopicId: ", pc.fill_null(topic_id, ""), ""), ""
    )
    min_isr = _column(topics, "min_insync_replicas", pa.int32())
    unclean = _column(topics, "unclean_leader_election", pa.bool_())
    setting = pc.binary_join_element_wise("min.insync.replicas=", id_texts(min_isr), "")
    permission = pc.if_else(
        unclean, "unclean.leader.election.enable=true", "unclean.leader.election.enable=false"
    )
    comma = pc.if_else(pc.and_(min_isr.is_valid(), unclean.is_valid()), ",", "")
    configs = (pc.fill_null(setting, ""), comma, pc.fill_null(permission, ""))
    return pc.binary_join_element_wise(
        "Topic: ",
        names,
        id_text,
        "\tPartitionCount: ",
        id_texts(pa.array(count)),
        "\tReplicationFactor: ",
        id_texts(pa.array(factor)),
        "\tConfigs: ",
        *configs,
        pc.if_else(_truth(topics, "queued_for_deletion"), _MARK, ""),
        "\n",
        "",
    )


def _column(table: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    """A column; all null where the table lacks it."""
    if name not in table.column_names:
        return pa.nulls(table.num_rows, kind)
    return table[name].combine_chunks()


def _lengths(table: pa.Table, name: str) -> np.ndarray:
    """Lengths of a column of lists; a null is empty."""
    if name not in table.column_names:
        return np.zeros(table.num_rows, np.int64)
    return np.asarray(pc.fill_null(pc.list_value_length(table[name]), 0).to_numpy())


def _lines(
    head: pa.StringArray, names: pa.StringArray, rows: pa.Table, marked: pa.StringArray, *,
    elr_on: bool,
) -> pa.StringArray:
    """Lines of partitions, each behind its topic's header if it is the first."""
    lists = {
        name: joined(_column(rows, name, pa.list_(pa.int32())))
        for name in ("replicas", "isr", "adding", "removing", *_ELR)
    }
    leader = pc.fill_null(_column(rows, "leader", pa.int32()), -1)
    moving = pc.or_(
        _truth(rows, "being_reassigned"),
        pa.array((_lengths(rows, "adding") > 0) | (_lengths(rows, "removing") > 0)),
    )
    moves = pc.binary_join_element_wise(
        "\tAdding Replicas: ", lists["adding"], "\tRemoving Replicas: ", lists["removing"], ""
    )
    known = ("\tElr: ", lists["elr"], "\tLastKnownElr: ", lists["last_known_elr"])
    return pc.binary_join_element_wise(
        head,
        "\tTopic: ",
        names,
        "\tPartition: ",
        id_texts(_column(rows, "partition", pa.int32())),
        "\tLeader: ",
        pc.if_else(pc.less(leader, 0), "none", id_texts(leader)),
        "\tReplicas: ",
        lists["replicas"],
        "\tIsr: ",
        lists["isr"],
        pc.if_else(moving, moves, ""),
        *(known if elr_on else ()),
        marked,
        "\n",
        "",
    )
