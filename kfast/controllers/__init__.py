"""Kafka's controllers, which everybody outside asks for here: `zk` is that of ZooKeeper mode.

Rules that choose a leader (`first_candidate`, `led_least`, `stay_in_rack`) and the releases that
are simulated (`PROFILES`) have their names here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
