"""When the controller finds out, and what is drawn for a sample.

Phases (how old the last sign of life was, how long until the next check) are uniform; parameters
are log-uniform between low and high. Every draw is keyed by (seed, scenario, sample), so that any
sample can be made anywhere. Sample 0 is the central one: mean phases, central parameters.

Source: docs/timeline.md, section "Detection".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.state import ClusterState
from kfast.timelines.parameters import Parameters
from kfast.timelines.settings import Settings

__all__ = ["HEARTBEATS", "Draws", "Schedule", "draw", "release_of", "schedules", "uniform"]

Ints = npt.NDArray[np.int64]

MOST_PATTERNS, FEWEST_PATTERNS, MANY_ROWS = 8, 3, 100_000
"""So many patterns of phases are drawn for several brokers, and shared by all samples: each is an
order of events that the engine runs. Fewer where more rows than MANY_ROWS are concerned: there many
brokers fail, and one order of them is much like another."""

PHASES, ELECTIONS, HEARTBEATS, PARAMETERS_FROM = 1, 2, 3, 16
"""Streams of draws; each parameter has one, so that its draws do not depend on the others."""

PERIODIC_FENCING = "kraft-4.0"
"""From this release on sessions are checked every eighth of one, not when one ends."""


@dataclass(frozen=True, eq=False)
class Draws:
    """What is drawn: `values` (S,) by parameter.

    Attributes
    ----------
    values : dict of str to (S,) int64
    ages : (S, n) float64
        Of each broker that fails, between 0 and 1.
    waits : (S,) float64
        Until the next tick or check; one for all brokers.
    elections : (S,) float64
    """

    values: dict[str, Ints]
    ages: npt.NDArray[np.float64]
    waits: npt.NDArray[np.float64]
    elections: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Schedule:
    """Samples in which the controller finds brokers gone in the same order.

    Attributes
    ----------
    groups : tuple of tuple of int
        Places of the brokers of each event.
    samples : (n,) int64
    starts : (n, E) int64
        When each event can begin.
    """

    groups: tuple[tuple[int, ...], ...]
    samples: Ints
    starts: Ints


def draw(
    params: Parameters, n_brokers: int, samples: int, *, seed: int, scenario: int,
    patterns: int = MOST_PATTERNS,
) -> Draws:
    """Draw parameters and phases of the central sample and of `samples` others.

    One broker has phases of its own in every sample. Those of several come in patterns, of which
    the central sample has the first: ages that are spread evenly, as those of many brokers are on
    average. Were all of them the mean, one event would find all brokers gone, which never happens.
    """
    values = {}
    for at, (name, one) in enumerate(params.by_name.items()):
        words = uniform(seed, scenario, PARAMETERS_FROM + at, samples, 1)[:, 0]
        drawn = one.low + (one.high - one.low) * words
        if one.low > 0:
            drawn = one.low * (one.high / one.low) ** words
        whole = np.clip(np.rint(drawn).astype(np.int64), one.low, one.high)
        values[name] = np.concatenate([[one.value], whole])
    n_patterns = samples + 1 if n_brokers == 1 else min(patterns, samples + 1)
    phases = uniform(seed, scenario, PHASES, n_patterns, n_brokers + 1)
    phases[0, 1:] = (phases[0, 1:].argsort().argsort() + 0.5) / max(n_brokers, 1)
    if n_brokers > 1:
        # Few patterns would leave large parts of the wait out, were each drawn by itself.
        phases[1:, 0] = (phases[1:, 0] + np.arange(n_patterns - 1)) / (patterns - 1)
    elections = uniform(seed, scenario, ELECTIONS, samples + 1, 1)[:, 0]
    phases[0, 0] = elections[0] = 0.5
    used = np.arange(samples + 1) % n_patterns
    return Draws(values, phases[used, 1:], phases[used, 0], elections)


def uniform(
    seed: int, scenario: int, stream: int, rows: int, columns: int
) -> npt.NDArray[np.float64]:
    """(rows, columns) uniform draws between 0 and 1; a row does not depend on how many follow."""
    source = np.random.Philox(key=[seed, scenario], counter=[0, 0, 0, stream])
    raw = np.asarray(source.random_raw(rows * columns), np.uint64).reshape(rows, columns)
    return (raw >> np.uint64(11)).astype(np.float64) / 2.0**53


def schedules(
    state: ClusterState, settings: Settings, draws: Draws, *, controller: int | None
) -> Iterator[Schedule]:
    """The order in which brokers are found gone, and when; samples with one order together.

    Parameters
    ----------
    state : ClusterState
    settings : Settings
    draws : Draws
    controller : int or None
        The active controller fails too. ZooKeeper mode: its place among the brokers.
    """
    samples = draws.ages.shape[0]
    if state.is_kraft:
        due, ended = _fencing(state, settings, draws, controller is not None)
    else:
        due, ended = _expiry(settings, draws)
    by_order: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    groups: tuple[tuple[int, ...], ...]
    for sample in range(samples):
        if state.is_kraft:
            order: list[int] = np.argsort(due[sample], kind="stable").tolist()
            groups = tuple((place,) for place in order)
        else:
            groups = _expiring(ended[sample].tolist(), controller)
        by_order.setdefault(groups, []).append(sample)
    for groups, chosen in by_order.items():
        at = np.asarray(chosen, np.int64)
        starts = np.stack([ended[at][:, list(group)].max(axis=1) for group in groups], axis=1)
        if controller is not None and not state.is_kraft:
            starts[:, 0] = ended[at, controller]
        if not state.is_kraft:
            starts = starts + draws.values["zk_expire_event"][at][:, None]
        yield Schedule(groups, at, starts)


def _expiry(settings: Settings, draws: Draws) -> tuple[Ints, Ints]:
    """(S, n) when each session has lasted its time, and when ZooKeeper ends it: at the next tick.

    A broker pings every third of a session.
    """
    session, tick = 1000 * settings.zookeeper_session, 1000 * settings.zookeeper_tick
    due = session - (draws.ages * (session / 3)).astype(np.int64)
    return due, _next_checks(due, draws, tick)


def _next_checks(due: Ints, draws: Draws, period: int) -> Ints:
    """(S, n) the first check at or after each instant; checks stand at the same instants for all.

    They are placed by the wait of the first broker, which is uniform as that of any other is.
    """
    check = due[:, :1] + (draws.waits[:, None] * period).astype(np.int64)
    checked: Ints = check + -((check - due) // period) * period
    return checked


def _fencing(
    state: ClusterState, settings: Settings, draws: Draws, fails: bool
) -> tuple[Ints, Ints]:
    """(S, n) when each session has lasted its time, and when the controller can fence the broker.

    Those that are due at one check are fenced one after another, by their last contact. A new
    controller knows no contact, so that all sessions begin anew.
    """
    session = 1000 * settings.broker_session
    heartbeat = 1000 * settings.broker_heartbeat
    due = session - (draws.ages * heartbeat).astype(np.int64)
    if fails:
        active = activation(settings, draws)[:, None]
        due = np.repeat(active + session, draws.ages.shape[1], axis=1)
    if release_of(state.controller) < release_of(PERIODIC_FENCING):
        return due, due
    return due, _next_checks(due, draws, max(session // 8, 1000))


def activation(settings: Settings, draws: Draws) -> Ints:
    """(S,) when another KRaft controller is active after the active one failed."""
    election = (draws.elections * (1000 * settings.election_timeout)).astype(np.int64)
    active: Ints = 1000 * settings.fetch_timeout + election + draws.values["activate"]
    return active


def release_of(controller: str) -> tuple[int, ...]:
    """Numbers of a release: (4, 1) of kraft-4.1."""
    return tuple(int(part) for part in controller.partition("-")[2].split("."))


def _expiring(
    ended: list[int], controller: int | None
) -> tuple[tuple[int, ...], ...]:
    """Places of the brokers of each event: those whose sessions end in one tick, tick after tick.

    A controller that takes over finds all gone whose sessions ended no later than the old one's.
    """
    limit = -1 if controller is None else ended[controller]
    by_tick: dict[int, list[int]] = {}
    for place, instant in enumerate(ended):
        by_tick.setdefault(max(instant, limit), []).append(place)
    return tuple(tuple(by_tick[instant]) for instant in sorted(by_tick))
