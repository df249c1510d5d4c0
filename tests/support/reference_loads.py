"""Share models and the retention rule in plain Python, one topic and one partition at a time.

Fractions instead of arrays; nothing of `kfast.capacity` is used.
"""

from __future__ import annotations

from fractions import Fraction

DAY_MS = 86_400_000
DEFAULTS = {
    "retention.ms": 7 * DAY_MS, "retention.bytes": -1, "segment.bytes": 1 << 30,
    "segment.ms": 7 * DAY_MS, "cleanup.policy": "delete",
}


def deal(total, weights):
    """Parts of a total by the largest remainder, of equal ones the first."""
    exact = [Fraction(total * weight, sum(weights)) for weight in weights]
    parts = [int(share) for share in exact]
    order = sorted(range(len(parts)), key=lambda i: (parts[i] - exact[i], i))
    for i in order[: total - sum(parts)]:
        parts[i] += 1
    return parts


def share_topic(partitions, rows, quantity):
    """One topic's rate by partition, and the model, from the rows of one load table.

    Parameters
    ----------
    partitions : list of dict
        Each with number, leader and compacted, by number.
    rows : list of dict
        Those of the topic: partition, broker_id and quantities, absent or None if unknown.
    quantity : str
    """

    def of_partitions(name):
        found = {}
        for row in rows:
            if row.get("partition") is not None and row.get(name) is not None:
                amount = found.get(row["partition"])
                if name == "disk_bytes":
                    found[row["partition"]] = max(amount or 0, row[name])
                else:
                    found[row["partition"]] = (amount or 0) + row[name]
        return found

    numbers = [p["number"] for p in partitions]
    own = of_partitions(quantity)
    if own:
        return [own.get(number, 0) for number in numbers], "measured"
    whole = [row for row in rows if row.get("partition") is None and row.get(quantity) is not None]
    if not whole:
        return [0] * len(numbers), None
    total = sum(row[quantity] for row in whole)
    messages, sizes = of_partitions("milli_msgs_in"), of_partitions("disk_bytes")
    if quantity != "milli_msgs_in" and set(messages) == set(numbers) and sum(messages.values()):
        return deal(total, [messages[number] for number in numbers]), "offsets"
    if any(row.get("broker_id") is not None for row in whole):
        return share_by_leaders(partitions, whole, quantity), "leaders"
    compacted = partitions[0]["compacted"]
    if set(sizes) == set(numbers) and sum(sizes.values()) and not compacted:
        return deal(total, [sizes[number] for number in numbers]), "sizes"
    return deal(total, [1] * len(numbers)), "equal"


def share_by_leaders(partitions, rows, quantity):
    """What each broker reports, to the partitions that it leads; the rest to all."""
    parts, rest = [0] * len(partitions), 0
    for row in rows:
        led = [i for i, p in enumerate(partitions) if p["leader"] == row.get("broker_id")]
        if row.get("broker_id") is None or not led:
            rest += row[quantity]
            continue
        for i, part in zip(led, deal(row[quantity], [1] * len(led)), strict=True):
            parts[i] += part
    return [a + b for a, b in zip(parts, deal(rest, [1] * len(parts)), strict=True)]


def retained(bytes_in, settings):
    """Bytes of a replica's log; None where they have no bound or are unknown."""
    values = {**DEFAULTS, **settings}
    if "delete" not in values["cleanup.policy"].split(","):
        return None
    if bytes_in == 0:
        return 0
    time_ms, most = int(values["retention.ms"]), int(values["retention.bytes"])
    amounts = []
    if time_ms >= 0:
        amounts.append(round(Fraction(bytes_in * time_ms, 1000)))
    if most >= 0:
        amounts.append(most)
    if not amounts:
        return None
    segment = min(
        int(values["segment.bytes"]), round(Fraction(bytes_in * int(values["segment.ms"]), 1000))
    )
    return min(amounts) + segment
