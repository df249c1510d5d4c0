"""The machines' conversation with a store: read, decide, write, and again after a conflict.

What is decided comes from the same rule functions as where the cache is the store; here stand
only the loops around them and what each answer of the store means.

Source: docs/controller.md, sections 2.5, 2.6, 3.5 and 3.6; Kafka 3.9, `ZkReplicaStateMachine`
(`doRemoveReplicasFromIsr`) and `ZkPartitionStateMachine` (`doElectLeaderForPartitions`).
"""

from kfast.conversation.partitions import bring_online
from kfast.conversation.replicas import start_new, take_offline, targets
from kfast.conversation.talk import Talk

__all__ = ["Talk", "bring_online", "start_new", "take_offline", "targets"]
