"""Figures of answers, drawn with plotly: what `plot()` gives, and what a report page shows.

`drawing` has what all figures share, `failures` those of failures and sweeps, `restarts` those of
restart plans, `incidents` those of replays, `capacity` those in bytes; `results` finds the one of a
result. They take rows and columns of answers, never the results themselves, so that results can
draw themselves.
"""
