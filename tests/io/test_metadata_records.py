"""Logs that the twin of the controller writes, read back; and records that need care.

Source: docs/kraft.md, sections 2 and 12.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys

import numpy as np
import pytest

import kfast
from kfast.errors import InputError
from kfast.io import iter_records, open_metadata
from kfast.io.metadata import schema as metadata_schema
from kfast.io.metadata.schema import FIELDS, VERSIONS, decode_record, encode_record
from kfast.kernels.metadata_log import MetadataDecoder, checksum
from kfast.kernels.metadata_records import Kind, id_texts
from kfast.state import metadata_records as records
from kfast.state.metadata_records import uuid_text
from tests.support.kraft_logs import random_log, snapshot_records
from tests.support.kraft_states import registrations
from tests.support.machine_speed import slowness
from tests.support.metadata_bulk import write_bulk_snapshot
from tests.support.metadata_writer import log_bytes, snapshot_bytes, write_log, write_snapshot

SEGMENT = f"{0:020d}.log"
PROFILES = ["kraft-4.0", "kraft-4.1", "kraft-4.3"]
TOPIC_ID, INCARNATION, DIRECTORY = uuid_text(5, 6), uuid_text(7, -8), uuid_text(-9, 10)


def partitions_of(state):
    """Registrations by topic and partition."""
    return {
        (state.topic[int(state.topic_row[row])].as_py(), int(state.partition[row])):
            state.registration(row)
        for row in range(state.n_partitions)
    }


def assert_is(state, twin):
    """The state is the twin's: partitions, brokers, configurations, features."""
    assert partitions_of(state) == registrations(twin)
    known = [b for b in state.broker_id.tolist() if state.broker_registration(b) is not None]
    assert known == sorted(broker.id for broker in twin.brokers.values())
    for broker in twin.brokers.values():
        assert state.broker_registration(broker.id) == broker
    assert state.quorum.configurations == {k: v for k, v in twin.configs.items() if v}
    assert state.quorum.features == twin.features
    assert set(state.topic.to_pylist()) == {topic.name for topic in twin.topics.values()}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_log_of_the_twin_gives_its_state(profile, tmp_path):
    """25 random sequences, from the whole log, and from a snapshot and what follows it."""
    for seed in range(25):
        log = random_log(seed, profile)
        batches = log.batches(seed)
        path = write_log(tmp_path / str(seed), batches)
        state = kfast.read(path)
        assert_is(state, log.state)
        assert state.controller == profile
        listed = [encode_record(of.record) for of in iter_records(path)]
        assert listed == [*map(encode_record, log.records)]
        version = max(
            (r.version for r in log.records if isinstance(r, records.PartitionRecord)), default=0
        )
        end = len(log.records)
        folder = tmp_path / f"{seed}-snapshot"
        write_snapshot(folder, end, 1, snapshot_records(log.state, version))
        assert_is(kfast.read(folder), log.state)


def a_record_of(kind):
    """A record that says something in every field."""
    values = {
        Kind.INT8: 1, Kind.INT16: 2, Kind.UINT16: 65535, Kind.INT32: 3, Kind.INT64: 4,
        Kind.BOOL: True, Kind.ID: TOPIC_ID, Kind.TEXT: "a-ü", Kind.TEXT_OR_NULL: "b",
    }
    version, fields = FIELDS[kind]
    given = {}
    for name, code, *_ in fields:
        if name == "features":
            given[name] = {"metadata.version": (7, 27)}
        elif name == "end_points":
            given[name] = (records.Endpoint("PLAINTEXT", "host", 65535, 0),)
        else:
            code, is_array = code % Kind.ARRAY, code >= Kind.ARRAY
            given[name] = (values[code],) * 2 if is_array else values[code]
    return kind(version=version, **given)


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_every_field_of_every_record_comes_back(kind):
    """Of the highest version; and with a tag that nobody knows."""
    record = a_record_of(kind)
    data = encode_record(record)
    key = records.API_KEYS[kind]
    assert decode_record(data, 0, len(data), key) == record
    n_tags = sum(field[3] >= 0 for field in FIELDS[kind][1])
    at = 3 + len(metadata_schema._encode_fields(
        tuple(f for f in FIELDS[kind][1] if f[3] < 0), record.version,
        {f[0]: plain_value(getattr(record, f[0])) for f in FIELDS[kind][1]},
    )) - 1
    assert data[at] == n_tags
    tagged = data[:at] + bytes((n_tags + 1,)) + data[at + 1 :] + b"\x63\x02xy"
    assert decode_record(tagged, 0, len(tagged), key) == record
    for end in range(len(data)):
        assert decode_record(data, 0, end, key) is None


def plain_value(value):
    """A value as the encoder takes it."""
    if isinstance(value, dict):
        return [{"name": k, "min_supported_version": low, "max_supported_version": high}
                for k, (low, high) in value.items()]
    if isinstance(value, tuple) and value and isinstance(value[0], records.Endpoint):
        return [dataclasses.asdict(point) for point in value]
    return value


def a_cluster(*more):
    """Records of one topic with one partition on brokers 1, 2 and 3, and more."""
    brokers = [
        records.RegisterBrokerRecord(3, b, INCARNATION, b, None, False, False, (DIRECTORY,))
        for b in (1, 2, 3)
    ]
    return [
        records.FeatureLevelRecord(0, "metadata.version", 27),
        *brokers,
        records.TopicRecord(0, "t", TOPIC_ID),
        records.PartitionRecord(
            2, 0, TOPIC_ID, (1, 2, 3), (2, 1, 3), (), (), 2, 0, 5, 6, (DIRECTORY,) * 3
        ),
        *more,
    ]


def change(**fields):
    """A change of its partition."""
    return records.PartitionChangeRecord(2, 0, TOPIC_ID, **fields)


def state_of(*more):
    """The cluster after some records more."""
    return kfast.read((SEGMENT, log_bytes([(0, 1, 0, a_cluster(*more))])))


def test_a_change_keeps_what_it_does_not_name():
    """Section 2: the partition epoch rises with every change, the leader epoch with a leader."""
    found = state_of(change(isr=(3, 2)), change(leader=2), change(leader_recovery_state=1))
    seen = found.registration(0)
    assert (seen.isr, seen.leader, seen.leader_epoch, seen.partition_epoch) == ((3, 2), 2, 6, 9)
    assert seen.recovery == 1
    assert seen.replicas == (1, 2, 3)


def test_long_lists_and_many_changes():
    """Lists that grow move; 64 brokers are the most, and two last known leaders are too many."""
    many = tuple(range(1, 65))
    grown = state_of(change(replicas=many, isr=many[::-1], directories=(DIRECTORY,) * 64))
    assert grown.registration(0).isr == many[::-1]
    assert grown.layout == "wide"
    with pytest.raises(InputError, match="a record lists 65 brokers; at most 64 are allowed"):
        state_of(change(isr=tuple(range(65))))
    with pytest.raises(InputError, match="t-0 has several last known leaders"):
        state_of(change(last_known_elr=(1, 2)))
    with pytest.raises(InputError, match="t-0 has a list that names a broker twice"):
        state_of(change(isr=(1, 1)))
    with pytest.raises(InputError, match="t-0 has a broker both in the ISR and in the ELR"):
        state_of(change(eligible_leader_replicas=(1,)))
    with pytest.raises(InputError, match="t-0 names a broker with a negative id"):
        state_of(change(isr=(-1,)))


def test_directories_follow_the_replicas():
    """All MIGRATING: as many as there are replicas; others must be as many."""
    none = change(directories=(records.MIGRATING,) * 3)
    assert state_of(none, change(replicas=(1, 2))).registration(0).directories == (
        records.MIGRATING, records.MIGRATING,
    )
    with pytest.raises(InputError, match="lists 3 directories, one for each replica is due"):
        state_of(change(replicas=(1, 2)))


def test_a_last_known_leader_may_be_nobody():
    """Section 3: the id -1 itself."""
    assert state_of(change(last_known_elr=(-1,))).registration(0).last_known_elr == (-1,)
    seen = state_of(change(isr=(), leader=-1, eligible_leader_replicas=(3, 1)), change())
    assert (seen.registration(0).elr, seen.registration(0).leader) == ((3, 1), -1)


def test_a_topic_that_is_removed_takes_its_configurations_along():
    """Also where one of the same name comes after it."""
    again = uuid_text(50, 60)
    state = state_of(
        records.ConfigRecord(0, 2, "t", "min.insync.replicas", "2"),
        records.RemoveTopicRecord(0, TOPIC_ID),
        records.TopicRecord(0, "t", again),
    )
    assert (state.n_partitions, state.topic.to_pylist()) == (0, ["t"])
    assert state.topic_id.to_pylist() == [again]
    assert state.quorum.configurations == {}


def test_a_topic_id_that_comes_again_has_no_partition_of_before():
    """No Kafka gives one twice; a log that does is read as it stands."""
    removed = records.RemoveTopicRecord(0, TOPIC_ID), records.TopicRecord(0, "u", TOPIC_ID)
    state = state_of(*removed)
    assert (state.n_partitions, state.topic.to_pylist()) == (0, ["u"])
    with pytest.raises(InputError, match="a record speaks of a partition 0 that is not there"):
        state_of(*removed, change(leader=2))


@pytest.mark.parametrize(("n", "is_too_many"), [(65_532, False), (65_533, True)])
def test_a_log_may_name_65535_directories(n, is_too_many):
    """Three of them are reserved; places take two bytes."""
    partitions = []
    for first in range(0, n, 64):
        brokers = tuple(range(1, min(64, n - first) + 1))
        directories = tuple(uuid_text(3, first + broker) for broker in brokers)
        partitions.append(records.PartitionRecord(
            2, first, TOPIC_ID, brokers, brokers, (), (), 1, 0, 0, 0, directories
        ))
    topic = records.TopicRecord(0, "t", TOPIC_ID)
    if is_too_many:
        with pytest.raises(InputError, match="more than 65535 different brokers, or log dir"):
            kfast.read((SEGMENT, log_bytes([(0, 1, 0, [topic, *partitions])])))
    else:
        state = kfast.read((SEGMENT, log_bytes([(0, 1, 0, [topic, *partitions])])))
        assert len(state.quorum.directory_ids) == 65_535
        assert state.registration(state.n_partitions - 1).directories == directories


def test_clearing_elrs_raises_the_epoch_of_those_that_had_one():
    """Of one topic, of all; of another topic nothing happens."""
    elr = change(isr=(2,), eligible_leader_replicas=(1,), last_known_elr=(3,))
    for name, cleared in (("t", True), ("", True), ("u", False)):
        seen = state_of(elr, records.ClearElrRecord(0, name)).registration(0)
        assert (seen.elr, seen.last_known_elr) == (((), ()) if cleared else ((1,), (3,)))
        assert seen.partition_epoch == 7 + cleared
    assert state_of(records.ClearElrRecord(0, "t")).registration(0).partition_epoch == 6


def test_registrations_change_in_what_a_record_names():
    """Section 2: an empty list of directories changes nothing, nothing ends a shutdown."""
    other = uuid_text(1, 2)
    state = state_of(
        records.FenceBrokerRecord(0, 1, 1),
        records.BrokerRegistrationChangeRecord(1, 2, 2, in_controlled_shutdown=1),
        records.BrokerRegistrationChangeRecord(2, 2, 2, fenced=1, log_dirs=(other, DIRECTORY)),
        records.BrokerRegistrationChangeRecord(3, 2, 2, fenced=-1, cordoned_log_dirs=(other,)),
        records.UnregisterBrokerRecord(0, 3, 3),
    )
    one, two, three = (state.broker_registration(broker) for broker in (1, 2, 3))
    assert (one.fenced, one.in_controlled_shutdown, three) == (True, False, None)
    assert (two.fenced, two.in_controlled_shutdown) == (False, True)
    assert (two.directories, two.cordoned) == ((DIRECTORY, other), (other,))
    assert state.quorum.registration_offset.tolist() == [1, 2, -1]
    back = state_of(records.FenceBrokerRecord(0, 1, 1), records.UnfenceBrokerRecord(0, 1, 1))
    assert not back.broker_registration(1).fenced


def test_features_and_configurations_end_with_0_and_null():
    """And kraft.version is no feature of the metadata."""
    state = state_of(
        records.FeatureLevelRecord(0, "eligible.leader.replicas.version", 1),
        records.FeatureLevelRecord(0, "kraft.version", 1),
        records.FeatureLevelRecord(0, "x", 0),
        records.ConfigRecord(0, 4, "", "min.insync.replicas", "2"),
        records.ConfigRecord(0, 4, "", "min.insync.replicas", None),
        records.ConfigRecord(0, 4, "", "never", None),
        records.FeatureLevelRecord(0, "eligible.leader.replicas.version", 0),
    )
    assert state.quorum.features == {"metadata.version": 27}
    assert state.quorum.configurations == {}


def test_before_directories_and_recovery_states():
    """Metadata version 7: record version 0; the release is that of the metadata version."""
    data = log_bytes([(0, 1, 0, [
        records.FeatureLevelRecord(0, "metadata.version", 7),
        records.RegisterBrokerRecord(0, 1, INCARNATION, 1),
        records.TopicRecord(0, "t", TOPIC_ID),
        records.PartitionRecord(0, 0, TOPIC_ID, (1,), (1,), (), (), 1, 0, 0, 0),
        records.PartitionChangeRecord(0, 0, TOPIC_ID, isr=(), leader=-1),
    ])])
    state = kfast.read((f"{0:020d}.log", data))
    assert state.registration(0).directories == (records.MIGRATING,)
    assert (state.controller, state.registration(0).leader) == ("kraft-3.3", -1)
    assert state.quorum.directory is None


BEGIN, END = records.BeginTransactionRecord(0, "x"), records.EndTransactionRecord(0)
ABORT = records.AbortTransactionRecord(0, "why")


@pytest.mark.parametrize(("last", "leader", "note"), [
    (END, 3, None),
    (ABORT, 2, "records 6 to 9 of 0{20}.log do not count: their transaction was aborted"),
    (None, 2, "records 6 to 8 of 0{20}.log do not count: their transaction has not ended"),
])
def test_records_of_a_transaction_count_once_it_has_ended(last, leader, note, tmp_path):
    """The kernel's records and the others; a record after an aborted one counts again."""
    inside = [BEGIN, change(leader=3), records.ConfigRecord(0, 4, "", "min.insync.replicas", "2")]
    batches = [(0, 1, 0, a_cluster()), (6, 1, 1, inside)]
    after = records.ConfigRecord(0, 4, "", "unclean.leader.election.enable", "true")
    if last is not None:
        batches.append((9, 1, 2, [last, after]))
    log = b"".join(log_bytes([batch]) for batch in batches)
    state = kfast.read((f"{0:020d}.log", log))
    assert state.registration(0).leader == leader
    assert state.default_min_insync_replicas == (2 if leader == 3 else 1)
    assert state.default_unclean_leader_election == (last is not None)
    notes = [text for text in state.assumptions if "transaction" in text]
    assert len(notes) == (note is not None)
    if note is not None:
        assert re.fullmatch(note, notes[0])
    listed = [of.offset for of in open_metadata((f"{0:020d}.log", log)).records()]
    counted = {END: range(11), ABORT: [*range(6), 10], None: range(6)}[last]
    assert listed == [*counted]


def test_a_state_in_the_middle_of_a_transaction_is_that_before_it():
    """An offset within it, though it ends later."""
    log = log_bytes([(0, 1, 0, a_cluster(BEGIN, change(leader=3), END))])
    leaders = [kfast.read((f"{0:020d}.log", log), at=at).registration(0).leader for at in (8, 9)]
    assert leaders == [2, 3]


def test_checksums_are_those_of_castagnoli():
    """The check value of CRC-32C, and some lengths around the eight bytes of a step."""
    assert checksum(b"123456789") == 0xE3069283
    assert checksum(b"") == 0
    assert checksum(bytes(32)) == 0x8A9136AA


def test_ids_are_written_as_kafka_does():
    """22 characters each."""
    ids = np.frombuffer(bytes(16) + bytes(range(240, 256)), np.uint8)
    texts = np.empty(44, np.uint8)
    id_texts(ids, texts)
    expected = uuid_text(0, 0) + uuid_text(-0x0F0E0D0C0B0A0909, -0x0706050403020101)
    assert texts.tobytes().decode() == expected


def test_a_bulk_snapshot_reads_as_it_was_written(tmp_path):
    """The one of the benchmark, small; and partitions beyond one chunk of a megabyte."""
    path = write_bulk_snapshot(tmp_path, n_topics=30, per_topic=600, n_brokers=12, n_configs=5)
    state = kfast.read(path)
    assert (state.n_topics, state.n_partitions, state.n_brokers) == (30, 18_000, 12)
    assert state.topic_min_insync_replicas.tolist() == [2] * 5 + [-1] * 25
    place = 605
    first = (place * 7 + place // 12) % 12
    replicas = (first, (first + 1) % 12, (first + 6) % 12)
    row = int(state.find_partitions([("topic-000001", 5)])[0])
    seen = state.registration(row)
    assert (seen.replicas, seen.isr, seen.leader) == (replicas, replicas, first)
    assert seen.directories == tuple(uuid_text(2**61 + b, 2 * b + 1) for b in replicas)
    tables = state.to_tables()
    assert kfast.ClusterState.from_tables(
        tables.brokers, tables.topics, tables.partitions, tables.cluster
    ) == state


MEASURE = """
import sys, time
from pathlib import Path
import kfast
kfast.read(sys.argv[1])
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
Path("/proc/self/clear_refs").write_text("5")
before, began = peak(), time.process_time()
state = kfast.read(sys.argv[2])
seconds = time.process_time() - began
values = [*vars(state).values(), *vars(state.quorum).values()]
size = sum(value.nbytes for value in values if hasattr(value, "nbytes"))
print(seconds, (peak() - before) / size, state.n_partitions)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_a_million_partitions_take_little_time_and_memory(tmp_path, shared_data):
    """At most 1.5 s, more on a busy or slow machine, and three times the state's arrays."""
    path = write_bulk_snapshot(tmp_path, n_topics=10_000, per_topic=100, n_configs=5000)
    small = shared_data / "exports" / "kraft_snapshot_39_62p.checkpoint"
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, small, path], capture_output=True, text=True, check=True
    )
    seconds, ratio, n = map(float, done.stdout.split())
    assert n == 1_000_000
    assert seconds <= 1.5 * 1.5 * slowness()
    assert ratio <= 3


def test_the_decoder_says_which_records_it_was_given():
    """Records that are asked for, by api key; all of a snapshot count."""
    decoder = MetadataDecoder(VERSIONS)
    nothing = np.empty((0, 2), np.int64)
    decoder.limit(False, 0, 1 << 62, 1 << 62, nothing, False, 1 << 3 | 1 << 12)
    used, listed = decoder.read(snapshot_bytes(a_cluster()))
    assert listed["key"].tolist() == [12, 3]
    assert (decoder.n_records, decoder.has_footer, used > 0) == (6, True, True)
