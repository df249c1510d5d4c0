"""Which racks producers and consumers are in, and where consumers fetch.

Source: docs/capacity.md, sections "Consumers that fetch from the nearest
replica" and "Cost".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from kfast.arguments import shown
from kfast.capacity.loads.shares import MAX_WEIGHTS, Amounts, deal
from kfast.errors import ArgumentError
from kfast.io.files import abbreviate
from kfast.state import ClusterState
from kfast.state.racks import numbered_racks
from kfast.state.records import Rows

__all__ = [
    "FETCH_FROM", "LEADER", "NEAREST", "ConsumerRacks", "check_fetch_from", "parse_share",
    "shares_by_rack",
]

LEADER, NEAREST = FETCH_FROM = ("leader", "nearest")
"""Where consumers fetch: from the leader, or (KIP-392) from a replica in their own rack."""

_SHARE = re.compile(r"\d{1,9}(?:\.\d{1,9}|/0*[1-9]\d{0,8})?")


def check_fetch_from(fetch_from: str) -> str:
    """Where consumers fetch.

    Raises
    ------
    ArgumentError
        It is not of `FETCH_FROM`.
    """
    if fetch_from not in FETCH_FROM:
        raise ArgumentError(
            f"fetch_from is {shown(fetch_from)}; allowed are {', '.join(FETCH_FROM)}"
        )
    return fetch_from


def parse_share(name: str, text: object) -> Fraction:
    """A share of a text such as 0.5 or 1/3.

    Raises
    ------
    ArgumentError
        It is none, or above 1.
    """
    share = Fraction(text) if isinstance(text, str) and _SHARE.fullmatch(text) else None
    if share is None or share > 1:
        raise ArgumentError(f"{name} is {shown(text)}: a share is needed, as in 0.5 or 1/3")
    return share


def shares_by_rack(
    name: str, texts: Mapping[str, str] | None, racks: list[str]
) -> list[Fraction]:
    """The share of each rack; equal where none is given.

    Raises
    ------
    ArgumentError
        A rack is unknown, a share is none, or shares do not add up to 1.
    """
    if texts is None:
        return [Fraction(1, len(racks))] * len(racks)
    if not isinstance(texts, Mapping):
        raise ArgumentError(f"{name} is {shown(texts)}; right is a mapping of rack to share")
    unknown = sorted(texts.keys() - {*racks})
    if unknown:
        raise ArgumentError(
            f"{name}: no broker is in rack {abbreviate(unknown)}; racks are {', '.join(racks)}"
        )
    shares = {rack: parse_share(f"{name}: {rack}", text) for rack, text in texts.items()}
    if sum(shares.values()) != 1:
        raise ArgumentError(f"{name}: shares add up to {sum(shares.values())}; right is 1")
    return [shares.get(rack, Fraction(0)) for rack in racks]


@dataclass(frozen=True, eq=False)
class ConsumerRacks:
    """Consumers by rack, each of which fetches from a replica in its own rack if it can.

    Attributes
    ----------
    racks : tuple of str
        In order of their names.
    shares : tuple of Fraction
        Of the bytes that all consumers fetch; they add up to 1.
    rack_of : (B,) int32
        Place of each broker's rack; -1 where it has none.
    are_equal : bool
        No shares were given.
    """

    racks: tuple[str, ...]
    shares: tuple[Fraction, ...]
    rack_of: Rows
    are_equal: bool

    @classmethod
    def of(
        cls, state: ClusterState, fetch_from: str, consumer_racks: Mapping[str, str] | None
    ) -> ConsumerRacks | None:
        """Racks of consumers that fetch from the nearest replica; None for the leader.

        Raises
        ------
        ArgumentError
            An argument is none that is allowed; there are shares, but consumers fetch from leaders;
            or no broker has a rack.
        """
        if check_fetch_from(fetch_from) == LEADER:
            if consumer_racks is not None:
                raise ArgumentError("consumer_racks goes with fetch_from 'nearest'")
            return None
        racks, rack_of = numbered_racks(state)
        if not racks:
            raise ArgumentError("fetch_from is 'nearest', but no broker of the cluster has a rack")
        shares = shares_by_rack("consumer_racks", consumer_racks, racks)
        if lcm(*(share.denominator for share in shares)) > MAX_WEIGHTS:
            raise ArgumentError(
                "consumer_racks: shares have no common denominator up to 2^60; right are shares "
                "with fewer decimals"
            )
        return cls(tuple(racks), tuple(shares), rack_of, consumer_racks is None)

    def deal(self, bytes_out: Amounts) -> Amounts:
        """(n, racks) what consumers of each rack fetch of each partition.

        The parts of a partition add up to the whole: by the largest remainder, of equal ones to the
        first rack.
        """
        denominator = lcm(*(share.denominator for share in self.shares))
        weights = np.array([int(share * denominator) for share in self.shares], np.int64)
        n, n_racks = bytes_out.size, weights.size
        parts = deal(bytes_out, np.tile(weights, n), np.full(n, n_racks))
        return parts.reshape(n, n_racks)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What an answer has to say."""
        source = (
            "consumers fetch from the leader if it is in their rack, else from the first live "
            "in-sync replica there in the order of assigned replicas, else from the leader; of "
            "several there, Kafka picks the one that has most of the log"
        )
        if not self.are_equal:
            return (source,)
        return f"consumers are spread equally over {len(self.racks)} racks", source
