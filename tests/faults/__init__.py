"""Faults of the machine: kills, full disks, torn files, no memory, signals, clocks, several runs.

What an output may be afterwards is always the same: the old file whole, the new one whole, or none;
or it is refused by name. `writers.py` has the commands and calls that write; docs/reliability.md
says for each fault what was done and what was seen.
"""
