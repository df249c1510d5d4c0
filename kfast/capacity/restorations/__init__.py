"""How long it takes until all replicas are in sync again.

`restoration_demand.py` lists what has to be copied after a failure, `redistribution.py` says which
brokers take the replicas of those that do not return, `restoration_times.py` how long that takes.
"""

from __future__ import annotations

from kfast.capacity.restorations.restoration_demand import NewReplicas
from kfast.capacity.restorations.restoration_times import Restoration, repair_hours, restoration

__all__ = ["NewReplicas", "Restoration", "repair_hours", "restoration"]
