"""The machines' calls of a store: read, decide, write, and again after a conflict.

What is decided comes from the same rule functions as where the cache is the store; here stand
only the loops around them and what each answer of the store means.

Source: docs/controller.md, sections 2.5, 2.6, 3.5 and 3.6; Kafka 3.9, `ZkReplicaStateMachine`
(`doRemoveReplicasFromIsr`) and `ZkPartitionStateMachine` (`doElectLeaderForPartitions`).
"""

from kfast.controllers.zk.store_machines.partitions import bring_online
from kfast.controllers.zk.store_machines.replicas import start_new, take_offline, targets
from kfast.controllers.zk.store_machines.session import StoreSession

__all__ = ["StoreSession", "bring_online", "start_new", "take_offline", "targets"]
