"""
Is this reassignment plan safe?
===============================

A plan for ``kafka-reassign-partitions``, executed on a copy of the cluster, also when a broker
fails meanwhile.
"""

import kfast

state = kfast.read("../../bench_data/describe.txt", brokers_file="../../bench_data/brokers.csv")
plan = kfast.read_plan("../../bench_data/plan.json")
kfast.execute_plan(state, plan)

# %%
# All of it completes. What if broker 105 fails before the new replicas have caught up?

change = kfast.execute_plan(state, plan, broker_ids=[105])
change

# %%
# Three partitions stay as they are until broker 105 is back, and the table says why:

rows = change.partitions.to_pandas()
rows[rows.reason.notna()][["topic", "partition", "replicas", "target", "reason"]]
