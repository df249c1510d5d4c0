"""What `kfast capacity show` answers: what each broker carries as the cluster is, and can carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from kfast.analysis.whatif import racks_by_broker
from kfast.capacity import BrokerCapacity, CapacityPlan, PartitionLoad, potential_nw_out
from kfast.capacity.failures.failure_terms import pass_over
from kfast.capacity.failures.limits import RESOURCES, USED
from kfast.report.answer import Answer, Document
from kfast.report.capacity_wording import (
    amount,
    binding_sentence,
    load_sentence,
    rate_column,
    reservation_lines,
    share,
    share_column,
)
from kfast.report.drawing import broker_columns, draw_rows, first_brokers
from kfast.report.pictures import STATES, utilisation_picture
from kfast.report.tables import Row, TableColumn, text_column
from kfast.report.wording import count
from kfast.state import ClusterState

if TYPE_CHECKING:
    import altair

__all__ = ["SHOW_METRICS", "SHOW_TABLES", "capacity_show_answer", "show_picture"]

SHOW_TABLES = ("brokers", "provenance")
SHOW_METRICS = {
    **{f"{name}_max": f"highest share of {name} that a broker uses" for name in RESOURCES},
    "over_limit": "brokers over any limit",
    **{f"over_limit_{name}": f"brokers over the limit of {name}" for name in RESOURCES},
    "over_limit_replicas": "brokers with more replicas than they may hold",
    "headroom": "1 less the highest share of a limit that a broker uses",
}
BROKERS = pa.schema([
    pa.field("broker_id", pa.int32(), nullable=False),
    pa.field("rack", pa.string()),
    *(pa.field(name, kind) for resource, used in USED.items()
      for name, kind in ((used, pa.int64()), (resource, pa.float64()))),
    pa.field("potential_nw_out", pa.int64(), nullable=False),
    pa.field("leaders", pa.int64(), nullable=False),
    pa.field("replicas", pa.int64(), nullable=False),
    pa.field("replicas_max", pa.int64()),
    pa.field("over_limit", pa.list_(pa.string()), nullable=False),
])
"""Of each broker what it uses of each resource, and which share of its capacity that is.

`potential_nw_out` are the bytes a second that it would send if it led all that it holds.
"""


def capacity_show_answer(
    head: Document, state: ClusterState, load: PartitionLoad, capacity: BrokerCapacity,
    plan: CapacityPlan, baseline: Document, *, top: int,
) -> Answer:
    """The answer of `kfast capacity show`.

    Parameters
    ----------
    head : dict
        Of `capacity_head`; goes on as the document.
    baseline : dict
        The row of a sweep without a failure.
    top : int
        How many brokers the text has of a large cluster.
    """
    rows = _broker_rows(state, load, capacity, plan)
    summary = {name: baseline[name] for name in SHOW_METRICS}
    document = {
        **head, "top": top, "summary": summary, "safe": not summary["over_limit"], "brokers": rows,
    }
    over = [row for row in rows if row["over_limit"]]
    first = f"{count(len(over), 'broker', 'is', 'are')} over a limit without a failure"
    if over:
        first += ": " + ", ".join(
            f"{row['broker_id']} ({', '.join(row['over_limit'])})" for row in over[:top]
        )
    document["verdict"] = [
        f"{first[0].upper()}{first[1:]}.",
        f"Nearest to a limit: {binding_sentence(baseline, document['limits']['normal'])}",
        *reservation_lines(document),
    ]
    return Answer(document, _draw, {
        "brokers": lambda: pa.Table.from_pylist(rows, BROKERS),
        "provenance": lambda: load.provenance,
    })


def show_picture(document: Document) -> altair.TopLevelMixin:
    """How full each broker is."""
    return utilisation_picture(
        "Capacity that brokers use", [document["input"], load_sentence(document["load"])],
        {STATES[0]: document["brokers"]}, document["limits"],
    )


def _broker_rows(
    state: ClusterState, load: PartitionLoad, capacity: BrokerCapacity, plan: CapacityPlan
) -> list[dict[str, Any]]:
    """Of each broker what it uses and what share of its capacity that is, None where not known."""
    n = state.n_brokers
    none = np.zeros(n + 1, np.uint8)
    counts, _ = pass_over(plan.effects, np.ones_like(plan.load), none, False)
    uses = plan.broker_loads(np.zeros(2, np.int64), np.zeros(0, np.int32))[0]
    used = {
        "nw_in": uses[:, 0], "nw_out": uses[:, 1],
        "cpu": np.where(plan.cpu_is_known, uses[:, 2], -1),
        "disk": plan.normal.disk,
    }
    held = {
        "nw_in": capacity.nw_in, "nw_out": capacity.nw_out, "cpu": capacity.cpu_microcores,
        "disk": plan.normal.disk_capacity,
    }
    racks, limits = racks_by_broker(state), plan.normal.basis_points
    potential = potential_nw_out(state, load)
    brokers = []
    for at, broker in enumerate(state.broker_id.tolist()):
        row: dict[str, Any] = {"broker_id": broker, "rack": racks[broker]}
        over = []
        for name in RESOURCES:
            amount_used, most = int(used[name][at]), int(held[name][at])
            row[USED[name]] = None if amount_used < 0 else amount_used
            known = amount_used >= 0 and most > 0 and bool(state.up[at])
            row[name] = amount_used / most if known else None
            if known and amount_used * 10_000 > most * limits[name]:
                over.append(name)
        if plan.normal.replicas_over[at]:
            over.append("replicas")
        replicas_max = int(plan.replicas_max[at])
        brokers.append({
            **row, "disk_bytes": int(plan.disks.total_bytes[at]),
            "potential_nw_out": int(potential[at]), "leaders": int(counts[at, 0]),
            "replicas": int(plan.replicas[at]),
            "replicas_max": None if replicas_max < 0 else replicas_max, "over_limit": over,
        })
    return brokers


def _draw(console: Console, document: Document) -> None:
    brokers = document["brokers"]
    limits = document["limits"]["normal"]
    present = [name for name in RESOURCES if any(row[USED[name]] is not None for row in brokers)]

    def fullest(row: Row) -> float:
        return -max((row[name] * 10_000 / limits[name] for name in RESOURCES
                     if row[name] is not None), default=0)

    listed = first_brokers(document, sorted(brokers, key=fullest))
    columns: list[TableColumn | str] = []
    for name in present:
        columns += [_used_column(name), share_column(name, f"{name} %")]
        if name == "nw_out":
            columns.append(rate_column("potential_nw_out"))
    limit = ["replicas_max"] if any(row["replicas_max"] is not None for row in brokers) else []
    draw_rows(
        console, "What brokers carry",
        broker_columns(text_column("over_limit"), *columns, "leaders", "replicas", *limit),
        sorted(listed, key=lambda row: int(row["broker_id"])), len(brokers), if_empty=True,
        style=lambda row: "red" if row["over_limit"] else "",
    )
    _draw_totals(console, brokers, present)


def _used_column(resource: str) -> TableColumn:
    """A column of what brokers use of a resource."""
    name = USED[resource]
    return TableColumn(
        name.removesuffix("_microcores"),
        value=lambda row: None if row[name] is None else amount(resource, row[name]),
    )


def _draw_totals(
    console: Console, brokers: Sequence[Document], present: Sequence[str]
) -> None:
    """How much all brokers use together, and the mean and the highest share."""
    rows = []
    for name in present:
        shares = [row[name] for row in brokers if row[name] is not None]
        rows.append({
            "resource": name,
            "all brokers": amount(name, sum(row[USED[name]] or 0 for row in brokers)),
            "mean": share(sum(shares) / len(shares)) if shares else None,
            "highest": share(max(shares, default=None)),
        })
    draw_rows(console, "All brokers together", [
        text_column("resource"), "all brokers", "mean", "highest",
    ], rows)
