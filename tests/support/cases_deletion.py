"""Operations of the deletion manager (docs/controller.md, section 6.12), done to kfast."""

from __future__ import annotations

from typing import Any

import numpy as np

from kfast import Controller
from kfast.controllers.zk import topic_deletion
from tests.support.cases_format import UnknownError, partition_of


def known_topics(controller: Controller) -> set[str]:
    """Topics that the controller knows."""
    state = controller.state
    names = zip(state.topic.to_pylist(), state.topic_exists.tolist(), strict=True)
    return {name for name, exists in names if exists}


def run_deletion(controller: Controller, name: str, args: dict[str, Any]) -> list[list[Any]]:
    """Do one operation; what it must have asked of the store, told from what is left."""
    state, topics = controller.state, list(args.get("topics", ()))
    asked = [replica.partition("@") for replica in args.get("replicas", ())]
    replicas = state.find_replicas([(*partition_of(p), int(b)) for p, _, b in asked])
    there = known_topics(controller)
    if name == "init":
        topics = list(args["topics_to_delete"])
        topic_deletion.init(controller, topics, args["ineligible"])
        if topics and not np.any(state.topic_queued_for_deletion):
            return [["delete_deletion_markers", sorted(topics)]]
    elif name == "enqueue":
        topic_deletion.enqueue(controller, topics)
    elif name == "resume_for":
        topic_deletion.resume_deletion_for(controller, state.find_topics(topics))
    elif name == "fail_replicas":
        topic_deletion.fail_replica_deletion(controller, replicas)
    elif name == "complete_replicas":
        topic_deletion.complete_replicas(controller, replicas)
    else:
        raise UnknownError(f"unknown operation topic_deletion.{name}")
    gone = sorted(there - known_topics(controller))
    return [[call, topic] for topic in gone for call in ("mute", "delete_topic")]
