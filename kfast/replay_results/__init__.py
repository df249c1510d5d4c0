"""What replays of text logs and of metadata logs have in common: the timeline, and the verdicts.

`timeline`: events, and for how long a partition had no leader. `incident`: the figure of its
tables. `verdicts`: their names.
"""
