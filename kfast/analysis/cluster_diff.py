"""What changed between two exports of one cluster, and what that does to the answers: `kfast.diff`.

Brokers are matched by id, topics by name, partitions by topic and number. What a failure would do
is what the sweeps say, of both clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast.analysis.partition_pairs import (
    PartitionPairs,
    PartitionSide,
    assigned_rows,
    rows_by_name,
)
from kfast.analysis.whatif import racks_by_broker
from kfast.analysis.worst_scenarios import WorstScenarios
from kfast.arguments import check_instance, check_threads
from kfast.errors import ArgumentError
from kfast.schema import (
    DIFF_BROKERS,
    DIFF_FRAGILE,
    DIFF_FRAGILE_BROKERS,
    DIFF_MEASURES,
    DIFF_MEASURES_TABLE,
    DIFF_METRICS,
    DIFF_PARTITION_CHANGES,
    DIFF_PARTITIONS,
    DIFF_SETTINGS,
    DIFF_TOPICS,
    DIFF_UNJUDGED,
    DIFF_WORST,
)
from kfast.state import ClusterState
from kfast.state.census import CENSUS_METRICS, Census, Flags, take_census
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.metadata_records import ResourceType
from kfast.state.min_isr import partition_min_isr
from kfast.state.partition_rows import present_topics
from kfast.state.records import Rows
from kfast.state.tables import row_keys
from kfast.sweeps import prepare_sweep, sweep
from kfast.sweeps.scenario_makers import every_broker, every_rack
from kfast.sweeps.scenarios import Scenarios
from kfast.sweeps.single_failures import SINGLE_FAILURE_METRICS, SingleFailures

__all__ = ["ClusterAnswers", "Diff", "diff"]

STATUSES = ("unknown", "down", "fenced", "shutting down", "up")
_UNKNOWN, _DOWN, _FENCED, _SHUTTING_DOWN, _UP = range(len(STATUSES))

_NONE = -1
"""A number of a topic that there is not."""


@dataclass(frozen=True, eq=False)
class ClusterAnswers:
    """What kfast answers for one of two clusters.

    Attributes
    ----------
    state : ClusterState
    census : Census
    single_failures : SingleFailures
        What becomes of every partition when one broker fails.
    most : mapping of str to (mapping of str to int)
        For `broker` and `rack`, the largest count of each kind over all single failures.
    worst : mapping of str to (mapping of str to value)
        The worst of these failures: its brokers and its counts.
    """

    state: ClusterState
    census: Census
    single_failures: SingleFailures
    most: Mapping[str, Mapping[str, int]]
    worst: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, state: ClusterState, threads: int) -> ClusterAnswers:
        """Count a cluster as it is, and let every broker and every rack fail."""
        plan = prepare_sweep(state, threads=threads)
        makers: dict[str, Callable[[ClusterState], Scenarios]] = {}
        if state.up.any():
            makers["broker"] = every_broker
        if _racks_known(state, state.up):
            makers["rack"] = every_rack
        most, worst = {}, {}
        for kind, make in makers.items():
            scenarios = make(state)
            failures = WorstScenarios(1)
            for batch in sweep(plan, scenarios, threads=threads).to_batches():
                failures.add(batch)
            most[kind] = failures.summary
            [worst[kind]] = failures.table(scenarios).to_pylist()
            racks = racks_by_broker(state)
            worst[kind]["rack"] = racks[worst[kind]["brokers"][0]] if kind == "rack" else None
        return cls(state, take_census(state), SingleFailures.of(plan), most, worst)

    @property
    def measures(self) -> dict[str, int | None]:
        """Every one of `schema.DIFF_MEASURES`; None where nobody could fail."""
        counts, failures = self.census.counts, self.single_failures
        return {
            **{name: counts[name] for name in CENSUS_METRICS},
            **{
                f"any_broker_{name}": int((failures.holds(name) | failures.fragile(name)).sum())
                for name in SINGLE_FAILURE_METRICS
            },
            **{
                f"worst_{kind}_{name}": self.most[kind][name] if kind in self.most else None
                for kind in ("broker", "rack") for name in SINGLE_FAILURE_METRICS
            },
        }


@dataclass(frozen=True, eq=False)
class Diff:
    """What differs between two clusters that are one at two moments.

    Attributes
    ----------
    before, after : ClusterAnswers
    pairs : PartitionPairs
    """

    before: ClusterAnswers
    after: ClusterAnswers
    pairs: PartitionPairs

    @cached_property
    def summary(self) -> dict[str, int | None]:
        """Every one of `schema.DIFF_METRICS`; of the later cluster, its census and its measures."""
        counts = {
            "settings_changed": self.settings.num_rows, **self._broker_counts,
            **self._topic_counts, **self._partition_counts,
            "newly_fragile": self.newly_fragile.num_rows,
            "no_longer_fragile": int(self._no_longer_fragile.sum()),
            "worse": len(self.worse), "better": len(self.better),
        }
        return {
            **{name: counts[name] for name in DIFF_METRICS},
            **self.after.census.counts, **self.after.measures,
        }

    @property
    def worse(self) -> list[str]:
        """Measures of which less is better, and that are larger than before."""
        return [name for name, change in self._judged.items() if change > 0]

    @property
    def better(self) -> list[str]:
        """Measures of which less is better, and that are smaller than before."""
        return [name for name, change in self._judged.items() if change < 0]

    @property
    def _judged(self) -> dict[str, int]:
        """How much each measure that both clusters have has changed."""
        before, after = self.before.measures, self.after.measures
        return {
            name: now - then for name, now in after.items()
            if name not in DIFF_UNJUDGED and now is not None
            and (then := before[name]) is not None
        }

    @property
    def is_empty(self) -> bool:
        """Whether nothing that is compared differs."""
        return not any(self.summary[name] for name in DIFF_METRICS) and not self.brokers.num_rows

    @property
    def racks_compared(self) -> bool:
        """Whether both clusters tell racks."""
        return all(_racks_known(one.state) for one in (self.before, self.after))

    @property
    def not_compared(self) -> list[str]:
        """What only one of the two clusters tells: racks, leader epochs."""
        sides, states = (self.pairs.before, self.pairs.after), (self.before.state, self.after.state)
        comparable = {
            "racks": {_racks_known(state) for state in states},
            "leader epochs": {side.epochs_known for side in sides},
        }
        return [name for name, values in comparable.items() if len(values) > 1]

    # --- settings -------------------------------------------------------------------------------

    @cached_property
    def settings(self) -> pa.Table:
        """Settings of the cluster that differ (`schema.DIFF_SETTINGS`)."""
        before, after = (_settings(one.state) for one in (self.before, self.after))
        if not before.keys() & after.keys() & {"active controller"}:
            for name in ("active controller", "controller epoch"):
                before.pop(name, None), after.pop(name, None)
        names = sorted(before.keys() | after.keys())
        names = [name for name in names if before.get(name) != after.get(name)]
        return DIFF_SETTINGS.table({
            "setting": pa.array(names, pa.string()),
            "value_before": pa.array([before.get(name) for name in names], pa.string()),
            "value": pa.array([after.get(name) for name in names], pa.string()),
        })

    # --- brokers --------------------------------------------------------------------------------

    @cached_property
    def _all_brokers(self) -> pa.Table:
        ids = np.union1d(self.before.state.broker_id, self.after.state.broker_id)
        columns: dict[str, Any] = {"broker_id": pa.array(ids, pa.int32())}
        for suffix, one in (("_before", self.before), ("", self.after)):
            state = one.state
            at = np.minimum(np.searchsorted(state.broker_id, ids), state.n_brokers - 1)
            is_known = state.broker_id[at] == ids
            rows = pa.array(at, mask=~is_known)
            statuses = np.where(is_known, _statuses(state)[at], _UNKNOWN)
            columns[f"status{suffix}"] = pa.array(STATUSES).take(pa.array(statuses))
            columns[f"rack{suffix}"] = state.rack.take(rows)
            for name, counts in zip(("leaders", "replicas"), one.census.per_broker.T, strict=False):
                columns[f"{name}{suffix}"] = pa.array(np.where(is_known, counts[at], 0))
        return DIFF_BROKERS.table(columns)

    @property
    def _broker_changes(self) -> dict[str, Flags]:
        """(n,) what happened to each broker of either cluster."""
        brokers = self._all_brokers
        before, after = (
            np.array([STATUSES.index(status) for status in brokers[name].to_pylist()], np.int8)
            for name in ("status_before", "status")
        )
        racks = zip(brokers["rack_before"].to_pylist(), brokers["rack"].to_pylist(), strict=True)
        other_rack = np.array([one != other for one, other in racks], np.bool_)
        is_known = (before != _UNKNOWN) & (after != _UNKNOWN)
        return {
            "brokers_gone": (before != _UNKNOWN) & (after == _UNKNOWN),
            "brokers_new": (before == _UNKNOWN) & (after != _UNKNOWN),
            "brokers_down": is_known & (before >= _SHUTTING_DOWN) & (after < _SHUTTING_DOWN),
            "brokers_up": is_known & (before < _SHUTTING_DOWN) & (after >= _SHUTTING_DOWN),
            "racks_changed": is_known & other_rack & self.racks_compared,
            "status": before != after,
        }

    @property
    def _broker_counts(self) -> dict[str, int]:
        return {name: int(flags.sum()) for name, flags in self._broker_changes.items()}

    @property
    def brokers(self) -> pa.Table:
        """Brokers whose status or rack differs (`schema.DIFF_BROKERS`)."""
        changes = self._broker_changes
        return self._all_brokers.filter(pa.array(changes["status"] | changes["racks_changed"]))

    # --- topics ---------------------------------------------------------------------------------

    @cached_property
    def topics(self) -> pa.Table:
        """Topics that differ (`schema.DIFF_TOPICS`)."""
        before, after = (_topic_table(one.state) for one in (self.before, self.after))
        names = pc.unique(pa.chunked_array([before["topic"], after["topic"]], pa.string()))
        names = names.take(pc.sort_indices(names))
        columns: dict[str, Any] = {"topic": names}
        differs = np.zeros(len(names), np.bool_)
        rows = [rows_by_name(table["topic"], names) for table in (before, after)]
        for name in before:
            if name == "topic":
                continue
            then, now = (
                table[name].take(pa.array(at, mask=at < 0))
                for table, at in zip((before, after), rows, strict=True)
            )
            columns[f"{name}_before"], columns[name] = then, now
            if name != "topic_id":
                differs |= ~_equal(then, now)
        was, now_is = (at >= 0 for at in rows)
        recreated = np.asarray(pc.fill_null(
            pc.not_equal(columns["topic_id_before"], columns["topic_id"]), False
        ).to_numpy(zero_copy_only=False), np.bool_)
        change = np.select([~was, ~now_is, recreated], [0, 1, 2], 3)
        columns["change"] = pa.array(["created", "deleted", "recreated", "changed"]).take(
            pa.array(change))
        for name in ("partitions_before", "partitions"):
            columns[name] = pc.fill_null(columns[name], 0)
        return DIFF_TOPICS.table(columns).filter(pa.array(differs | recreated | ~was | ~now_is))

    @property
    def _topic_counts(self) -> dict[str, int]:
        counts = {row["values"]: row["counts"] for row in pc.value_counts(
            self.topics["change"]).to_pylist()}
        return {
            f"topics_{change}": counts.get(change, 0)
            for change in ("created", "deleted", "recreated", "changed")
        }

    # --- partitions -----------------------------------------------------------------------------

    @cached_property
    def _changes(self) -> Mapping[str, Flags]:
        return self.pairs.changes()

    def _marks(self, metric: str) -> tuple[Flags, Flags]:
        """(n,) whether a metric of the census holds of each pair: before, and after."""
        return (
            self.before.census.flags(metric)[self.pairs.before.rows],
            self.after.census.flags(metric)[self.pairs.after.rows],
        )

    @cached_property
    def _differs(self) -> Flags:
        """(n,) whether anything about each pair differs."""
        differs = np.any([*self._changes.values()], axis=0)
        for metric in SINGLE_FAILURE_METRICS:
            then, now = self._marks(metric)
            differs |= then != now
        return np.asarray(differs, np.bool_)

    @property
    def _partition_counts(self) -> dict[str, int]:
        pairs = self.pairs
        then, now = self._marks("offline")
        was_under, is_under = self._marks("under_min_isr")
        created = [
            self.after.census.flags(name)[pairs.created] for name in SINGLE_FAILURE_METRICS
        ]
        led = (pairs.before.leader >= 0) & (pairs.after.leader >= 0)
        return {
            "partitions_created": pairs.created.size,
            "partitions_deleted": pairs.deleted.size,
            "partitions_changed": int(self._differs.sum()),
            **{name: int(flags.sum()) for name, flags in self._changes.items()},
            "leaders_moved": int((led & self._changes["leader_changed"] & ~then & ~now).sum()),
            "newly_offline": int((now & ~then).sum() + created[0].sum()),
            "back_online": int((then & ~now).sum()),
            "newly_under_min_isr": int((is_under & ~was_under).sum() + created[1].sum()),
        }

    @cached_property
    def partitions(self) -> pa.Table:
        """Partitions that are in both and differ (`schema.DIFF_PARTITIONS`)."""
        differ = np.flatnonzero(self._differs)
        marks = {name: self._marks(name) for name in SINGLE_FAILURE_METRICS}
        newly = [(now & ~then)[differ] for then, now in marks.values()]
        at = differ[self._order(self.pairs.after.rows[differ], newly)]
        before, after = self.pairs.before.take(at), self.pairs.after.take(at)
        columns = row_keys(after.state, after.rows)
        epochs_known = before.epochs_known and after.epochs_known
        for suffix, side in (("_before", before), ("", after)):
            columns |= _side_columns(side, suffix, epochs_known)
        for name, (then, now) in marks.items():
            columns |= {f"{name}_before": pa.array(then[at]), name: pa.array(now[at])}
        for name in DIFF_PARTITION_CHANGES:
            columns[name] = pa.array(self._changes[name][at])
        return DIFF_PARTITIONS.table(columns)

    def _order(self, rows: Rows, severity: list[Flags]) -> npt.NDArray[np.intp]:
        """Order of some later rows: where a flag holds first, then by topic and number."""
        state = self.after.state
        rank = np.empty(state.n_topics, np.int64)
        rank[pc.sort_indices(state.topic).to_numpy()] = np.arange(state.n_topics)
        keys: list[npt.NDArray[Any]] = [state.partition[rows], rank[state.topic_row[rows]]]
        return np.lexsort([*keys, *(~flags for flags in reversed(severity))])

    # --- answers --------------------------------------------------------------------------------

    @cached_property
    def measures(self) -> pa.Table:
        """What says whether the cluster is better or worse (`schema.DIFF_MEASURES_TABLE`)."""
        before, after = self.before.measures, self.after.measures
        return DIFF_MEASURES_TABLE.table({
            "measure": pa.array([*DIFF_MEASURES]),
            "partitions_before": pa.array([before[name] for name in DIFF_MEASURES], pa.int64()),
            "partitions": pa.array([after[name] for name in DIFF_MEASURES], pa.int64()),
        })

    @property
    def worst(self) -> pa.Table:
        """The worst failures of both clusters (`schema.DIFF_WORST`)."""
        before, after = self.before.worst, self.after.worst
        rows = [
            {
                "kind": kind,
                **{f"{name}_before": value for name, value in before.get(kind, {}).items()},
                **after.get(kind, {}),
            }
            for kind in ("broker", "rack") if kind in before or kind in after
        ]
        return pa.Table.from_pylist(rows, schema=DIFF_WORST.schema)

    def _newly(self, metric: str) -> Flags:
        """(R,) later rows that some single failure does this to, and none did before."""
        was = np.zeros(self.after.state.n_partitions, np.bool_)
        failures, rows = self.before.single_failures, self.pairs.before.rows
        was[self.pairs.after.rows] = failures.fragile(metric)[rows] | failures.holds(metric)[rows]
        return self.after.single_failures.fragile(metric) & ~was

    @cached_property
    def newly_fragile(self) -> pa.Table:
        """Partitions that one broker's failure now takes down (`schema.DIFF_FRAGILE`)."""
        newly = {metric: self._newly(metric) for metric in SINGLE_FAILURE_METRICS}
        rows = np.flatnonzero(np.any([*newly.values()], axis=0)).astype(np.int32)
        rows = rows[self._order(rows, [newly["offline"][rows]])]
        state, side = self.after.state, PartitionSide(self.after.state, rows)
        columns = {
            **row_keys(state, rows),
            "created": pa.array(np.isin(rows, self.pairs.created)),
            "replicas": side.ids("replicas"), "isr": side.ids("isr"),
            "min_isr": pa.array(partition_min_isr(state, rows)),
        }
        for metric, flags in newly.items():
            columns[f"newly_{metric}_by"] = self.after.single_failures.broker_ids(
                metric, rows, where=flags[rows])
        return DIFF_FRAGILE.table(columns)

    @property
    def fragile_brokers(self) -> pa.Table:
        """Who takes newly fragile partitions down (`schema.DIFF_FRAGILE_BROKERS`)."""
        broker_id = self.after.state.broker_id
        counts = {}
        for name in (f"newly_{metric}" for metric in SINGLE_FAILURE_METRICS):
            ids = pc.list_flatten(self.newly_fragile[f"{name}_by"]).to_numpy()
            counts[name] = np.bincount(np.searchsorted(broker_id, ids), minlength=broker_id.size)
        rows = np.lexsort([-values for values in reversed(counts.values())])
        rows = rows[np.sum([values[rows] for values in counts.values()], axis=0) > 0]
        return DIFF_FRAGILE_BROKERS.table({
            "broker_id": pa.array(broker_id[rows]),
            **{name: pa.array(values[rows]) for name, values in counts.items()},
        })

    @property
    def _no_longer_fragile(self) -> Flags:
        """(n,) pairs that some single failure took down before, and none does now."""
        before, after = self.before.single_failures, self.after.single_failures
        was, still = (
            np.any([one.fragile(name) for name in SINGLE_FAILURE_METRICS], axis=0)
            for one in (before, after)
        )
        still |= after.holds("under_min_isr")
        gone: Flags = was[self.pairs.before.rows] & ~still[self.pairs.after.rows]
        return gone

    def _summary(self) -> Summary:
        return "Diff", {name: self.summary[name] or None for name in DIFF_METRICS}

    __repr__ = summary_text
    _repr_html_ = summary_html


def diff(old: ClusterState, new: ClusterState, *, threads: int = 1) -> Diff:
    """Compare two exports of one cluster, and what single failures would do to it.

    Parameters
    ----------
    old, new : ClusterState
        The cluster at two moments. Not changed.
    threads : int
        Threads to use; results do not depend on it.

    Returns
    -------
    Diff

    Raises
    ------
    ArgumentError
        One is run by a ZooKeeper-mode controller and the other by KRaft, they have no topic in
        common, or a controller cannot start.
    """
    check_instance("old", old, ClusterState)
    check_instance("new", new, ClusterState)
    check_threads(threads)
    if old.is_kraft != new.is_kraft:
        raise ArgumentError(
            f"old is run by {old.controller} and new by {new.controller}, which keep different "
            "states; give both one controller (kfast.with_controller, --controller)"
        )
    pairs = PartitionPairs.of(old, new)
    if old.n_topics and new.n_topics and not (rows_by_name(old.topic, new.topic) >= 0).any():
        raise ArgumentError(
            f"no topic of old ({_example(old)}) is in new ({_example(new)}): they are exports of "
            "two clusters"
        )
    return Diff(ClusterAnswers.of(old, threads), ClusterAnswers.of(new, threads), pairs)


# --- one cluster ---------------------------------------------------------------------------------


def _example(state: ClusterState) -> str:
    """How many topics there are, and the first of them."""
    n = state.n_topics
    return f"{n} topic{'' if n == 1 else 's'}, such as {pc.min(state.topic).as_py()}"


def _racks_known(state: ClusterState, brokers: Flags | None = None) -> bool:
    """Whether any of some brokers has a rack."""
    has_rack = state.rack.is_valid().to_numpy(zero_copy_only=False)
    return bool((has_rack if brokers is None else has_rack & brokers).any())


def _statuses(state: ClusterState) -> npt.NDArray[np.int8]:
    """(B,) places in `STATUSES`."""
    return np.select(
        [~state.registered, state.fenced, state.shutting_down],
        [_DOWN, _FENCED, _SHUTTING_DOWN], _UP,
    ).astype(np.int8)


def _settings(state: ClusterState) -> dict[str, str]:
    """Settings of a cluster by name, as texts."""
    settings = {
        "controller": state.controller,
        "delete.topic.enable": _text(state.delete_topic_enabled),
        "min.insync.replicas by default": str(state.default_min_insync_replicas),
        "unclean.leader.election.enable by default": _text(state.default_unclean_leader_election),
    }
    if state.controller_id >= 0:
        settings["active controller"] = str(state.controller_id)
        settings["controller epoch"] = str(state.controller_epoch)
    if state.quorum is None:
        settings["leader recovery supported"] = _text(state.leader_recovery_supported)
        return settings
    quorum = state.quorum
    settings |= {f"feature {name}": str(level) for name, level in quorum.features.items()}
    settings |= {f"{key} of the controller": value
                 for key, value in quorum.static_configuration.items()}
    for (kind, name), values in quorum.configurations.items():
        if kind == ResourceType.BROKER:
            whose = f"of broker {name}" if name else "of all brokers"
            settings |= {f"{key} {whose}": value for key, value in values.items()}
    return settings


def _text(value: bool) -> str:
    return "true" if value else "false"


def _topic_table(state: ClusterState) -> dict[str, pa.Array]:
    """The topics of a cluster: their names, sizes and own settings."""
    rows = assigned_rows(state)
    n = state.n_topics
    partitions = np.bincount(state.topic_row[rows], minlength=n).astype(np.int32)
    fewest = np.full(n, np.iinfo(np.int32).max, np.int32)
    np.minimum.at(fewest, state.topic_row[rows], state.records["n_replicas"][rows])
    min_isr, unclean = state.topic_min_insync_replicas, state.topic_unclean_leader_election
    columns = {
        "topic": state.topic,
        "partitions": pa.array(partitions),
        "replication_factor": pa.array(fewest, mask=partitions == 0),
        "min_insync_replicas": pa.array(min_isr, pa.int32(), mask=min_isr == _NONE),
        "unclean_leader_election": pa.array(unclean, mask=unclean == _NONE).cast(pa.bool_()),
        "topic_id": state.topic_id,
    }
    present = pa.array(present_topics(state))
    return {name: column.filter(present) for name, column in columns.items()}


def _equal(one: pa.Array, other: pa.Array) -> Flags:
    """(n,) whether values are equal, or both null."""
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    equal = pc.or_(pc.fill_null(pc.equal(one, other), False), both_null)
    return np.asarray(equal.to_numpy(zero_copy_only=False), np.bool_)


def _side_columns(side: PartitionSide, suffix: str, epochs_known: bool) -> dict[str, Any]:
    """Columns of some partitions at one moment."""
    epochs = side.leader_epoch
    return {
        f"leader{suffix}": pa.array(side.leader),
        f"leader_epoch{suffix}": pa.array(
            epochs, pa.int32(), mask=np.full(epochs.size, not epochs_known)),
        **{f"{name}{suffix}": side.ids(name)
           for name in ("replicas", "adding", "removing", "isr", "elr")},
    }

