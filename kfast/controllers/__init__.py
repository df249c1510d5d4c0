"""Kafka's controllers, which everybody outside asks for here: `zk` is that of ZooKeeper mode.

`open_controller` gives the controller that runs a cluster.

Rules that choose a leader (`first_candidate`, `led_least`, `stay_in_rack`) and the releases that
are simulated (`PROFILES`) have their names here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kfast.lazy_names import load_lazily

if TYPE_CHECKING:
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
    "Controller",
    "Profile",
    "find_profile",
    "first_candidate",
    "led_least",
    "number_racks",
    "open_controller",
    "profile_of",
    "stay_in_rack",
]

load_lazily(__name__, {
    "zk.controller": "Controller",
    "zk.policy": "first_candidate led_least number_racks stay_in_rack",
    "zk.profiles": (
        "DEFAULT_PROFILE PROFILES RELEASES UNSUPPORTED ZK_3_9 Profile find_profile profile_of"
    ),
})


def open_controller(state: ClusterState, **options: Any) -> Controller:
    """Open the controller that runs a cluster: whoever needs one asks here.

    Parameters
    ----------
    state : ClusterState
        Changed in place by every event.
    **options
        Those of `Controller`: store, journal, threads, profile, policy.

    Returns
    -------
    Controller
        That of ZooKeeper mode, in the version of `profile`.
    """
    from kfast.controllers.zk.controller import Controller

    return Controller(state, **options)
