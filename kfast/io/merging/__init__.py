"""Several files that make one cluster.

`sources.py` decides which of them counts for what; `keyed_tables.py` finds the same partition and
broker in two tables, `contradictions.py` says where they differ, `log_dir_comparison.py` which
replicas lie on disks though nobody assigns them.
"""
