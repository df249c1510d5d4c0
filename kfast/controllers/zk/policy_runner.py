"""Asking a user's rule for the rows of an election, and undoing an event whose rule failed.

The rule decides for all rows of a step before the step changes any. Other steps of the event may
have changed the state already: with a rule, a copy of the state is kept while an event runs.

Source: docs/controller.md, section 4.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.controllers.zk.policy import Policy, Rule, compile_rule
from kfast.controllers.zk.profiles import Profile, previous_mask
from kfast.controllers.zk.store import Store
from kfast.errors import PolicyError
from kfast.journal import Journal
from kfast.kernels import policies
from kfast.schema import PartitionState
from kfast.state import ClusterState
from kfast.state.racks import numbered_racks
from kfast.state.records import Rows

Decided = npt.NDArray[np.int8]

NOT_DECIDED: Decided = np.empty(0, np.int8)
"""What kernels take where there is no rule: they choose as Kafka does."""
NO_RACKS = np.empty(0, np.int32)
NO_COUNTS = np.empty(0, np.int64)
NO_TOPICS = np.empty(0, np.uint8)


class ElectionCause(IntEnum):
    """Why an election is about to run; `kernels/policies.pyx` has the same numbers."""

    LISTED = 0
    """The partition machine was called for the rows."""
    STORED = 1
    """A store gave the records."""
    FAILED = 2
    """Brokers failed that some of the rows are on."""
    SHUT_DOWN = 3
    """A broker that leads some of the rows shuts down."""


class PolicyRunner:
    """Asks a rule on behalf of the machines of one controller.

    Parameters
    ----------
    state : ClusterState
    policy : function, Policy or None
        None: nothing is ever asked.
    profile : Profile
    """

    def __init__(
        self, state: ClusterState, policy: Rule | Policy | None, profile: Profile
    ) -> None:
        self.state = state
        self.policy = None if policy is None else compile_rule(policy)
        self.profile = profile
        self._led: npt.NDArray[np.int64] | None = None
        self._led_by = np.empty(0, np.int32)
        self._named: object = None
        self._racks = NO_RACKS

    @contextlib.contextmanager
    def all_or_nothing(
        self, store: Store | None, journal: Journal, threads: int = 1, *,
        rows_change: bool = True,
    ) -> Iterator[None]:
        """An event in which the rule may fail: then everything is as it was before.

        Parameters
        ----------
        store : Store or None
        journal : Journal
            Forgets what it has of the event.
        threads : int
        rows_change : bool
            Whether partitions may have changed when the rule fails, not only the brokers' status.
        """
        if self.policy is None:
            yield
            return
        backup = StateBackup(self.state, store, rows_change=rows_change)
        if "led" in self.policy.parameters:
            self._led, self._led_by = self._count(threads), self.state.broker_id
        try:
            yield
        except PolicyError:
            backup.restore()
            journal.begin()
            raise
        finally:
            self._led = None

    def decide(
        self, rows: Rows, strategy: int, occasion: ElectionCause, threads: int = 1, *,
        broker: int = -1, records: npt.NDArray[Any] | None = None,
        unreadable: npt.NDArray[np.uint8] = NO_TOPICS,
    ) -> Decided:
        """Slot for each row that an election is about to run for.

        Parameters
        ----------
        rows : (n,) int32
            Partition rows, ascending.
        strategy : int
            `Profile.kernel_strategy`.
        occasion : ElectionCause
        broker : int
            For SHUT_DOWN: row of the broker.
        records : (n,) record, optional
            For STORED: the records that the store gave.
        unreadable : (T,) uint8
            Topics whose configuration cannot be read.

        Returns
        -------
        (n,) int8
            A slot, -1 for nobody, -2 where the rule was not asked; empty where there is no rule.

        Raises
        ------
        PolicyError
            The rule raised, or its answer is no candidate; it names the first such row.
        """
        if self.policy is None:
            return NOT_DECIDED
        state, profile = self.state, self.profile
        decided = np.empty(rows.size, np.int8)
        failures = np.zeros((threads, 3), np.int64)
        asked_of = state.records if records is None else records
        parameters = self.policy.parameters
        policies.decide(
            state.columns, records, unreadable, rows, self.policy.address,
            self._rack_numbers() if "racks" in parameters else NO_RACKS,
            self._leaders(threads) if "led" in parameters else NO_COUNTS, int(occasion), strategy,
            broker, state.controller_epoch,
            previous_mask(profile.partition_previous[PartitionState.OFFLINE]),
            previous_mask(profile.partition_previous[PartitionState.ONLINE]), decided, failures,
        )
        failed = failures[failures[:, 0] >= 0]
        if failed.size:
            item, answer, candidates = failed[np.argmin(failed[:, 0])].tolist()
            row = int(rows[item])
            record = asked_of[row if records is None else item]
            self._refuse(row, record, answer, candidates, threads)
        return decided

    def _count(self, threads: int) -> npt.NDArray[np.int64]:
        counts = np.zeros((threads, max(self.state.n_brokers, 1)), np.int64)
        policies.count_led(self.state.columns, counts)
        total: npt.NDArray[np.int64] = counts.sum(axis=0)
        return total

    def _leaders(self, threads: int) -> npt.NDArray[np.int64]:
        """Partitions that each broker row led when the event began: new brokers led none."""
        if self._led is None:
            return self._count(threads)
        if self._led_by.size == self.state.n_brokers:
            return self._led
        led = np.zeros(self.state.n_brokers, np.int64)
        led[np.searchsorted(self.state.broker_id, self._led_by)] = self._led[: self._led_by.size]
        return led

    def _rack_numbers(self) -> npt.NDArray[np.int32]:
        if self._named is not self.state.rack:
            self._named, self._racks = self.state.rack, numbered_racks(self.state)[1]
        return self._racks

    def _refuse(
        self, row: int, record: Any, answer: int, candidates: int, threads: int
    ) -> None:
        """Raise for an answer that is not allowed; the plain function says what it raised."""
        state, policy = self.state, self.policy
        assert policy is not None
        topic = state.topic[int(state.topic_row[row])].as_py()
        where = f"policy {policy.name} on {topic}-{state.partition[row]} (row {row})"
        live = state.live_slots(np.asarray([row], np.int32))
        n_replicas, n_slots = int(record["n_replicas"]), int(record["n_slots"])
        brokers = state.replicas[row, :n_slots].astype(np.int32)
        if answer == policies.raised():
            leader = np.flatnonzero(brokers == record["leader"])
            values = {
                "leader": int(leader[0]) if leader.size else -1, "n_replicas": n_replicas,
                "candidates": candidates, "isr": int(record["isr"]), "live": int(live[0]),
                "brokers": brokers,
            }
            if "racks" in policy.parameters:
                values["racks"] = self._rack_numbers()[brokers]
            if "led" in policy.parameters:
                values["led"] = self._leaders(threads)[brokers]
            _call_uncompiled(policy, where, values)
            raise PolicyError(f"{where} raised an error when compiled; nothing was changed")
        allowed = [s for s in range(n_slots) if (candidates >> s) & 1]
        if not 0 <= answer < n_replicas:
            reason = "is out of range"
        elif not (int(live[0]) >> answer) & 1:
            reason = f"(broker {state.broker_id[brokers[answer]]}) is not live"
        else:
            reason = f"(broker {state.broker_id[brokers[answer]]}) may not be elected"
        raise PolicyError(
            f"{where} returned {answer}: the slot {reason}; allowed: {allowed}, or -1 for nobody; "
            "nothing was changed"
        )


def _call_uncompiled(policy: Policy, where: str, values: dict[str, Any]) -> None:
    """Ask the function itself, so that its own error is known."""
    try:
        policy.rule(*[values[name] for name in policy.parameters])
    except Exception as error:
        # A user's function may raise anything; whatever it is, it is told and kept as the cause.
        raised = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise PolicyError(f"{where} raised {raised}; nothing was changed") from error


class StateBackup:
    """A state, and its store, as they were when an event began."""

    def __init__(
        self, state: ClusterState, store: Store | None, *, rows_change: bool = True
    ) -> None:
        self.state, self.store = state, store
        self._columns = (
            vars(state.copy()) if rows_change else {"broker_status": state.broker_status.copy()}
        )
        self._stored = None if store is None else _deep(store)

    def restore(self) -> None:
        """Put everything back; arrays that kept their size keep their place."""
        for name, value in self._columns.items():
            now = getattr(self.state, name)
            same = isinstance(value, np.ndarray) and now.shape == value.shape
            if same and now.dtype == value.dtype:
                now[...] = value
            else:
                setattr(self.state, name, value)
        self.state.forget_survey()
        if self._stored is not None:
            vars(self.store).update(self._stored)


def _deep(store: Store) -> dict[str, Any]:
    """All that a store holds, its state apart."""
    return {k: copy.deepcopy(v) for k, v in vars(store).items() if k != "state"}
