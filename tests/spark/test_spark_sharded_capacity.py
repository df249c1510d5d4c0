"""Capacity sweeps of a cluster in many files: the rows of one machine, for any shards and tasks."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import kfast
import kfast.spark
from tests.support.kraft_clusters import RandomCluster
from tests.support.sharded import split, without_session

pytestmark = pytest.mark.spark
BENCH = Path(__file__).resolve().parents[2] / "bench_data"
CAPACITY = (
    '{"brokerCapacities": [{"brokerId": "-1", "capacity": {"DISK": {"/a": "900", "/b": "2000"},'
    ' "CPU": {"num.cores": "8"}, "NW_IN": "90000", "NW_OUT": "200000"}}]}'
)


def cluster_of(seed):
    """A cluster that has been through something."""
    state = kfast.generate(
        brokers=9, partitions=400, racks=3, topics=30, seed=seed, unclean_topics=0.4,
        min_insync_replicas=2, controller="kraft-4.1" if seed % 2 else "zk-3.9",
    )
    if not state.is_kraft:
        controller = kfast.Controller(state)
        controller.on_controller_failover()
        controller.on_broker_failure([6, 7])
        controller.on_broker_startup([6])
    return state


def random_load(state, generator):
    """Files of loads in which every share model is needed, and what brokers use."""
    rows = ["topic,partition,broker_id,bytes_in,bytes_out,msgs_in,cpu"]
    sizes = ["topic,partition,broker_id,disk_bytes,log_dir"]

    def rate():
        return generator.randint(0, 10**6)

    rows += [f",,{broker},,,,{generator.randint(1, 4)}.5" for broker in state.broker_id.tolist()]
    for topic in state.topic.to_pylist():
        kind = generator.choice(["measured", "offsets", "leaders", "sizes", "topic", "none"])
        at = [row for row in range(state.n_partitions)
              if state.topic[int(state.topic_row[row])].as_py() == topic]
        if kind in ("topic", "offsets", "sizes"):
            rows.append(f"{topic},,,{rate() * 9},{rate() * 9},,")
        if kind == "leaders":
            leaders = [int(leader) for leader in state.records["leader"][at]]
            brokers = {int(state.broker_id[leader]) for leader in leaders if leader >= 0} | {1}
            rows += [f"{topic},,{broker},{rate()},{rate()},," for broker in sorted(brokers)]
        for row in at:
            number = int(state.partition[row])
            if kind == "measured" and generator.random() < 0.9:
                rows.append(f"{topic},{number},,{rate()},{rate()},,")
            if kind == "offsets":
                rows.append(f"{topic},{number},,,,{generator.randint(0, 999)},")
            if kind != "none" and generator.random() < 0.9:
                for broker in state.assignment(row).replicas:
                    sizes.append(f"{topic},{number},{broker},{rate()},/{generator.choice('ab')}")
    rows.append("gone,,,1,1,,")
    body = rows[1:]
    generator.shuffle(body)
    return kfast.read_load(
        ("rates.csv", "\n".join([rows[0], *body]).encode()),
        ("sizes.csv", "\n".join(sizes).encode()),
    )


def one_machine(state, load, **options):
    """The plan of one machine."""
    held = kfast.broker_capacity(state, kfast.read_capacity(("capacity", CAPACITY.encode())))
    return kfast.prepare_capacity(state, kfast.partition_load(state, load), held, **options)


def capacity():
    return kfast.read_capacity(("capacity", CAPACITY.encode()))


@pytest.mark.parametrize("seed", range(6))
def test_sums_of_shards_are_those_of_one_machine(tmp_path, monkeypatch, seed):
    """All share models, directories, processors; any shards and tasks; without a session."""
    without_session(monkeypatch)
    generator = Random(seed)
    state = cluster_of(seed)
    load = random_load(state, generator)
    if seed % 3 == 2:
        options = {"cpu_model": "write-equivalent", "replicas_limit": 120}
    else:
        options = {"failed_limits": {"nw_out": 0.7}, "fetch_from": ("leader", "nearest")[seed % 3]}
    plan = one_machine(state, load, **options)
    shards, tasks = generator.choice([(1, 1), (7, 3), (30, 30)])
    split(state, tmp_path / "in", shards)
    ready = kfast.spark.prepare_capacity(
        None, tmp_path / "in", load, capacity(), tasks=tasks, **options
    )
    assert ready.partitions == state.n_partitions
    assert ready.plan.disks.assumptions == plan.disks.assumptions
    for scenarios in (
        kfast.every_broker(ready.brokers, 2), kfast.random_brokers(ready.brokers, 4, 50, seed),
        kfast.every_rack(ready.brokers),
    ):
        assert kfast.capacity_sweep(ready.plan, scenarios).equals(
            kfast.capacity_sweep(plan, scenarios)
        )
        assert kfast.capacity_brokers(ready.plan, scenarios).equals(
            kfast.capacity_brokers(plan, scenarios)
        )
    assert "rates.csv: topics that the cluster does not have are left out: gone" in (
        ready.assumptions
    )


def test_topics_keep_their_own_settings(tmp_path, monkeypatch):
    """Of a KRaft cluster's topics, min ISR and retention come from the configurations."""
    without_session(monkeypatch)
    from tests.analysis.test_sweep_kraft import state_of

    for seed in range(8):
        state = state_of(RandomCluster(seed, "kraft-4.1", None))
        names = state.topic.filter(pa.array(state.topic_exists)).to_pylist()
        text = "\n".join(["topic,bytes_in,bytes_out", *(f"{name},1234567,7654321"
                                                        for name in names)])
        load = kfast.read_load(("loads", text.encode()))
        plan = one_machine(state, load)
        split(state, tmp_path / str(seed), 3)
        ready = kfast.spark.prepare_capacity(None, tmp_path / str(seed), load, capacity())
        every = kfast.independent_brokers(ready.brokers, 0.4, 20, seed)
        assert kfast.capacity_sweep(ready.plan, every).equals(
            kfast.capacity_sweep(plan, every)), f"seed {seed}"


def test_deletions_of_one_file_are_those_of_one_machine_and_of_two_are_refused(
    tmp_path, monkeypatch
):
    """A broker is down, so that topics wait to be deleted."""
    without_session(monkeypatch)
    state = kfast.generate(
        brokers=6, partitions=90, topics=9, racks=3, seed=4, controller="zk-3.9"
    )
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    controller.on_broker_failure([2])
    load = kfast.read_load(("loads", b"topic,bytes_in,bytes_out\ntopic-2,90000,5\ntopic-5,7,9\n"))
    controller.delete_topics(["topic-1"])
    assert state.any_queued
    split(state, tmp_path / "one", 3)
    ready = kfast.spark.prepare_capacity(None, tmp_path / "one", load, capacity())
    pairs = kfast.every_broker(ready.brokers, 2)
    assert kfast.capacity_sweep(ready.plan, pairs).equals(
        kfast.capacity_sweep(one_machine(state, load), pairs)
    )
    controller.delete_topics(["topic-2"])
    split(state, tmp_path / "two", 3)
    with pytest.raises(kfast.InputError, match="their deletions wait for each other"):
        kfast.spark.prepare_capacity(None, tmp_path / "two", load, capacity())


def test_texts_tell_the_retention_of_their_topics(tmp_path, monkeypatch):
    """Where no size is measured; the brokers are those of all texts together."""
    without_session(monkeypatch)
    texts = [
        f"Topic: {topic}\tTopicId: {topic * 11}AAAAAAAAAAA\tPartitionCount: 2\tReplicationFactor: 2"
        f"\tConfigs: {configs}\n" + "".join(
            f"\tTopic: {topic}\tPartition: {at}\tLeader: {1 + at}\tReplicas: {1 + at},{other}"
            f"\tIsr: {1 + at},{other}\n" for at in (0, 1)
        )
        for topic, configs, other in (
            ("a", "retention.ms=3600000", 3), ("b", "cleanup.policy=compact", 3),
            ("c", "segment.bytes=1048576,retention.bytes=99", 4),
        )
    ]
    (tmp_path / "in").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "in" / f"{number}.txt").write_text(text)
    (tmp_path / "all.txt").write_text("".join(texts))
    load = kfast.read_load(("loads", b"topic,bytes_in,bytes_out\na,7000,1\nb,900,2\nc,5000,3\n"))
    plan = one_machine(kfast.read(tmp_path / "all.txt"), load)
    ready = kfast.spark.prepare_capacity(None, tmp_path / "in", load, capacity())
    assert ready.plan.disks.total_bytes.tolist() == plan.disks.total_bytes.tolist()
    pairs = kfast.every_broker(ready.brokers, 2)
    assert kfast.capacity_sweep(ready.plan, pairs).equals(kfast.capacity_sweep(plan, pairs))
    assert any(line.startswith("1.txt: disk of topics that are compacted")
               for line in ready.warnings)


@pytest.mark.parametrize(("shards", "tasks"), [(5, 2), (16, None)])
def test_rows_over_spark_are_those_of_one_machine(spark, tmp_path, shards, tasks):
    """Also of loads that are a DataFrame; the plan is measured by any number of tasks."""
    state = kfast.generate(brokers=12, partitions=600, topics=25, racks=3, seed=5)
    kfast.spark.split(state, tmp_path / "in", shards=shards)
    generator = Random(shards)
    frame = spark.createDataFrame(
        [(topic, generator.randint(0, 10**7), 2 * 10**6) for topic in state.topic.to_pylist()],
        "topic string, bytes_in long, bytes_out long",
    )
    load = kfast.spark.load_from_dataframe(frame)
    plan = one_machine(state, load)
    ready = kfast.spark.prepare_capacity(spark, tmp_path / "in", load, capacity(), tasks=tasks)
    pairs = kfast.every_broker(ready.brokers, 2)
    wanted = kfast.capacity_sweep(plan, pairs)
    for n in (1, 3):
        seen = kfast.spark.capacity_sweep(spark, ready.plan, pairs, tasks=n)
        rows = seen.toArrow().sort_by("scenario").combine_chunks()
        assert rows.cast(wanted.schema).equals(wanted.combine_chunks())


def test_what_shards_cannot_do_is_refused_by_name(spark, tmp_path):
    state = kfast.generate(brokers=6, partitions=60, topics=6, seed=2)
    files = kfast.spark.split(state, tmp_path / "in", shards=3)
    load = kfast.read_load(("loads", b"topic,bytes_in,bytes_out\ntopic-1,5,5\n"))

    def prepare(load=load, **options):
        return kfast.spark.prepare_capacity(spark, tmp_path / "in", load, capacity(), **options)

    other = kfast.read_load(("loads", b"topic,bytes_in,bytes_out\norders,5,5\n"))
    with pytest.raises(kfast.InputError, match="loads: a load of another cluster: none of its t"):
        prepare(other)
    huge = kfast.read_load(("loads", b"topic,bytes_in,bytes_out\ntopic-1,99999999999999,5\n"))
    with pytest.raises(kfast.InputError, match=r"^partition topic-1-0: bytes_in is .* or more"):
        prepare(huge)
    folded = kfast.read_load(BENCH / "metrics.prom.gz", seconds=60)
    with pytest.raises(kfast.InputError, match="may have replaced the dots in names of topics"):
        prepare(folded)
    with pytest.raises(kfast.ArgumentError, match="limits has 'disks'"):
        prepare(failed_limits={"disks": 0.5})
    with pytest.raises(kfast.ArgumentError, match="load: no load is given"):
        prepare(())
    alone = prepare(down=1)
    with pytest.raises(kfast.ArgumentError, match="for at most 1 brokers that fail together"):
        kfast.capacity_sweep(alone.plan, kfast.every_broker(alone.brokers, 2))
    shutil.copy(files[0], tmp_path / "in" / "twice.parquet")
    with pytest.raises(kfast.InputError, match=r"stands in .* and in .*twice\.parquet"):
        prepare()
