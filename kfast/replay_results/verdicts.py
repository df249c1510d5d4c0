"""The verdicts on facts: what a log says, and decisions that it lacks."""

PREDICTED, ADOPTED, UNKNOWN = "predicted", "adopted", "unknown"
CONTRADICTED, MISSING = "contradicted", "missing"
VERDICTS = (PREDICTED, ADOPTED, UNKNOWN, CONTRADICTED, MISSING)

NO_DECISION = "no decision is predicted"
"""Why no recall is known, where the log does not explain it."""


def recall_percent(n_due: int, n_missing: int) -> int | None:
    """Share of the decisions that a log is to have and has, rounded down; None if there is none."""
    return 100 * (n_due - n_missing) // n_due if n_due else None
