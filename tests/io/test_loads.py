"""Loads and capacities from files: real ones, invented ones, and what is wrong in them."""

from __future__ import annotations

import gzip
import json
import random

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kfast
from kfast.errors import ArgumentError, InputError

OWN = """topic,partition,bytes_in,bytes_out,disk_bytes
orders.events,0,1048576,3145728,634023936000
orders.events,1,2.5,3.5,1
log-1,7,,0,
"""
LOG_DIRS = {"version": 1, "brokers": [
    {"broker": 4, "logDirs": [
        {"logDir": "/d1", "error": None, "partitions": [
            {"partition": "a-1-2", "size": 1048576, "offsetLag": 0, "isFuture": False},
            {"partition": "a-1-2", "size": 77, "offsetLag": 5, "isFuture": True},
        ]},
        {"logDir": "/d2", "error": "org.apache.kafka.common.errors.KafkaStorageException",
         "partitions": []},
    ]},
    {"logDirs": [{"partitions": [{"isFuture": False, "size": 0, "partition": "b-0"}],
                  "totalBytes": 9, "error": None, "logDir": "/d1"}], "broker": 5},
]}
PROSE = "Querying brokers for log directories information\nReceived log directory information\n"
PARTITION_LOAD = {"version": 1, "records": [
    {"topic": "t", "partition": 0, "leader": 1, "followers": [2, 3], "cpu": 0.5, "disk": 1.5,
     "networkInbound": 10.0, "networkOutbound": 45.0, "msg_in": 3.0005, "max_load": True},
    {"topic": "t", "partition": 1, "leader": 2, "followers": [3], "cpu": 0.1, "disk": 0.0,
     "networkInbound": 4.0, "networkOutbound": 1.0, "msg_in": 0.0},
]}
BROKER_LOAD = {"version": 1, "hosts": [], "brokers": [
    {"Host": "h", "Broker": 3, "Rack": "a", "BrokerState": "ALIVE", "DiskMB": 2.0, "CpuPct": 25.0,
     "LeaderNwInRate": 8.0, "FollowerNwInRate": 1.0, "NwOutRate": 3.0, "DiskCapacityMB": 100.0,
     "NetworkInCapacity": 50.0, "NetworkOutCapacity": 60.0, "NumCore": 8},
]}
JBOD = {"brokerCapacities": [
    {"brokerId": "-1", "capacity": {"DISK": "8000000", "CPU": {"num.cores": "16"},
                                    "NW_IN": "1200000", "NW_OUT": "1200000"}, "doc": "r-16"},
    {"brokerId": "7", "capacity": {"DISK": {"/d1": "4000000", "/d2": "2"},
                                   "CPU": {"num.cores": "1.5"}, "NW_IN": "1", "NW_OUT": "2"}},
]}
BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"


def read_one(text, name="x", **options):
    data = json.dumps(text) if isinstance(text, dict) else text
    content = data if isinstance(data, bytes) else data.encode()
    (table,) = kfast.read_load((name, content), **options)
    return table


def read_capacity(text):
    data = json.dumps(text) if isinstance(text, dict) else text
    return kfast.read_capacity(("x", data.encode()))


def scrape(value, extra="", labels='topic="t.x",broker="3"', time=""):
    return f"# TYPE {BYTES_IN} counter\n{BYTES_IN}{{{labels}}} {value}{time}\n{extra}".encode()


def series(*results, kind="matrix", **changes):
    answer = {"status": "success", "data": {"resultType": kind, "result": [*results]}}
    return json.dumps(answer | changes).encode()


def counter(samples, name=BYTES_IN, **labels):
    return {"metric": {"__name__": name, **labels}, "values": samples}


# --- kfast's own columns


def test_csv_by_partition():
    table = read_one(OWN)
    assert table.rows.to_pydict() == {
        "topic": ["orders.events", "orders.events", "log-1"], "partition": [0, 1, 7],
        "bytes_in": [1048576, 2, None], "bytes_out": [3145728, 4, 0],
        "disk_bytes": [634023936000, 1, None],
    }
    assert table.rows.schema.field("bytes_in").type == pa.int64()
    assert table.assumptions == ()


def test_csv_by_topic_in_any_order_with_columns_of_others():
    """Also packed, with a byte order mark, CRLF and blanks; unknown columns are named once."""
    text = "\ufeffmsgs_in , Topic,owner,window\r\n 1.0005,t,me,p95 of 1 h\r\n\r\n"
    text += "7, u ,,p95 of 1 h\r\n"
    table = read_one(gzip.compress(text.encode()))
    assert table.rows.to_pydict() == {"topic": ["t", "u"], "milli_msgs_in": [1000, 7000]}
    with pytest.raises(InputError, match="x line 4: found msgs_in '-7'"):
        read_one(text.replace("7, u", "-7, u"))
    assert table.window == "p95 of 1 h"
    assert table.assumptions == ("x: columns that kfast does not use: owner",)


def test_halves_are_rounded_to_even_and_integers_are_exact():
    text = "topic,bytes_in,replicated_bytes\na,0.5,9007199254740993\nb,1.5,1\nc,2.5,2\n"
    rows = read_one(text).rows.to_pydict()
    assert rows["bytes_in"] == [0, 2, 2]
    assert rows["replicated_bytes"] == [9007199254740993, 1, 2]


def test_what_is_read_can_be_written_and_read_again(tmp_path):
    """As Parquet and as Arrow, with the columns and the units of the table."""
    table = read_one("topic,partition,broker_id,msgs_in,cpu\nt,0,,1.25,\n,,3,,2.5\n")
    parquet, arrow = tmp_path / "load.parquet", tmp_path / "load.arrow"
    pq.write_table(table.rows, parquet)
    with pa.ipc.new_file(arrow, table.rows.schema) as writer:
        writer.write_table(table.rows)
    for path in (parquet, arrow):
        (again,) = kfast.read_load(path)
        assert again.rows.to_pydict() == table.rows.to_pydict()
    assert table.rows["milli_msgs_in"].to_pylist() == [1250, None]
    assert table.rows["cpu_microcores"].to_pylist() == [None, 2_500_000]


@pytest.mark.parametrize(("text", "message"), [
    ("topic,bytes_in\nt,-1\n", "x line 2: found bytes_in '-1'; right is a number of B/s from 0 to"),
    ("topic,bytes_in\nt,1\nu,NaN\n", "x line 3: found bytes_in 'NaN'; right is"),
    ("topic,bytes_in\nt,inf\n", "x line 2: found bytes_in 'inf'; right is"),
    ("topic,bytes_in\nt,-inf\n", "x line 2: found bytes_in '-inf'; right is"),
    ("topic,bytes_in\nt,1e30\n", "x line 2: found bytes_in '1e30'; right is"),
    ("topic,bytes_in\nt,10MB/s\n", "x line 2: found bytes_in '10MB/s'; right is a number of B/s"),
    ("topic,partition,bytes_in\nt,0,1099511627776\n",
     "x line 2: found bytes_in 1099511627776 B/s of one partition; right is less than"),
    ("topic,partition,bytes_in\nt,-1,1\n", "x line 2: found partition '-1'; right is a whole"),
    ("topic,partition,bytes_in\nt,1.5,1\n", "x line 2: found partition '1.5'; right is a whole"),
    ("topic,partition,bytes_in\nt,4294967296,1\n", "x line 2: found partition '4294967296'; right"),
    ("topic,partition,bytes_in\nt,0,1\nu,0,1\nt,0,2\n",
     "x line 4: the same topic, partition and broker_id as in x line 2; right is a row for each"),
    ("topic,bytes_in\n,1\n", "x line 2: found no topic; right is a topic, or a broker_id alone"),
    ("topic,bytes_in\n", "x line 2: there is no row of loads"),
    ("topic,partition\nt,0\n", "x: no column of numbers; found topic, partition; right is at"),
    ("topic,bytes_in,bytes_in\nt,0,0\n", "x: column bytes_in stands twice"),
    ("topic,msgs_in,milli_msgs_in\nt,0,0\n", "x line 2: milli_msgs_in says what another column"),
    ("topic,bytes_in\nt,1\nu\n", "x line 3: damaged CSV: Expected 2 columns, got 1: u"),
    ("topic,bytes_in,window\nt,1,mean\nu,1,p95\n",
     "x line 3: found window 'p95', in rows before 'mean'; right is one for the file"),
    ("", "x: is empty"),
    ("hello\n", "x: is not recognised, it begins with 'hello'; right is one of CSV, Parquet"),
    ("Topic: t\tPartitionCount: 1\n", "x: is the output of kafka-topics --describe, a cluster"),
    ('{"version":1,"partitions":[]}', "x: is JSON of another kind; right is one of CSV"),
    ('{"brokerCapacities":[]}', "x: is a Cruise Control capacity file; right is one of"),
])
def test_what_is_wrong_in_a_csv_is_named(text, message):
    """Row, what was found, what is allowed: on one line."""
    with pytest.raises(InputError) as caught:
        read_one(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("columns", "message"), [
    ({"topic": ["t"], "bytes_in": pa.array([float("nan")])}, "x: row 0: found bytes_in nan; right"),
    ({"topic": ["t", "u"], "bytes_in": pa.array([1, -5])}, "x: row 1: found bytes_in -5; right"),
    ({"topic": ["t"], "bytes_in": pa.array([1e30])}, "x: row 0: found bytes_in 1e+30; right"),
    ({"topic": ["t"], "bytes_in": pa.array([1 << 63], pa.uint64())}, "found bytes_in 922337203685"),
    ({"topic": ["t"], "bytes_in": pa.array([True])}, "x: row 0: found bytes_in of type bool"),
    ({"topic": ["t"], "bytes_in": pa.array([[1]])}, "x: row 0: found bytes_in"),
    ({"topic": [1], "bytes_in": [1]}, "x: row 0: found topic of type int64; right is text"),
    ({"topic": ["t"], "replica_0": [1]}, "x: no column of numbers; found topic, replica_0"),
])
def test_what_is_wrong_in_parquet_is_named(columns, message):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    with pytest.raises(InputError) as caught:
        read_one(sink.getvalue().to_pybytes())
    assert message in str(caught.value)


def test_parquet_of_brokers_needs_no_topic(tmp_path):
    path = tmp_path / "brokers.parquet"
    pq.write_table(pa.table({"broker_id": [3], "cpu": [1.5]}), path)
    (table,) = kfast.read_load(path)
    assert table.rows.to_pylist() == [{"broker_id": 3, "cpu_microcores": 1_500_000}]
    pq.write_table(pa.table({"broker_id": [-1], "nw_in": [5]}), path)
    assert kfast.read_capacity(path).rows.to_pylist() == [{"broker_id": -1, "nw_in": 5}]
    pq.write_table(pa.table({"topic": [{"name": "t"}], "bytes_in": [5]}), path)
    with pytest.raises(InputError, match="found topic of type struct"):
        kfast.read_load(path)


@pytest.mark.parametrize("text", [
    b"topic,cpu\nt,1e307\n", b'topic,bytes_in\n"t\nu",1,2\n',
    scrape(1, time=f" {10**400}"),
])
def test_odd_numbers_and_lines_are_one_line(text):
    with pytest.raises(InputError) as caught:
        kfast.read_load(("x", text))
    assert "\n" not in str(caught.value)


def test_times_outside_the_calendar_are_none_of_it():
    (table,) = kfast.read_load(
        ("x", scrape(0, time=f" {10**17}")), ("y", scrape(16, time=f" {10**17 + 8000}"))
    )
    assert table.window == "mean of 8 s"


def test_damaged_parquet_and_arrow_are_refused():
    """Cut anywhere, with any byte changed: an `InputError` or a table, never another error."""
    sink = pa.BufferOutputStream()
    pq.write_table(read_one(OWN).rows, sink)
    generator, data = random.Random(3), sink.getvalue().to_pybytes()
    with pytest.raises(InputError, match="x: damaged Parquet file"):
        read_one(data[:-9])
    messages = []
    for _ in range(300):
        damaged = bytearray(data)
        damaged[generator.randrange(4, len(data))] ^= 1 << generator.randrange(8)
        try:
            read_one(bytes(damaged))
        except InputError as error:
            messages.append(str(error))
    assert messages
    assert not any("\n" in message for message in messages)


# --- kafka-log-dirs


def test_log_directories():
    """Prose before, keys in any order, topics with dashes; copies of a move are left out."""
    table = read_one(PROSE + json.dumps(LOG_DIRS) + "\nbye\n")
    assert table.rows.to_pylist() == [
        {"topic": "a-1", "partition": 2, "broker_id": 4, "log_dir": "/d1", "disk_bytes": 1048576},
        {"topic": "b", "partition": 0, "broker_id": 5, "log_dir": "/d1", "disk_bytes": 0},
    ]
    assert table.assumptions == (
        ("x: directories with an error give no sizes: /d2 of broker 4"
         " (org.apache.kafka.common.errors.KafkaStorageException)"),
        "x: left out: 1 copy that moves between directories make",
    )


@pytest.mark.parametrize(("folder", "file", "n_rows"), [
    ("exports", "log_dirs_describe_4brokers.txt", 67),
    ("exports_zk39", "log_dirs.txt", 643),
    ("kraft_live/exports/mark", "log-dirs.txt", 1473),
    ("kraft_live/exports/mark", "log-dirs-brokers-4-5.txt", 592),
])
def test_real_log_directories(shared_data, folder, file, n_rows):
    """Beside what Python's own JSON makes of them."""
    path = shared_data / folder / file
    (table,) = kfast.read_load(path)
    text = path.read_text()
    document = json.loads(text[text.index("{"):].splitlines()[0])
    wanted = [
        (*entry["partition"].rsplit("-", 1), broker["broker"], directory["logDir"], entry["size"])
        for broker in document["brokers"] for directory in broker["logDirs"]
        for entry in directory["partitions"] if not entry["isFuture"]
    ]
    rows = table.rows.to_pylist()
    assert [(r["topic"], str(r["partition"]), r["broker_id"], r["log_dir"], r["disk_bytes"])
            for r in rows] == wanted
    assert len(rows) == n_rows


def changed(old, new):
    return PROSE + json.dumps(LOG_DIRS).replace(old, new, 1)


@pytest.mark.parametrize(("text", "message"), [
    (PROSE + json.dumps(LOG_DIRS)[:-40], "x line 3: not the JSON of kafka-log-dirs: Input data"),
    (changed('"size": 1048576', '"size": -3'), "(broker 4, /d1): found size -3 of a-1-2; right is"),
    (changed('"size": 1048576', '"size": "3"'), "(broker 4, /d1): Expected `int`, got `str`"),
    (changed('"size": 1048576', '"size": 1e30'), "(broker 4, /d1): Expected `int`"),
    (changed('"size": 1048576', f'"size": {1 << 70}'), "(broker 4, /d1): "),
    (changed("a-1-2", "a12"), "found partition 'a12'; right is a topic, a dash and a number"),
    (changed("a-1-2", "-2"), "found partition '-2'; right is"),
    (changed("a-1-2", "a-99999999999"), "found partition 'a-99999999999'; right is"),
    (changed("a-1-2", "a-2147483648"), "found partition 'a-2147483648'; right is"),
    (changed('"broker": 4', '"broker": -4'), "x line 3: not the JSON of kafka-log-dirs: Expected"),
    (changed('"isFuture": true', '"isFuture": false'),
     "x line 3 (a-1-2 on broker 4): the same topic, partition and broker_id as in x line 3"),
    (changed('"size": 1048576', f'"size": {1 << 50}'),
     "(a-1-2 on broker 4): found disk_bytes 1125899906842624 bytes of one partition; right"),
    ('{"version":1,"brokers":[{"broker":1,"logDirs":[]}]}', "x line 1: the output lists no"),
])
def test_what_is_wrong_in_log_directories_is_named(text, message):
    with pytest.raises(InputError) as caught:
        read_one(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# --- Cruise Control


def test_partition_load():
    """KB of 1024 and MB of 1048576 bytes; replication is not the consumers'."""
    table = read_one(PARTITION_LOAD)
    assert table.rows.to_pydict() == {
        "topic": ["t", "t"], "partition": [0, 1], "bytes_in": [10240, 4096],
        "bytes_out": [(45 - 20) * 1024, 0], "milli_msgs_in": [3000, 0], "disk_bytes": [1572864, 0],
    }
    assert "0 bytes out are taken for 1 partition" in table.assumptions[1]


def test_load_of_brokers_is_a_load_and_a_capacity():
    table = read_one(BROKER_LOAD)
    assert table.rows.to_pylist() == [
        {"broker_id": 3, "bytes_in": 8192, "cpu_microcores": 2_000_000, "disk_bytes": 2 << 20}
    ]
    assert read_capacity(BROKER_LOAD).rows.to_pylist() == [
        {"broker_id": 3, "disk_bytes": 100 << 20, "nw_in": 51200, "nw_out": 61440,
         "cpu_microcores": 8_000_000}
    ]
    old = json.loads(json.dumps(BROKER_LOAD))
    for key in ("NumCore", "DiskCapacityMB", "NetworkInCapacity", "NetworkOutCapacity"):
        del old["brokers"][0][key]
    assert read_one(old).assumptions == ("x: CPU of brokers without NumCore is left out: 3",)
    with pytest.raises(InputError, match="the load has no capacities; right is DiskCapacityMB"):
        read_capacity(old)


def test_capacities_of_directories_and_cores():
    table = read_capacity(JBOD)
    assert table.rows.to_pylist() == [
        {"broker_id": -1, "disk_bytes": 8000000 << 20, "log_dirs": None, "nw_in": 1200000 << 10,
         "nw_out": 1200000 << 10, "cpu_microcores": 16_000_000},
        {"broker_id": 7, "disk_bytes": 4000002 << 20,
         "log_dirs": [("/d1", 4000000 << 20), ("/d2", 2 << 20)], "nw_in": 1024, "nw_out": 2048,
         "cpu_microcores": 1_500_000},
    ]
    assert table.assumptions == ()


def test_a_real_capacity_file(shared_data):
    table = kfast.read_capacity(shared_data / "exports" / "cc_capacity.json")
    assert table.rows["broker_id"].to_pylist() == [-1, 0]
    assert table.rows["nw_in"].to_pylist() == [10240000, 51200000]
    assert table.rows["disk_bytes"].to_pylist() == [104857600000, 524288000000]
    assert "CPU is not given in cores" in table.assumptions[0]


@pytest.mark.parametrize(("old", "new", "message"), [
    ('"NW_IN": "1200000"', '"NW_IN": "0"',
     "x line 1 (the default (broker -1)): found nw_in 0 of the default (broker -1); right is more"),
    ('"/d2": "2"', '"/d2": "0"', "x line 1 (broker 7): found DISK 0 of /d2; right is more than 0"),
    ('"NW_IN": "1"', '"NW_IN": "10MB"', "x line 1 (broker 7): found NW_IN '10MB'; right is a"),
    ('"NW_IN": "1"', '"NW_IN": "-1"', "x line 1 (broker 7): found NW_IN '-1'; right is"),
    ('"NW_IN": "1"', '"NW_IN": "nan"', "x line 1 (broker 7): found NW_IN 'nan'; right is"),
    ('"NW_IN": "1"', '"NW_IN": "1e30"', "x line 1 (broker 7): found NW_IN '1e30'; right is"),
    ('"1.5"', '"0"', "x line 1 (broker 7): found cpu_microcores 0 of broker 7; right is more"),
    ('"brokerId": "7"', '"brokerId": "-1"', "the default (broker -1) stands in x line 1"),
    ('"brokerId": "7"', '"brokerId": "seven"', "x line 1 (entry 1): found brokerId 'seven'; right"),
    ('"brokerId": "7"', '"brokerId": "-2"', "x line 1 (entry 1): found brokerId '-2'; right is"),
    ('}}]}', "}}", "x line 1: not what Cruise Control writes: Input data was truncated"),
])
def test_what_is_wrong_in_a_capacity_file_is_named(old, new, message):
    text = json.dumps(JBOD)
    assert old in text
    with pytest.raises(InputError) as caught:
        read_capacity(new.join(text.rsplit(old, 1)))
    assert message in str(caught.value)


def test_own_capacities():
    table = read_capacity(
        "broker_id,nw_in,nw_out,disk_bytes,cores,replicas_max,class\n"
        "-1,1250000000,1250000000,8e12,16,4000,r-16\n7,,2,,,,\n"
    )
    assert table.rows.to_pylist() == [
        {"broker_id": -1, "disk_bytes": 8 * 10**12, "nw_in": 1250000000, "nw_out": 1250000000,
         "cpu_microcores": 16_000_000, "replicas_max": 4000, "class": "r-16"},
        {"broker_id": 7, "disk_bytes": None, "nw_in": None, "nw_out": 2, "cpu_microcores": None,
         "replicas_max": None, "class": None},
    ]


def test_speeds_of_links_may_be_in_bits():
    """Eight to a byte, halves to even: 12 bits are 1.5 bytes, 20 are 2.5."""
    table = read_capacity("broker_id,nw_in_bits,nw_out_bits\n-1,10000000000,12\n7,,20\n")
    assert table.rows.to_pylist() == [
        {"broker_id": -1, "nw_in": 1_250_000_000, "nw_out": 2},
        {"broker_id": 7, "nw_in": None, "nw_out": 2},
    ]


@pytest.mark.parametrize(("text", "message"), [
    ("broker_id,nw_in_bits\n3,4\n", "x line 2: found nw_in 0 of broker 3; right is more than 0"),
    ("broker_id,nw_in_bits\n3,10G\n", "x line 2: found nw_in_bits '10G'; right is a number of bit"),
    ("broker_id,nw_in,nw_in_bits\n3,1,8\n", "x line 2: nw_in_bits says what another column says"),
    ("broker_id,nw_in\n3,0\n", "x line 2: found nw_in 0 of broker 3; right is more than 0"),
    ("broker_id,nw_in\n3,1\n3,2\n", "x line 3: broker 3 stands in x line 2 too; right is once"),
    ("broker_id,nw_in\n,1\n", "x line 2: found no broker_id; right is an id, or -1"),
    ("broker_id,nw_in\n", "x line 2: there is no row of capacities"),
    ("broker_id,rack\n1,a\n", "x: no column of numbers; found broker_id, rack; right is at least"),
    ("topic,nw_in\nt,1\n", "x: no column broker_id; found nw_in"),
    (PROSE + json.dumps(LOG_DIRS), "x: is output of kafka-log-dirs, a load; right is one of CSV"),
])
def test_what_is_wrong_in_own_capacities_is_named(text, message):
    with pytest.raises(InputError) as caught:
        read_capacity(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", [
    PROSE + json.dumps(LOG_DIRS).replace("a-1-2", "\N{LATIN SMALL LETTER E WITH ACUTE}-2"),
    PROSE + json.dumps(LOG_DIRS).replace("/d1", "/\N{LATIN SMALL LETTER E WITH ACUTE}"),
    '{"records":[{"topic":"\N{LATIN SMALL LETTER E WITH ACUTE}","partition":0}]}',
    '{"status":"success","data":{"resultType":"\N{LATIN SMALL LETTER E WITH ACUTE}"}}',
])
def test_json_that_is_not_utf_8_is_named(text):
    """An encoding of Western Europe, in one byte a letter."""
    with pytest.raises(InputError, match=r"x line \d: byte 0xe9 at offset \d+ is not UTF-8"):
        kfast.read_load(("x", text.encode("latin-1")))


# --- Prometheus


def test_two_scrapes_give_the_rate_of_a_counter():
    """Sums of brokers by topic and by broker; series that are not used are passed over."""
    other = "go_goroutines 5\n" + f'{BYTES_IN}{{broker="3"}} '
    (table,) = kfast.read_load(
        ("a", scrape("1.0e6", other + "5\n")), ("b", scrape("1600000", other + "600005\n")),
        seconds=60,
    )
    assert table.source == "a, b"
    assert table.window == "mean of 60 s"
    assert table.rows.to_pylist() == [
        {"topic": "t.x", "partition": None, "broker_id": 3, "bytes_in": 10000},
        {"topic": None, "partition": None, "broker_id": 3, "bytes_in": 10000},
    ]


def test_times_behind_the_values_count():
    """In milliseconds; 1760000000 is in 2025."""
    (table,) = kfast.read_load(
        ("a", scrape(0, time=" 1760000000000")), ("b", scrape(50, time=" 1760000010000"))
    )
    assert table.rows["bytes_in"].to_pylist() == [5]
    assert table.window == "mean of 10 s until 2025-10-09T08:53:30Z"


def test_a_range_query_gives_rates_of_offsets():
    """kafka_exporter and kminion: messages of each partition, whoever leads it."""
    data = series(
        counter([[0, "10"], [30, "20"], [60, "40.5"]], "kafka_topic_partition_current_offset",
                topic="t", partition="1"),
        counter([[0, "7"], [60, "7"]], "kminion_kafka_topic_partition_high_water_mark",
                topic_name="u", partition_id="0"),
        counter([[0, "1"], [60, "900"]], "kminion_kafka_topic_log_dir_size_total_bytes",
                topic_name="u"),
        counter([[0, "1"], [60, "77"]], "kminion_kafka_broker_log_dir_size_total_bytes",
                broker_id="4", rack_id="a"),
    )
    table = read_one(data)
    assert table.rows.to_pylist() == [
        {"topic": "t", "partition": 1, "broker_id": None, "milli_msgs_in": 508,
         "replicated_bytes": None, "disk_bytes": None},
        {"topic": "u", "partition": 0, "broker_id": None, "milli_msgs_in": 0,
         "replicated_bytes": None, "disk_bytes": None},
        {"topic": "u", "partition": None, "broker_id": None, "milli_msgs_in": None,
         "replicated_bytes": 900, "disk_bytes": None},
        {"topic": None, "partition": None, "broker_id": 4, "milli_msgs_in": None,
         "replicated_bytes": None, "disk_bytes": 77},
    ]


def test_a_counter_that_falls_is_left_out_and_named():
    both = scrape(5) + scrape(9, labels='topic="u",broker="3"')
    later = scrape(4) + scrape(69, labels='topic="u",broker="3"')
    (table,) = kfast.read_load(("a", both), ("b", later), seconds=60)
    assert table.rows["topic"].to_pylist() == ["u"]
    assert table.assumptions == (
        "a, b: left out: 1 counter that fell, as after a restart (a line 2)",
    )


def test_rates_that_an_exporter_makes_are_taken_where_no_counter_is():
    """The shortest of them; a counter with two samples is better."""
    def bean(attribute, value, bean="BytesInPerSec"):
        labels = f'name="{bean}",topic="t"'
        return f"kafka_server_BrokerTopicMetrics_{attribute}{{{labels}}} {value}\n"

    text = bean("OneMinuteRate", 7.5) + bean("FiveMinuteRate", 9) + bean("Count", 100)
    table = read_one(text)
    assert table.rows["bytes_in"].to_pylist() == [8]
    assert table.window == "mean of 1 min"
    later = text.replace("} 100", "} 160")
    (table,) = kfast.read_load(("a", text.encode()), ("b", later.encode()), seconds=60)
    assert table.rows["bytes_in"].to_pylist() == [1]


def test_cpu_of_a_node_becomes_that_of_its_broker():
    """All that is neither idle nor waiting for a disk; the broker by its pod's name."""
    def node(user, idle):
        return "".join(
            f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}",pod="kafka-3"}} {seconds}\n'
            for cpu in "01" for mode, seconds in (("user", user), ("idle", idle), ("iowait", idle))
        ).encode()

    (table,) = kfast.read_load(("a", node(10, 0)), ("b", node(55, 15)), seconds=60)
    assert table.rows.to_pylist() == [
        {"topic": None, "partition": None, "broker_id": 3, "cpu_microcores": 1_500_000}
    ]
    assert "the number at the end of its pod's name" in table.assumptions[0]


def test_cpu_of_a_node_that_is_no_broker_is_left_out():
    """And takes nothing from what brokers report."""
    def both(value):
        return scrape(value, f'node_cpu_seconds_total{{mode="user",instance="n:9100"}} {value}\n')

    (table,) = kfast.read_load(("a", both(0)), ("b", both(60)), seconds=60)
    assert table.rows.to_pylist() == [
        {"topic": "t.x", "partition": None, "broker_id": 3, "bytes_in": 1}
    ]
    assert table.assumptions == (
        ("a, b: CPU is left out of 1 node whose broker id is not known: n:9100 (--instances,"
         " instances= override)"),
    )


def test_messages_of_partitions_do_not_replace_rates_of_topics():
    text = (
        'kafka_server_brokertopicmetrics_messagesinpersec_oneminuterate{topic="t",broker="3"} 7\n'
        'kafka_topic_partition_current_offset{topic="u",partition="0"} '
    )
    files = [(name, f"{text}{value}\n".encode()) for name, value in (("a", 0), ("b", 60))]
    (table,) = kfast.read_load(*files, seconds=60)
    assert dict(zip(table.rows["topic"].to_pylist(), table.rows["milli_msgs_in"].to_pylist(),
                    strict=True)) == {"t": 7000, "u": 1000}


def test_instances_are_brokers_where_the_caller_says_so():
    one, two = ('topic="t",instance="a:7071"', 'topic="t",instance="b:7071"')
    first = scrape(0, labels=one) + scrape(0, labels=two)
    last = scrape(600, labels=one) + scrape(60, labels=two)
    (table,) = kfast.read_load(("x", first), ("y", last), seconds=60,
                               instances={"a:7071": 1, "b:7071": 2})
    assert table.rows["broker_id"].to_pylist() == [1, 2]
    assert table.rows["bytes_in"].to_pylist() == [10, 1]
    (table,) = kfast.read_load(("x", first), ("y", last), seconds=60)
    assert table.rows["bytes_in"].to_pylist() == [11]
    assert "the broker id is not known of 2 instances (a:7071, b:7071)" in table.assumptions[0]


def test_sums_of_brokers_without_ids_are_compared():
    def text(topic, total):
        return scrape(topic, f'{BYTES_IN}{{instance="a"}} {total}\n', 'topic="t",instance="a"')

    (table,) = kfast.read_load(("x", text(0, 0)), ("y", text(6000, 6360)), seconds=60)
    assert table.rows["bytes_in"].to_pylist() == [100]
    assert table.warnings == ((
        "x, y: bytes_in is 100 B/s over all topics, and 106 B/s by the series without a topic: more"
        " than 5 % apart"
    ),)


def gauge(value, labels='topic="t"'):
    """A rate that an exporter makes, as bytes."""
    return f"kafka_server_brokertopicmetrics_bytesin_oneminuterate{{{labels}}} {value}\n".encode()


def test_rates_of_brokers_need_no_time_between_their_files():
    files = [(f"b{n}", gauge(n, f'topic="t",broker="{n}"')) for n in (1, 2)]
    (table,) = kfast.read_load(*files)
    assert table.rows["broker_id"].to_pylist() == table.rows["bytes_in"].to_pylist() == [1, 2]


def test_a_file_is_of_a_broker_where_the_caller_says_so():
    """What an exporter prints has no label of its own process; only a scrape adds it."""
    files = [(f"b{n}", gauge(n)) for n in (1, 2, 5)]
    with pytest.raises(InputError, match="b2 line 1: the sample has no time, and is in b1 too"):
        kfast.read_load(*files)
    (table,) = kfast.read_load(*files, instances={"b1": 1, "b2": 2, "b5": 5})
    assert table.rows["broker_id"].to_pylist() == table.rows["bytes_in"].to_pylist() == [1, 2, 5]


def test_two_files_of_each_of_two_brokers_are_two_samples_of_each():
    def named(name, value, broker):
        return name, f'{BYTES_IN}{{topic="t"}} {value}\n'.encode(), broker

    files = [named("b1", 0, 1), named("b2", 5, 2), named("b1-later", 60, 1),
             named("b2-later", 605, 2)]
    (table,) = kfast.read_load(
        *(file[:2] for file in files), seconds=60, instances={name: id for name, _, id in files}
    )
    assert table.rows.select(["broker_id", "bytes_in"]).to_pylist() == [
        {"broker_id": 1, "bytes_in": 1}, {"broker_id": 2, "bytes_in": 10}
    ]


def test_sums_over_brokers_take_nothing_from_what_brokers_report():
    result = {"metric": {"__name__": "bytes_out", "topic": "t"}, "value": [1, "9"]}
    (table,) = kfast.read_load(("q", series(result, kind="vector")),
                               ("b", gauge(7, 'topic="t",broker="3"')))
    assert table.rows.to_pylist() == [
        {"topic": "t", "partition": None, "broker_id": None, "bytes_out": 9, "bytes_in": None},
        {"topic": "t", "partition": None, "broker_id": 3, "bytes_out": None, "bytes_in": 7},
    ]
    assert table.assumptions == ()


def test_the_pod_of_an_exporter_of_the_cluster_is_no_broker():
    table = read_one('kminion_kafka_topic_log_dir_size_total_bytes{topic_name="t",pod="k-0"} 4\n')
    assert table.rows.to_pylist() == [
        {"topic": "t", "partition": None, "broker_id": None, "replicated_bytes": 4}
    ]


def test_a_series_may_be_given_a_name_of_kfast():
    """`label_replace(..., "__name__", "bytes_in", "", "")`, for percentiles."""
    result = {"metric": {"__name__": "bytes_in", "topic": "t"}, "value": [1, "12.5"]}
    table = read_one(series(result, kind="vector"), window="p95 of 1 h")
    assert table.rows["bytes_in"].to_pylist() == [12]
    assert table.window == "p95 of 1 h"


@pytest.mark.parametrize(("files", "options", "message"), [
    ([scrape(5)], {}, "f0: 1 counter with one sample only; right are two: two files, or a query"),
    ([scrape(5), scrape(9)], {}, "f1 line 2: the sample has no time, and is in f0 too"),
    ([scrape(9), scrape(5)], {"seconds": 60}, "every counter falls (1 of them); right are files"),
    ([scrape("NaN"), scrape(5)], {"seconds": 60}, "f0 line 2: found 'NaN' for kafka_server_broker"),
    ([scrape("+Inf"), scrape(5)], {"seconds": 60}, "f0 line 2: found '+Inf' for kafka_server"),
    ([scrape(0), scrape(1e30)], {"seconds": 60}, "found bytes_in 1.66667e+28; right is a number"),
    ([scrape("5MB"), scrape(5)], {"seconds": 60}, "f0 line 2: found '5MB' for kafka_server"),
    ([scrape(1) + scrape(2)], {}, "has the values 1 and 2 at one moment; right is one: files of"),
    ([scrape(1, labels="topic=t")], {}, "f0 line 2: found label 'topic=t'; right is name=\""),
    ([scrape(1)[:-4]], {}, "f0 line 2: damaged: 'kafka_server_brokertopicmetrics"),
    ([b"# TYPE up gauge\nup 1\n"], {}, "f0: no series of a load; right are kafka_server_broker"),
    ([scrape(1, labels='topic="t",cluster="a"') + scrape(1, labels='topic="t",cluster="b"')], {},
     "f0: the series are of several clusters, cluster a, b; right is one"),
    ([scrape(1, 'kafka_log_log_size{topic="t",partition="x"} 1\n')], {},
     "f0 line 3: found partition 'x' of topic 't'; right is a number"),
    ([series(status="error", error="query timed out")], {}, "the query failed: 'query timed out'"),
    ([series({"metric": {"topic": "t"}, "value": [1, "2"]}, kind="vector")], {},
     "(result 0): the series has no name, so that nothing says what it is"),
    ([series(kind="scalar")], {}, "f0 line 1: found resultType 'scalar'; right is vector"),
    ([series(counter([[0, "x"]]))], {}, "f0 line 1 (result 0): found 'x' for kafka_server"),
    ([series(counter([[0, "1"]]))[:-9]], {}, "f0 line 1: not an answer of Prometheus: Input data"),
])
def test_what_is_wrong_in_metrics_is_named(files, options, message):
    with pytest.raises(InputError) as caught:
        kfast.read_load(*((f"f{i}", data) for i, data in enumerate(files)), **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# --- all of them


def test_several_files_keep_their_order():
    """All metrics are one table, in the place of the first of them."""
    tables = kfast.read_load(
        ("own", OWN.encode()), ("a", scrape(0)), ("dirs", json.dumps(LOG_DIRS).encode()),
        ("b", scrape(60)), seconds=60, window="now",
    )
    assert [table.source for table in tables] == ["own", "a, b", "dirs"]
    assert {table.window for table in tables} == {"now"}


def test_wrong_arguments_are_named():
    with pytest.raises(ArgumentError, match="paths: no file"):
        kfast.read_load()
    with pytest.raises(ArgumentError, match="seconds is 0"):
        kfast.read_load(("a", scrape(1)), seconds=0)
    with pytest.raises(InputError, match="no-such-file: cannot be read"):
        kfast.read_load("no-such-file")
    with pytest.raises(ArgumentError, match="instances is -1"):
        kfast.read_load(("a", scrape(1, labels='topic="t",instance="i"', time=" 1")),
                        ("b", scrape(2, labels='topic="t",instance="i"', time=" 2000")),
                        instances={"i": -1})


def test_clusters_are_not_read_from_loads():
    """And the message says what reads them."""
    with pytest.raises(InputError, match=r"as a cluster but by kfast\.read_capacity; it reads"):
        kfast.read(("x", json.dumps(JBOD).encode()))
    with pytest.raises(InputError, match=r"is Prometheus metrics, .* but by kfast\.read_load;"):
        kfast.read(("x", scrape(1)))


def test_a_large_output_is_read_directory_by_directory():
    """Pieces of a document are checked, so that a directory can stand in any order of keys."""
    brokers = [
        {"broker": b, "logDirs": [{"logDir": f"/d{d}", "partitions": [
            {"partition": f"t-{d}-{p}", "size": b * p} for p in range(50)]} for d in range(3)]}
        for b in range(20)
    ]
    table = read_one(msgspec.json.encode({"brokers": brokers}))
    assert table.rows.num_rows == 20 * 3 * 50
    assert table.rows["disk_bytes"].to_pylist()[-1] == 19 * 49
    assert table.rows["topic"].to_pylist()[-1] == "t-2"
