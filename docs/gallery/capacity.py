"""
Do the other brokers carry the bytes?
=====================================

A broker that takes over leaders sends more. Loads come from a JMX exporter and from the log
directories, capacities from a file.
"""

import kfast

folder = "../../bench_data"
state = kfast.read(f"{folder}/describe.txt", brokers_file=f"{folder}/brokers.csv")
tables = kfast.read_load(f"{folder}/metrics.prom.gz", f"{folder}/log-dirs.json.gz")
load = kfast.partition_load(state, tables)
capacity = kfast.broker_capacity(state, kfast.read_capacity(f"{folder}/capacities.csv"))
plan = kfast.prepare_capacity(state, load, capacity)
racks = kfast.every_rack(state)
sweep = kfast.capacity_sweep(plan, racks)
sweep.select(["scenario", "headroom", "binding"]).to_pandas()

# %%
# Headroom below zero is an overload: the cluster can lose rack ``c``, but neither ``a`` nor ``b``.
# After the loss of rack ``a`` these brokers send the most, as a share of what they can:

failure = kfast.capacity_of(plan, racks.brokers(1))
brokers = failure.brokers.sort_by([("nw_out_after", "descending")]).slice(0, 5)
brokers.select(["broker_id", "rack", "nw_out_before", "nw_out_after", "over_limit"]).to_pandas()

# %%

failure.plot()

# %%
# Any one broker may fail, and any two may: their lowest headroom is above zero.

for k in (1, 2):
    print(k, kfast.capacity_sweep(plan, kfast.every_broker(state, k)).to_pandas().headroom.min())
