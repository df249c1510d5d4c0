"""Hands of a sharded cluster in this process, without a Spark session."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


class Gathered:
    """What `over_hands` gives, made at once."""

    def __init__(self, n, run, wanted):
        batches = [batch for number in range(n) for batch in run(number)]
        self.table = pa.Table.from_batches(batches, wanted)

    def toArrow(self) -> pa.Table:  # noqa: N802
        """All rows."""
        return self.table


def without_session(monkeypatch) -> None:
    """Let hands run one after the other where they would be Spark's tasks."""
    from kfast.spark import dataset, sharded

    for module in (dataset, sharded):
        monkeypatch.setattr(
            module, "over_hands", lambda spark, n, run, wanted: Gathered(n, run, wanted)
        )


def joined_requests(done) -> list[tuple]:
    """`ShardedOutcome.requests` as Spark would put them together, sorted."""
    from kfast.spark.sharded import ANNOUNCEMENT

    found: dict[tuple, list[int]] = {}
    for path in sorted((Path(done.run.folder) / "requests").iterdir()):
        for row in pq.read_table(path).to_pylist():
            alone, shards = row.pop("alone"), row.pop("shards")
            n, told = row.pop("requests"), row.pop("partitions")
            have = found.setdefault(tuple(row.values()), [0, 0, 0])
            have[0] = have[0] + n if alone else max(have[0], n)
            have[1] += told
            have[2] += shards
    every = len(done.run.dataset.files)
    return sorted(
        (*key, n, told) for key, (n, told, shards) in found.items()
        if key[1] != ANNOUNCEMENT or shards == every
    )
