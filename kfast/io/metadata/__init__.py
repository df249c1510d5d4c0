"""KRaft's metadata log: segments, snapshots, and what tools print of them.

`files.py` finds and opens them, `schema.py` has the fields of every record, `image.py` applies
records to a cluster, `log.py` reads a log up to a point; `text.py` reads `kafka-dump-log`, and
`shell.py` the nodes of `kafka-metadata-shell`.
"""
