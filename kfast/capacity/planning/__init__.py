"""What growth, money and chance say about a cluster.

`load_growth.py` makes loads grow, and `capacity_forecasts.py` sweeps them month by month.
`monthly_costs.py` adds up prices, `cluster_sizes.py` says how many brokers suffice,
`durability_chances.py` how likely losses of data and service are.
"""

from __future__ import annotations

from kfast.capacity.planning.capacity_forecasts import CapacityForecast, capacity_forecast
from kfast.capacity.planning.cluster_sizes import ClusterSize, capacity_size
from kfast.capacity.planning.durability_chances import Durability, durability
from kfast.capacity.planning.load_growth import grow_load, read_growth
from kfast.capacity.planning.monthly_costs import CapacityCost, capacity_cost, read_prices

__all__ = [
    "CapacityCost", "CapacityForecast", "ClusterSize", "Durability", "capacity_cost",
    "capacity_forecast", "capacity_size", "durability", "grow_load", "read_growth", "read_prices",
]
