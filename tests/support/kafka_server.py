"""A server that speaks Kafka's protocol as far as admin clients ask, for a cluster of any size.

It answers from tables, so that 100 000 partitions need no disk; any answer may be delayed or be an
error.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
import uuid

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

REQUESTS = {
    request.API_KEY: request
    for request in (
        ApiVersionsRequest, MetadataRequest, DescribeClusterRequest, DescribeConfigsRequest,
        DescribeLogDirsRequest, DescribeTopicPartitionsRequest,
        ListPartitionReassignmentsRequest,
    )
}
VERSIONS = {3: (0, 12), 18: (0, 4), 32: (1, 4), 35: (0, 4), 46: (0, 0), 60: (0, 1), 75: (0, 0)}
PAGED = DescribeTopicPartitionsRequest.API_KEY
DESCRIBE_CLUSTER = DescribeClusterRequest.API_KEY


class KafkaServer:
    """All `n_brokers` brokers of a cluster at one address; a context manager.

    Parameters
    ----------
    n_topics, n_partitions : int
        Topics, and partitions of each.
    paged : bool
        Whether it has DescribeTopicPartitions.
    delays : mapping of int to float
        Seconds before the answer to a kind of request.
    """

    def __init__(self, n_topics, n_partitions, n_brokers=3, paged=True, delays=()):
        self.n_topics, self.n_partitions = n_topics, n_partitions
        self.n_brokers, self.paged, self.delays = n_brokers, paged, dict(delays)
        self.topic_ids = [uuid.UUID(int=n + 1) for n in range(n_topics)]
        self.settings = {"min.insync.replicas": ("2", 1), "retention.ms": ("604800000", 5)}
        self.n_requests = {}
        server = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                server.serve(self.request)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"kafka://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()

    def serve(self, connection: socket.socket) -> None:
        """Answer the requests of one connection."""
        while (size := _read(connection, 4)) is not None:
            data = _read(connection, struct.unpack(">i", size)[0])
            if data is None:
                return
            key, version = struct.unpack(">hh", data[:4])
            self.n_requests[key] = self.n_requests.get(key, 0) + 1
            time.sleep(self.delays.get(key, 0))
            request = REQUESTS[key].decode(data, version=version, header=True)
            answer = getattr(self, f"_answer_{key}")(request)
            answer.API_VERSION = version
            answer.with_header(correlation_id=request.header.correlation_id)
            body = answer.encode(header=True)
            try:
                connection.sendall(struct.pack(">i", len(body)) + body)
            except OSError:  # the client has left
                return

    def replicas(self, partition: int) -> list[int]:
        """Three brokers in a row."""
        return [(partition + place) % self.n_brokers + 1 for place in range(3)]

    def _answer_18(self, request):
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in VERSIONS.items() if self.paged or key != PAGED
        ]
        supported = ApiVersionsResponse.SupportedFeatureKey(
            name="metadata.version", min_version=7, max_version=27)
        finalized = ApiVersionsResponse.FinalizedFeatureKey(
            name="metadata.version", max_version_level=25, min_version_level=25)
        return ApiVersionsResponse(
            error_code=0, api_keys=keys, throttle_time_ms=0, supported_features=[supported],
            finalized_features_epoch=1, finalized_features=[finalized],
        )

    def _answer_3(self, request):
        host, port = self.address.removeprefix("kafka://").split(":")
        topic = MetadataResponse.MetadataResponseTopic
        of = topic.MetadataResponsePartition
        topics = range(self.n_topics) if request.topics is None else ()
        return MetadataResponse(
            throttle_time_ms=0, cluster_id="c", controller_id=1,
            brokers=[
                MetadataResponse.MetadataResponseBroker(
                    node_id=n + 1, host=host, port=int(port), rack=None)
                for n in range(self.n_brokers)
            ],
            topics=[
                topic(
                    error_code=0, name=f"topic-{n}", topic_id=self.topic_ids[n], is_internal=False,
                    partitions=[
                        of(
                            error_code=0, partition_index=p, leader_id=self.replicas(p)[0],
                            leader_epoch=1, replica_nodes=self.replicas(p),
                            isr_nodes=self.replicas(p), offline_replicas=[],
                        )
                        for p in range(self.n_partitions)
                    ],
                )
                for n in topics
            ],
        )

    def _answer_60(self, request):
        host, port = self.address.removeprefix("kafka://").split(":")
        broker = DescribeClusterResponse.DescribeClusterBroker
        return DescribeClusterResponse(
            throttle_time_ms=0, error_code=0, error_message=None, endpoint_type=1, cluster_id="c",
            controller_id=1,
            brokers=[
                broker(broker_id=n + 1, host=host, port=int(port), rack="abc"[n % 3])
                for n in range(self.n_brokers)
            ],
        )

    def _answer_46(self, request):
        return ListPartitionReassignmentsResponse(
            throttle_time_ms=0, error_code=31, error_message="no", topics=[])

    def _answer_32(self, request):
        result = DescribeConfigsResponse.DescribeConfigsResult
        entry = result.DescribeConfigsResourceResult
        return DescribeConfigsResponse(throttle_time_ms=0, results=[
            result(
                error_code=0, error_message=None, resource_type=of.resource_type,
                resource_name=of.resource_name,
                configs=[
                    entry(
                        name=key, value=value, read_only=False, config_source=source,
                        is_sensitive=False, synonyms=[], config_type=0, documentation=None,
                    )
                    for key, (value, source) in self.settings.items()
                ],
            )
            for of in request.resources
        ])

    def _answer_35(self, request):
        """Every broker says that it holds partition 0 of every topic."""
        result = DescribeLogDirsResponse.DescribeLogDirsResult
        topic = result.DescribeLogDirsTopic
        size = topic.DescribeLogDirsPartition(
            partition_index=0, partition_size=1 << 20, offset_lag=0, is_future_key=False)
        names = [f"topic-{n}" for n in range(self.n_topics)]
        return DescribeLogDirsResponse(throttle_time_ms=0, error_code=0, results=[
            result(
                error_code=0, log_dir="/d", total_bytes=1 << 40, usable_bytes=1 << 39,
                topics=[topic(name=name, partitions=[size]) for name in names],
            ),
            result(error_code=56, log_dir="/e", total_bytes=-1, usable_bytes=-1, topics=[]),
        ])

    def _answer_75(self, request):
        """A page; names are in the order of texts, as Kafka's are."""
        topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
        of = topic.DescribeTopicPartitionsResponsePartition
        order = sorted(range(self.n_topics), key=lambda n: f"topic-{n}")
        at = place = 0
        if request.cursor is not None:
            names = [f"topic-{n}" for n in order]
            at, place = names.index(request.cursor.topic_name), request.cursor.partition_index
        left, topics, cursor = request.response_partition_limit, [], None
        for n in order[at:]:
            if not left:
                cursor = DescribeTopicPartitionsResponse.Cursor(
                    topic_name=f"topic-{n}", partition_index=place)
                break
            numbers = range(place, min(place + left, self.n_partitions))
            left -= len(numbers)
            topics.append(topic(
                error_code=0, name=f"topic-{n}", topic_id=self.topic_ids[n], is_internal=False,
                topic_authorized_operations=0,
                partitions=[
                    of(
                        error_code=0, partition_index=p, leader_id=self.replicas(p)[0],
                        leader_epoch=1, replica_nodes=self.replicas(p),
                        isr_nodes=self.replicas(p), eligible_leader_replicas=[], last_known_elr=[],
                        offline_replicas=[],
                    )
                    for p in numbers
                ],
            ))
            place = 0
            if numbers.stop < self.n_partitions:
                cursor = DescribeTopicPartitionsResponse.Cursor(
                    topic_name=f"topic-{n}", partition_index=numbers.stop)
                break
        return DescribeTopicPartitionsResponse(
            throttle_time_ms=0, topics=topics, next_cursor=cursor)


def _read(connection: socket.socket, size: int) -> bytes | None:
    """So many bytes; None where the client has left."""
    data = b""
    try:
        while len(data) < size:
            part = connection.recv(size - len(data))
            if not part:
                return None
            data += part
    except OSError:
        return None
    return data
