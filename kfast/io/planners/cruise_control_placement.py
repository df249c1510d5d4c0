"""What Cruise Control says of placements: its proposals, which are plans, and its broker sets.

A proposal is the answer of `rebalance`, `proposals`, `add_broker`, `remove_broker` and others, in
JSON; with `verbose=true` it lists what it would move. Of the new replicas the first is to lead.

Source: docs/formats.md, section "Reassignment plans"; Cruise Control, ExecutionProposal.java,
`getJsonStructure`; BrokerSetFileResolver.java.
"""

from __future__ import annotations

import re
from typing import Annotated

import pyarrow as pa
from msgspec import Meta, Struct

from kfast.arguments import MAX_INT
from kfast.errors import InputError
from kfast.io.file_kinds import first_line, identify
from kfast.io.files import Source, abbreviate, load, quote
from kfast.io.json_documents import decode_document

__all__ = ["is_proposal", "read_broker_sets", "read_proposals"]

_Count = Annotated[int, Meta(ge=0, le=MAX_INT)]
_PROPOSAL = re.compile(rb'"goalSummary"\s*:|"proposals"\s*:')
_WRITTEN = "what Cruise Control writes"
_RIGHT = '{"brokerSets":[{"brokerSetId":"blue","brokerIds":[1,2]}]}'


class _TopicPartition(Struct, gc=False):
    topic: str
    partition: _Count


class _Proposal(Struct, rename="camel", gc=False):
    topic_partition: _TopicPartition | str
    new_replicas: Annotated[list[_Count], Meta(min_length=1)]


class _Answer(Struct):
    proposals: list[_Proposal] | None = None


class _BrokerSet(Struct, rename="camel"):
    broker_set_id: str | int
    broker_ids: list[_Count]


class _BrokerSets(Struct, rename="camel"):
    broker_sets: Annotated[list[_BrokerSet], Meta(min_length=1)]


def is_proposal(text: bytes) -> bool:
    """Whether a JSON document is an answer of Cruise Control with a proposal."""
    return _PROPOSAL.search(text) is not None


def read_proposals(name: str, data: bytes, start: int) -> pa.Table:
    """Read the proposals that begin at a byte as topic, partition and replicas.

    Raises
    ------
    InputError
        The answer lists no proposals, or is damaged.
    """
    where, answer = decode_document(name, data, start, _Answer, _WRITTEN)
    proposals = answer.proposals
    if proposals is None:
        raise InputError(
            f"{where}: is a Cruise Control proposal that does not list what it moves; right is the"
            " answer of a request with json=true&verbose=true"
        )
    keys = [_key(where, row, proposal.topic_partition) for row, proposal in enumerate(proposals)]
    return pa.table({
        "topic": pa.array([topic for topic, _ in keys], pa.string()),
        "partition": pa.array([partition for _, partition in keys], pa.int32()),
        "replicas": pa.array([p.new_replicas for p in proposals], pa.list_(pa.int32())),
    })


def _key(where: str, row: int, name: _TopicPartition | str) -> tuple[str, int]:
    """Topic and number of a partition; older answers write them as one text."""
    if isinstance(name, _TopicPartition):
        return name.topic, name.partition
    match = re.fullmatch(r"(.+)-([0-9]{1,9})", name)
    if match is None:
        raise InputError(
            f"{where}: proposals[{row}] is of {quote(name)}; right is topic-partition"
        )
    return match[1], int(match[2])


def read_broker_sets(path: Source) -> dict[str, tuple[int, ...]]:
    """Read Cruise Control's `brokerSets.json`.

    Parameters
    ----------
    path : path, or (str, bytes)
        The file, or its name and what it holds; `-` is standard input.

    Returns
    -------
    dict of str to tuple of int
        Brokers of each set: what `kfast.check_plan` takes as `broker_sets`.

    Raises
    ------
    InputError
        The file is none, a set stands twice, or a broker is in two.
    """
    name, data, start = load(path, _recognise)
    where, document = decode_document(name, data, start, _BrokerSets, _WRITTEN)
    sets: dict[str, tuple[int, ...]] = {}
    seen: set[int] = set()
    for entry in document.broker_sets:
        key, brokers = str(entry.broker_set_id), entry.broker_ids
        if key in sets:
            raise InputError(f"{where}: broker set {quote(key)} stands twice; right is once")
        twice = sorted(seen.intersection(brokers))
        if twice or len(set(brokers)) < len(brokers):
            raise InputError(
                f"{where}: broker set {quote(key)} has {abbreviate(twice or sorted(brokers))} twice"
                " or from another set; right is each broker in one set, once"
            )
        seen.update(brokers)
        sets[key] = tuple(brokers)
    return sets


def _recognise(name: str, head: bytes) -> int:
    """Where the JSON of broker sets begins."""
    kind, start = identify(head) or ("", 0)
    if kind != "json" or b'"brokerSets"' not in head:
        raise InputError(
            f"{name}: begins with {quote(first_line(head))}; right are the broker sets of Cruise"
            f" Control: {_RIGHT}"
        )
    return start
