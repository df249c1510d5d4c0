"""What is asked of every timeline: parameters, settings, samples, horizon.

Source: docs/timeline.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kfast import arguments
from kfast.arguments import check_instance, shown
from kfast.capacity import PartitionLoad
from kfast.errors import ArgumentError
from kfast.state import ClusterState
from kfast.timelines.detection import Draws, draw
from kfast.timelines.parameters import Parameters, parse_time
from kfast.timelines.settings import Settings

__all__ = ["LOSSES", "Question"]

MOST_SAMPLES = 100_000
LOSSES = ("process", "host")


@dataclass(frozen=True)
class Question:
    """What is asked of every failure.

    Attributes
    ----------
    params : Parameters
    settings : Settings
    samples, seed : int
    horizon : int
        Microseconds.
    loss : {"process", "host"}
    load : PartitionLoad or None
        What partitions carry, where bytes are asked about.
    """

    params: Parameters
    settings: Settings
    samples: int
    seed: int
    horizon: int
    loss: str
    load: PartitionLoad | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls, state: ClusterState, params: Any, settings: Any, profile: str, samples: Any,
        seed: Any, horizon: str, loss: str, load: PartitionLoad | None = None,
    ) -> Question:
        """Check the arguments of a question; refuses what could overflow."""
        if loss not in LOSSES:
            raise ArgumentError(f"loss is {shown(loss)}; right is {' or '.join(LOSSES)}")
        until = parse_time("horizon", horizon)
        if not until:
            raise ArgumentError("horizon is 0; right is a time such as 1h")
        if state.n_partitions * until >= 2**62:
            raise ArgumentError(
                f"{state.n_partitions} partitions times a horizon of {until} us is "
                f"{state.n_partitions * until}, and sums are below 2^62: give a shorter horizon"
            )
        if load is not None:
            check_instance("load", load, PartitionLoad)
            if load.bytes_in.size != state.n_partitions or not load.topic.equals(state.topic):
                raise ArgumentError("the load is of another cluster: make it for this one")
        parameters = Parameters.of(params, profile=profile)
        parameters.check_sums(state.replicas.size)
        return cls(
            parameters, Settings.of(settings),
            arguments.whole("samples", samples, 1, MOST_SAMPLES),
            arguments.whole("seed", seed, 0, 2**64 - 1), until, loss, load,
        )

    def draw(self, n_brokers: int, patterns: int) -> Draws:
        """What is drawn for a failure of so many brokers."""
        return draw(
            self.params, n_brokers, self.samples, seed=self.seed, scenario=0, patterns=patterns
        )

    @property
    def assumptions(self) -> list[str]:
        """Every default that is used, in sentences."""
        defaults = [one.name for one in self.params.by_name.values() if not one.overridden]
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.by_name.items())
        return [
            f"settings: {settings}",
            f"parameters by default: {', '.join(defaults)}" if defaults else
            "no parameter is a default",
        ]
