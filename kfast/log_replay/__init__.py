"""Replay: what a real controller's log says, compared with what kfast predicts."""

from kfast.log_replay.log_files import Place
from kfast.log_replay.report.replay import (
    Contradiction,
    Replay,
    ReplayInterrupted,
    replay,
)

__all__ = ["Contradiction", "Place", "Replay", "ReplayInterrupted", "replay"]
