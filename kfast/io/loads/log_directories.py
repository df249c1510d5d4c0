"""What `kafka-log-dirs` shows of a cluster: brokers that answer, and which replicas lie where.

Source: docs/formats.md, section "What supplements a cluster"; Kafka 3.9, LogDirsCommand.java.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kfast.io.loads.log_dirs import failed_directories, read_log_dirs
from kfast.io.source_tables import NO_PARTITIONS, Coverage, Exactness, SourceTables

__all__ = ["LOG_DIRS", "read_log_directories"]

LOG_DIRS = "kafka-log-dirs --describe"


def read_log_directories(name: str, data: bytes, start: int) -> SourceTables:
    """Read the document that begins at a byte of the tool's output.

    Raises
    ------
    InputError
        It is damaged, or a value in it is not right.
    """
    rows = read_log_dirs(name, data, start).rows
    failed = failed_directories(name, data, start)
    replicas = pa.table({
        "topic": rows["topic"].cast(pa.string()), "partition": rows["partition"],
        "broker_id": rows["broker_id"], "log_dir": rows["log_dir"].cast(pa.string()),
    })
    without = pa.table({
        "topic": pa.nulls(len(failed), pa.string()), "partition": pa.nulls(len(failed), pa.int32()),
        "broker_id": pa.array([broker for broker, _ in failed], pa.int32()),
        "log_dir": pa.array([directory for _, directory in failed], pa.string()),
    })
    replicas = pa.concat_tables([replicas, without])
    brokers = np.unique(replicas["broker_id"].to_numpy())
    return SourceTables(
        name, NO_PARTITIONS,
        brokers=pa.table({
            "broker_id": pa.array(brokers, pa.int32()),
            "registered": pa.array(np.ones(brokers.size, bool)),
        }),
        kind=LOG_DIRS, exactness=Exactness.SETTINGS, coverage=Coverage.NOTHING,
        log_dir_replicas=replicas,
    )
