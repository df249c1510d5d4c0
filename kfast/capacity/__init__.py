"""What brokers carry and can carry: bytes, where the rest of kfast counts leaders.

`partition_loads.py` brings the tables of `kfast.io.loads` to the partitions of a cluster, with the
share models of `shares.py` and the sizes that `retention.py` concludes; `broker_capacities.py` does
the same for brokers; `units.py` reads and writes numbers with their units.
"""

from __future__ import annotations

from kfast.capacity.broker_capacities import BrokerCapacity, broker_capacity
from kfast.capacity.partition_loads import PartitionLoad, partition_load

__all__ = ["BrokerCapacity", "PartitionLoad", "broker_capacity", "partition_load"]
