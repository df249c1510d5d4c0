"""Scenarios: which brokers fail together, made lazily and numbered."""

from kfast.scenarios.kinds import SCENARIO_TABLE, Down, Offsets, Scenarios
from kfast.scenarios.makers import (
    bursts,
    every_broker,
    every_rack,
    every_rack_and_broker,
    independent_brokers,
    independent_racks,
    racks_of,
    random_brokers,
    scenarios_from_table,
)

__all__ = [
    "SCENARIO_TABLE",
    "Down",
    "Offsets",
    "Scenarios",
    "bursts",
    "every_broker",
    "every_rack",
    "every_rack_and_broker",
    "independent_brokers",
    "independent_racks",
    "racks_of",
    "random_brokers",
    "scenarios_from_table",
]
