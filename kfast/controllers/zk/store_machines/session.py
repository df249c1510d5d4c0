"""StoreSession: one call of a machine with a store, and what it gathers.

Source: docs/controller.md, sections 1.7, 2.6 and 3.6; Kafka 3.9, `KafkaZkClient`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kfast import schema
from kfast.controllers.zk.policy_runner import PolicyRunner
from kfast.controllers.zk.profiles import ZK_3_9, Profile
from kfast.controllers.zk.store import Answer, CallFailed, Store
from kfast.journal import Tally
from kfast.journal.effects import EFFECT, KIND_ELECTION, KIND_QUEUED, LAYOUT, Effects
from kfast.kernels import election
from kfast.schema import Code
from kfast.state import ClusterState
from kfast.state.records import Rows

Codes = npt.NDArray[np.uint8]
_UNCOUNTED = (Code.NOT_ASKED, Code.CONFIG_LOOKUP_LOGGED)
_TRANSITIONS = (Code.MOVED, Code.INITIALIZED, Code.ELECTED, Code.APPENDED)


class UndecodableRecord(Exception):  # noqa: N818 - it is caught where the rules say what follows
    """A record that cannot be decoded makes the whole call fail (section 8.1)."""


class StoreSession:
    """One call of a machine with a store: what it counts and what became of each target."""

    def __init__(
        self, state: ClusterState, store: Store, tally: Tally, profile: Profile = ZK_3_9,
        decider: PolicyRunner | None = None,
    ) -> None:
        self.state = state
        self.store = store
        self.tally = tally
        self.profile = profile
        self.decider = decider
        self.effects: list[Effects] = []

    def tell(self, effects: Effects) -> None:
        """Note what became of some targets."""
        self.effects.append(effects)

    def finish(self) -> Effects:
        """Count everything that was told, and return it in order."""
        effects = np.concatenate([*self.effects, np.zeros(0, EFFECT)])
        total = self.tally[0]
        said = effects[~np.isin(effects["code"], _UNCOUNTED)]
        np.add.at(total, LAYOUT["codes"] + said["code"].astype(np.int64), 1)
        moved = said[np.isin(said["code"], _TRANSITIONS)]
        cells = 8 * moved["from_state"].astype(np.int64) + moved["to_state"]
        np.add.at(total, LAYOUT["cells"] + cells, 1)
        before, after = moved["leader_before"], moved["leader"]
        elected = (moved["kinds"] & KIND_ELECTION) != 0
        replaced = elected & (before >= 0) & (after >= 0) & (before != after)
        total[LAYOUT["leaders_moved"]] += int(replaced.sum())
        return effects

    def is_queued(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Whether the topic of each row is queued for deletion."""
        return self.state.topic_queued_for_deletion[self.state.topic_row[rows]]

    def begin(
        self, rows: Rows, brokers: Rows | int, source: npt.NDArray[Any], target: int
    ) -> Effects:
        """Effects that start with the cached records as they are now."""
        records = self.state.records.take(rows)
        effects = np.zeros(rows.size, EFFECT)
        effects["row"], effects["broker"] = rows, brokers
        effects["leader_before"], effects["isr_before"] = records["leader"], records["isr"]
        effects["from_state"], effects["to_state"] = source, target
        effects["kinds"] = np.where(self.is_queued(rows), KIND_QUEUED, 0)
        return effects

    def carry(self, effects: Effects) -> None:
        """Copy into effects what a request says of the cached records now."""
        records = self.state.records[effects["row"]]
        for name in ("leader", "leader_epoch", "version", "controller_epoch", "isr", "adding",
                     "removing", "n_replicas", "n_slots"):
            effects[name] = records[name]
        effects["recovery"] = (records["flags"] & schema.FLAG_RECOVERY) != 0

    def adopt(self, rows: Rows, written: npt.NDArray[Any]) -> None:
        """Take records into the cache, under this controller's epoch (`put_leadership`)."""
        state = self.state
        written["controller_epoch"] = state.controller_epoch
        election.adopt(state.columns, rows, written, self.tally[0])

    def read(self, rows: Rows, *, strict: bool = False) -> tuple[Codes, npt.NDArray[Any]]:
        """Read records and classify the answers: MOVED where the record can be decided on.

        With `strict` a record that cannot be decoded raises `UndecodableRecord`.
        """
        try:
            answers, stored = self.store.read_states(rows)
        except CallFailed:
            return np.full(rows.size, Code.STORE_ERROR, np.uint8), self.state.records.take(rows)
        if strict and (answers == Answer.UNDECODABLE).any():
            raise UndecodableRecord
        codes = np.full(rows.size, Code.STORE_ERROR, np.uint8)
        codes[answers == Answer.OK] = Code.MOVED
        absent = (answers == Answer.NO_NODE) | (answers == Answer.UNDECODABLE)
        codes[absent] = Code.NO_RECORD
        newer = stored["controller_epoch"] > self.state.controller_epoch
        codes[(answers == Answer.OK) & newer] = Code.NEWER_CONTROLLER
        return codes, stored

    def write(
        self, rows: Rows, proposed: npt.NDArray[Any], codes: Codes, chosen: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Write the chosen proposals; failures become codes. Returns which are to be retried."""
        retry = np.zeros(rows.size, np.bool_)
        try:
            answers, versions = self.store.update_states(
                rows[chosen], proposed[chosen], guarded=self.profile.guards_writes
            )
        except CallFailed:
            codes[chosen] = Code.STORE_ERROR
            return retry
        some = np.flatnonzero(chosen)
        done = answers == Answer.OK
        proposed["version"][some[done]] = versions[done]
        retry[some[answers == Answer.CONFLICT]] = True
        codes[some[~done & (answers != Answer.CONFLICT)]] = Code.STORE_ERROR
        return retry
