"""Verdicts on what a log says."""

PREDICTED, ADOPTED, CONTRADICTED, MISSING = "predicted", "adopted", "contradicted", "missing"
VERDICTS = (PREDICTED, ADOPTED, CONTRADICTED, MISSING)
