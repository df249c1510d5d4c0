"""Blast radius: copysets, the worst failures, and how likely it is that any partition goes down."""

from kfast.analysis.risk.blast import Risk, risk
from kfast.analysis.risk.chance import Chance, loss_probability
from kfast.analysis.risk.failures import RISK_METRICS

__all__ = ["RISK_METRICS", "Chance", "Risk", "loss_probability", "risk"]
