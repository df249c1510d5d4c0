"""`replay`: a log in, every fact with its verdict out."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from kfast.controllers import Profile, profile_of
from kfast.errors import InputError
from kfast.log_replay.comparison.facts import ABSENT, Fact, facts_table, shown
from kfast.log_replay.comparison.missing_decisions import UNSTATED
from kfast.log_replay.comparison.unseen_topics import is_of_all, leave_unseen
from kfast.log_replay.histories.exploration import explore
from kfast.log_replay.histories.explorer import Explorer
from kfast.log_replay.log_files import Logs, Place, Warned, read_logs
from kfast.log_replay.lookahead.clusters import Cluster, split_clusters
from kfast.log_replay.report.verdicts import SILENT, Checker
from kfast.log_replay.steps import Progress, Steps
from kfast.log_replay.terms.holes import FEWEST_LINES
from kfast.log_replay.terms.terms import find_terms
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.releases import Choice, choose_profile, refuse_kraft
from kfast.log_replay.wording.statements import NOT_UNDERSTOOD, understand
from kfast.replay_results.incident import Incident
from kfast.replay_results.timeline import incident_tables
from kfast.replay_results.verdicts import (
    ADOPTED,
    CONTRADICTED,
    MISSING,
    NO_DECISION,
    UNKNOWN,
    VERDICTS,
    recall_percent,
)
from kfast.state.display import Summary, summary_html, summary_text

MOMENT_S = 0.3
"""For so long what was simulated is judged after an interruption."""

MOST_ALONE = 4
"""Events whose causes the log lacks, and that are left out one by one."""

MOST_SHOWN = 20
"""Lines that were not understood and are kept as examples."""


@dataclass(frozen=True)
class Contradiction:
    """A fact that does not agree with what kfast predicts from all others, or one that is missing.

    Attributes
    ----------
    kind, subject : str
        What is said of what.
    logged, predicted : str
        As the line says it, empty where the log lacks it; as it should be, "-" where nothing is
        predicted.
    place : Place
        The line; of what is missing, the one before which it is due.
    event : str
        What decided it, where it is missing.
    other : Place or None
        The last line before that said the same of the same subject, and agreed.
    """

    kind: str
    subject: str
    logged: str
    predicted: str
    place: Place
    event: str = ""
    other: Place | None = None

    @property
    def is_missing(self) -> bool:
        """Whether the log lacks it."""
        return not self.logged

    def __str__(self) -> str:
        if self.is_missing:
            return (f"{self.place}: {self.kind} of {self.subject} is missing before this line, "
                    f"predicted {self.predicted} ({self.event})")
        where = f", unlike {self.other}" if self.other else ""
        return (f"{self.place}: {self.kind} of {self.subject} is {self.logged}, "
                f"predicted {self.predicted}{where}")


@dataclass(frozen=True)
class Replay(Incident):
    """What became of a replay.

    Attributes
    ----------
    source : str
        The folder.
    files : tuple of str
        The files read, as messages call them.
    n_lines : int
        Lines in them.
    facts : pa.Table
        time, file, line, kind, subject, logged, predicted, verdict, reason.
    timeline, outages, reassignments, broker_sessions, controller_terms : pa.Table
        See `Incident`.
    contradictions : tuple of Contradiction
    warnings : tuple of Warned
        Damaged lines, with file and line.
    counts : dict
        Facts by verdict.
    decisions : int
        Those that are predicted and that the log is to have: stated or missing.
    reasons, unknown_reasons : dict
        Adopted facts by reason; those that cannot be judged likewise.
    lines : dict
        Lines read, by what they are: with facts, events, no facts, not understood.
    not_understood : tuple of Place
        Examples.
    profile : str
        The controller that was simulated.
    release : str or None
        The release it stands for; None where a profile was asked for.
    notes : tuple of str
    """

    source: str
    files: tuple[str, ...]
    n_lines: int
    facts: pa.Table
    contradictions: tuple[Contradiction, ...]
    warnings: tuple[Warned, ...]
    counts: Mapping[str, int]
    decisions: int
    reasons: Mapping[str, int]
    unknown_reasons: Mapping[str, int]
    lines: Mapping[str, int]
    not_understood: tuple[Place, ...]
    profile: str
    release: str | None
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def adopted_share(self) -> float:
        """Share of the facts that had to be taken from the log."""
        total = self.facts.num_rows - self.counts[MISSING]
        return self.counts[ADOPTED] / total if total else 0.0

    @property
    def recall_percent(self) -> int | None:
        """Share of the decisions that the log has, rounded down; None if it is to have none."""
        return recall_percent(self.decisions, self.counts[MISSING])

    @property
    def why_no_recall(self) -> str:
        """Why the log is to have no decision; empty where it is to have some."""
        if self.decisions:
            return ""
        kinds = self.facts.filter(pc.field("kind") == UNSTATED).column("reason").to_pylist()
        return Counter(kinds).most_common(1)[0][0] if kinds else NO_DECISION

    def _summary(self) -> Summary:
        return f"Replay of {self.source}", {
            **self.counts,
            "profile": self.profile,
            "files": len(self.files),
            "lines": self.n_lines,
            "outages": self.outages.num_rows,
            "warnings": len(self.warnings),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


class ReplayInterrupted(KeyboardInterrupt):
    """A replay was interrupted; `replay` has what was judged by then.

    Parameters
    ----------
    replay : Replay
    """

    def __init__(self, replay: Replay) -> None:
        super().__init__()
        self.replay = replay


def replay(
    path: str | Path | Sequence[str | Path], profile: str | Profile | None = None, *,
    progress: Progress | None = None,
) -> Replay:
    """Replay the logs of real controllers, and compare all that they say with what kfast predicts.

    Parameters
    ----------
    path : path, or sequence of paths
        A folder with `controller.log` and `state-change.log` files of one or several brokers
        (rotated or packed files and folders in folders count), or the files.
    profile : str or Profile, optional
        Which controller to simulate; by default the one the wording tells.
    progress : callable, optional
        Gets the steps that are done, and how many there are.

    Returns
    -------
    Replay

    Raises
    ------
    InputError
        There is nothing to read, no line of a controller in it, or its release cannot be told.
    ReplayInterrupted
        It was interrupted once facts can be judged; it has those that were.
    """
    logs = read_logs(path)
    with _collector_paused():
        return _replay(logs, profile, Steps(progress, len(logs.entries)))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep Python from looking for cycles: none arise here, and it takes up to 25 % of the time.

    Statements, items and facts are millions of small objects that all stay.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _replay(logs: Logs, profile: str | Profile | None, steps: Steps) -> Replay:
    """Replay logs that are read."""
    statements, used = understand(logs, steps)
    terms = find_terms(statements)
    if not terms:
        refuse_kraft(logs)
    clusters = split_clusters(statements, terms)
    if not terms and not any(cluster.absent for cluster in clusters):
        raise InputError(
            f"{logs.name}: no line of an active controller is in these logs, and none of a broker "
            "about a request that it received; controller.log and state-change.log are needed"
        )
    choice = choose_profile(logs, used, profile)
    checkers = _check(clusters, statements, choice.profile, steps)
    checkers, unjudged = _leave_unjudged(choice, checkers, statements, steps)
    choice, checkers = _try_others(choice, checkers, statements, steps, unjudged)
    clusters = [checker.cluster for checker in checkers]
    facts = [fact for one in checkers for fact in leave_unseen(one.facts, one.cluster)]
    notes = [choice.note]
    if steps.were_interrupted():
        reached = max(checker.reached for checker in checkers)
        facts = [fact for fact in facts if fact.number <= reached]
        where = logs.place(logs.entries[reached]) if reached >= 0 else "no line"
        notes.append(f"interrupted: facts are judged up to {where}, entry {reached + 1} of "
                     f"{len(statements)} in order of time")
        statements = statements[: reached + 1]
    if len(clusters) > 1:
        notes.append(f"{len(clusters)} clusters follow or overlap one another in these logs")
    notes += _broker_notes(logs, statements, clusters, facts)
    counts = Counter(fact.verdict for fact in facts)
    if logs.warnings and counts[CONTRADICTED]:
        first = logs.warnings[0]
        notes.append(
            f"lines are damaged, first at {first.file}:{first.line}: events that stood there are "
            "not replayed, and what followed from them is contradicted"
        )
    not_understood = [line for line in statements if line.kind == NOT_UNDERSTOOD]
    answer = Replay(
        *incident_tables([checker.watcher.timeline for checker in checkers]),
        logs.root, tuple(logs.files), logs.n_lines, facts_table(facts, logs, statements),
        _contradictions(facts, logs, statements), tuple(logs.warnings),
        {verdict: counts[verdict] for verdict in VERDICTS},
        sum(checker.decisions.n_due for checker in checkers),
        _reasons(facts, ADOPTED), _reasons(facts, UNKNOWN), _line_counts(facts, statements),
        tuple(logs.place(line.entry) for line in not_understood[:MOST_SHOWN]),
        choice.profile.name, choice.release, tuple(notes),
    )
    if steps.were_interrupted():
        raise ReplayInterrupted(answer)
    return answer


def _check(
    clusters: Sequence[Cluster], statements: Sequence[Statement], profile: Profile, steps: Steps
) -> list[Checker]:
    """Simulate and judge every cluster, until that is interrupted.

    What was simulated by then is judged for a moment more, as far as that goes.
    """
    checkers: list[Checker] = []
    for cluster in clusters:
        if steps.were_interrupted():
            break
        explorer = Explorer(cluster, statements, profile, steps)
        try:
            explore(explorer)
        except KeyboardInterrupt:
            explorer.cut()
            steps.hurry(MOMENT_S)
        checkers.append(Checker(explorer))
        try:
            checkers[-1].check()
        except KeyboardInterrupt:
            steps.hurry(0)
    return checkers


def _leave_unjudged(
    choice: Choice, checkers: list[Checker], statements: Sequence[Statement], steps: Steps
) -> tuple[list[Checker], set[int]]:
    """Replay without the events whose causes the log lacks, where several lines disagree.

    Without all of them, or else without one of those that most lines disagree with.
    """
    unjudged: set[int] = set()
    while True:
        for disputed in list(_disputed(checkers, unjudged)):
            best = _again(choice.profile, checkers, statements, steps, unjudged | disputed)
            if best is not checkers:
                break
        else:
            return checkers, unjudged
        checkers, unjudged = best, unjudged | disputed


def _disputed(checkers: Sequence[Checker], unjudged: set[int]) -> Iterator[set[int]]:
    """Keys of `Cluster.begun` and `uncovered` whose lines disagree, to be tried in turn.

    A single line of them that disagrees, or is missing, is wrong.
    """
    contradicted = {fact.number for checker in checkers for fact in checker.facts
                    if fact.verdict == CONTRADICTED}
    missing = {number: subjects for checker in checkers
               for number, subjects in checker.decisions.missing.items()}
    clusters = [checker.cluster for checker in checkers]
    alone: dict[int, int] = {}
    for parts in ([one.begun for one in clusters], [one.uncovered for one in clusters]):
        n_wrong = {at: n for some in parts for at, lines in some.items() if at not in unjudged and (
            n := _n_disagreeing(lines, contradicted, missing)) >= FEWEST_LINES}
        if n_wrong:
            yield set(n_wrong)
        if len(n_wrong) > 1:
            alone |= n_wrong
    for at in sorted(alone, key=alone.__getitem__, reverse=True)[:MOST_ALONE]:
        yield {at}


def _n_disagreeing(
    lines: Collection[int], contradicted: Container[int], missing: Mapping[int, Counter[str]]
) -> int:
    """Lines that disagree, and decisions that are missing.

    A single line that names a wrong partition lacks at the right one, and with it all that would
    have been decided for the wrong one.
    """
    lacking: Counter[str] = Counter()
    for line in lines:
        lacking.update(missing.get(line, ()))
    partitions = [n for subject, n in lacking.items() if not is_of_all(subject)]
    is_one_line = len(partitions) == 2 and min(partitions) == 1
    return sum(line in contradicted for line in lines) + (1 if is_one_line else lacking.total())


def _try_others(
    choice: Choice, checkers: list[Checker], statements: Sequence[Statement], steps: Steps,
    unjudged: set[int],
) -> tuple[Choice, list[Checker]]:
    """Replay by the rules of the other releases that fit a log's wording, and keep what fits best.

    Only where the first choice leaves something contradicted or missing.
    """
    for release in choice.other_releases if _n_wrong(checkers)[0] else ():
        profile, before = profile_of(release), checkers
        checkers = _again(profile, before, statements, steps, unjudged)
        if checkers is not before:
            note = f"{choice.note.partition(';')[0]}; what they say fits the rules of {release}"
            choice = choice._replace(profile=profile, release=release, note=note)
    return choice, checkers


def _again(
    profile: Profile, checkers: list[Checker], statements: Sequence[Statement], steps: Steps,
    unjudged: set[int],
) -> list[Checker]:
    """Replay in another way, and keep what fits best; nothing is tried after an interruption."""
    if steps.were_interrupted():
        return checkers
    steps.go_again(len(statements))
    clusters = split_clusters(statements, find_terms(statements), unjudged)
    tried = _check(clusters, statements, profile, steps)
    is_better = not steps.were_interrupted() and _n_wrong(tried) < _n_wrong(checkers)
    return tried if is_better else checkers


def _n_wrong(checkers: Sequence[Checker]) -> tuple[int, int]:
    """Facts that are contradicted or missing: those that stay so, and all before unseen topics."""
    wrong = (CONTRADICTED, MISSING)
    n_left = sum(fact.verdict in wrong for one in checkers
                 for fact in leave_unseen(one.facts, one.cluster))
    n_all = sum(fact.verdict in wrong for one in checkers for fact in one.facts)
    return n_left, n_all


def _broker_notes(
    logs: Logs, statements: Sequence[Statement], clusters: Sequence[Cluster], facts: Sequence[Fact]
) -> list[str]:
    """Say where several brokers write into one folder, and which controllers' logs are not here."""
    writers: dict[str, set[int]] = {}
    for line in statements:
        if line.actor_id is not None:
            folder = Path(logs.files[line.entry.file]).parent.as_posix()
            writers.setdefault(folder, set()).add(line.actor_id)
    notes = [
        f"brokers {', '.join(map(str, sorted(ids)))} write into one folder ({folder}): files of "
        "one may have replaced those of another, which leaves holes"
        for folder, ids in writers.items() if len(ids) > 1
    ]
    if not any(cluster.terms for cluster in clusters):
        ids = ", ".join(str(broker) for broker in sorted(set().union(*writers.values())))
        notes.append(f"brokers {ids} were never the controller in these logs, or their "
                     "controller.log is not here: lines are judged by one another only")
    absent = {broker for cluster in clusters for broker in cluster.absent} | {
        fact.logged for fact in facts if fact.kind == "controller" and fact.reason == ABSENT
    }
    if absent:
        notes.append(f"the logs of brokers {', '.join(map(str, sorted(absent)))} are not here, or "
                     "not all: what they sent and decided as controllers is unknown")
    return notes


def _reasons(facts: Sequence[Fact], verdict: str) -> dict[str, int]:
    """Facts with a verdict, by the reason for it."""
    return dict(Counter(fact.reason for fact in facts if fact.verdict == verdict).most_common())


def _contradictions(
    facts: Sequence[Fact], logs: Logs, statements: Sequence[Statement]
) -> tuple[Contradiction, ...]:
    """Contradicted and missing facts with the lines, in the order of the log."""
    found = []
    last: dict[tuple[str, str], int] = {}
    for fact in sorted(facts, key=lambda fact: fact.number):
        key = (fact.kind, fact.subject)
        if fact.verdict in (CONTRADICTED, MISSING):
            other = last.get(key) if fact.verdict == CONTRADICTED else None
            found.append(Contradiction(
                fact.kind, fact.subject, shown(fact.logged), shown(fact.predicted),
                logs.place(statements[fact.number].entry), fact.reason,
                None if other is None else logs.place(statements[other].entry),
            ))
        else:
            last[key] = fact.number
    return tuple(found)


def _line_counts(facts: Sequence[Fact], statements: Sequence[Statement]) -> dict[str, int]:
    """Entries by what they are to the replay."""
    with_facts = {fact.number for fact in facts if fact.logged is not None}
    counts = dict.fromkeys(("with facts", "events", "no facts", "not understood"), 0)
    for number, statement in enumerate(statements):
        if statement.kind == NOT_UNDERSTOOD:
            counts["not understood"] += 1
        elif number in with_facts:
            counts["with facts"] += 1
        elif statement.kind in SILENT:
            counts["events"] += 1
        else:
            counts["no facts"] += 1
    return counts
