"""Tests; `reference*.py` writes the rules again in plain Python, and `cases.py` runs case files."""

from kfast.controllers.zk import state_machines

# The clusters of most tests are small; their rows are to meet several threads all the same.
state_machines.ROWS_PER_THREAD = 1
