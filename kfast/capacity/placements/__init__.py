"""Which placement is better, and how to get there.

`plan_check.py` executes a plan and measures it: `placement_rules.py` has the hard rules,
`plan_objective.py` says which of two placements is better, `cruise_control_goals.py` which goals
of Cruise Control they meet.

`placement_search.py` finds better placements: `placement_problem.py` has the loads, limits and
rules that it works on, `placement_bound.py` says how good a placement can be at best.
`reassignment_batches.py` divides a plan into batches that brokers can copy within bounds.
"""

from __future__ import annotations

from kfast.capacity.placements.placement_rules import HARD_RULES
from kfast.capacity.placements.placement_search import BetterPlacement, improve_placement
from kfast.capacity.placements.plan_check import PlanCheck, check_plan
from kfast.capacity.placements.plan_objective import OBJECTIVE
from kfast.capacity.placements.reassignment_batches import PlanBatches, plan_batches

__all__ = [
    "HARD_RULES", "OBJECTIVE", "BetterPlacement", "PlanBatches", "PlanCheck", "check_plan",
    "improve_placement", "plan_batches",
]
