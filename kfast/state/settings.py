"""Topics by regular expression, and a cluster in which they have other settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.arguments import check_instance, check_items, config_boolean, config_count, shown
from kfast.errors import ArgumentError
from kfast.schema import NO_LEADER
from kfast.state import ClusterState
from kfast.state.from_tables import default_sentences
from kfast.state.metadata_records import ClearElrRecord, ResourceType
from kfast.state.quorum import NO_LAST_KNOWN, Quorum
from kfast.state.record_application import apply_record

__all__ = ["TOPIC_SETTINGS", "match_topics", "override_settings", "topic_pattern"]

TOPIC_SETTINGS: Mapping[str, Callable[[str, Any], int]] = {
    "min.insync.replicas": config_count,
    "unclean.leader.election.enable": config_boolean,
}
"""Settings of a topic that the controller or a producer heeds, and what reads each value."""

NO_OFFSET = -1
"""Place in the log of a change that a question makes."""


def override_settings(
    state: ClusterState, overrides: Iterable[tuple[str, str, Any]]
) -> ClusterState:
    """Copy a cluster, and give topics other settings, whatever they or the brokers' defaults say.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    overrides : iterable of (str, str, value)
        A regular expression for the whole name of a topic, a setting of `TOPIC_SETTINGS` and its
        value, which may be text. Of several that match a topic the last one counts.

    Returns
    -------
    ClusterState
        Its `assumptions` say what was set, and for how many topics.

    Raises
    ------
    ArgumentError
        A setting is unknown, a value is wrong, an expression is none or matches no topic.
    """
    check_instance("state", state, ClusterState)
    changed = state.copy()
    for override in check_items("overrides", overrides):
        regex, name, value = _check(override)
        some = match_topics(state, "overrides", regex)
        consequence = ""
        if changed.quorum is not None:
            consequence = _configure(changed, changed.quorum, some, name, str(value).lower())
        elif name == "min.insync.replicas":
            changed.topic_min_insync_replicas[some] = value
        else:
            topics = state.topic.take(some).to_pylist()
            changed.set_unclean_leader_election(bool(value), topics)
        n_topics = f"{some.size} topic{'' if some.size == 1 else 's'}"
        value_text = str(value).lower()
        sentence = f"{name} is {value_text} for {n_topics} matching {regex!r}, as this question "
        changed.assumptions += (f"{sentence}sets it{consequence}",)
    before, after = default_sentences(state), default_sentences(changed)
    replaced = {sentence: after.get(setting) for setting, sentence in before.items()}
    assumptions = (replaced.get(line, line) for line in changed.assumptions)
    changed.assumptions = tuple(line for line in assumptions if line is not None)
    return changed


def _configure(
    state: ClusterState, quorum: Quorum, topics: npt.NDArray[np.intp], name: str, value: str
) -> str:
    """Configure topics of a KRaft cluster as an administrator does; says what that clears.

    Source: docs/kraft.md, section 8.3.
    """
    for topic in state.topic.take(topics).to_pylist():
        quorum.configurations.setdefault((ResourceType.TOPIC, topic), {})[name] = value
    quorum.derive_settings()
    if name != "min.insync.replicas" or not quorum.elr_on or quorum.elr is None:
        return ""
    eligible = (quorum.elr != 0) | (quorum.last_known_elr != NO_LAST_KNOWN)
    rows = np.flatnonzero(eligible & np.isin(state.topic_row, topics))
    stuck = int(np.count_nonzero(state.records["leader"][rows] == NO_LEADER))
    for topic in state.topic.take(np.unique(state.topic_row[rows])).to_pylist():
        apply_record(state, ClearElrRecord(0, topic), NO_OFFSET)
    if not rows.size:
        return ""
    offline = f", and {stuck} of them stay offline until an unclean election" if stuck else ""
    return f"; that clears the ELR of {rows.size} partition{'s'[: rows.size != 1]}{offline}"


def _check(override: object) -> tuple[str, str, int]:
    """The parts of one override, its value read."""
    if not isinstance(override, (tuple, list)) or len(override) != 3:
        raise ArgumentError(f"an override is {shown(override)}: (regex, name, value) is needed")
    regex, name, value = override
    if name not in tuple(TOPIC_SETTINGS):
        raise ArgumentError(
            f"setting {shown(name)} is unknown; these can be set: {', '.join(TOPIC_SETTINGS)}"
        )
    return regex, name, TOPIC_SETTINGS[name](name, value)


def topic_pattern(name: str, regex: str) -> re.Pattern[str]:
    """A regular expression for names of topics; `ArgumentError` where it is none."""
    try:
        return re.compile(regex)
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise ArgumentError(
            f"{name}: {shown(regex)} is not a regular expression: {error}"
        ) from error


def match_topics(state: ClusterState, name: str, regex: str) -> npt.NDArray[np.intp]:
    """Rows of the topics whose whole name a regular expression matches, ascending.

    Raises
    ------
    ArgumentError
        It is no regular expression, or matches no topic.
    """
    pattern = topic_pattern(name, regex)
    rows = np.flatnonzero(state.topic_exists)
    topics = state.topic.take(rows).to_pylist()
    matching = np.array([pattern.fullmatch(topic) is not None for topic in topics], np.bool_)
    if not matching.any():
        raise ArgumentError(f"{name}: no topic's whole name matches {shown(regex)}")
    return rows[matching]
