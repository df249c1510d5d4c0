"""Kafka's controllers, which everybody outside asks for here: `zk` of ZooKeeper mode, `kraft`.

`open_controller` gives the controller that runs a cluster, `open_events` the events that mean the
same to every controller (`common_events`).

Rules that choose a leader (`first_candidate`, `led_least`, `stay_in_rack`) and the releases that
are simulated (`PROFILES`) have their names here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kfast.arguments import check_instance, shown
from kfast.errors import ArgumentError
from kfast.lazy_names import load_lazily

if TYPE_CHECKING:
    from kfast.controllers.common_events import CommonEvents, EventOutcome
    from kfast.controllers.kraft.broker_events import BrokerHeartbeatReply
    from kfast.controllers.kraft.common_events import QuorumEvents
    from kfast.controllers.kraft.configurations import ConfigChange
    from kfast.controllers.kraft.controller import QuorumController
    from kfast.controllers.kraft.partition_requests import AlterPartitionData, AlterPartitionReply
    from kfast.controllers.kraft.topics import CreatableTopic
    from kfast.controllers.reassignment_requests import Reassignments
    from kfast.controllers.zk.controller import Controller
    from kfast.controllers.zk.policy import (
        first_candidate,
        led_least,
        number_racks,
        stay_in_rack,
    )
    from kfast.controllers.zk.profiles import (
        DEFAULT_PROFILE,
        PROFILES,
        RELEASES,
        UNSUPPORTED,
        ZK_3_9,
        Profile,
        find_profile,
        profile_of,
    )
    from kfast.state import ClusterState

__all__ = [
    "DEFAULT_PROFILE",
    "PROFILES",
    "RELEASES",
    "UNSUPPORTED",
    "ZK_3_9",
    "AlterPartitionData",
    "AlterPartitionReply",
    "BrokerHeartbeatReply",
    "CommonEvents",
    "ConfigChange",
    "Controller",
    "CreatableTopic",
    "EventOutcome",
    "Profile",
    "QuorumController",
    "QuorumEvents",
    "Reassignments",
    "find_profile",
    "first_candidate",
    "led_least",
    "number_racks",
    "open_controller",
    "open_events",
    "profile_of",
    "stay_in_rack",
]

load_lazily(__name__, {
    "common_events": "CommonEvents EventOutcome",
    "kraft.broker_events": "BrokerHeartbeatReply",
    "kraft.common_events": "QuorumEvents",
    "kraft.configurations": "ConfigChange",
    "kraft.controller": "QuorumController",
    "kraft.partition_requests": "AlterPartitionData AlterPartitionReply",
    "kraft.topics": "CreatableTopic",
    "reassignment_requests": "Reassignments",
    "zk.controller": "Controller",
    "zk.policy": "first_candidate led_least number_racks stay_in_rack",
    "zk.profiles": (
        "DEFAULT_PROFILE PROFILES RELEASES UNSUPPORTED ZK_3_9 Profile find_profile profile_of"
    ),
})


def open_controller(state: ClusterState, **options: Any) -> Controller | QuorumController:
    """Open the controller that runs a cluster: whoever needs one asks here.

    Parameters
    ----------
    state : ClusterState
        Changed in place by every event. `state.controller` names the controller.
    **options
        Those of `Controller`, or of `QuorumController` for KRaft.

    Returns
    -------
    Controller or QuorumController
        Of ZooKeeper mode in the version of `profile`, by default that of the state; or of KRaft.
    """
    from kfast.state import ClusterState

    check_instance("state", state, ClusterState)
    if state.is_kraft:
        from kfast.controllers.kraft.controller import QuorumController

        return QuorumController(state, **options)
    from kfast.controllers.zk.controller import Controller

    return Controller(state, **{"profile": state.controller, **options})


def open_events(
    state: ClusterState, *, journal: str = "counts", threads: int = 1,
    profile: str | Profile | None = None, order: Sequence[int] | None = None,
) -> CommonEvents:
    """Open the controller that runs a cluster, by the events that mean the same to every one.

    Parameters
    ----------
    state : ClusterState
        Changed in place by every event.
    journal : {"off", "counts", "full"}
    threads : int
    profile : str or Profile, optional
        Another version of the ZooKeeper-mode controller.
    order : sequence of int, optional
        KRaft only. Brokers that fail together are fenced in the order in which their ids stand
        here, others after them by ascending id.

    Raises
    ------
    ArgumentError
        The profile is unknown or of another controller; `order` names an unknown broker, or one
        twice, or the controller takes brokers that fail together in one event.
    """
    if state.is_kraft:
        from kfast.controllers.kraft.common_events import QuorumEvents
        from kfast.controllers.kraft.controller import QuorumController

        if profile not in (None, state.controller):
            raise ArgumentError(
                f"profile is {shown(profile)}, and the cluster is run by {state.controller}: "
                "kfast.with_controller(state, name) gives it another controller"
            )
        return QuorumEvents(QuorumController(state, journal=journal, threads=threads), order)
    from kfast.controllers.zk.common_events import ZkEvents
    from kfast.controllers.zk.controller import Controller

    if order is not None:
        raise ArgumentError(
            "order is given, and the ZooKeeper-mode controller takes brokers that fail together "
            "in one event; it is for KRaft controllers"
        )
    version = state.controller if profile is None else profile
    return ZkEvents(Controller(state, journal=journal, threads=threads, profile=version))
