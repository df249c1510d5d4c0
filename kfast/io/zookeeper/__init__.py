"""The znodes of a cluster in ZooKeeper mode.

`znodes.py` makes tables of them, from wherever they are; `dumps.py` reads text, JSON and folders,
`snapshot.py` ZooKeeper's own files.
"""
