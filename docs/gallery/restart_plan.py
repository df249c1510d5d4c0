"""
In which batches can all brokers restart?
=========================================

A rolling restart, one broker after another, takes long. Brokers may restart together where every
partition keeps its min ISR without them.
"""

import kfast

state = kfast.read("../../bench_data/describe.txt", brokers_file="../../bench_data/brokers.csv")
readiness = kfast.may_restart(state)
readiness

# %%
# No broker may restart now: each is in the ISR of partitions that have no member to spare. Their
# topics have one replica, or the ISR has shrunk, because broker 109 lags:

readiness.topics.slice(0, 5).to_pandas()

# %%
# Suppose that broker 109 has caught up, and that topics with one replica may be away for a while.
# Then all brokers may restart, one at a time:

controller = kfast.open_controller(state)
controller.activate()
controller.catch_up([109])
kfast.may_restart(state, ignore_rf1=True)

# %%
# The plan has the fewest batches in which they restart together, here with two minutes for each
# broker:

plan = kfast.restart_plan(state, ignore_rf1=True, seconds_per_broker=120)
plan.batches.select(["batch", "brokers", "racks", "starts_after_s", "ends_after_s"]).to_pandas()

# %%
# No batch takes a partition under min ISR:

plan.plot()
