"""
What do eligible leader replicas change?
========================================

With ELR (KIP-966) a partition whose ISR shrinks below min ISR remembers who left it with every
record. Is it worth enabling on this cluster?
"""

import kfast

state = kfast.read("../../bench_data/describe.txt", brokers_file="../../bench_data/brokers.csv")

# %%
# Broker 102 is shut down for maintenance, then broker 110 is, and broker 102 comes back. The first
# column is the cluster as it is, without ELR:

steps = [("fail", [110]), ("start", [102])]
answers = kfast.compare(state, [102], then=steps, controlled=True, settings=[{"elr": True}])
answers.table.select(["answer", "offline", "under_min_isr", "leaders_moved"]).to_pandas()

# %%
# These partitions wait for broker 110 without ELR, and have a leader with it:

answers.differences.select(
    ["answer", "topic", "partition", "replicas", "isr_before", "isr", "leader"]
).to_pandas()

# %%
# Why? Broker 110 stays in the ISR as its last member. Only ELR still knows that broker 102 had
# every record:

partition = answers.differences["topic"][0].as_py(), answers.differences["partition"][0].as_py()
with_elr = kfast.with_controller(state, "kraft-4.3", elr=True)
kfast.explain(with_elr, [102], [partition], controlled=True)[0]
