"""What answers in bytes have in common: loads, limits and shares of a capacity, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from kfast.capacity import BrokerCapacity, CapacityPlan, CpuWeights, PartitionLoad
from kfast.capacity.failures.cpu_models import WRITE_EQUIVALENT
from kfast.capacity.failures.limits import RESOURCES
from kfast.capacity.loads.units import format_bytes, format_rate
from kfast.errors import InputError
from kfast.report.answer import Document, head
from kfast.report.tables import TableColumn
from kfast.report.wording import plural
from kfast.state import ClusterState

__all__ = [
    "add_load", "amount", "binding_sentence", "capacity_head", "checked_brokers", "load_head",
    "load_sentence", "load_warnings", "rate_column", "refuse_without_capacity", "reservation_lines",
    "share", "share_column", "usage_sentence",
]

_VERBS = {"nw_in": "receives", "nw_out": "sends", "cpu": "computes with", "disk": "stores"}
"""What a broker does with each resource."""


def amount(resource: str, value: int) -> str:
    """How much of a resource, with its unit."""
    if resource == "cpu":
        return f"{value / 1_000_000:.2f} cores"
    return format_bytes(value) if resource == "disk" else format_rate(value)


def share(value: float | None) -> str | None:
    """A share of a capacity or a limit, in percent."""
    return None if value is None else f"{100 * value:.1f} %"


def _growth(headroom: float | None) -> str | None:
    """By what factor all loads may grow until a limit is reached, rounded down."""
    if headroom is None or headroom >= 1:
        return None
    return f"{math.floor(100 / (1 - headroom)) / 100:.2f}"


def share_column(name: str, heading: str = "") -> TableColumn:
    """A column of shares of a capacity."""
    return TableColumn(heading or name, value=lambda row: share(row[name]))


def rate_column(name: str, heading: str = "") -> TableColumn:
    """A column of bytes a second."""
    return TableColumn(heading or name, value=lambda row: format_rate(row[name]))


def usage_sentence(broker: int, resource: str, used: float, limit: int) -> str:
    """Which share of its capacity a broker uses, and the limit in basis points."""
    return (
        f"broker {broker} {_VERBS[resource]} {share(used)} of its {resource} capacity, the limit "
        f"is {limit / 100:g} %"
    )


def binding_sentence(row: Mapping[str, Any], limits: Mapping[str, int]) -> str:
    """Which broker is nearest to which limit, and how much loads may grow."""
    resource = row["binding"]
    if resource is None:
        return "no broker that is up has a capacity."
    usage = usage_sentence(
        row[f"{resource}_broker"], resource, row[f"{resource}_max"], limits[resource]
    )
    line = f"{usage}; headroom {share(row['headroom'])}"
    factor = _growth(row["headroom"])
    if factor is None:
        return f"{line}."
    if row["headroom"] < 0:
        return f"{line}: loads have to shrink to {factor} of what they are."
    return f"{line}: loads may grow by a factor of {factor}."


def _limit_list(basis_points: Mapping[str, int]) -> str:
    """Limits in a sentence."""
    return ", ".join(f"{name} {points / 100:g} %" for name, points in basis_points.items())


def load_head(command: str, source: str, state: ClusterState, load: PartitionLoad) -> Document:
    """How an answer on loads begins."""
    document = head(command, source, state)
    add_load(document, load)
    return document


def add_load(document: Document, load: PartitionLoad) -> None:
    """Add what loads an answer is about."""
    document["assumptions"] += load.assumptions
    models = load.provenance.group_by(["quantity", "share_model"]).aggregate([([], "count_all")])
    document["load"] = {
        "window": load.window, "sources": list(load.sources),
        "bytes_in": int(load.bytes_in.sum()), "bytes_out": int(load.bytes_out.sum()),
        "disk_bytes_of_one_replica_each": int(load.disk_bytes.sum()),
        "share_models": [
            {"quantity": row["quantity"], "share_model": row["share_model"],
             "topics": row["count_all"]}
            for row in models.to_pylist()
        ],
        "warnings": list(load.warnings),
    }
    document["notes"] += [load_sentence(document["load"]), _share_note(document["load"])]


def capacity_head(
    command: str, source: str, state: ClusterState, load: PartitionLoad, capacity: BrokerCapacity,
    plan: CapacityPlan,
) -> Document:
    """How every answer in bytes begins: with the loads, the capacities and the limits it is about.

    Limits are basis points of each resource, without a failure (`normal`) and with one (`failed`).
    """
    limits = {"normal": plan.normal.basis_points, "failed": plan.failed.basis_points}
    document = load_head(command, source, state, load)
    document["assumptions"] += [*capacity.assumptions, *plan.disks.assumptions]
    document["capacity"] = {
        "source": capacity.source, "brokers_checked": checked_brokers(plan),
    }
    if plan.consumers is not None:
        document["assumptions"] += plan.consumers.assumptions
    document["capacity"]["cpu_model"] = plan.cpu_model if plan.cpu_is_known.any() else None
    document["limits"] = {kind: dict(points) for kind, points in limits.items()}
    document["notes"].append(
        f"limits without a failure: {_limit_list(limits['normal'])}; while brokers have failed: "
        f"{_limit_list(limits['failed'])}{_replicas_limit(plan)}"
    )
    document["notes"] += _cpu_notes(plan)
    return document


def _cpu_notes(plan: CapacityPlan) -> list[str]:
    """How the use of processors follows from traffic, where it is not by the default weights."""
    weights = plan.weights
    if plan.cpu_model == WRITE_EQUIVALENT:
        sentence = (
            "a core for 20 MB/s of bytes in + bytes out / 4, as Google sizes managed clusters; no "
            "measured use is taken"
        )
    elif weights == CpuWeights() or not plan.cpu_is_known.any():
        return []
    else:
        sentence = (
            f"measured use follows work: {weights.leader_in} for a byte written to a leader, "
            f"{weights.leader_out} for one sent, {weights.follower_in} for one written to a "
            "follower"
        )
    return [f"processors: {sentence}"]


def _replicas_limit(plan: CapacityPlan) -> str:
    """How many replicas brokers may hold, in a sentence."""
    limits = plan.replicas_max[plan.replicas_max >= 0]
    if not limits.size:
        return ""
    low, high = int(limits.min()), int(limits.max())
    return f"; always: replicas {high}" if low == high else f"; always: replicas {low} to {high}"


def checked_brokers(plan: CapacityPlan) -> dict[str, int]:
    """Brokers that are up whose use of each resource is compared with a capacity."""
    limits = plan.normal
    columns = [*limits.capacity.T, limits.disk_capacity]
    return {
        name: int(np.count_nonzero(column))
        for name, column in zip(RESOURCES, columns, strict=True)
    }


def refuse_without_capacity(capacity: BrokerCapacity, plan: CapacityPlan) -> None:
    """Raise `InputError` where no broker has a capacity to compare its load with."""
    if not any(checked_brokers(plan).values()):
        raise InputError(
            f"{capacity.source}: no broker that is up has a capacity to compare its load with; "
            "right is at least one of nw_in, nw_out and disk_bytes"
        )


def reservation_lines(document: Document) -> list[str]:
    """What a verdict in bytes is without: resources that are not compared, and faults of loads."""
    brokers, up = document["capacity"]["brokers_checked"], document["cluster"]["registered"]
    unchecked = [
        name if n == 0 else f"{name} of {up - n} of {plural(up, 'broker')}"
        for name, n in brokers.items() if n < up
    ]
    return [
        *([f"Not checked, for no capacity or no use is known: {', '.join(unchecked)}."]
          if unchecked else []),
        *load_warnings(document),
    ]


def load_warnings(document: Document) -> list[str]:
    """Faults of loads."""
    return [f"Warning: {line}" for line in document["load"]["warnings"]]


def load_sentence(load: Document) -> str:
    """What the loads of a document are, and where they come from."""
    window = f" ({load['window']})" if load["window"] else ""
    return (
        f"loads of {', '.join(load['sources'])}{window}: producers write "
        f"{format_rate(load['bytes_in'])}, consumers fetch {format_rate(load['bytes_out'])}"
    )


def _share_note(load: Document) -> str:
    parts: dict[str, list[str]] = {}
    for row in load["share_models"]:
        parts.setdefault(row["quantity"], []).append(
            f"{row['share_model']} ({plural(row['topics'], 'topic')})"
        )
    return "how loads come to partitions: " + "; ".join(
        f"{quantity} {', '.join(models)}" for quantity, models in parts.items()
    )
