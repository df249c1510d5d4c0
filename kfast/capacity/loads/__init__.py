"""What brokers carry and can carry.

`partition_loads.py` brings the tables of `kfast.io.loads` to the partitions of a cluster, with
`table_join.py`, the share models of `shares.py` and the sizes that `retention.py` concludes;
`broker_capacities.py` does the same for brokers. `client_racks.py` says which racks consumers are
in; `units.py` reads and writes numbers with their units.
"""

from __future__ import annotations

from kfast.capacity.loads.broker_capacities import BrokerCapacity, broker_capacity
from kfast.capacity.loads.partition_loads import PartitionLoad, partition_load

__all__ = ["BrokerCapacity", "PartitionLoad", "broker_capacity", "partition_load"]
