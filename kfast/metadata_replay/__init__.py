"""A KRaft metadata log, decision by decision, beside what kfast predicts.

The log holds the causes (registrations, fencings, configurations) and what the controller decided.

- `batches`: records that may belong together. `simulation`: the state, and the rule of one change.
- `steps`: what brokers do, and which changes follow from it. `requests`: what leaders and
  administrators ask for. `runs`: which of them explains each change of a run.
- `verdicts`: facts. `timeline`: the incident. `replaying`: all of it, from a path to an answer.
"""

from kfast.metadata_replay.replaying import MetadataReplay, replay_metadata
from kfast.metadata_replay.verdicts import MetadataContradiction

__all__ = ["MetadataContradiction", "MetadataReplay", "replay_metadata"]
