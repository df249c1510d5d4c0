"""Random steps on kfast's kernels against the plain Python twins, for as long as one likes.

    python -m tests.soak --steps 100000 --state build/soak.json

`rounds.py` has the kinds of rounds, made of the tests' own random sequences; `progress.py` what is
kept of the rounds done, so that a run can go on later; `coverage.py` what there is to meet;
`__main__.py` runs a process for each round. docs/reliability.md has the figures of a long run.
"""
