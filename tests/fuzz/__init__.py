"""Changed inputs for every reader: each is refused by a `KfastError` or read.

    python -m tests.fuzz --seed 7 --inputs 10000

`readers.py` has the readers and the small real files that are changed, `mutation.py` the changes,
`limits.py` what an input may take, `__main__.py` the loop. What was found is in `found/`, a folder
for each reader; `test_found.py` reads all of it again.
"""
