"""The verdicts on facts: what a log says, and decisions that it lacks."""

PREDICTED, ADOPTED, UNKNOWN = "predicted", "adopted", "unknown"
CONTRADICTED, MISSING = "contradicted", "missing"
VERDICTS = (PREDICTED, ADOPTED, UNKNOWN, CONTRADICTED, MISSING)
