"""Topics by regular expression, and a cluster in which they have other settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.arguments import check_instance, check_items, config_boolean, config_count, shown
from kfast.errors import ArgumentError
from kfast.state import ClusterState
from kfast.state.from_tables import default_sentences

__all__ = ["TOPIC_SETTINGS", "match_topics", "override_settings"]

TOPIC_SETTINGS: Mapping[str, Callable[[str, Any], int]] = {
    "min.insync.replicas": config_count,
    "unclean.leader.election.enable": config_boolean,
}
"""Settings of a topic that the controller or a producer heeds, and what reads each value."""


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
        if name == "min.insync.replicas":
            changed.topic_min_insync_replicas[some] = value
        else:
            topics = state.topic.take(some).to_pylist()
            changed.set_unclean_leader_election(bool(value), topics)
        n_topics = f"{some.size} topic{'' if some.size == 1 else 's'}"
        value_text = str(value).lower()
        changed.assumptions += (
            f"{name} is {value_text} for {n_topics} matching {regex!r}, as this question sets it",
        )
    before, after = default_sentences(state), default_sentences(changed)
    replaced = {sentence: after.get(setting) for setting, sentence in before.items()}
    assumptions = (replaced.get(line, line) for line in changed.assumptions)
    changed.assumptions = tuple(line for line in assumptions if line is not None)
    return changed


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


def match_topics(state: ClusterState, name: str, regex: str) -> npt.NDArray[np.intp]:
    """Rows of the topics whose whole name a regular expression matches, ascending.

    Raises
    ------
    ArgumentError
        It is no regular expression, or matches no topic.
    """
    try:
        pattern = re.compile(regex)
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise ArgumentError(
            f"{name}: {shown(regex)} is not a regular expression: {error}"
        ) from error
    rows = np.flatnonzero(state.topic_exists)
    topics = state.topic.take(rows).to_pylist()
    matching = np.array([pattern.fullmatch(topic) is not None for topic in topics], np.bool_)
    if not matching.any():
        raise ArgumentError(f"{name}: no topic's whole name matches {shown(regex)}")
    return rows[matching]
