"""Replay: what a real controller's log says, compared with what kfast predicts."""

from kfast.replay.replaying import Contradiction, Place, Replay, replay
from kfast.replay.versions import RELEASES

__all__ = ["RELEASES", "Contradiction", "Place", "Replay", "replay"]
