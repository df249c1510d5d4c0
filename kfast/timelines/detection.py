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

__all__ = ["Draws", "Schedule", "draw", "schedules"]

Ints = npt.NDArray[np.int64]

MOST_PATTERNS = 8
"""So many patterns of phases are drawn for several brokers, and shared by all samples: each is an
order of events that the engine runs."""

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
    params: Parameters, n_brokers: int, samples: int, *, seed: int, scenario: int
) -> Draws:
    """Draw parameters and phases of the central sample and of `samples` others."""
    n_params = len(params.by_name)
    words = np.empty((samples, n_params), np.float64)
    phases = np.full((samples + 1, n_brokers + 2), 0.5)
    for sample in range(samples):
        words[sample] = _uniform(seed, scenario, sample, 0, n_params)
        pattern = sample if n_brokers == 1 else sample % MOST_PATTERNS
        phases[sample + 1] = _uniform(seed, scenario, pattern, 1, n_brokers + 2)
    values = {}
    for at, (name, one) in enumerate(params.by_name.items()):
        drawn = one.low + (one.high - one.low) * words[:, at]
        if one.low > 0:
            drawn = one.low * (one.high / one.low) ** words[:, at]
        whole = np.clip(np.rint(drawn).astype(np.int64), one.low, one.high)
        values[name] = np.concatenate([[one.value], whole])
    return Draws(values, phases[:, 2:], phases[:, 0], phases[:, 1])


def _uniform(
    seed: int, scenario: int, number: int, stream: int, n: int
) -> npt.NDArray[np.float64]:
    """Uniform draws between 0 and 1; their bits depend on the arguments alone."""
    source = np.random.Philox(key=[seed, scenario], counter=[0, 0, stream, number])
    raw = np.asarray(source.random_raw(n), np.uint64)
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
        ended = _fencing(state, settings, draws, controller is not None)
    else:
        ended = _expiry(settings, draws)
    by_order: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for sample in range(samples):
        groups = _groups(ended[sample], one_by_one=state.is_kraft, together=controller)
        by_order.setdefault(groups, []).append(sample)
    for groups, chosen in by_order.items():
        at = np.asarray(chosen, np.int64)
        starts = np.stack([ended[at][:, list(group)].max(axis=1) for group in groups], axis=1)
        if controller is not None and not state.is_kraft:
            starts[:, 0] = ended[at, controller]
        if not state.is_kraft:
            starts = starts + draws.values["zk_expire_event"][at][:, None]
        yield Schedule(groups, at, starts)


def _expiry(settings: Settings, draws: Draws) -> Ints:
    """(S, n) when ZooKeeper ends each session: at the first tick after its timeout.

    A broker pings every third of a session. ZooKeeper's ticks come at the same instants for all.
    """
    session, tick = 1000 * settings.zookeeper_session, 1000 * settings.zookeeper_tick
    due = session - (draws.ages * (session / 3)).astype(np.int64)
    # Ticks are placed by the first broker's wait, which is uniform as that of any other is.
    tick_at = due[:, :1] + (draws.waits[:, None] * tick).astype(np.int64)
    ended: Ints = tick_at + -((tick_at - due) // tick) * tick
    return ended


def _fencing(state: ClusterState, settings: Settings, draws: Draws, fails: bool) -> Ints:
    """(S, n) when the controller can fence each broker.

    A new controller knows no contact, so that all sessions begin anew.
    """
    session = 1000 * settings.broker_session
    heartbeat = 1000 * settings.broker_heartbeat
    ended = session - (draws.ages * heartbeat).astype(np.int64)
    if fails:
        active = activation(settings, draws)[:, None]
        ended = np.repeat(active + session, draws.ages.shape[1], axis=1)
    if _release(state.controller) >= _release(PERIODIC_FENCING):
        wait = max(session // 8, 1000)
        ended = ended + (draws.waits[:, None] * wait).astype(np.int64)
    return ended


def activation(settings: Settings, draws: Draws) -> Ints:
    """(S,) when another KRaft controller is active after the active one failed."""
    election = (draws.elections * (1000 * settings.election_timeout)).astype(np.int64)
    active: Ints = 1000 * settings.fetch_timeout + election + draws.values["activate"]
    return active


def _release(controller: str) -> tuple[int, ...]:
    return tuple(int(part) for part in controller.partition("-")[2].split("."))


def _groups(
    ended: Ints, *, one_by_one: bool, together: int | None
) -> tuple[tuple[int, ...], ...]:
    """Places of the brokers of each event, in the order in which they are found gone."""
    order = np.argsort(ended, kind="stable").tolist()
    if one_by_one:
        return tuple((place,) for place in order)
    if together is not None:
        limit = ended[together]
        first = tuple(sorted(place for place in order if ended[place] <= limit))
        rest = [place for place in order if ended[place] > limit]
        return (first, *_ticks(ended, rest))
    return tuple(_ticks(ended, order))


def _ticks(ended: Ints, order: list[int]) -> Iterator[tuple[int, ...]]:
    """Places whose sessions end in one tick, tick after tick."""
    for instant in sorted({int(ended[place]) for place in order}):
        yield tuple(sorted(place for place in order if ended[place] == instant))
