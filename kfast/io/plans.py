"""A reassignment plan as a request: where partitions are to go, not how a cluster is.

The output of `kafka-reassign-partitions` reads too. Of `--generate` it is the proposed plan that is
taken; of `--execute` the current assignment, which the tool prints to be saved for a rollback.

Source: docs/formats.md, section "Reassignment plans".
"""

from __future__ import annotations

import os
import re

import numpy as np
import pyarrow as pa

from kfast.errors import InputError
from kfast.io.kinds import check_plan, recognise
from kfast.io.reassignment import read_reassignment
from kfast.io.text import check_utf8, line_of, load
from kfast.schema import PLAN

__all__ = ["read_plan"]

_PROPOSED = re.compile(rb"^Proposed partition reassignment configuration\s*^(?=[ \t]*\{)", re.M)
_RIGHT = "right is a plan of kafka-reassign-partitions, in JSON"


def read_plan(path: str | os.PathLike[str]) -> pa.Table:
    """Read a reassignment plan: what `kfast.execute_plan` takes.

    Parameters
    ----------
    path : path
        The file; `-` is standard input.

    Returns
    -------
    pa.Table
        topic, partition, replicas: a row per partition, in the order of the plan.

    Raises
    ------
    InputError
        The file is no plan, holds several, or names a partition twice.
    """
    name, data, (kind, start) = load(path, recognise)
    if kind in ("arrow", "parquet"):
        raise InputError(f"{name}: is {kind.capitalize()}; {_RIGHT}")
    if kind == "describe":
        raise InputError(f"{name}: is {kind} text, which says how a cluster is; {_RIGHT}")
    check_utf8(name, data)
    check_plan(name, data, start)
    proposed = _PROPOSED.search(data)
    found = read_reassignment(name, data, proposed.end() if proposed else start)
    if found.notes:
        raise InputError(f"{found.notes[0].rpartition(';')[0]}; right is a file with one")
    _refuse_twice(f"{name} line {line_of(data, start)}", found.partitions)
    return PLAN.table({name: found.partitions[name] for name in PLAN.schema.names})


def _refuse_twice(where: str, plan: pa.Table) -> None:
    """A partition may stand in a plan once."""
    topics = plan["topic"].combine_chunks()
    keys = topics.indices.to_numpy().astype(np.int64) << 32 | plan["partition"].to_numpy()
    order = np.argsort(keys, kind="stable")
    twice = np.flatnonzero(np.diff(keys[order]) == 0)
    if twice.size:
        row = plan.slice(int(order[twice[0] + 1]), 1).to_pylist()[0]
        raise InputError(
            f"{where}: partition {row['topic']}-{row['partition']} stands twice in the plan; right"
            " is once"
        )
