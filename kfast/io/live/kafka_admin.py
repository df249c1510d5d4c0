"""What kafka-python's `KafkaAdminClient` is asked, several questions at a time.

Only what describes and lists is called. Partitions come in pages (KIP-966) where the brokers have
them, else in one answer. What a cluster may refuse without the picture of its partitions being
wrong (configurations, reassignments, the quorum) becomes a note; anything else that fails is an
`InputError`.

Source: kafka-python 3.0, kafka/admin; Kafka 4.1, DescribeTopicPartitionsRequestHandler.java.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias, TypeVar

from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType

from kfast.errors import InputError
from kfast.io.files import abbreviate
from kfast.io.live.admin_answers import BROKER_SETTINGS, TOPIC_SETTINGS

__all__ = ["ask_brokers", "log_directories", "reason_of"]

Answer = TypeVar("Answer")
Settings: TypeAlias = dict[str, Any]
"""Configurations by the name of the resource."""

PAGE_PARTITIONS = 2000
"""Partitions a page: as many as brokers give (`max.request.partition.size.limit`)."""
TOPICS_PER_REQUEST = 250
"""Topics whose configurations are asked for at once: as each takes the broker some time."""
N_QUESTIONS = 4
"""Questions at a time, beside one: a connection takes five."""
_REFUSALS = {
    "topic": "this user may not DescribeConfigs of them (TOPIC_AUTHORIZATION_FAILED), or they were"
    " deleted",
    "broker": "this user may not DescribeConfigs of the cluster (CLUSTER_AUTHORIZATION_FAILED)",
}
_ATTEMPTS, _PAUSE_S = 4, 0.25
"""How often a question is put whose broker went away, for another may answer."""


def reason_of(error: errors.KafkaError) -> str:
    """What went wrong, by Kafka's name for it where it has one."""
    if isinstance(error, errors.BrokerResponseError) and error.message:
        return str(error.message)
    detail = ", ".join(map(str, error.args))
    return f"{type(error).__name__} ({detail})" if detail else type(error).__name__


def _ask(call: Callable[[], Answer]) -> Answer:
    """Put a question, again where a broker went away: least loaded means another one then."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return call()
        except errors.RetriableError as error:
            if isinstance(error, (errors.KafkaTimeoutError, errors.RequestTimedOutError)):
                raise
            time.sleep(_PAUSE_S)
    return call()


class _Interview:
    """Questions to one cluster, and what it would not say."""

    def __init__(self, name: str, admin: Any, executor: Executor) -> None:
        self.name = name
        self.admin = admin
        self.executor = executor
        self._refused: dict[tuple[str, str], list[str]] = defaultdict(list)

    def need(self, what: str, call: Callable[[], Answer]) -> Answer:
        """Put a question without whose answer there is no cluster."""
        try:
            return _ask(call)
        except errors.KafkaError as error:
            raise InputError(f"{self.name}: {what}: {reason_of(error)}") from error

    def want(
        self, what: str, call: Callable[[], Any], otherwise: Any, about: Iterable[object] = ()
    ) -> Any:
        """Put a question that the brokers may be too old for, or this user not allowed."""
        try:
            return _ask(call)
        except errors.IncompatibleBrokerVersion:
            return otherwise
        except errors.KafkaError as error:
            self._refused[what, reason_of(error)] += map(str, about)
            return otherwise

    def notes(self) -> list[str]:
        """What the cluster would not say, and why."""
        return [
            f"{self.name}: {what} {abbreviate(names) + ' ' if names else ''}not read: {reason}"
            for (what, reason), names in sorted(self._refused.items())
        ]

    def topics(self) -> list[Mapping[str, Any]]:
        """All topics with their partitions, page by page."""
        try:
            return [*self._pages()]
        except errors.IncompatibleBrokerVersion:
            return self.need("topics", self.admin.describe_topics)

    def _pages(self) -> Iterator[Mapping[str, Any]]:
        cursor = None
        while True:
            try:
                page = _ask(partial(
                    self.admin.describe_topic_partitions, [],
                    response_partition_limit=PAGE_PARTITIONS, cursor=cursor,
                ))
            except errors.IncompatibleBrokerVersion:
                raise
            except errors.KafkaError as error:
                place = f" from {cursor['topic_name']}-{cursor['partition_index']} on" if cursor \
                    else ""
                raise InputError(f"{self.name}: topics{place}: {reason_of(error)}") from error
            yield from page["topics"]
            if page["next_cursor"] is None:
                return
            if page["next_cursor"] == cursor:
                raise InputError(f"{self.name}: topics: a page ends where it begins, at {cursor}")
            cursor = page["next_cursor"]

    def settings(
        self, kind: str, names: Sequence[object], heeded: Sequence[str], size: int
    ) -> Settings:
        """Configurations of topics or brokers, so many of which are asked for at once.

        A resource that is refused looks like one without any setting, which there is not.
        """
        kinds = {"topic": ConfigResourceType.TOPIC, "broker": ConfigResourceType.BROKER}

        def ask(batch: Sequence[object]) -> Settings:
            resources = [ConfigResource(kinds[kind], str(name), [*heeded]) for name in batch]
            answer: dict[str, Settings] = self.want(
                f"configurations of {kind}s",
                partial(
                    self.admin.describe_configs, resources, include_synonyms=kind == "broker",
                    config_filter="all",
                ),
                {}, batch,
            )
            return answer.get(kind, {})

        batches = (names[at : at + size] for at in range(0, len(names), size))
        settings: Settings = {}
        for answer in self.executor.map(ask, batches):
            settings |= answer
        refused = sorted(name for name, of in settings.items() if not of)
        if refused:
            self._refused[f"configurations of {kind}s", _REFUSALS[kind]] += refused
        return {name: of for name, of in settings.items() if of}

    def version(self, brokers: Sequence[int]) -> tuple[int, ...] | None:
        """The release that API versions tell: of the first broker that answers."""
        for broker in brokers:
            ask = partial(self.admin.get_broker_version_data, broker)
            data = self.want("API versions of brokers", ask, None, [broker])
            if data is not None:
                release: tuple[int, ...] = data.broker_version
                return release
        return None

    def quorum_leader(self) -> int:
        """The active controller of KRaft; -1 in ZooKeeper mode."""
        quorum = self.want(
            "the controllers' quorum", self.admin.describe_metadata_quorum, {"topics": []}
        )
        leaders = [of["leader_id"] for topic in quorum["topics"] for of in topic["partitions"]]
        return int(leaders[0]) if leaders else -1


def ask_brokers(admin: Any, name: str) -> tuple[dict[str, Any], list[str]]:
    """Ask for all that kfast takes of a cluster.

    Parameters
    ----------
    admin : KafkaAdminClient
        Or what has its methods.
    name : str
        What messages call the cluster.

    Returns
    -------
    answers, notes
        What `tables_of_answers` takes.

    Raises
    ------
    InputError
        The brokers do not answer what a cluster cannot do without; the message says what.
    """
    with ThreadPoolExecutor(N_QUESTIONS, "kfast-live") as executor:
        interview = _Interview(name, admin, executor)
        topics = executor.submit(interview.topics)
        reassignments = executor.submit(
            interview.want, "reassignments", admin.list_partition_reassignments, {}
        )
        features = executor.submit(interview.want, "features", admin.describe_features, {})
        leader = executor.submit(interview.quorum_leader)
        cluster = interview.need("brokers", admin.describe_cluster)
        up = [node["broker_id"] for node in cluster["brokers"] if not node.get("is_fenced")]
        broker_settings = interview.settings("broker", up, BROKER_SETTINGS, 1)
        names = sorted({topic["name"] for topic in topics.result() if not topic["error_code"]})
        answers = {
            "describe_cluster": cluster,
            "describe_topics": topics.result(),
            "describe_configs": {
                "topic": interview.settings("topic", names, TOPIC_SETTINGS, TOPICS_PER_REQUEST),
                "broker": broker_settings,
            },
            "list_partition_reassignments": reassignments.result(),
            "describe_features": features.result(),
            "controller_id": leader.result(),
        }
        if (version := interview.version(up)) is not None:
            answers["broker_version"] = version
        return answers, interview.notes()


def log_directories(admin: Any, name: str) -> dict[str, Any]:
    """Sizes of all replicas, as `kafka-log-dirs --describe` prints them.

    Raises
    ------
    InputError
        A broker does not answer.
    """
    with ThreadPoolExecutor(N_QUESTIONS, "kfast-live") as executor:
        interview = _Interview(name, admin, executor)
        cluster = interview.need("brokers", admin.describe_cluster)
        up = [node["broker_id"] for node in cluster["brokers"] if not node.get("is_fenced")]

        def ask(broker: int) -> dict[str, Any]:
            (answer,) = interview.need(
                f"log directories of broker {broker}",
                lambda: admin.describe_log_dirs(brokers=[broker]),
            )
            return {"broker": broker, "logDirs": [*map(_directory, answer["log_dirs"])]}

        return {"version": 1, "brokers": [*executor.map(ask, up)]}


def _directory(answer: Mapping[str, Any]) -> dict[str, Any]:
    error = errors.for_code(answer["error_code"])
    return {
        "logDir": answer["log_dir"],
        "error": None if error is errors.NoError else error.message,
        "partitions": [
            {
                "partition": f"{topic['name']}-{of['partition_index']}",
                "size": of["partition_size"], "offsetLag": of["offset_lag"],
                "isFuture": of["is_future_key"],
            }
            for topic in answer["topics"] for of in topic["partitions"]
        ],
    }
