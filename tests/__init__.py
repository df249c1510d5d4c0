"""Tests; `reference*.py` writes the rules again in plain Python, and `cases.py` runs case files."""

import os

# Tests run side by side, with several threads each: a thread that waits gives its core away.
# Must be said before the first kernel is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from kfast.controllers.zk import state_machines

# The clusters of most tests are small; their rows are to meet several threads all the same.
state_machines.ROWS_PER_THREAD = 1
