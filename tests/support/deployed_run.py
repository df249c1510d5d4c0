"""A job that a packed environment runs: where kfast is imported from, and what it answers.

Argument: the master.
"""

import sys
import time

from pyspark.sql import SparkSession

import kfast
import kfast.spark

SETTINGS = {
    "spark.archives": "environment.tar.gz#environment",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.log.level": "ERROR",
}


def place(_: int) -> str:
    """Say where a worker has kfast; slow, so that both executors get some."""
    import kfast

    time.sleep(1)
    return kfast.__file__


builder = SparkSession.builder.master(sys.argv[1])
for name, value in SETTINGS.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
kfast.spark.check_workers(spark)
print("driver", kfast.__file__)
ends = time.monotonic() + 60
while time.monotonic() < ends and spark._jsc.sc().getExecutorMemoryStatus().size() < 3:
    time.sleep(0.2)
for path in sorted(set(spark.sparkContext.parallelize(range(8), 8).map(place).collect())):
    print("executor", path)
state = kfast.generate(brokers=30, partitions=5000, racks=3, seed=1)
scenarios = kfast.every_broker(state, 2)
rows = kfast.spark.sweep(spark, state, scenarios, tasks=4).orderBy("scenario").toArrow()
wanted = kfast.sweep(state, scenarios)
print("sweep", rows.cast(wanted.schema).equals(wanted))
options = {"brokers": 30, "partitions": 5000, "seed": 1}
print("source", spark.read.format("kfast").options(**options).load().count())
spark.stop()
