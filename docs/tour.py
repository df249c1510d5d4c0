# %% [markdown]
# # A tour: from an export to a page to hand on
#
# A disk of broker 110 reports errors. What happens if the broker fails, what else is fragile, and
# what comes first? The cluster in `bench_data` has 12 brokers in three racks.
#
# A describe text says where replicas are, who leads, and who is in sync; racks come from a second
# file. The census is the cluster as it is: nothing is offline, but 41 partitions have no in-sync
# replica to spare. If they lose one more, they refuse producers with `acks=all`.

# %%
import kfast

folder = "../bench_data"
state = kfast.read(f"{folder}/describe.txt", brokers_file=f"{folder}/brokers.csv")
kfast.take_census(state)

# %% [markdown]
# ## Broker 110 fails
#
# The failure is tried on a copy, by the logic of Kafka's own controller. The other brokers take
# over its leaders. Those of its own rack share few partitions with it, and get next to none.

# %%
failure = kfast.fail_brokers(state, [110])
failure.impact

# %%
failure.plot()

# %% [markdown]
# ## Why does a partition go offline?
#
# One does. `explain` tells it step by step:

# %%
partitions = failure.impact.partitions.to_pandas()
offline = partitions[partitions.offline][["topic", "partition"]].values.tolist()
print(kfast.explain(state, [110], offline)[0])

# %% [markdown]
# ## Is another broker worse?
#
# A sweep fails each broker in turn. The bars have the worst failure first, and below them the
# numbers of the failures. Number 10 is broker 110: no other failure has more partitions refuse
# producers.

# %%
kfast.plot(kfast.sweep(state, kfast.every_broker(state)))

# %% [markdown]
# ## Can it lose a rack?
#
# No: each of the three takes partitions offline. Row 0 is the cluster as it is. Every table of an
# answer is an Arrow table, here shown by pandas.

# %%
counts = ["offline", "under_min_isr", "leaders_moved"]
kfast.sweep(state, kfast.every_rack(state), counts=counts).to_pandas()

# %% [markdown]
# ## When can brokers restart?
#
# Not now: topics with one replica, and ISRs from which the slow broker 109 is missing, have no
# member to spare. Let broker 109 catch up first, and accept that topics with one replica are away
# for a while. Then six batches are enough, with two minutes for each broker:

# %%
repaired = state.copy()
controller = kfast.open_controller(repaired)
controller.activate()
controller.catch_up([109])
plan = kfast.restart_plan(repaired, ignore_rf1=True, seconds_per_broker=120)
plan.batches.select(["batch", "brokers", "racks", "starts_after_s", "ends_after_s"]).to_pandas()

# %% [markdown]
# ## Do the others carry the bytes?
#
# Loads come from a JMX exporter and from the log directories, limits from a file. Headroom below
# zero is an overload. The failure of any one broker leads to none. That of rack `a` does: two
# brokers send more than the 95 % that are the limit while brokers have failed.

# %%
tables = kfast.read_load(f"{folder}/metrics.prom.gz", f"{folder}/log-dirs.json.gz")
load = kfast.partition_load(state, tables)
capacity = kfast.broker_capacity(state, kfast.read_capacity(f"{folder}/capacities.csv"))
loaded = kfast.prepare_capacity(state, load, capacity)
kfast.plot(kfast.capacity_sweep(loaded, kfast.every_broker(state)))

# %%
kfast.capacity_of(loaded, kfast.every_rack(state).brokers(1)).plot()

# %% [markdown]
# ## What is different a day later?
#
# Replicas were reassigned by `plan.json`, and broker 105 is down. So 232 partitions do not survive
# another failure that they would have survived the day before.

# %%
later = kfast.read(f"{folder}/describe_later.txt.gz", brokers_file=f"{folder}/brokers.csv")
kfast.diff(state, later)

# %% [markdown]
# ## One page for everybody else
#
# A report answers all of this, and more, in one file that opens offline. Its first screen says what
# to do first. The answers are in the page as JSON, too:

# %%
import json
import re
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as place:
    page = Path(place) / "report.html"
    kfast.write_report(later, page, old=state)
    data = re.search(r'id="kfast-data">(.*?)</script>', page.read_text(), re.DOTALL)[1]
for action in json.loads(data)["actions"]:
    print(f"{action['title']}: {action['why']}")
