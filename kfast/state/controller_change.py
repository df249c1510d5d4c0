"""A cluster as another controller would run it: a migration, or the release that a caller names.

Source: docs/kraft.md, sections 1 and 11.
"""

from __future__ import annotations

from kfast import schema
from kfast.arguments import shown
from kfast.errors import ArgumentError
from kfast.state import quorum_tables
from kfast.state.arrays import StateArrays
from kfast.state.kraft_releases import (
    ELR_VERSION,
    METADATA_VERSION,
    RELEASES,
    MetadataVersion,
    Release,
)
from kfast.state.quorum import Quorum

__all__ = ["change_controller"]

REASON = "controller: "
"""The line of `assumptions` that says why the controller is the one it is begins so."""
TOLD = f"{REASON}told"


def change_controller(state: StateArrays, controller: str, *, elr: bool | None = None) -> None:
    """Let another controller run a cluster, in place.

    From ZooKeeper mode to KRaft, as a migration does: the latest metadata version of the release,
    nobody fenced, every ISR in the order of the assignment, no replica assigned to a directory;
    settings become configurations. Back, what only KRaft has is dropped, and fenced brokers are no
    longer registered. From one KRaft release to another, a metadata version that it does not know
    becomes its latest; what that version does not have is dropped.

    Parameters
    ----------
    state : ClusterState
    controller : str
        One of `schema.CONTROLLERS`.
    elr : bool, optional
        Whether eligible leader replicas are on. By default as they were; off after ZooKeeper.
        Switching them off empties every ELR.

    Raises
    ------
    ArgumentError
        The controller is unknown, or has no eligible leader replicas. Nothing is changed.
    """
    if controller not in schema.CONTROLLERS:
        raise ArgumentError(
            f"controller {shown(controller)} is unknown; allowed: {', '.join(schema.CONTROLLERS)}"
        )
    release = RELEASES.get(controller)
    if elr and (release is None or not release.elr):
        raise ArgumentError(f"elr: {controller} has no eligible leader replicas")
    was_kraft = state.is_kraft
    if release is None:
        _leave_kraft(state)
    elif state.quorum is None:
        _enter_kraft(state)
    state.controller = controller
    if release is not None and state.quorum is not None:
        state.quorum.forget_topics()
        _change_features(state.quorum, release, elr)
    _explain(state, was_kraft)


def _enter_kraft(state: StateArrays) -> None:
    quorum = state.quorum = Quorum(state)
    quorum.configurations = quorum_tables.configurations_of(state, {})
    state.records["flags"][state.partition >= 0] |= schema.FLAG_HAS_LEADERSHIP
    state.records["flags"] &= 255 - schema.FLAG_BEING_REASSIGNED
    state.records["partition_state"] = schema.PartitionState.NO_ENTRY
    state.records["offline_dir"] = 0
    state.replica_state[:] = schema.ReplicaState.NO_ENTRY
    state.reassignment_targets, state.unwritten_assignments = {}, {}
    state.recount()


def _leave_kraft(state: StateArrays) -> None:
    fenced = state.fenced
    state.broker_status[: state.n_brokers][fenced] = 0
    state.quorum = None
    state.recount()


def _change_features(quorum: Quorum, release: Release, elr: bool | None) -> None:
    """Bring features to levels that the release has, and drop what they do not cover."""
    supported = release.supported_features
    for name, level in dict(quorum.features).items():
        quorum.set_feature(name, min(level, supported.get(name, (0, 0))[1]))
    level = quorum.metadata_version
    if elr and not MetadataVersion(level).is_elr_supported:
        level = release.latest_metadata_version
    quorum.set_feature(METADATA_VERSION, level)
    if elr is not None:
        quorum.set_feature(ELR_VERSION, int(elr))
    if not quorum.elr_on:
        quorum.forget_elr()
    if not quorum.directories_on:
        quorum.directory = None


def _explain(state: StateArrays, was_kraft: bool) -> None:
    lines = [line for line in state.assumptions if not line.startswith(REASON)]
    if state.quorum is not None and not was_kraft:
        on = "on" if state.quorum.elr_on else "off"
        lines.append(
            f"{METADATA_VERSION} {state.quorum.metadata_version}, eligible leader replicas {on}, no"
            f" broker fenced and no log directories are assumed for {state.controller}"
        )
    elif state.quorum is None and was_kraft:
        lines.append(
            f"eligible leader replicas and directories are left out for {state.controller}, and"
            " fenced brokers count as not registered"
        )
    state.assumptions = (TOLD, *lines)
