"""Growth of loads and forecasts in plain Python: by partition, month and failure."""

from __future__ import annotations

import re
from fractions import Fraction

from tests.support.capacity_reference import RESOURCES, add_up, expected_row


def rate_of(topic: str, overall: Fraction, rules: list[tuple[str, Fraction]]) -> Fraction:
    """Growth of a topic in a month: the last rule that matches the whole name, or the overall."""
    rate = overall
    for regex, growth in rules:
        if re.fullmatch(regex, topic):
            rate = growth
    return rate


def grown_rate(value: int, rate: Fraction, months: int) -> int:
    """A rate after some months."""
    factor = Fraction(1)
    for _ in range(months):
        factor *= 1 + rate
    return round(value * factor)


def grown_size(
    size: int, bytes_in: int, rate: Fraction, months: int, retention_ms: int, retention_bytes: int
) -> int:
    """A size after some months; -1 of a retention is no limit."""
    factor = (1 + rate) ** months
    if retention_bytes < 0 or bytes_in == 0:
        return round(size * factor)
    if retention_ms < 0 or retention_bytes == 0:
        return size
    before = Fraction(bytes_in * retention_ms, 1000)
    after = before * factor
    held_before = before if before < retention_bytes else retention_bytes
    held_after = after if after < retention_bytes else retention_bytes
    return size if not held_before else round(size * Fraction(held_after) / held_before)


def forecast(left, scenarios, loads_of_month, up, capacity, disk_of, limits, weights):
    """Rows of a forecast: `left(down)` are partitions after a failure, as of `capacity_reference`.

    `loads_of_month` has for each month bytes in, bytes out and bytes on disk by row; `disk_of(m)`
    bytes by broker; `limits` basis points without a failure and with one. What brokers use of
    their processors grows with their work.
    """
    before = left([])
    first = add_up(before, before, loads_of_month[0], up)
    rows = []
    for month, loads in enumerate(loads_of_month):
        baseline = add_up(before, before, loads, up)
        held = {}
        for broker in up:
            work = first.carried[broker].work(weights)
            used = capacity[broker]["used"]
            held[broker] = capacity[broker] | {"used": used if not work else round(
                Fraction(used * baseline.carried[broker].work(weights), work))}
        answers = [
            expected_row(
                add_up(left(down), before, loads, up), baseline,
                [broker for broker in up if broker not in down], disk_of(month), held,
                limits[bool(down)], weights,
            ) for down in scenarios
        ]
        for name in RESOURCES:
            worst = None
            for number, answer in enumerate(answers[1:], 1):
                share = answer[f"{name}_max"]
                if share is not None and (worst is None or share > worst[0]):
                    worst = share, answer[f"{name}_broker"], number
            rows.append({
                "month": month, "resource": name, "normal": answers[0][f"{name}_max"],
                "normal_broker": answers[0][f"{name}_broker"],
                **dict(zip(("failed", "failed_broker", "scenario"), worst or [None] * 3,
                           strict=True)),
                "over_limit": any(answer[f"over_limit_{name}"] for answer in answers),
            })
    return rows
