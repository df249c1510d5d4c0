"""A KRaft metadata log, decision by decision, beside what kfast predicts.

The log holds the causes (registrations, fencings, configurations) and what the controller decided.
In the order in which data flows:

- `batches`: records that one operation may have written. `simulation`: the state, and the rule of
  one change.
- `broker_updates`: what a broker's record leads to. `requests`: what leaders and administrators ask
  for. `explanation`: which of both gives each change of a run.
- `other_records`: what is no change of a partition. `comparison`: all records, one after another.
- `verdicts`: facts. `replay`: from a path to an answer.
"""

from kfast.metadata_replay.replay import MetadataReplay, replay_metadata
from kfast.metadata_replay.verdicts import MetadataContradiction

__all__ = ["MetadataContradiction", "MetadataReplay", "replay_metadata"]
