"""
What changed since yesterday?
=============================

Two exports of one cluster, what differs between them, and whether the cluster is better or worse.
"""

import kfast

folder = "../../bench_data"
yesterday = kfast.read(f"{folder}/describe.txt", brokers_file=f"{folder}/brokers.csv")
today = kfast.read(f"{folder}/describe_later.txt.gz", brokers_file=f"{folder}/brokers.csv")
diff = kfast.diff(yesterday, today)
diff

# %%
# Broker 105 is down. What does each measure say, before and after?

diff.measures.to_pandas()

# %%
# These partitions survived the failure of any one broker yesterday, and do not today:

diff.newly_fragile.select(["topic", "partition", "newly_offline_by"]).slice(0, 5).to_pandas()
