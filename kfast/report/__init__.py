"""Answers as documents, and the texts that are drawn from them.

`tables` lays out tables on a terminal; `answer` has what all answers share; `writing` writes them
as text, JSON, CSV, Parquet and Arrow. Each other module is one answer: its document (what JSON
says), its text, and its tables.
"""

__all__ = ["LISTS"]

LISTS = {
    "offline": ("Offline partitions", "offline"),
    "under-min-isr": ("Partitions that refuse acks=all", "under_min_isr"),
}
"""What `--list` takes: the title of each list, and the metric that its partitions have."""
