"""
What happens when one broker fails?
===================================

Which partitions go offline, which refuse producers, and which brokers take over.
"""

import kfast

state = kfast.read("../../bench_data/describe.txt", brokers_file="../../bench_data/brokers.csv")
failure = kfast.fail_brokers(state, [104])
failure.impact

# %%
# The state itself is as it was: a failure is tried on a copy. Every table of the answer is an Arrow
# table, here shown by pandas. Topics come with the worst first:

failure.impact.topics.slice(0, 5).to_pandas()

# %%
# Producers with ``acks=all`` are refused by partitions under min ISR, offline ones included. These
# were not under it before:

partitions = failure.impact.partitions.to_pandas()
partitions[partitions.under_min_isr & ~partitions.under_min_isr_before][
    ["topic", "partition", "replicas", "isr_before", "isr", "min_isr", "leader"]
]

# %%
# Why does ``scratch-1`` end as it does? :func:`kfast.explain` tells it step by step, in the words
# of Kafka's controller:

kfast.explain(state, [104], [("scratch", 1)])[0]

# %%
# The other brokers lead more than before, but not evenly: brokers of its own rack share few
# partitions with broker 104, so they take over next to none.

failure.plot()
