"""The metadata log of a real cluster: every record, and every state along it.

Source: docs/kraft.md, sections 2 and 12.
"""

from __future__ import annotations

import dataclasses
import gzip
from collections import Counter
from datetime import UTC, datetime

import pytest

import kfast
from kfast.errors import ArgumentError, InputError
from kfast.io import iter_records, open_metadata
from kfast.state import metadata_records
from tests.support.kraft_live import lines_of, snake_case

FOLDER = "__cluster_metadata-0"
N_RECORDS = 8836
N_CAPTURED = 17_412


@pytest.fixture(scope="module")
def live(shared_data):
    """The folder of the live cluster."""
    return shared_data / "kraft_live"


@pytest.fixture(scope="module")
def log(live):
    """Its metadata log."""
    return open_metadata(live / "metadata")


def expected_record(row):
    """A line of the dump as a record; of a control record the leader that it names."""
    if row["type"] == "CONTROL":
        return metadata_records.LeaderChangeRecord(0, 90)
    kind = getattr(metadata_records, "".join(map(str.title, row["type"].split("_"))))
    names = {item.name: item for item in dataclasses.fields(kind)}
    values = {}
    for key, value in row["data"].items():
        name = snake_case(key)
        if name == "features":
            value = {
                of["name"]: (of["minSupportedVersion"], of["maxSupportedVersion"]) for of in value
            }
        elif name == "end_points":
            value = tuple(
                metadata_records.Endpoint(*of.values()) for of in value
            )
        values[name] = tuple(value) if isinstance(value, list) else value
    if "leader_recovery_state" in names and kind is metadata_records.PartitionRecord:
        values.setdefault("leader_recovery_state", 0)
    return kind(version=row["version"], **values)


def test_every_record_is_that_of_kafkas_own_decoder(live, log):
    """With offset, epoch, time and batch."""
    n = 0
    rows = lines_of(live / "records.jsonl.gz")
    for logged, row in zip(log.records(), rows, strict=True):
        assert logged.record == expected_record(row), row
        assert logged.offset == row["offset"]
        assert (logged.epoch, logged.timestamp_ms) == (row["epoch"], row["time_ms"])
        assert logged.batch == row["batch"]
        n += 1
    assert n == N_RECORDS


def compare_capture(state, capture):
    """What differs between a state and what the AdminClient saw."""
    wrong = []
    fenced = dict(zip(state.broker_id.tolist(), state.fenced.tolist(), strict=True))
    wrong += [f"broker {row['id']}" for row in capture["brokers"]
              if fenced.get(row["id"]) != row["fenced"]]
    rows = {name: {} for name in state.topic.to_pylist()}
    for row in range(state.n_partitions):
        name = state.topic[int(state.topic_row[row])].as_py()
        rows[name][int(state.partition[row])] = state.registration(row)
    if rows.keys() != capture["topics"].keys():
        wrong.append("other topics")
    for name, described in capture["topics"].items():
        for seen in described["partitions"]:
            found = rows.get(name, {}).pop(seen["partition"], None)
            if found is None or any(
                list(getattr(found, key)) != seen[key]
                for key in ("replicas", "isr", "elr", "last_known_elr")
            ) or found.leader != seen["leader"]:
                wrong.append(f"{name}: {found}, captured {seen}")
    wrong += [f"{name}: more partitions" for name, left in rows.items() if left]
    return wrong


def test_the_state_after_each_event_is_what_was_seen(live):
    """From the newest snapshot before it, and the log."""
    captures, wrong, n_partitions = list(lines_of(live / "captures.jsonl.gz")), [], 0
    for capture in captures:
        state = kfast.read(live / "metadata", at=capture["quorum"]["high_watermark"])
        wrong += [f"event {capture['label']}: {text}" for text in compare_capture(state, capture)]
        n_partitions += state.n_partitions
    assert not wrong, "\n".join(wrong[:10])
    assert (len(captures), n_partitions) == (29, N_CAPTURED)


def test_snapshots_are_the_states_of_the_log(live, log):
    """Every snapshot, against the log alone; registrations are as old as the snapshot then."""
    segment = live / "metadata" / FOLDER / f"{0:020d}.log"
    for file in log.snapshots:
        state = kfast.read(file.source)
        replayed = kfast.read(segment, at=file.offset)
        replayed.quorum.registration_offset[:] = file.offset - 1
        assert state.difference(replayed) is None
        assert state.digest() == replayed.digest()
        assert state.controller_id == 90


def test_a_folder_a_file_and_a_text_say_the_same(live):
    """The folder above, the text of kafka-dump-log, and packed files too."""
    folder, dumps = live / "metadata" / FOLDER, live / "exports" / "mark-offline"
    newest = folder / f"{8827:020d}-{2:010d}.checkpoint"
    state = kfast.read(live / "metadata")
    assert kfast.read(folder) == state
    assert kfast.read(newest) == state
    assert kfast.read(dumps / f"dump-{newest.name}.txt.gz") == state
    packed = gzip.compress(newest.read_bytes())
    assert kfast.read((f"{newest.name}.gz", packed)) == state
    replayed = kfast.read(folder / f"{0:020d}.log")
    assert kfast.read(dumps / "dump-log.txt.gz") == replayed
    tables = kfast.io.read_tables(live / "metadata")
    again = kfast.ClusterState.from_tables(
        tables.brokers, tables.topics, tables.partitions, tables.cluster
    )
    assert again == state


def test_a_time_gives_the_state_of_the_batches_until_then(live, log):
    """A time without a zone is UTC."""
    records = [record for record in log.records() if record.offset < 5000]
    time_ms = records[-1].timestamp_ms
    end = next(record.offset for record in log.records() if record.timestamp_ms > time_ms)
    for zone in (UTC, None):
        at = datetime.fromtimestamp(time_ms / 1000, UTC).replace(tzinfo=zone)
        assert kfast.read(live / "metadata", at=at) == kfast.read(live / "metadata", at=end)
    with pytest.raises(ArgumentError, match="ends at offset 8836; 8837 is beyond it"):
        kfast.read(live / "metadata", at=8837)
    with pytest.raises(ArgumentError, match="at"):
        kfast.read(live / "metadata", at=-1)
    with pytest.raises(ArgumentError, match="snapshot whose name says no offset"):
        kfast.read(live.parent / "exports" / "kraft_snapshot_39_62p.checkpoint", at=5)


def test_a_log_under_another_name_begins_where_its_first_batch_says(live):
    """And before its first record nothing says what runs the cluster."""
    path = live / "metadata" / FOLDER / f"{0:020d}.log"
    assert kfast.read(("a copy", path.read_bytes())) == kfast.read(path)
    with pytest.raises(kfast.ArgumentError, match=r"has no broker at 0; the first is .* offset 9"):
        kfast.read(path, at=0)
    nothing = open_metadata(path).state(0)
    assert (nothing.controller, nothing.n_brokers) == ("kraft-4.3", 0)
    assert nothing.assumptions[0].startswith("controller: assumed, for ")


def test_the_first_line_of_the_assumptions_says_what_runs_the_cluster(live, shared_data):
    """The release that the controllers run; the metadata version where none is registered."""
    state = kfast.read(live / "metadata")
    assert (state.controller, state.controller_id) == ("kraft-4.1", 90)
    assert state.quorum.features["eligible.leader.replicas.version"] == 1
    assert state.assumptions[0] == (
        f"controller: read from the registration of controller 90 in {live / 'metadata'}, which"
        " supports metadata.version up to 27; 27 is finalized"
    )
    assert kfast.read(live / "metadata" / "bootstrap.checkpoint").assumptions[0].startswith(
        "controller: read from metadata.version 27 in "
    )
    old = kfast.read(shared_data / "exports" / "kraft_snapshot_39_62p.checkpoint")
    assert (old.controller, old.quorum.elr_on) == ("kraft-3.9", False)


def test_records_of_a_snapshot_are_read_too(shared_data):
    """In its order; what holds no state by its type alone."""
    path = shared_data / "exports" / "kraft_snapshot_39_62p.checkpoint"
    kinds = Counter(type(logged.record).__name__ for logged in iter_records(path))
    assert kinds["PartitionRecord"] == 62
    assert kinds["OtherRecord"] == 1
    assert sum(kinds.values()) == 75


def test_what_is_no_metadata_log_is_refused(live, tmp_path):
    """A folder without one, and another file."""
    with pytest.raises(InputError, match="is a folder without a metadata log"):
        kfast.read(tmp_path)
    with pytest.raises(InputError, match="is no metadata log of KRaft"):
        iter_records(live.parent / "exports" / "describe_4x_elr_1_created.txt")
    with pytest.raises(ArgumentError, match="is no metadata log; it shows one moment only"):
        kfast.read(live.parent / "exports" / "describe_4x_elr_1_created.txt", at=5)
