"""Replay: what a real controller's log says, compared with what kfast predicts."""

from kfast.log_replay.replaying import Contradiction, Place, Replay, replay
from kfast.log_replay.versions import RELEASES

__all__ = ["RELEASES", "Contradiction", "Place", "Replay", "replay"]
