"""Loads of partitions: the share models beside their twin, sources that fill and contradict."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.capacity.loads import shares
from kfast.capacity.loads.partition_loads import ShareModel
from kfast.errors import ArgumentError, InputError
from kfast.io.loads import LoadTable
from kfast.state import ClusterState
from kfast.state.metadata_records import ResourceType
from tests.support import reference_loads as twin

BROKERS = (1, 2, 5, 9)
RATES = ("bytes_in", "bytes_out", "milli_msgs_in")
KEYS = ("topic", "partition", "broker_id")


def cluster(partitions, controller="kraft-4.1"):
    """A cluster of (topic, partition, replicas, leader)."""
    names, numbers, replicas, leaders = zip(*partitions, strict=True)
    table = pa.table({
        "topic": pa.array(names).dictionary_encode(),
        "partition": pa.array(numbers, pa.int32()),
        "replicas": pa.array(replicas, pa.list_(pa.int32())),
        "isr": pa.array(replicas, pa.list_(pa.int32())),
        "leader": pa.array(leaders, pa.int32()),
    })
    return ClusterState.from_tables(
        pa.table({"broker_id": pa.array(BROKERS, pa.int32())}), None, table,
        pa.table({"controller": [controller]}),
    )


def loads(*rows, source="loads", **settings):
    """A load table of rows."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    kinds = {"topic": pa.string(), "log_dir": pa.string(), "partition": pa.int32(),
             "broker_id": pa.int32()}
    table = pa.table({
        name: pa.array([row.get(name) for row in rows], kinds.get(name, pa.int64()))
        for name in columns
    })
    for name in {"topic", "log_dir"} & {*columns}:
        at = columns.index(name)
        table = table.set_column(at, name, table[name].dictionary_encode())
    return LoadTable(source, table, **settings)


PAY = cluster([
    ("pay", 0, [1, 2, 5], 1), ("pay", 1, [2, 5, 9], 2), ("pay", 2, [5, 9, 1], 1),
    ("log", 0, [9, 1], 9),
])


def of_topic(values, state=PAY, topic=0):
    """Values of a topic's partitions, by number."""
    return values[state.lookup.rows_of_topic(topic)].tolist()


def model_of(load, quantity, topic=0):
    names = ("bytes_in", "bytes_out", "milli_msgs_in", "disk_bytes")
    return ShareModel(int(load.share_model[names.index(quantity), topic])).name.lower()


# --- the twin


def random_partitions(generator):
    partitions = []
    for topic in ("a.b", "a_b", "t-1", "big")[: generator.randint(1, 4)]:
        numbers = range(generator.randint(1, 6))
        if generator.random() < 0.2:
            numbers = sorted(generator.sample(range(20), len(numbers)))
        for number in numbers:
            replicas = generator.sample(BROKERS, generator.randint(1, 3))
            partitions.append((topic, number, replicas, generator.choice([*replicas, -1])))
    generator.shuffle(partitions)
    return partitions


def random_rows(generator, partitions):
    """Rows of topics and partitions, some of them of brokers, with some of the quantities."""
    rows = []
    for topic in sorted({topic for topic, *_ in partitions}):
        kinds = generator.sample(("total", "brokers", "measured", "sizes", "messages"),
                                 generator.randint(1, 3))
        big = generator.choice((7, 1000, 1 << 28))
        few = generator.random() < 0.3

        def amounts(*names, big=big):
            return {name: generator.randint(0, big) for name in names if generator.random() < 0.8}

        if "total" in kinds:
            rows.append({"topic": topic, **amounts(*RATES)})
        if "brokers" in kinds:
            rows += [{"topic": topic, "broker_id": b, **amounts(*RATES)} for b in BROKERS]
        for name, number, *_ in partitions:
            if name != topic or (few and generator.random() < 0.5):
                continue
            row = {"topic": topic, "partition": number}
            if "measured" in kinds:
                row |= amounts("bytes_in")
            if "messages" in kinds:
                row["milli_msgs_in"] = generator.randint(0, big)
            if "sizes" in kinds:
                row["disk_bytes"] = generator.randint(0, big)
            if len(row) > 2:
                rows.append(row)
    generator.shuffle(rows)
    return rows or [{"topic": partitions[0][0], "bytes_in": 1}]


def random_settings(generator):
    """Configurations of a topic that decide the size of its logs."""
    choices = {
        "retention.ms": ("-1", "1", "1500", "60001", str(7 * twin.DAY_MS)),
        "retention.bytes": ("-1", "0", "123456789"),
        "segment.bytes": ("14", "1048576"),
        "segment.ms": ("1", "333", "3600000"),
        "cleanup.policy": ("delete", "compact", "compact,delete"),
    }
    return {
        key: generator.choice(values) for key, values in choices.items() if generator.random() < 0.4
    }


def compare_with_twin(seed):
    generator = random.Random(seed)
    partitions = random_partitions(generator)
    state = cluster(partitions)
    settings = {topic: random_settings(generator) for topic in {p[0] for p in partitions}}
    for topic, values in settings.items():
        for key, value in values.items():
            state.quorum.set_configuration(ResourceType.TOPIC, topic, key, value)
    rows = random_rows(generator, partitions)
    load = kfast.partition_load(state, loads(*rows))
    for at, topic in enumerate(state.topic.to_pylist()):
        own = sorted((number, leader) for name, number, _, leader in partitions if name == topic)
        compacted = "compact" in settings[topic].get("cleanup.policy", "")
        listed = [{"number": n, "leader": b, "compacted": compacted} for n, b in own]
        mine = [row for row in rows if row["topic"] == topic]
        for quantity in RATES:
            parts, model = twin.share_topic(listed, mine, quantity)
            assert of_topic(getattr(load, quantity), state, at) == parts, (seed, topic, quantity)
            assert model_of(load, quantity, at) == (model or "none"), (seed, topic, quantity)
        sizes = {row["partition"]: row["disk_bytes"] for row in mine if "disk_bytes" in row}
        wanted = [
            sizes[number] if number in sizes else twin.retained(rate, settings[topic]) or 0
            for (number, _), rate in zip(own, of_topic(load.bytes_in, state, at), strict=True)
        ]
        assert of_topic(load.disk_bytes, state, at) == wanted, (seed, topic, settings[topic])


@pytest.mark.parametrize("block", range(4))
def test_loads_are_those_of_the_twin(block):
    """Random clusters, rows and configurations; 60 in each block."""
    for seed in range(60 * block, 60 * block + 60):
        compare_with_twin(seed)


def test_parts_are_those_of_exact_fractions():
    """Totals to 2^63 and weights whose sum reaches 2^60; parts add up to the total."""
    generator = random.Random(7)
    for _ in range(400):
        groups = [
            [generator.randrange(1 << generator.choice((2, 10, 40, 57)))
             for _ in range(generator.randint(1, 7))] for _ in range(generator.randint(1, 4))
        ]
        groups = [weights if any(weights) else [1, *weights[1:]] for weights in groups]
        totals = [generator.randrange(1 << generator.choice((3, 20, 53, 63))) for _ in groups]
        flat = np.array([weight for weights in groups for weight in weights])
        counts = np.array([len(weights) for weights in groups])
        parts = shares.deal(np.array(totals), flat, counts).tolist()
        wanted = [twin.deal(total, group) for total, group in zip(totals, groups, strict=True)]
        assert parts == [part for group in wanted for part in group]
        equal = shares.deal_equally(np.array(totals), counts).tolist()
        wanted = [twin.deal(t, [1] * len(g)) for t, g in zip(totals, groups, strict=True)]
        assert equal == [part for group in wanted for part in group]


# --- each model, by hand


def test_a_topic_is_dealt_equally_ties_to_the_lowest_partition():
    load = kfast.partition_load(PAY, loads({"topic": "pay", "bytes_in": 11}))
    assert of_topic(load.bytes_in) == [4, 4, 3]
    assert model_of(load, "bytes_in") == "equal"
    assert of_topic(load.bytes_out) == [0, 0, 0]


def test_a_broker_s_bytes_go_to_the_partitions_that_it_leads():
    """What Cruise Control does; a broker that leads none gives the rest to all."""
    load = kfast.partition_load(PAY, loads(
        {"topic": "pay", "broker_id": 1, "bytes_in": 101},
        {"topic": "pay", "broker_id": 2, "bytes_in": 7},
        {"topic": "pay", "broker_id": 9, "bytes_in": 3},
    ))
    assert of_topic(load.bytes_in) == [51 + 1, 7 + 1, 50 + 1]
    assert model_of(load, "bytes_in") == "leaders"
    assert any("dealt equally: 3 B/s of pay" in note for note in load.assumptions)


def test_sizes_are_no_weights_of_a_compacted_topic():
    state = cluster([("t", 0, [1], 1), ("t", 1, [2], 2)])
    rows = (
        {"topic": "t", "bytes_in": 10}, {"topic": "t", "partition": 0, "disk_bytes": 9},
        {"topic": "t", "partition": 1, "disk_bytes": 1},
    )
    assert of_topic(kfast.partition_load(state, loads(*rows)).bytes_in, state) == [9, 1]
    state.quorum.set_configuration(ResourceType.TOPIC, "t", "cleanup.policy", "compact")
    assert of_topic(kfast.partition_load(state, loads(*rows)).bytes_in, state) == [5, 5]


def test_sizes_of_replicas_are_kept_and_the_largest_is_the_partition_s():
    """A directory that says nothing, and a log that nobody is assigned any more."""
    load = kfast.partition_load(PAY, loads(
        {"topic": "pay", "partition": 0, "broker_id": 1, "disk_bytes": 70, "log_dir": "/a"},
        {"topic": "pay", "partition": 0, "broker_id": 5, "disk_bytes": 60, "log_dir": "/b"},
        {"topic": "pay", "partition": 0, "broker_id": 9, "disk_bytes": 99, "log_dir": "/a"},
    ))
    row = PAY.lookup.rows_of_topic(0)[0]
    assert load.disk_bytes[row] == 70
    assert load.replica_bytes[row].tolist() == [70, 70, 60]
    assert load.log_dirs == ("/a", "/b")
    assert load.replica_log_dir[row].tolist() == [0, -1, 1]
    assert any("left out: 1 log on brokers that are not assigned" in note
               for note in load.assumptions)
    two = PAY.lookup.rows_of_topic(1)[0]
    assert load.replica_bytes[two].tolist() == [0, 0, 0]


def test_a_log_of_an_in_sync_broker_that_is_not_assigned_is_none_of_the_partition_s():
    """Slots behind the assigned ones hold such brokers."""
    table = pa.table({
        "topic": pa.array(["t"]).dictionary_encode(), "partition": pa.array([0], pa.int32()),
        "replicas": pa.array([[1, 2]], pa.list_(pa.int32())),
        "isr": pa.array([[1, 9]], pa.list_(pa.int32())), "leader": pa.array([1], pa.int32()),
    })
    state = ClusterState.from_tables(
        pa.table({"broker_id": pa.array(BROKERS, pa.int32())}), None, table
    )
    load = kfast.partition_load(state, loads(
        {"topic": "t", "partition": 0, "broker_id": 1, "disk_bytes": 5},
        {"topic": "t", "partition": 0, "broker_id": 9, "disk_bytes": 99},
    ))
    assert load.disk_bytes.tolist() == [5]
    assert load.replica_bytes.tolist() == [[5, 5, 0]]


def test_a_topic_s_size_on_all_replicas_becomes_that_of_one():
    """As kminion_kafka_topic_log_dir_size_total_bytes has it."""
    load = kfast.partition_load(PAY, loads({"topic": "pay", "replicated_bytes": 900}))
    assert of_topic(load.disk_bytes) == [100, 100, 100]


def test_retention_makes_the_size_where_none_is_measured():
    """7 days of 1 MB/s and a segment of 1 GiB."""
    load = kfast.partition_load(PAY, loads({"topic": "pay", "bytes_in": 3_000_000}))
    assert of_topic(load.disk_bytes) == [604_800_000_000 + (1 << 30)] * 3
    assert model_of(load, "disk_bytes") == "retention"


def test_brokers_defaults_of_retention_count():
    state = cluster([("t", 0, [1], 1)])
    for key, value in (("log.retention.hours", "1"), ("log.segment.bytes", "1000")):
        state.quorum.set_configuration(ResourceType.BROKER, "", key, value)
    load = kfast.partition_load(state, loads({"topic": "t", "bytes_in": 10}))
    assert load.disk_bytes.tolist() == [36_000 + 1000]
    state.quorum.set_configuration(ResourceType.TOPIC, "t", "remote.storage.enable", "true")
    state.quorum.set_configuration(ResourceType.TOPIC, "t", "local.retention.ms", "1000")
    load = kfast.partition_load(state, loads({"topic": "t", "bytes_in": 10}))
    assert load.disk_bytes.tolist() == [10 + 1000]


    state.quorum.set_configuration(ResourceType.TOPIC, "t", "local.retention.bytes", "7")
    load = kfast.partition_load(state, loads({"topic": "t", "bytes_in": 10}))
    assert load.disk_bytes.tolist() == [7 + 1000]


@pytest.mark.parametrize(("key", "ms"), [
    ("log.retention.hours", 3_600_000), ("log.retention.minutes", 60_000),
    ("log.roll.hours", 3_600_000),
])
def test_a_brokers_default_that_is_too_long_in_milliseconds_is_refused(key, ms):
    most = (2**63 - 1) // ms
    state = cluster([("t", 0, [1], 1)])
    state.quorum.set_configuration(ResourceType.BROKER, "", key, str(most))
    kfast.partition_load(state, loads({"topic": "t", "bytes_in": 0}))
    state.quorum.set_configuration(ResourceType.BROKER, "", key, str(most + 1))
    with pytest.raises(InputError, match=f"{key} of the brokers is .* to {most} is needed"):
        kfast.partition_load(state, loads({"topic": "t", "bytes_in": 0}))


DESCRIBE = """\
Topic: days{blank}PartitionCount: 1{blank}ReplicationFactor: 1{blank}Configs:{sp}{days}
\tTopic: days\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1
Topic: keys{blank}PartitionCount: 1{blank}ReplicationFactor: 1{blank}Configs:{sp}{keys}
\tTopic: keys\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1
Topic: both{blank}PartitionCount: 1{blank}ReplicationFactor: 1{blank}Configs:{sp}{both}
\tTopic: both\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1
Topic: none{blank}PartitionCount: 1{blank}ReplicationFactor: 1{blank}Configs:
\tTopic: none\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1
"""


@pytest.mark.parametrize("blanks", [("\t", " "), ("\t", ""), ("   ", "  ")])
@pytest.mark.parametrize("controller", ["kraft-4.1", "zk-3.9"])
def test_settings_in_a_describe_text_make_the_size(blanks, controller):
    """Values have commas, as cleanup.policy has, or names of settings in them."""
    text = DESCRIBE.format(
        blank=blanks[0], sp=blanks[1], days="min.insync.replicas=1,retention.ms=1000",
        keys="cleanup.policy=compact,segment.bytes=5",
        both="segment.ms=1000,x.retention.ms=9,cleanup.policy=compact,delete,retention.bytes=70",
    )
    state = kfast.read(("describe.txt", text.encode()))
    state = kfast.with_controller(state, controller)
    load = kfast.partition_load(state, loads(*(
        {"topic": name, "bytes_in": 10} for name in ("days", "keys", "both", "none")
    )))
    week = 10 * 7 * twin.DAY_MS // 1000
    sizes = dict(zip(("days", "keys", "both", "none"), (10 + week, 0, 70 + 10, 2 * week),
                     strict=True))
    names = state.topic.take(pa.array(state.topic_row)).to_pylist()
    assert dict(zip(names, load.disk_bytes.tolist(), strict=True)) == sizes
    assert any(line.startswith("retention and cleanup.policy of 1 of 4 topics are not given")
               for line in load.assumptions)
    assert [line for line in load.warnings if "counts as 0: keys" in line]


def test_replication_is_taken_off_bytes_out_on_request():
    rows = loads({"topic": "pay", "bytes_in": 30, "bytes_out": 90},
                 {"topic": "log", "bytes_in": 9, "bytes_out": 5})
    load = kfast.partition_load(PAY, rows, bytes_out_has_replication=True)
    assert of_topic(load.bytes_out) == [30 - 20] * 3
    assert of_topic(load.bytes_out, topic=1) == [0]
    assert any("0 bytes out are taken for 1 partition whose" in note for note in load.assumptions)


# --- several tables


def test_later_tables_fill_what_earlier_ones_lack():
    load = kfast.partition_load(PAY, [
        loads({"topic": "pay", "partition": 0, "bytes_in": 100}, source="a"),
        loads({"topic": "pay", "partition": 0, "bytes_in": 104},
              {"topic": "pay", "partition": 1, "bytes_in": 200},
              {"topic": "log", "bytes_in": 7, "bytes_out": 1}, source="b"),
    ])
    assert of_topic(load.bytes_in) == [100, 200, 0]
    assert of_topic(load.bytes_in, topic=1) == [7]
    assert not [text for text in load.warnings if "5 %" in text]
    sources = load.provenance.filter(pa.compute.equal(load.provenance["quantity"], "bytes_in"))
    assert sources["source"].to_pylist() == ["a", "b"]
    assert sources["share_model"].to_pylist() == ["measured", "equal"]
    assert any("0 is taken: pay" in note for note in load.assumptions)


def test_conflicts_of_more_than_5_percent_name_both_values():
    load = kfast.partition_load(PAY, [
        loads({"topic": "pay", "partition": 0, "bytes_in": 100},
              {"topic": "pay", "partition": 1, "bytes_in": 100}, {"topic": "log", "bytes_out": 20},
              source="a"),
        loads({"topic": "pay", "partition": 0, "bytes_in": 106},
              {"topic": "pay", "partition": 1, "bytes_in": 105}, {"topic": "log", "bytes_out": 30},
              source="b"),
    ])
    assert of_topic(load.bytes_in) == [100, 100, 0]
    texts = "\n".join(load.warnings)
    assert "b: bytes_in of 1 partition is more than 5 %" in texts
    assert "pay-0 100 B/s, there 106 B/s" in texts
    assert "b: bytes_out of 1 topic is more than 5 %" in texts
    assert "log 20 B/s, there 30 B/s" in texts


def test_what_a_broker_reports_of_all_topics_is_compared_and_never_added():
    """Within 5 % nothing is said; below 10 B/s nothing either."""
    def warned(total):
        load = kfast.partition_load(PAY, loads(
            {"topic": "pay", "broker_id": 1, "bytes_in": 1000},
            {"topic": "log", "broker_id": 9, "bytes_in": 3},
            {"broker_id": 1, "bytes_in": total}, {"broker_id": 9, "bytes_in": 8},
        ))
        assert load.bytes_in.sum() == 1003
        return [text for text in load.warnings if "from the sum over" in text]

    assert warned(953) == warned(1052) == []
    assert warned(952) == [
        ("loads: bytes_in of 1 broker is more than 5 % from the sum over its topics: broker 1 952"
         " B/s, over topics 1.0 kB/s")
    ]
    assert len(warned(1053)) == 1


def test_cpu_of_brokers_is_kept_by_row():
    load = kfast.partition_load(PAY, loads(
        {"topic": "pay", "bytes_in": 1}, {"broker_id": 5, "cpu_microcores": 2_500_000},
    ))
    assert load.cpu_microcores.tolist() == [-1, -1, 2_500_000, -1]
    assert kfast.partition_load(PAY, loads({"topic": "pay", "bytes_in": 1})).cpu_microcores is None


def test_windows_are_never_mixed():
    """A peak and a mean; sizes have no window."""
    peak = loads({"topic": "pay", "bytes_in": 1}, source="a", window="p95 of 1 h")
    sizes = loads({"topic": "pay", "partition": 0, "disk_bytes": 1}, source="b", window="now")
    assert kfast.partition_load(PAY, [peak, sizes]).window == "p95 of 1 h"
    mean = loads({"topic": "log", "bytes_in": 1}, source="c", window="mean")
    with pytest.raises(InputError, match="c: rates are 'mean', in a 'p95 of 1 h'"):
        kfast.partition_load(PAY, [peak, mean])


# --- what is missing, foreign or too large


def test_topics_without_load_warn():
    load = kfast.partition_load(PAY, loads(
        {"topic": "pay", "bytes_in": 1}, {"topic": "log", "partition": 0, "disk_bytes": 1 << 48},
    ))
    assert load.topics_without_load == ("log",)
    assert load.warnings == (
        "no load is known of 1 of 4 partitions, which count as 0: 1 topic without any, log",
        "topics with more than 1 % of all bytes on disk have no load: log",
    )


def test_one_partition_in_a_hundred_may_be_without_load():
    many = [("pay", number, [1], 1) for number in range(99)] + [("log", 0, [1], 1)]
    few = kfast.partition_load(cluster(many), loads({"topic": "pay", "bytes_in": 10**9}))
    assert few.topics_without_load == ("log",)
    assert few.warnings == ()
    assert kfast.partition_load(
        cluster(many[1:]), loads({"topic": "pay", "bytes_in": 10**9})
    ).warnings


def test_compacted_topics_without_a_size_are_named():
    state = cluster([("__consumer_offsets", 0, [1], 1), ("t", 0, [1], 1)])
    load = kfast.partition_load(state, loads(
        {"topic": "__consumer_offsets", "bytes_in": 5}, {"topic": "t", "bytes_in": 5},
    ))
    assert load.disk_bytes[0] == 0
    assert any("counts as 0: __consumer_offsets" in text for text in load.warnings)


def test_unknown_topics_and_partitions_are_named_and_left_out():
    load = kfast.partition_load(PAY, loads(
        {"topic": "pay", "partition": 0, "bytes_in": 1},
        {"topic": "pay", "partition": 7, "bytes_in": 1}, {"topic": "gone", "bytes_in": 9},
        {"topic": "pay", "partition": 1, "broker_id": 77, "bytes_in": 9},
    ))
    assert load.bytes_in.sum() == 1
    texts = "\n".join(load.assumptions)
    assert "topics that the cluster does not have are left out: gone" in texts
    assert "partitions that the cluster does not have are left out: pay-7" in texts
    assert "brokers that the cluster does not have are left out: 77" in texts


@pytest.mark.parametrize("more", [(), ({"topic": "__consumer_offsets", "bytes_in": 1},)])
def test_a_load_of_another_cluster_is_refused(more):
    """Kafka's own topics are in every cluster, and show nothing."""
    state = cluster([("__consumer_offsets", 0, [1], 1), ("t", 0, [1], 1)])
    with pytest.raises(InputError, match=r"loads: a load of another cluster: .*\(other\).* t$"):
        kfast.partition_load(state, loads({"topic": "other", "bytes_in": 1}, *more))


def test_folded_names_find_their_topics():
    """Exactly first; a name of several topics is shared by their partitions."""
    state = cluster([
        ("a.b", 0, [1], 1), ("a.b", 1, [1], 1), ("a_b", 0, [1], 1), ("x.y", 0, [1], 1),
    ])
    rows = ({"topic": "a_b", "bytes_in": 9}, {"topic": "x_y", "bytes_in": 4})
    load = kfast.partition_load(state, loads(*rows, folds_names=True))
    assert of_topic(load.bytes_in, state, 0) == [3, 3]
    assert load.bytes_in.tolist() == [3, 3, 3, 4]
    assert any("shared by their partitions: a_b" in note for note in load.assumptions)
    dotted = loads(*rows, {"topic": "a.b", "bytes_in": 2}, folds_names=True)
    load = kfast.partition_load(state, dotted)
    assert load.bytes_in.tolist() == [1, 1, 9, 4]
    load = kfast.partition_load(state, loads(*rows))
    assert load.bytes_in.tolist() == [0, 0, 9, 0]


def test_bounds_of_partitions_and_sums_hold():
    with pytest.raises(InputError, match=r"partition log-0: bytes_in is 1099511627776 B/s or more"):
        kfast.partition_load(PAY, loads({"topic": "log", "bytes_in": 1 << 40}))
    wide = cluster([("t", number, [1, 2, 5, 9], 1) for number in range(2050)])
    rows = [{"topic": "t", "partition": n, "disk_bytes": (1 << 50) - 1} for n in range(2050)]
    total = 2050 * 4 * ((1 << 50) - 1)
    with pytest.raises(InputError, match=f"disk_bytes of all replicas together is {total}"):
        kfast.partition_load(wide, loads(*rows))
    assert kfast.partition_load(wide, loads(*rows[:2000])).disk_bytes.max() == (1 << 50) - 1


def test_wrong_arguments_are_named():
    with pytest.raises(ArgumentError, match="tables: no load"):
        kfast.partition_load(PAY, [])
    with pytest.raises(ArgumentError, match="tables is of type str"):
        kfast.partition_load(PAY, ["loads.csv"])
    with pytest.raises(ArgumentError, match="state is a path"):
        kfast.partition_load("x", loads({"topic": "t", "bytes_in": 1}))


def test_a_load_shows_its_units():
    load = kfast.partition_load(PAY, loads({"topic": "pay", "bytes_in": 3_000_000}))
    assert "in 3.0 MB/s, out 0 B/s" in repr(load)
    assert "<th>in</th><td>3.0 MB/s</td>" in load._repr_html_()
