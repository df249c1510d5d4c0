"""What a cluster costs in a month: its brokers, their disks, and bytes between racks.

Money is exact, in fractions, and rounded to hundredths once, half to even. kfast has no prices.

Source: docs/capacity.md, section "Cost".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.arguments import MAX_LONG, check_instance, shown
from kfast.capacity.loads.broker_capacities import BrokerCapacity
from kfast.capacity.loads.client_racks import (
    LEADER,
    NEAREST,
    check_fetch_from,
    shares_by_rack,
)
from kfast.capacity.loads.partition_loads import PartitionLoad
from kfast.errors import ArgumentError, InputError
from kfast.io.csv_rows import exact_columns, read_csv_rows
from kfast.io.files import Source, abbreviate
from kfast.schema import CAPACITY_COST
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.racks import NO_RACK, numbered_racks
from kfast.state.records import Rows
from kfast.sweeps.sweep_plan import SweepPlan
from kfast.sweeps.sweep_run import prepare_sweep

__all__ = [
    "SECONDS_OF_MONTH", "CapacityCost", "capacity_cost", "parse_price", "read_prices",
]

SECONDS_OF_MONTH = 2_629_800
"""365.25 days / 12."""

GB = 10**9
_PRICE = re.compile(r"\d{1,12}(?:\.\d{1,9})?")


@dataclass(frozen=True, eq=False)
class CapacityCost:
    """What a cluster costs in a month, in the currency of the prices.

    Parameters
    ----------
    items : pa.Table
        `schema.CAPACITY_COST`.
    total : Decimal
        Of the items that have a price, rounded once.
    assumptions : tuple of str
    """

    items: pa.Table
    total: Decimal
    assumptions: tuple[str, ...]

    def _summary(self) -> Summary:
        return "CapacityCost", {
            "a month": f"{self.total:f}", "without a price": ", ".join(
                row["item"] for row in self.items.to_pylist() if row["price"] is None
            ) or "none",
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def parse_price(name: str, text: object) -> Fraction:
    """A price of a text such as 0.08 or 512.

    Raises
    ------
    ArgumentError
        It is none: at most nine decimals, from 0.
    """
    if not isinstance(text, str) or not _PRICE.fullmatch(text.strip()):
        raise ArgumentError(f"{name} is {shown(text)}: a price is needed, as in 0.08")
    return Fraction(text.strip())


def read_prices(path: Source) -> dict[str, str]:
    """Read what brokers of each class cost in a month: a CSV with the columns class,price_month.

    Parameters
    ----------
    path : path, or (str, bytes)

    Returns
    -------
    dict of str to str
        What `class_prices` of `kfast.capacity_cost` takes.

    Raises
    ------
    InputError
        The file has other columns, a class twice or without a name, or a price that is none.
    """
    name, rows = read_csv_rows(path, exact_columns("class", "price_month"))
    prices: dict[str, str] = {}
    for where, cells in rows:
        try:
            parse_price("price_month", cells["price_month"])
        except ArgumentError as error:
            raise InputError(f"{where}: {error}") from error
        if not cells["class"] or cells["class"] in prices:
            raise InputError(
                f"{where}: class {cells['class']!r} is empty or listed twice; right is a name, once"
            )
        prices[cells["class"]] = cells["price_month"]
    if not prices:
        raise InputError(f"{name}: has no price; right is a line for each class: large,512.50")
    return prices


def capacity_cost(
    state: ClusterState, load: PartitionLoad, capacity: BrokerCapacity, *,
    class_prices: Mapping[str, str], disk_gb_month: str | None = None,
    cross_rack_gb: str | None = None, producer_racks: Mapping[str, str] | None = None,
    consumer_racks: Mapping[str, str] | None = None, fetch_from: str = LEADER,
) -> CapacityCost:
    """What a cluster costs in a month of 2 629 800 seconds.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    load : PartitionLoad
    capacity : BrokerCapacity
        Its classes say what brokers cost, its disks what is provisioned.
    class_prices : mapping of str to str
        Of each class what a broker costs in a month, such as 512.50.
    disk_gb_month : str, optional
        Price of 10^9 bytes of disk for a month.
    cross_rack_gb : str, optional
        Price of 10^9 bytes that cross racks.
    producer_racks, consumer_racks : mapping of str to str, optional
        Shares of the bytes of all producers, and of all consumers, by the rack that they are in:
        texts such as 0.5 or 1/3, which add up to 1. By default equal over the racks with brokers.
    fetch_from : {"leader", "nearest"}
        Where consumers fetch; nearest is a live in-sync replica in their rack, otherwise the
        leader.

    Returns
    -------
    CapacityCost

    Raises
    ------
    ArgumentError
        A price or a share is none, shares do not add up to 1, or the controller cannot start.
    InputError
        A broker has no class, or its class no price; or, where these have a price, it has no disk
        or no rack. Or all disks together have 2^63 bytes or more.

    Notes
    -----
    Source: docs/capacity.md, section "Cost".
    """
    check_instance("state", state, ClusterState)
    check_instance("load", load, PartitionLoad)
    check_instance("capacity", capacity, BrokerCapacity)
    check_fetch_from(fetch_from)
    if not isinstance(class_prices, Mapping):
        raise ArgumentError(f"class_prices is {shown(class_prices)}; right is a mapping")
    items = _Items()
    for price_class, n in _classes(state, capacity, class_prices).items():
        price = parse_price(f"the price of class {price_class}", class_prices[price_class])
        items.add("brokers", price_class, n, "brokers", price, n * price)
    disk_price = None if disk_gb_month is None else parse_price("disk_gb_month", disk_gb_month)
    disk = _disk(capacity)
    if disk is None and disk_price is not None:
        raise InputError(
            f"{capacity.source}: a broker has no disk_bytes; right is a size for each, or no price"
            " of disks"
        )
    if disk is not None:
        items.add("disk", None, disk, "bytes", disk_price, Fraction(disk, GB) * (disk_price or 0))
    cross_price = None if cross_rack_gb is None else parse_price("cross_rack_gb", cross_rack_gb)
    racks, rack_of = numbered_racks(state)
    if (rack_of == NO_RACK).any():
        if cross_price is not None:
            raise InputError(
                "cross_rack_gb: a broker has no rack; right is one for each, as in a brokers file"
            )
        return items.result(("bytes between racks are left out: a broker has no rack",))
    traffic = RackTraffic(prepare_sweep(state), load, rack_of)
    rates = {
        "producers": traffic.from_producers(
            shares_by_rack("producer_racks", producer_racks, racks)),
        "replication": Fraction(traffic.replication()),
        "consumers": traffic.to_consumers(
            shares_by_rack("consumer_racks", consumer_racks, racks), fetch_from == NEAREST),
    }
    for name, rate in rates.items():
        items.add(f"cross-rack {name}", None, round(rate), "B/s", cross_price,
                  rate * SECONDS_OF_MONTH / GB * (cross_price or 0))
    return items.result(_assumptions(producer_racks, consumer_racks, len(racks), fetch_from))


class _Items:
    """Rows of the table, and the exact sum of what they cost."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []
        self.total = Fraction(0)

    def add(
        self, item: str, price_class: str | None, quantity: int, unit: str,
        price: Fraction | None, cost: Fraction,
    ) -> None:
        self.total += cost
        self.rows.append({
            "item": item, "class": price_class, "quantity": quantity, "unit": unit,
            "price": None if price is None else _decimal(price, 9),
            "cost": None if price is None else _decimal(cost, 2),
        })

    def result(self, assumptions: tuple[str, ...]) -> CapacityCost:
        table = pa.Table.from_pylist(self.rows, CAPACITY_COST.schema)
        return CapacityCost(table, _decimal(self.total, 2), assumptions)


def _decimal(value: Fraction, places: int) -> Decimal:
    """Rounded half to even."""
    return Decimal(round(value * 10**places)).scaleb(-places)


def _classes(
    state: ClusterState, capacity: BrokerCapacity, prices: Mapping[str, str]
) -> dict[str, int]:
    """Brokers of each class, by its name."""
    ids = state.broker_id.tolist()
    without = [broker for broker, name in zip(ids, capacity.price_class, strict=True) if not name]
    if without:
        raise InputError(
            f"{capacity.source}: broker {abbreviate(without)} has no class; right is one for each"
        )
    classes = Counter(name for name in capacity.price_class if name)
    unknown = sorted(classes.keys() - prices.keys())
    if unknown:
        raise InputError(
            f"{capacity.source}: class {abbreviate(unknown)} has no price; right is one for each"
            " class"
        )
    return dict(sorted(classes.items()))


def _disk(capacity: BrokerCapacity) -> int | None:
    """Bytes of all disks; None where one is not known."""
    sizes: list[int] = capacity.disk_bytes.tolist()
    if min(sizes, default=0) < 0:
        return None
    if sum(sizes) > MAX_LONG:
        raise InputError(
            f"{capacity.source}: all disk_bytes together are {sum(sizes)}; right is at most "
            f"{MAX_LONG}"
        )
    return sum(sizes)


def _assumptions(
    producers: Mapping[str, str] | None, consumers: Mapping[str, str] | None, n_racks: int,
    fetch_from: str,
) -> tuple[str, ...]:
    equal = [name for name, texts in (("producers", producers), ("consumers", consumers))
             if texts is None]
    lines = [f"{' and '.join(equal)} are spread equally over {n_racks} racks"] if equal else []
    return (*lines, "consumers fetch from the leader" if fetch_from == LEADER
            else "consumers fetch from an in-sync replica in their rack, if there is one")


class RackTraffic:
    """Bytes a second that cross racks, as partitions are led and placed after the start.

    Parameters
    ----------
    plan : SweepPlan
    load : PartitionLoad
    rack_of : (B,) int32
        Place of each broker's rack.
    """

    def __init__(
        self, plan: SweepPlan, load: PartitionLoad, rack_of: Rows
    ) -> None:
        cluster, slots = plan.cluster, np.arange(plan.cluster.n_slots, dtype=np.uint64)
        leader = cluster.records["leader"][plan.rows][:, None]
        is_leader = cluster.replicas[plan.rows] == leader
        online = (cluster.live_slots(plan.rows)[:, None] >> slots & 1) != 0
        # What a controller cannot elect keeps its leader, on a broker that is down.
        led = (is_leader & online).any(axis=1)
        self.rows, leader, live = plan.rows[led], leader[led], online[led]
        self.bytes_in, self.bytes_out = load.bytes_in[self.rows], load.bytes_out[self.rows]
        live &= slots < cluster.records["n_replicas"][self.rows][:, None]
        isr = cluster.records["isr"][self.rows].astype(np.uint64)
        in_sync = (isr[:, None] >> slots & 1) != 0
        brokers = cluster.replicas[self.rows].astype(np.int64)
        rack = rack_of[np.where(live, brokers, leader)]
        self.leader_rack = rack_of[leader[:, 0]]
        self.n_crossing = (rack != self.leader_rack[:, None]).sum(axis=1)
        self.in_sync_rack = np.where(live & in_sync, rack, self.leader_rack[:, None])

    def replication(self) -> int:
        """From leaders to followers."""
        return int((self.bytes_in * self.n_crossing).sum())

    def from_producers(self, shares: list[Fraction]) -> Fraction:
        """To leaders from producers in other racks."""
        return self._crossing(self.bytes_in, shares, self.leader_rack[:, None])

    def to_consumers(self, shares: list[Fraction], nearest: bool) -> Fraction:
        """To consumers in racks without a replica that they fetch from."""
        sources = self.in_sync_rack if nearest else self.leader_rack[:, None]
        return self._crossing(self.bytes_out, shares, sources)

    def _crossing(
        self, rates: npt.NDArray[np.int64], shares: list[Fraction], racks: Rows
    ) -> Fraction:
        """What clients exchange with partitions that are in none of the racks of theirs."""
        return sum(
            (int(rates[(racks != rack).all(axis=1)].sum()) * share
             for rack, share in enumerate(shares)), Fraction(0),
        )
