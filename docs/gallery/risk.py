"""
How likely are failures to take data away?
==========================================

The more distinct sets of replicas there are, the likelier it is that random failures hit one.
"""

import kfast

state = kfast.read("../../bench_data/describe.txt", brokers_file="../../bench_data/brokers.csv")
risk = kfast.risk(state)
risk.chances((1, 2, 3)).select(
    ["brokers_down", "metric", "any_probability", "random_probability", "mean_partitions"]
).to_pandas()

# %%
# ``any_probability`` is the chance that it becomes true of some partition: whichever two brokers
# are down, some partition has no live replica. ``random_probability`` is the chance if replicas
# were placed at random. These are the worst three brokers to lose:

risk.worst(3, top=5).to_pandas()
