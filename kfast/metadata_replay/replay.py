"""`replay_metadata`: a metadata log in, every decision of its controllers with a verdict out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from kfast.errors import InputError
from kfast.io import open_metadata
from kfast.metadata_replay.comparison import MetadataReplayer
from kfast.metadata_replay.simulation import Simulation, check_release, release_of_software
from kfast.metadata_replay.verdicts import MetadataContradiction
from kfast.replay_results.incident import Incident
from kfast.replay_results.timeline import incident_tables
from kfast.replay_results.verdicts import VERDICTS
from kfast.state.controller_change import change_controller
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.kraft_releases import (
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION,
    find_release,
    note_newer,
)
from kfast.state.metadata_records import RegisterBrokerRecord, RegisterControllerRecord
from kfast.state.registrations import quorum_of

if TYPE_CHECKING:

    from kfast.io.metadata.log import MetadataLog

UNCLEAN = {UNCLEAN_LEADER_ELECTION: "true"}
LIKELY_FILES: Sequence[Mapping[str, str]] = (
    UNCLEAN, *({MIN_INSYNC_REPLICAS: n, **more} for more in ({}, UNCLEAN) for n in "23"),
)
"""Settings that a controller's file may have; no log says them (docs/kraft.md, section 1.5)."""

FEWEST_EXPLAINED = 2
"""So many contradictions must go before a setting of the file is taken for granted."""


@dataclass(frozen=True)
class MetadataReplay(Incident):
    """What became of the replay of a metadata log.

    Attributes
    ----------
    source : str
        The path.
    files : tuple of str
        The files that were read.
    n_records : int
        Records from the beginning of the replay on.
    first_offset, end_offset : int
        Offsets from and before which records were replayed.
    facts : pa.Table
        One row for each decision: see `schema.METADATA_FACTS`.
    timeline, outages, reassignments, broker_sessions, controller_terms : pa.Table
        See `Incident`.
    contradictions : tuple of MetadataContradiction
        Decisions that the rules do not give, and those that they give and that are not there.
    counts, reasons, causes, kinds : dict
        Facts by verdict; adopted ones by reason; facts by cause and by kind.
    profile : str
        The controller that was simulated last.
    why : str
        Why this one.
    settings : dict
        Settings of the controller's file that were assumed or told.
    notes : tuple of str
    """

    source: str
    files: tuple[str, ...]
    n_records: int
    first_offset: int
    end_offset: int
    facts: pa.Table
    contradictions: tuple[MetadataContradiction, ...]
    counts: Mapping[str, int]
    reasons: Mapping[str, int]
    causes: Mapping[str, int]
    kinds: Mapping[str, Mapping[str, int]]
    profile: str
    why: str
    settings: Mapping[str, str]
    notes: tuple[str, ...]

    def _summary(self) -> Summary:
        return f"Replay of {self.source}", {
            **self.counts,
            "controller": self.profile,
            "records": self.n_records,
            "outages": self.outages.num_rows,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def replay_metadata(
    path: str | Path, profile: str | None = None, *, settings: Mapping[str, str] | None = None
) -> MetadataReplay:
    """Replay the metadata log of a KRaft cluster, and compare each decision with the prediction.

    Parameters
    ----------
    path : path
        A folder `__cluster_metadata-0`, one that holds it, or a segment of the log.
    profile : str, optional
        Which controller to simulate, such as `kraft-4.1`. By default the release of the software
        that the log names, even where it changes.
    settings : dict of str to str, optional
        What the file of the controller says of `min.insync.replicas` and
        `unclean.leader.election.enable`. By default nothing, unless that contradicts the log and
        a likely setting does not.

    Returns
    -------
    MetadataReplay

    Raises
    ------
    ArgumentError
        The profile is unknown, or cannot have the features that the log finalizes.
    InputError
        There is no metadata log, or only a snapshot; it is damaged, or it lacks its beginning
        and has no snapshot.
    """
    release = None if profile is None else find_release(profile).name
    log = open_metadata(path)
    if not log.segments:
        raise InputError(
            f"{log.name}: is a snapshot, which holds no decisions; right is a segment (.log), or"
            " the folder __cluster_metadata-0 with its .log files"
        )
    chosen = dict(settings or {})
    replayer = _replay(log, release, chosen)
    notes = [*log.notes]
    n_wrong = len(replayer.verdicts.contradictions)
    if settings is None and n_wrong >= FEWEST_EXPLAINED:
        for likely in LIKELY_FILES:
            other = _replay(log, release, likely)
            if not other.verdicts.contradictions:
                replayer, chosen = other, dict(likely)
                assumed = ", ".join(f"{name}={value}" for name, value in likely.items())
                notes.append(
                    f"the controller's file is assumed to say {assumed}, which no log does:"
                    f" without, {n_wrong} decisions are contradicted"
                )
                break
    return _answer(str(path), log, replayer, chosen, notes)


def _replay(
    log: MetadataLog, profile: str | None, settings: Mapping[str, str]
) -> MetadataReplayer:
    """Replay a log once."""
    state = log.state(log.first_offset)
    if profile is None:
        releases = map(release_of_software, _software(log, quorum_of(state).feature_ranges))
        chosen = next((name for name in releases if name is not None), state.controller)
    else:
        chosen = profile
        if log.first_offset:  # a log from its beginning finalizes by records
            check_release(find_release(profile), quorum_of(state).features)
    if chosen != state.controller:
        change_controller(state, chosen)
    simulation = Simulation(state, settings, follows_software=profile is None)
    replayer = MetadataReplayer(simulation)
    replayer.replay(log.records(log.first_offset))
    return replayer


def _software(
    log: MetadataLog, registered: Sequence[Mapping[str, tuple[int, int]]]
) -> Iterator[Mapping[str, tuple[int, int]]]:
    """Feature ranges of nodes, those that tell first what software ran when the log begins."""
    written = (
        logged.record.features for logged in log.records(log.first_offset)
        if isinstance(logged.record, (RegisterControllerRecord, RegisterBrokerRecord))
    )
    return chain(registered, written)


def _answer(
    source: str, log: MetadataLog, replayer: MetadataReplayer, settings: Mapping[str, str],
    notes: Sequence[str],
) -> MetadataReplay:
    verdicts, timeline, simulation = replayer.verdicts, replayer.timeline, replayer.simulation
    counts = verdicts.counts(2)
    files = tuple(file.name for file in log.segments)
    return MetadataReplay(
        *incident_tables([timeline]), source, files, replayer.n_records, log.first_offset,
        replayer.end_offset, verdicts.table(),
        tuple(sorted(verdicts.contradictions, key=lambda one: one.offset)),
        {verdict: counts[verdict] for verdict in VERDICTS},
        dict(verdicts.reasons().most_common()), dict(verdicts.counts(1).most_common()),
        verdicts.kinds(), simulation.state.controller,
        "inferred: the software that the log names" if simulation.follows_software else "told",
        MappingProxyType(dict(settings)), (*note_newer(simulation.highest_level), *notes),
    )
