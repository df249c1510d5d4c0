"""Questions about one cluster: what a failure does (`impact`), why (`explain`), how far (`risk`).

The functions that users call are in `kfast` itself; no module there bears the name of one.
"""
