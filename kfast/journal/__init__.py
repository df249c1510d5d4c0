"""The journal: what happened, as counts and as tables.

`journal` collects the steps of an event from `effects`, what the kernels write of each target;
`outcome` is what an event returns, `tables` makes its tables from `columns`, `broker_requests` its
requests.
`quorum_outcome` is what an event of a KRaft controller returns: the metadata records it wrote.
"""

from __future__ import annotations

from kfast.journal.effects import JournalRules
from kfast.journal.journal import LEVELS, Journal, Tally
from kfast.journal.outcome import Counts, Outcome
from kfast.journal.quorum_outcome import QuorumCounts, QuorumOutcome

__all__ = [
    "LEVELS", "Counts", "Journal", "JournalRules", "Outcome", "QuorumCounts", "QuorumOutcome",
    "Tally",
]
