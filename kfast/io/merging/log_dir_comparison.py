"""Replicas in log directories beside those that are assigned.

A replica that is assigned to a broker which answered, and that is in none of its directories, is in
one that failed, if any has. A controller in ZooKeeper mode remembers such replicas as offline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast.io.files import abbreviate
from kfast.io.merging.contradictions import Contradictions
from kfast.io.source_tables import SourceTables, set_column

__all__ = ["REPLICA_SIZES", "compare_log_dirs"]

Keys = npt.NDArray[np.int64]
REPLICA_SIZES = "replica sizes"
"""Group of columns in the provenance that log directories give."""


def compare_log_dirs(
    tables: SourceTables, ordered: Sequence[SourceTables], report: Contradictions
) -> SourceTables:
    """Note which replicas are only assigned, or only in a directory; mark those that are offline.

    Parameters
    ----------
    tables : SourceTables
        What was merged.
    ordered : sequence of SourceTables
        The sources.
    report : Contradictions
    """
    rows = tables.partitions
    if "replicas" not in rows.column_names:
        return tables
    lists = rows["replicas"].combine_chunks()
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    row_of = np.repeat(np.arange(rows.num_rows), counts)
    assigned = row_of << 32 | lists.flatten().to_numpy().astype(np.int64)
    names = pc.binary_join_element_wise(
        rows["topic"].cast(pa.string()), rows["partition"].cast(pa.string()), "-"
    ).combine_chunks()
    for number, source in enumerate(ordered):
        if source.log_dir_replicas is None:
            continue
        listed = source.log_dir_replicas
        failed = listed.filter(pc.is_null(listed["topic"]))
        listed = listed.filter(pc.is_valid(listed["topic"]))
        report.values[REPLICA_SIZES, number] += listed.num_rows
        own = pc.binary_join_element_wise(
            listed["topic"], listed["partition"].cast(pa.string()), "-"
        )
        places = pc.fill_null(pc.index_in(own, value_set=names), -1).to_numpy()
        brokers = listed["broker_id"].to_numpy().astype(np.int64)
        keys = places.astype(np.int64) << 32 | brokers
        strays = np.flatnonzero((places < 0) | ~np.isin(keys, assigned))
        _note(report, number, "in its log directories that are not assigned", strays.size, [
            f"{own[n].as_py()} on broker {brokers[n]}" for n in strays[:3].tolist()
        ])
        answered = np.unique(source.log_dir_replicas["broker_id"].to_numpy())
        absent = assigned[np.isin(assigned & 0xFFFFFFFF, answered) & ~np.isin(assigned, keys)]
        offline = np.isin(absent & 0xFFFFFFFF, failed["broker_id"].to_numpy())
        _note(report, number, "assigned to its brokers that are in none of their directories",
              int((~offline).sum()), [
            f"{names[key >> 32].as_py()} on broker {key & 0xFFFFFFFF}"
            for key in absent[~offline][:3].tolist()
        ])
        if failed.num_rows:
            report.notes.append(_failure(source.source, failed, absent[offline], names))
        if offline.any() and not tables.is_kraft:
            tables = replace(tables, partitions=_with_offline(tables.partitions, absent[offline]))
    return tables


def _note(
    report: Contradictions, number: int, what: str, n: int, examples: list[str]
) -> None:
    """Note that log directories and assignments differ."""
    if n:
        report.counts[REPLICA_SIZES, number] += n
        more = f" and {n - len(examples)} more" if n > len(examples) else ""
        report.notes.append(
            f"contradiction: {report.sources[number]}: replicas {what}: {n}, {', '.join(examples)}"
            f"{more}"
        )


def _failure(name: str, failed: pa.Table, offline: Keys, names: pa.StringArray) -> str:
    """Say which directories failed, and what is in them."""
    directories = [f"{row['log_dir']} of broker {row['broker_id']}" for row in failed.to_pylist()]
    examples = [f"{names[key >> 32].as_py()} on broker {key & 0xFFFFFFFF}"
                for key in offline[:3].tolist()]
    shown = f", {', '.join(examples)}" if examples else ""
    return (
        f"{name}: log directories failed: {abbreviate(directories, 3)}; replicas that are"
        f" assigned to their brokers and in no other directory: {offline.size}{shown}"
    )


def _with_offline(partitions: pa.Table, offline: Keys) -> pa.Table:
    """Partitions with more replicas in offline directories."""
    lists = (
        partitions["offline_dir"].to_pylist() if "offline_dir" in partitions.column_names
        else [None] * partitions.num_rows
    )
    for key in offline.tolist():
        row, broker = key >> 32, key & 0xFFFFFFFF
        lists[row] = [*dict.fromkeys([*(lists[row] or ()), broker])]
    return set_column(partitions, "offline_dir", pa.array(lists, pa.list_(pa.int32())))
