"""Answers as documents, and the texts that are drawn from them.

`answer` has what all documents share, `drawing` what all texts share: rows, metrics, verdict and
foot, in tables that `tables` lays out on a terminal, and in sentences whose parts are in `wording`.
`writing` writes answers as text, JSON, CSV, Parquet and Arrow. Each other module is one answer: its
document (what JSON says), its text, and its tables.
"""

__all__ = ["LISTS"]

LISTS = {
    "offline": ("Offline partitions", "offline"),
    "under-min-isr": ("Partitions that refuse acks=all", "under_min_isr"),
}
"""What `--list` takes: the title of each list, and the metric that its partitions have."""
