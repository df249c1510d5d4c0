"""Damaged, cut and incomplete metadata logs: a clear error, or the state that is documented.

What must come of a flipped bit or a cut follows from where it is: the checksum of a batch is of all
that stands behind it, and of what stands before it only the offset of a batch in a log, the length
and the format byte say anything (docs/kraft.md, section 12.1).
"""

from __future__ import annotations

import random
import struct

import pytest

import kfast
from kfast.errors import InputError
from kfast.io import iter_records, open_metadata
from kfast.io.metadata.schema import STATELESS, encode_batch, encode_record
from kfast.kernels.metadata_log import checksum
from kfast.state import metadata_records as records
from tests.support.metadata_writer import log_bytes, write_log

SNAPSHOT = f"{243115:020d}-{30:010d}.checkpoint"
SEGMENT = f"{0:020d}.log"
FOLDER = "__cluster_metadata-0"


@pytest.fixture(scope="module")
def snapshot(shared_data):
    """A snapshot of Kafka 3.9 with 62 partitions."""
    return (shared_data / "exports" / "kraft_snapshot_39_62p.checkpoint").read_bytes()


@pytest.fixture(scope="module")
def large_snapshot(shared_data):
    """One of Kafka 4.1 with 620 partitions."""
    folder = shared_data / "kraft_live" / "metadata" / FOLDER
    return (folder / f"{8827:020d}-{2:010d}.checkpoint").read_bytes()


@pytest.fixture(scope="module")
def segment(shared_data):
    """A log of Kafka 4.1."""
    return (shared_data / "kraft_live" / "metadata" / FOLDER / SEGMENT).read_bytes()


def batches_of(data):
    """Where each batch begins and ends, its offset, and that of the next one."""
    found, at = [], 0
    while at < len(data):
        offset, length = struct.unpack_from(">qi", data, at)
        last = struct.unpack_from(">i", data, at + 23)[0]
        found.append((at, at + 12 + length, offset, offset + last + 1))
        at += 12 + length
    return found


def outcome(name, data):
    """The digest of the state; None where the file is refused, by its name and in one line."""
    try:
        state = kfast.read((name, data))
    except InputError as error:
        said = str(error)
    else:
        return state.digest()
    assert said.startswith(name)
    assert "\n" not in said
    return None


def assert_cuts_are_refused(data, places):
    """No snapshot without its end is read."""
    for cut in places:
        assert outcome(SNAPSHOT, data[:cut]) is None, cut


def test_a_snapshot_that_is_cut_is_refused(snapshot, large_snapshot):
    """At each of its first 400 bytes, at the ends of its batches, and at 100 random places."""
    rng = random.Random(1)
    ends = [end for _, end, _, _ in batches_of(snapshot)[:-1]]
    drawn = [rng.randrange(len(snapshot)) for _ in range(100)]
    assert_cuts_are_refused(snapshot, [*range(400), *ends, *drawn])
    assert_cuts_are_refused(large_snapshot, [rng.randrange(len(large_snapshot)) for _ in range(9)])
    with pytest.raises(InputError, match="is not complete: its end, a SnapshotFooter record, is"):
        kfast.read((SNAPSHOT, snapshot[: ends[-1]]))


@pytest.mark.slow
def test_a_snapshot_that_is_cut_anywhere_is_refused(snapshot, large_snapshot):
    """At each of its first 2000 bytes and at 1000 random places."""
    rng = random.Random(2)
    for data in (snapshot, large_snapshot):
        assert_cuts_are_refused(data, range(2000))
        assert_cuts_are_refused(data, [rng.randrange(len(data)) for _ in range(1000)])


def assert_flips(data, name, bits, *, is_log):
    """A flipped bit is found, but in an epoch, or in an offset that means nothing."""
    whole, batches = outcome(name, data), batches_of(data)
    assert whole is not None
    for bit in bits:
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        place = bit // 8 - next(start for start, end, _, _ in batches if bit // 8 < end)
        harmless = 12 <= place < 16 or (place < 8 and not is_log)
        assert outcome(name, bytes(flipped)) == (whole if harmless else None), bit


def test_flipped_bits_are_found(snapshot, segment):
    """All bits of the first header, and 300 random ones; of a log, 40 and those of its end."""
    rng = random.Random(3)
    drawn = [rng.randrange(8 * len(snapshot)) for _ in range(300)]
    assert_flips(snapshot, SNAPSHOT, [*range(8 * 61), *drawn], is_log=False)
    part = segment[: batches_of(segment)[40][1]]
    last = batches_of(part)[-1][0]
    drawn = [rng.randrange(8 * len(part)) for _ in range(40)]
    assert_flips(part, SEGMENT, [*range(8 * last, 8 * (last + 21)), *drawn], is_log=True)


@pytest.mark.slow
def test_flipped_bits_are_found_everywhere(snapshot, segment):
    """Every bit of a snapshot, and 1000 of a log."""
    assert_flips(snapshot, SNAPSHOT, range(8 * len(snapshot)), is_log=False)
    rng = random.Random(4)
    drawn = [rng.randrange(8 * len(segment)) for _ in range(1000)]
    assert_flips(segment, SEGMENT, drawn, is_log=True)


def test_a_log_that_is_cut_ends_with_its_last_whole_batch(segment):
    """And says so; a cut between two batches cannot be seen."""
    rng, batches = random.Random(5), batches_of(segment)[:300]
    cuts = [rng.randrange(1000, batches[-1][1]) for _ in range(40)] + [batches[20][1]]
    for cut in cuts:
        state = kfast.read((SEGMENT, segment[:cut]))
        last = max(i for i, (_, end, _, _) in enumerate(batches) if end <= cut)
        left = cut - batches[last][1]
        assert state == kfast.read((SEGMENT, segment), at=batches[last][3])
        notes = [note for note in state.assumptions if "is cut off" in note]
        expected = f"{SEGMENT}: the last batch is cut off ({left} bytes) and left out"
        assert notes == ([expected] if left else [])


# ---------------------------------------------------------------------------------- folders


def write_folder(folder, segment, at):
    """A log in two segments, cut at an offset that begins a batch."""
    place = next(start for start, _, offset, _ in batches_of(segment) if offset == at)
    folder.mkdir()
    (folder / SEGMENT).write_bytes(segment[:place])
    (folder / f"{at:020d}.log").write_bytes(segment[place:])
    return folder


def test_segments_follow_each_other(segment, tmp_path, shared_data):
    """In the order of their offsets, without a hole; what is not input is passed over."""
    folder = write_folder(tmp_path / "log", segment, 1374)
    (folder / f"{1374:020d}.log.deleted").write_bytes(b"x")
    (folder / f"{1374:020d}-{1:010d}.checkpoint.part").write_bytes(b"x")
    (folder / "leader-epoch-checkpoint").write_bytes(b"0\n1\n1 0\n")
    whole = kfast.read(shared_data / "kraft_live" / "metadata" / FOLDER / SEGMENT)
    assert kfast.read(folder) == whole
    assert [of.offset for of in iter_records(folder)] == [*range(8836)]
    assert [of.offset for of in iter_records(folder, start=1400)] == [*range(1400, 8836)]
    assert kfast.read(folder, at=1380) == kfast.read((SEGMENT, segment), at=1380)
    first = folder / SEGMENT
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"0{20}\.log: is cut off, and is not the last segment"):
        kfast.read(folder)
    first.write_bytes(b"")
    with pytest.raises(InputError, match="begins at offset 1374; the segment before it ends at of"):
        kfast.read(folder)


def test_a_log_without_its_beginning_needs_a_snapshot(segment, tmp_path, shared_data):
    """The state begins at the snapshot, wherever the segment does."""
    folder = write_folder(tmp_path / "log", segment, 3062)
    (folder / SEGMENT).unlink()
    with pytest.raises(InputError, match="begins at offset 3062, and there is no complete snapsho"):
        kfast.read(folder)
    live = shared_data / "kraft_live" / "metadata" / FOLDER
    for name in (f"{3684:020d}-{1:010d}.checkpoint", f"{1224:020d}-{1:010d}.checkpoint"):
        (folder / name).write_bytes((live / name).read_bytes())
    assert open_metadata(folder).first_offset == 3684
    assert kfast.read(folder, at=4000) == kfast.read(live, at=4000)
    with pytest.raises(InputError, match="records from offset 1224 to 3061 are missing"):
        kfast.read(folder, at=3100)
    with pytest.raises(kfast.ArgumentError, match="no state at 1000; the first is at offset 36"):
        kfast.read(folder, at=1000)


def test_a_damaged_snapshot_is_passed_over_where_the_log_says_the_same(tmp_path, shared_data):
    """The newest complete one counts; where none is left, the first error is said."""
    live = shared_data / "kraft_live" / "metadata" / FOLDER
    names = (SEGMENT, f"{8154:020d}-{1:010d}.checkpoint", f"{8827:020d}-{2:010d}.checkpoint")
    for name in names:
        (tmp_path / name).write_bytes((live / name).read_bytes())
    (tmp_path / names[2]).write_bytes((live / names[2]).read_bytes()[:-5])
    state = kfast.read(tmp_path)
    expected = kfast.read(live)
    state.quorum.registration_offset[:] = expected.quorum.registration_offset
    assert state == expected
    assert any(
        note.startswith("passed over: ") and "is not complete" in note
        for note in state.assumptions
    )
    (tmp_path / SEGMENT).unlink()
    (tmp_path / names[1]).write_bytes((live / names[1]).read_bytes()[:-1])
    with pytest.raises(InputError, match=f"{names[2]}: is not complete"):
        kfast.read(tmp_path)


# ---------------------------------------------------------------------------------- records


def refusal(values):
    """What is said of a log whose batch has these values of records."""
    with pytest.raises(InputError) as caught:
        kfast.read((SEGMENT, encode_batch(0, 1, 0, values)))
    return str(caught.value).partition("): ")[2]


def test_what_is_unknown_is_refused():
    """A later format may mean anything."""
    no_op = encode_record(records.NoOpRecord(0))
    assert refusal([no_op, b"\x01\x3f\x00\x00"]) == (
        "a record has the unknown type 63: the log was written by a Kafka that kfast does not know"
    )
    assert refusal([b"\x01\x0d\x00\x00"]).startswith("a record has the unknown type 13")
    assert refusal([b"\x01\x05\x03"]) == (
        "a record of type 5 has the unknown version 3; known is at most 2"
    )
    assert refusal([b"\x00\x14\x00\x00"]) == (
        "a record has frame version 0, not 1: is this a log of __cluster_metadata?"
    )
    assert refusal([encode_record(records.TopicRecord(0, "t", "A" * 22))[:-1]]) == (
        "a record in it is damaged"
    )
    assert refusal([b""]) == "a record in it is damaged"
    level = encode_record(records.FeatureLevelRecord(0, "metadata.version", 27))
    with pytest.raises(InputError, match=r"the record at offset 0 \(type 12\) is damaged"):
        kfast.read((SEGMENT, encode_batch(0, 1, 0, [level + b"x"])))


API_KEYS_OF_4_3 = {
    "RegisterBroker": (0, 4), "UnregisterBroker": (1, 0), "Topic": (2, 0), "Partition": (3, 2),
    "Config": (4, 0), "PartitionChange": (5, 2), "FenceBroker": (7, 0), "UnfenceBroker": (8, 0),
    "RemoveTopic": (9, 0), "DelegationToken": (10, None), "UserScramCredential": (11, None),
    "FeatureLevel": (12, 0), "ClientQuota": (14, None), "ProducerIds": (15, None),
    "BrokerRegistrationChange": (17, 3), "AccessControlEntry": (18, None),
    "RemoveAccessControlEntry": (19, None), "NoOp": (20, 0), "ZkMigrationState": (21, 0),
    "RemoveUserScramCredential": (22, None), "BeginTransaction": (23, 0),
    "EndTransaction": (24, 0), "AbortTransaction": (25, 0), "RemoveDelegationToken": (26, None),
    "RegisterController": (27, 0), "ClearElr": (28, 0),
}
"""Api key and highest version of each record; None: it says nothing of the state, so any will do.

Source: docs/kraft.md, section 12.2.
"""


def test_every_record_kind_is_known_or_refused_by_its_key():
    """Each key below 64, and each version above the highest, in the log and in the kernel."""
    known = dict(API_KEYS_OF_4_3.values())
    for key in range(64):
        if key not in known:
            assert refusal([bytes((1, key, 0, 0))]).startswith(
                f"a record has the unknown type {key}: "
            )
        elif known[key] is None:
            kfast.read((SEGMENT, encode_batch(0, 1, 0, [bytes((1, key, 9, 0))])))
        else:
            assert refusal([bytes((1, key, known[key] + 1, 0))]) == (
                f"a record of type {key} has the unknown version {known[key] + 1}; known is at"
                f" most {known[key]}"
            )
    assert refusal([b"\x01\x80\x01\x00\x00"]).startswith("a record has the unknown type 128")
    names = {kind.__name__: key for kind, key in records.API_KEYS.items()}
    names |= {name.title().replace("_", "") + "Record": key for name, key in STATELESS.items()}
    assert names == {f"{name}Record": key for name, (key, _) in API_KEYS_OF_4_3.items()}


def test_records_that_contradict_each_other_are_refused():
    """Of topics, partitions and brokers that are not there, or are there already."""
    topic = records.TopicRecord(0, "t", "A" * 21 + "Q")
    change = records.PartitionChangeRecord(2, 7, topic.topic_id)
    values = [encode_record(topic), encode_record(change)]
    assert refusal(values[1:]) == "a record speaks of a topic that is not there"
    assert refusal(values) == "a record speaks of a partition 7 that is not there"
    assert refusal([values[0]] * 2) == "a topic is created that is there already"
    fence = encode_record(records.BrokerRegistrationChangeRecord(0, 5, 1, fenced=1))
    with pytest.raises(InputError, match="offset 0 changes the registration of broker 5, which"):
        kfast.read((SEGMENT, encode_batch(0, 1, 0, [fence])))


def test_a_compressed_batch_and_a_second_footer_are_refused(snapshot):
    """No controller compresses; two snapshots are no snapshot."""
    data = bytearray(log_bytes([(0, 1, 0, [records.NoOpRecord(0)])]))
    data[22] |= 4
    with pytest.raises(InputError, match="its checksum is wrong"):
        kfast.read((SEGMENT, bytes(data)))
    data[17:21] = struct.pack(">I", checksum(bytes(data[21:])))
    with pytest.raises(InputError, match=r"it is compressed \(zstd\), which no controller does"):
        kfast.read((SEGMENT, bytes(data)))
    with pytest.raises(InputError, match="it stands behind the end of the snapshot"):
        kfast.read((SNAPSHOT, snapshot + snapshot))


def test_a_text_that_is_cut_is_refused(shared_data):
    """Between the lines of a batch, and before the end of a snapshot."""
    path = shared_data / "exports" / "kraft_snapshot_39_62p.dump.txt"
    lines = path.read_text().splitlines()
    for n, match in (
        (20, "the batch has 75 records, of which the text shows 15"),
        (len(lines) - 2, "is not complete"),
        (len(lines) - 1, "the batch has 1 records, of which the text shows 0"),
    ):
        with pytest.raises(InputError, match=match):
            kfast.read(("dump.txt", "\n".join(lines[:n]).encode()))
    without = [line for line in lines if "offset: 30 " not in line]
    with pytest.raises(InputError, match=r"line \d+: found .*right is a line of its batch"):
        kfast.read(("dump.txt", "\n".join(without).encode()))
    unknown = [line.replace("PRODUCER_IDS_RECORD", "NEW_RECORD") for line in lines]
    with pytest.raises(InputError, match="line 80: a record has the unknown type NEW_RECORD"):
        kfast.read(("dump.txt", "\n".join(unknown).encode()))


def test_an_empty_log_is_a_cluster_of_nothing(tmp_path):
    """A controller that has not begun; a file without a byte says nothing."""
    path = write_log(tmp_path, [(0, 1, 0, [records.FeatureLevelRecord(0, "metadata.version", 30)])])
    state = kfast.read(path)
    assert (state.n_partitions, state.n_brokers, state.controller) == (0, 0, "kraft-4.3")
    path.write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        kfast.read(path)
