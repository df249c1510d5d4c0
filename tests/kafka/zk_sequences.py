"""Random sequences for Kafka's controller of ZooKeeper mode and kfast, each with its own mix.

Events are drawn by `random_events.Generator` from the live state of the twin. Left out are those
that reach into the controller past its events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from tests.kafka.zk_cases import ZkTwin, draw_given
from tests.kafka.zk_events import event_json
from tests.support import random_events
from tests.support.event import Event
from tests.support.kraft_cases import Json

WEIGHTS: dict[str, int] = {
    "broker_change": 12, "broker_failure": 8, "broker_startup": 10, "controlled_shutdown": 7,
    "topic_change": 5, "more_partitions": 6, "elect_leaders": 7, "rebalance": 5, "log_dir": 5,
    "response": 5, "alter": 9, "catch_up": 9, "notification": 2, "unclean": 3, "failover": 3,
    "probe": 2,
}
"""Methods of the generator, and how often each comes up."""

FUNCTIONS: dict[Callable[..., Event | None], int] = {
    random_events.reassign: 14, random_events.reassign_by_node: 3, random_events.finish: 8,
    random_events.delete: 5, random_events.stop_replica_response: 6, random_events.acknowledge: 10,
}
"""The same of its functions."""

OF_THE_STORE: dict[str, int] = {"tamper": 5, "other_controller": 1}


class ZkSequence:
    """Draws a cluster and its mix of events from the seed, then the events.

    Whoever takes an event runs it on `run`, the twin, before taking the next.
    """

    def __init__(self, seed: int, profile: str) -> None:
        self.rng = rng = Random(f"zk {seed}")
        self.case: Json = {
            "id": f"zk-{seed}", "seed": seed, "profile": profile,
            "with_store": rng.random() < 0.6, "given": draw_given(rng, profile),
        }
        self.n_events = rng.choice([40, 80, 150])
        self.run: ZkTwin

    def options(self) -> Json:
        """Layouts, threads and journals of kfast; without a journal its events are fused."""
        layouts = self.rng.sample(["narrow", "wide"], 2)
        return {"settings": [
            [layouts[0], self.rng.choice([1, 1, 1, 2]), "full"], [layouts[1], 1, "off"],
        ]}

    def events(self) -> Iterator[Json]:
        """Events at random."""
        ctx, store, controller = self.run.ctx, self.run.store, self.run.twin.controller
        generator = random_events.Generator(self.rng, ctx, store, controller)
        weights = {
            getattr(generator, name): weight for name, weight in WEIGHTS.items()
            if name != "alter" or ctx.profile.has_alter_partition
        } | {partial(function, generator): weight for function, weight in FUNCTIONS.items()}
        if store is not None:
            weights |= {getattr(generator, name): weight for name, weight in OF_THE_STORE.items()}
        rng = self.rng
        makers: list[Any] = list(weights)
        drawn = [
            weight * rng.lognormvariate(0, 0.7) * (rng.random() < 0.9)
            for weight in weights.values()
        ]
        if sum(drawn) == 0:
            return
        for _ in range(self.n_events):
            if not ctx.all_topics:
                return
            yield self.draw(generator, makers, drawn)

    def draw(self, generator: random_events.Generator, makers: list[Any], weights: Any) -> Json:
        """The next event whose time has come; a controller that resigned gets its successor."""
        if not self.run.twin.controller.active:
            return self.json(generator.failover())
        while True:
            event = self.rng.choices(makers, weights)[0]()
            if event is None or event.args.get("topics", ()) is None:
                continue
            if not self.deviates(event):
                return self.json(event)

    def deviates(self, event: Event) -> bool:
        """Whether kfast deviates from 2.4 on purpose: a queued topic whose node is removed."""
        gone = set(event.args.get("gone", ()))
        return self.case["profile"] == "zk-2.4" and bool(gone & self.run.ctx.topics_to_delete)

    def json(self, event: Event) -> Json:
        """An event as JSON, with what is the same for a whole cluster."""
        out = event_json(event)
        if out["op"] == "rebalance_leaders":
            out["percentage"] = self.case["given"]["percentage"]
        if out["op"] == "on_topic_change":
            out["configs"] = {
                topic: config["unclean.leader.election.enable"]
                for topic, config in out["configs"].items()
            }
        return out
