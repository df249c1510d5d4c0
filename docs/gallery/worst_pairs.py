"""
Which two brokers must not fail together?
=========================================

A sweep tries every pair, and ranks them by what each would take down.
"""

import kfast

state = kfast.read("../../bench_data/describe.txt", brokers_file="../../bench_data/brokers.csv")
pairs = kfast.every_broker(state, k=2)
table = kfast.sweep(state, pairs)
worst = table.sort_by([("offline", "descending"), ("under_min_isr", "descending")]).slice(0, 5)
rows = worst.select(["scenario", "offline", "under_min_isr", "leaders_moved"]).to_pandas()
rows.insert(1, "brokers", [pairs.brokers(scenario) for scenario in rows.scenario])
rows

# %%
# What does each pair take offline, or under min ISR? The worst first:

kfast.plot(table)

# %%
# How many of the 66 pairs take nothing offline?

table.slice(1).to_pandas().offline.value_counts().sort_index()

# %%
# Which partitions are the most fragile? Of each, in how many of the pairs it goes offline:

fragile = kfast.sweep_partitions(state, pairs).sort_by([("scenarios_offline", "descending")])
fragile.slice(0, 5).select(["topic", "partition", "replicas", "scenarios_offline"]).to_pandas()
