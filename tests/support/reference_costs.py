"""What a cluster costs in a month, in plain Python: partition by partition, rack by rack."""

from __future__ import annotations

from fractions import Fraction

SECONDS = 2_629_800


def cross_rack(left, in_sync, loads, rack_of, producers, consumers, nearest):
    """Bytes a second of producers, replication and consumers between racks.

    `left` are partitions without a failure, as of `capacity_reference`; `in_sync(row)` ids of the
    ISR; `producers` and `consumers` shares by rack.
    """
    totals = {"producers": Fraction(0), "replication": Fraction(0), "consumers": Fraction(0)}
    for row, partition in left.items():
        if partition.leader is None:
            continue
        bytes_in, bytes_out = int(loads[0][row]), int(loads[1][row])
        home = rack_of[partition.leader]
        for follower in partition.live:
            if follower != partition.leader and rack_of[follower] != home:
                totals["replication"] += bytes_in
        near = {rack_of[broker] for broker in partition.live if broker in in_sync(row)}
        for rack, share in producers.items():
            if rack != home:
                totals["producers"] += bytes_in * share
        for rack, share in consumers.items():
            if rack != home and not (nearest and rack in near):
                totals["consumers"] += bytes_out * share
    return totals


def cents(amount: Fraction) -> int:
    """Hundredths, rounded half to even."""
    return round(amount * 100)
