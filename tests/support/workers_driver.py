"""A driver whose workers run another Python: what each function says. Run by a test.

    python -m tests.support.workers_driver FOLDER

It writes `errors.json`: of each call the class of the error and its text.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.support import spark_session


def main(folder: Path) -> None:
    import kfast.spark
    from kfast.spark.functions import elect

    spark = spark_session.start("local[1]")
    state = kfast.generate(brokers=5, partitions=40, topics=4, seed=1)
    kfast.spark.split(state, folder / "in", shards=2)
    every = kfast.every_broker(state)
    frame = spark.createDataFrame([([1, 2], [1])], "ar array<int>, isr array<int>")
    errors = {}
    for name, ask in {
        "check_workers": lambda: kfast.spark.check_workers(spark),
        "fail": lambda: kfast.spark.fail(spark, folder / "in", [1], output=folder / "out"),
        "from_dataframes": lambda: kfast.spark.from_dataframes(
            partitions=kfast.spark.sweep_partitions(spark, state, every, tasks=1)
        ),
        "sweep": lambda: kfast.spark.sweep(spark, state, every, tasks=1).toArrow(),
        "sweep_brokers": lambda: kfast.spark.sweep_brokers(spark, state, every, tasks=1).toArrow(),
        "scenario_rows": lambda: kfast.spark.scenario_rows(spark, every, tasks=1).toArrow(),
        "fleet": lambda: kfast.spark.fleet(spark, folder / "in", "every_rack").toArrow(),
        "elect": lambda: frame.select(elect("ar", "isr", [1])).toArrow(),
        "source": lambda: spark.read.format("kfast").load(str(folder / "in")).toArrow(),
    }.items():
        try:
            ask()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            errors[name] = [type(error).__name__, str(error)]
    (folder / "errors.json").write_text(json.dumps(errors))
    spark.stop()


if __name__ == "__main__":
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    main(Path(sys.argv[1]))
