"""
Can the cluster lose a rack?
============================

Replicas spread over racks survive the loss of one, if min ISR and the ISRs of today allow it.
"""

import kfast

state = kfast.read("../../bench_data/describe.txt", brokers_file="../../bench_data/brokers.csv")
racks = kfast.every_rack(state)
counts = ["offline", "under_min_isr", "leaders_moved", "unclean"]
kfast.sweep(state, racks, counts=counts).to_pandas()

# %%
# Scenario 0 is the cluster as it is, the others are racks ``a``, ``b`` and ``c``. Each takes
# partitions offline. Which are they in rack ``a``?

failure = kfast.fail_brokers(state, racks.brokers(1))
partitions = failure.impact.partitions.to_pandas()
offline = partitions[partitions.offline][["topic", "partition", "replicas", "isr_before"]]
offline

# %%
# All their replicas are in rack ``a``. These topics were created before the brokers had racks, and
# a :doc:`reassignment <reassignment>` repairs that.

racks_of = dict(zip(state.broker_id.tolist(), state.rack.to_pylist(), strict=True))
offline.replicas.map(lambda ids: sorted({racks_of[broker] for broker in ids})).value_counts()
