"""Metadata logs of KRaft, replayed: every decision is predicted or was asked for.

Source: docs/kraft.md, sections 2 and 5 to 8.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

import kfast
from kfast.errors import ArgumentError, InputError
from kfast.io import LoggedRecord, iter_records
from kfast.metadata_replay import MetadataReplay
from kfast.metadata_replay.simulation import Simulation
from kfast.state.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    LeaderChangeRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    uuid_text,
)
from tests.support.kraft_cases import load
from tests.support.long_tests import share_of
from tests.support.machine_speed import slowness
from tests.support.metadata_bulk import write_bulk_log
from tests.support.metadata_cases import write_case
from tests.support.metadata_writer import write_log, write_snapshot

TOPIC = uuid_text(5, 5)
FEATURES = {"metadata.version": (7, 27)}
CLEAN = {"unknown": 0, "contradicted": 0, "missing": 0}


@pytest.fixture(scope="module")
def live(shared_data):
    """The log of a live cluster."""
    return shared_data / "kraft_live" / "metadata" / "__cluster_metadata-0"


@pytest.fixture(scope="module")
def cases(shared_data):
    """The sequences that Kafka's classes have answered."""
    return list(load(shared_data / "kraft_cases_executed.json"))


def verdicts(found: MetadataReplay) -> str:
    """The first contradictions, for messages."""
    return "\n".join(map(str, found.contradictions[:5]))


# ------------------------------------------------------------------------------- real clusters


def test_a_live_cluster_is_predicted(live):
    """Nothing but wishes of leaders, brokers and administrators is taken from the log."""
    found = kfast.replay_metadata(live)
    assert found.counts == {"predicted": 4505, "adopted": 4059, **CLEAN}, verdicts(found)
    assert found.kinds["partition change"]["predicted"] == 4452
    assert found.reasons == {
        "decided by a partition's leader": 2781,
        "replicas of a new partition": 636,
        "a replica's directory, said by its broker": 616,
        "planned by an administrator": 26,
    }
    assert {cause: found.causes[cause] for cause in ("fencing", "unfencing", "shutdown")} == {
        "fencing": 2720, "unfencing": 184, "shutdown": 587,
    }
    assert found.profile == "kraft-4.1"


def test_a_live_cluster_as_a_timeline(live):
    """An unclean stop: when its partitions lost their leader, and when they had one again."""
    found = kfast.replay_metadata(live)
    rows = {row["what"]: row for row in found.timeline.to_pylist()}
    assert rows["broker 5 asks to shut down"]["leaderless"] == 23
    assert rows["preferred election of 97 partitions"]["leaders_moved"] == 97
    assert found.outages.num_rows == 244
    still = [row["partition"] for row in found.outages.to_pylist() if row["until"] is None]
    assert len(still) == 5


def test_cases_are_predicted(cases, tmp_path, monkeypatch):
    """A part of the sequences; alone and with others in one batch."""
    for number, case in enumerate(cases[::12]):
        folder = write_case(tmp_path / str(number), case, monkeypatch, 1 + number % 3)
        found = kfast.replay_metadata(
            folder, case["profile"], settings=case["given"]["static_config"]
        )
        assert found.counts["contradicted"] + found.counts["missing"] == 0, (
            f"{case['id']}: {verdicts(found)}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("events_per_batch", share_of((3, 1)))
def test_all_cases_are_predicted(cases, tmp_path, monkeypatch, events_per_batch):
    """Every sequence: 600 logs; three events in each batch, or one."""
    wrong = []
    for case in cases:
        folder = write_case(tmp_path / case["id"], case, monkeypatch, events_per_batch)
        found = kfast.replay_metadata(
            folder, case["profile"], settings=case["given"]["static_config"]
        )
        if found.contradictions:
            wrong.append(f"{case['id']}: {verdicts(found)}")
    assert not wrong, "\n".join(wrong[:10])


# ---------------------------------------------------------------------------------- long logs


def test_a_rolling_restart_is_predicted(tmp_path, monkeypatch):
    """Topics that are created one after another are applied together: each time takes the state."""
    created = []
    create = Simulation.create

    def note(simulation, topics, partitions):
        created.append((len(topics), len(partitions)))
        create(simulation, topics, partitions)

    monkeypatch.setattr(Simulation, "create", note)
    write_bulk_log(tmp_path, 30, 4, 6, 60_000)
    found = kfast.replay_metadata(tmp_path)
    assert found.counts["contradicted"] + found.counts["missing"] == 0, verdicts(found)
    assert found.causes.keys() >= {"shutdown", "isr", "preferred", "registration"}
    assert created == [(30, 120)]


@pytest.mark.slow
def test_10_mb_are_replayed_in_9_s(tmp_path):
    """100 MB in 90 s; half as long again on a busy machine, and more on a slow one."""
    write_bulk_log(tmp_path, 400, 10, 30, 10_000_000)
    slow, began = slowness(), time.process_time()
    found = kfast.replay_metadata(tmp_path)
    seconds = time.process_time() - began
    assert seconds <= 9 * 1.5 * max(slow, slowness())
    assert found.counts["contradicted"] + found.counts["missing"] == 0, verdicts(found)


# ------------------------------------------------------------------------------ small clusters


def broker(broker_id: int, offset: int) -> RegisterBrokerRecord:
    """The first registration of a broker."""
    return RegisterBrokerRecord(
        3, broker_id, uuid_text(7, broker_id), offset, log_dirs=(uuid_text(9, broker_id),),
        features=FEATURES,
    )


def story(*operations: Sequence[MetadataRecord]) -> list[tuple[int, int, int, list]]:
    """Three brokers and a topic of one partition, then operations, each in a batch of its own."""
    replicas = (1, 2, 3)
    directories = tuple(uuid_text(9, one) for one in replicas)
    groups: list[Sequence[MetadataRecord]] = [
        [LeaderChangeRecord(0, 90)],
        [FeatureLevelRecord(0, "metadata.version", 27)],
        *([broker(one, one + 1)] for one in replicas),
        *([BrokerRegistrationChangeRecord(0, one, one + 1, fenced=-1)] for one in replicas),
        [
            TopicRecord(0, "orders", TOPIC),
            PartitionRecord(2, 0, TOPIC, replicas, replicas, (), (), 1, 0, 0, 0, directories),
        ],
        *operations,
    ]
    batches, offset = [], 0
    for place, group in enumerate(groups):
        batches.append((offset, 1, 1000 * place, list(group)))
        offset += len(group)
    return batches


def change(**fields) -> PartitionChangeRecord:
    """A change of the partition."""
    return PartitionChangeRecord(2, 0, TOPIC, **fields)


FENCED = BrokerRegistrationChangeRecord(0, 1, 2, fenced=1)


def test_what_a_fencing_leads_to_is_predicted(tmp_path):
    """Source: docs/kraft.md, section 6.1."""
    write_log(tmp_path, story([change(isr=(2, 3), leader=2), FENCED]))
    found = kfast.replay_metadata(tmp_path)
    assert found.counts == {"predicted": 4, "adopted": 1, **CLEAN}


def test_another_leader_is_contradicted(tmp_path):
    """The next in the order of the replicas leads; the answer says what is predicted."""
    write_log(tmp_path, story([change(isr=(2, 3), leader=3), FENCED]))
    (one,) = kfast.replay_metadata(tmp_path).contradictions
    assert (one.subject, one.cause) == ("orders-0", "fencing")
    assert (one.logged, one.predicted) == ("isr [2,3], leader 3", "isr [2,3], leader 2")


def test_a_change_that_is_not_there_is_missing(tmp_path):
    """A fenced broker cannot stay in an ISR."""
    write_log(tmp_path, story([FENCED]))
    (one,) = kfast.replay_metadata(tmp_path).contradictions
    assert one.is_missing
    assert one.predicted == "isr [2,3], leader 2"


def test_a_leader_cannot_ask_for_a_fenced_member(tmp_path):
    """Kafka refuses it with INELIGIBLE_REPLICA (docs/kraft.md, section 7.1)."""
    write_log(tmp_path, story(
        [change(isr=(2, 3), leader=2), FENCED], [change(isr=(2, 3, 1))],
    ))
    (one,) = kfast.replay_metadata(tmp_path).contradictions
    assert one.cause == "unexplained"


def test_what_min_isr_clears_must_be_there(tmp_path):
    """With ELR on, a change of min.insync.replicas writes ClearElr (section 8.3)."""
    on = FeatureLevelRecord(0, "eligible.leader.replicas.version", 1)
    config = ConfigRecord(0, 2, "orders", "min.insync.replicas", "2")
    write_log(tmp_path, story([on], [config]))
    (one,) = kfast.replay_metadata(tmp_path).contradictions
    assert (one.kind, one.is_missing) == ("cleared ELRs", True)


def test_a_setting_of_the_controllers_file_is_found(tmp_path):
    """Unclean elections that no configuration of the log allows, and no other explanation."""
    write_log(tmp_path, story(
        [change(isr=(1,))],
        [change(isr=(2,), leader=2, leader_recovery_state=1), FENCED],
        [change(isr=(3,), leader=3), BrokerRegistrationChangeRecord(0, 2, 3, fenced=1)],
    ))
    assert len(kfast.replay_metadata(tmp_path, settings={}).contradictions) == 2
    found = kfast.replay_metadata(tmp_path)
    assert found.settings == {"unclean.leader.election.enable": "true"}
    assert not found.contradictions
    elections = [
        row["what"] for row in found.timeline.to_pylist() if row["event"] == "unclean election"
    ]
    assert [what.partition(";")[0] for what in elections] == [
        "orders-0: unclean election of broker 2, ISR was 1, leader epoch 0 to 1",
        "orders-0: unclean election of broker 3, ISR was 2, leader epoch 1 to 2",
    ]
    assert "is assumed to say unclean.leader.election.enable=true" in found.notes[-1]


def test_a_log_without_beginning_is_refused(tmp_path):
    """And so is a profile that does not exist."""
    (tmp_path / "other").mkdir()
    write_log(tmp_path / "cut", story()[3:])
    with pytest.raises(InputError, match="no complete snapshot"):
        kfast.replay_metadata(tmp_path / "cut")
    with pytest.raises(ArgumentError, match="kraft-9"):
        kfast.replay_metadata(tmp_path / "cut", "kraft-9")


# ---------------------------------------------------------------------------------- releases

ELR_ON = FeatureLevelRecord(0, "eligible.leader.replicas.version", 1)


@pytest.mark.parametrize(("profile", "operation", "refusal"), [
    ("kraft-3.9", [], "the log finalizes metadata.version 27, which it cannot have"),
    ("kraft-4.0", [], "allowed: kraft-4.1, kraft-4.2, kraft-4.3"),
    ("kraft-4.1", [FeatureLevelRecord(0, "metadata.version", 29)], "allowed: kraft-4.2, kraft-4.3"),
    ("kraft-4.3", [FeatureLevelRecord(0, "metadata.version", 31)], "no release that kfast knows"),
    ("kraft-4.3", [FeatureLevelRecord(0, "metadata.version", 6)], "allowed: kraft-3.3, kraft-3.4"),
    ("kraft-4.1", [ELR_ON], None),
])
def test_a_release_has_the_features_that_the_log_finalizes(profile, operation, refusal, tmp_path):
    """Source: docs/kraft.md, sections 1.4 and 11."""
    write_log(tmp_path, story(*[operation] * bool(operation)))
    if refusal is None:
        assert kfast.replay_metadata(tmp_path, profile).counts["contradicted"] == 0
        return
    with pytest.raises(ArgumentError, match=refusal) as refused:
        kfast.replay_metadata(tmp_path, profile)
    assert str(refused.value).startswith(f"controller {profile}: ")


def test_a_release_without_elr_cannot_run_a_log_with_it(tmp_path):
    """Also where only the snapshot says it; the metadata version alone would do."""
    old = FeatureLevelRecord(0, "metadata.version", 21)
    write_log(tmp_path / "log", [(0, 1, 0, [old]), (1, 1, 0, [ELR_ON])])
    message = "kraft-3.9: the log finalizes eligible.leader.replicas.version 1"
    with pytest.raises(ArgumentError, match=message):
        kfast.replay_metadata(tmp_path / "log", "kraft-3.9")
    write_snapshot(tmp_path / "both", 2, 1, [old, ELR_ON])
    write_log(tmp_path / "both", [(2, 1, 0, [NoOpRecord(0)])])
    with pytest.raises(ArgumentError, match=message):
        kfast.replay_metadata(tmp_path / "both", "kraft-3.9")


def test_a_newer_metadata_version_is_named(tmp_path):
    """Its records may be known ones; what it changes in decisions is not."""
    write_log(tmp_path, story([FeatureLevelRecord(0, "metadata.version", 31)]))
    said = "metadata.version 31 is newer than 30, the highest of kraft-4.3"
    assert any(said in note for note in kfast.replay_metadata(tmp_path).notes)
    assert any(said in note for note in kfast.read(tmp_path).assumptions)


# ------------------------------------------------------------------------- a tampered controller


def tampered(record: PartitionChangeRecord, rng: random.Random) -> PartitionChangeRecord:
    """The record with another leader, ISR, ELR or partition."""
    others = [one for one in (1, 2, 3, 4, 5) if one != record.leader]
    changes = [
        {"leader": rng.choice(others)},
        {"isr": (record.isr or ())[::-1] if len(record.isr or ()) > 1 else (rng.choice(others),)},
        {"eligible_leader_replicas": (*(record.eligible_leader_replicas or ()), 9)},
        {"leader_recovery_state": 1 - (record.leader_recovery_state or 0)},
        {"partition_id": record.partition_id + 1},
    ]
    return replace(record, **rng.choice(changes))


def replay_of(folder: Path, records: Sequence[LoggedRecord]) -> MetadataReplay:
    """The replay of a log with these records, batch by batch, whose offsets follow each other."""
    batches, offset = [], 0
    for _, batch in groupby(records, key=lambda one: one.batch):
        group = list(batch)
        batches.append(
            (offset, group[0].epoch, group[0].timestamp_ms, [one.record for one in group])
        )
        offset += len(group)
    write_log(folder, batches)
    return kfast.replay_metadata(folder, settings={})


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_changed_or_dropped_decision_is_contradicted(live, tmp_path, is_dropped):
    """One record of the live log at a time, of those that are predicted."""
    records = list(iter_records(live))
    facts = kfast.replay_metadata(live).facts.to_pylist()
    predicted = {
        fact["offset"] for fact in facts
        if fact["kind"] == "partition change" and fact["verdict"] == "predicted"
    }
    places = [place for place, one in enumerate(records) if one.offset in predicted]
    rng, passed = random.Random(14), []
    for place in rng.sample(places, 4):
        one = records[place]
        written = [] if is_dropped else [one._replace(record=tampered(one.record, rng))]
        found = replay_of(tmp_path, [*records[:place], *written, *records[place + 1 :]])
        if not found.contradictions:
            passed.append((one, written))
    assert not passed, passed
