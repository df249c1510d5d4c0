"""Real Kafka brokers on this host, from the jars of Maven Central.

Versions from 4.0 on run KRaft: up to three nodes are controllers and brokers at once, so that one
of three may be killed. Older ones run with a ZooKeeper of the same jars.

    python -m tests.support.kafka_brokers --version 4.1.2 --brokers 3 --topics 10

runs until Ctrl-C, and prints the address and the process of each broker.
"""

from __future__ import annotations

import argparse
import base64
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

JARS = Path.home() / ".cache" / "kfast-tests"
"""Where the class path of each version is kept; the jars are in Maven's own repository."""
JAVA = (
    "java", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.jmx.log4j.disable=true",
)
N_VOTERS = 3
LONGEST_START_S = 120
UNUSED_BY_CONNECTIONS = 15_000, 32_000
"""Ports below those that Linux gives to connections."""

_OLD_LOG = ("org.slf4j:slf4j-log4j12", "log4j:log4j", "com.sun.jdmk:jmxtools", "com.sun.jmx:jmxri")
"""What old versions bring for their logs, and what cannot be downloaded any more."""

LOG4J = """
log4j.rootLogger=WARN, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
APPENDER = """
log4j.logger.{logger}={level}, {name}
log4j.additivity.{logger}=false
log4j.appender.{name}=org.apache.log4j.FileAppender
log4j.appender.{name}.File={file}
log4j.appender.{name}.layout=org.apache.log4j.PatternLayout
log4j.appender.{name}.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
"""How Kafka's own configuration writes a controller's logs, without rotation."""


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def _dependencies(version: str) -> dict[str, str]:
    """Kafka, what writes its log, and what old versions lack on Java 17."""
    release = _release(version)
    scala = "2.13" if release >= (2, 4) else "2.12" if release >= (1, 0) else "2.11"
    dependencies = {f"org.apache.kafka:kafka_{scala}": version}
    if release >= (4, 0):
        return {**dependencies, "org.slf4j:slf4j-simple": "1.7.36"}
    dependencies |= {"org.slf4j:slf4j-reload4j": "1.7.36", "ch.qos.reload4j:reload4j": "1.2.25"}
    if release < (2, 4):  # Later ones up to 3.5.6 cannot write addresses (ZOOKEEPER-3779).
        dependencies["org.apache.zookeeper:zookeeper"] = "3.4.10"
    if release < (1, 0):
        dependencies["javax.xml.bind:jaxb-api"] = "2.3.1"
    return dependencies


def _project(version: str) -> str:
    """A project of Maven that depends on Kafka, and on what it needs beside it."""
    excluded = "".join(
        f"<exclusion><groupId>{name.split(':')[0]}</groupId>"
        f"<artifactId>{name.split(':')[1]}</artifactId></exclusion>" for name in _OLD_LOG
    )
    dependencies = "".join(
        f"<dependency><groupId>{name.split(':')[0]}</groupId>"
        f"<artifactId>{name.split(':')[1]}</artifactId><version>{escape(number)}</version>"
        f"<exclusions>{excluded}</exclusions></dependency>"
        for name, number in _dependencies(version).items()
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>kfast</groupId><artifactId>brokers</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def why_not(version: str) -> str | None:
    """Why brokers of a version cannot be started here; None where they can."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    try:
        class_path(version)
    except subprocess.CalledProcessError as error:
        return f"Maven cannot get Kafka {version}: {error.stdout[-300:]}"
    return None


def class_path(version: str) -> str:
    """The class path of a version of Kafka, which Maven downloads where it has to."""
    folder, project = JARS / version, _project(version)
    listing, file = folder / "class-path", folder / "pom.xml"
    if not listing.exists() or file.read_text() != project or not all(
        map(os.path.exists, listing.read_text().strip().split(":"))
    ):
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(project)
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={listing}"],
            cwd=folder, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
    return listing.read_text().strip()


class KafkaBrokers:
    """A cluster on this host, as a context manager.

    Parameters
    ----------
    version : str
    n_brokers : int
        Their ids are 1, 2, 3 ...; each has a rack of its own.
    properties : mapping, optional
        Properties of every broker, beside those that it needs.
    n_directories : int, optional
        Log directories of each broker.
    logs : pair of Path and str, optional
        Where controllers' logs are written, each broker's in a folder of its own, and their level;
        up to 3.9.
    """

    def __init__(
        self, version: str, n_brokers: int = 1, properties: Mapping[str, str] | None = None, *,
        n_directories: int = 1, logs: tuple[Path, str] | None = None,
    ) -> None:
        self.version = version
        self.ids = range(1, n_brokers + 1)
        self.is_kraft = _release(version) >= (4, 0)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.ports = {node: free_port() for node in self.ids}
        self.zookeeper_port = free_port()
        self._properties = dict(properties or {})
        self._n_directories = n_directories
        self._logs = logs
        self._controller_ports = {node: free_port() for node in self.ids[:N_VOTERS]}
        self._stack = ExitStack()
        # A first character that is no hyphen: the tool would take the id for an option.
        self._cluster_id = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]

    @property
    def bootstrap(self) -> str:
        """Addresses of the brokers, with commas between them."""
        return ",".join(f"localhost:{port}" for port in self.ports.values())

    def __enter__(self) -> KafkaBrokers:
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(
                prefix="kfast-kafka-", ignore_cleanup_errors=True)))
            stack.callback(self._kill_all)
            if not self.is_kraft:
                self._start_zookeeper()
            for node in self.ids:
                self._configure(node)
            for node in self.ids:
                self.start(node)
            for node in self.ids:
                self._wait(node, self.ports[node])
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def directories(self, node: int) -> list[Path]:
        """Log directories of a broker."""
        return [self.folder / f"data-{node}-{at}" for at in range(self._n_directories)]

    def start(self, node: int) -> None:
        """Start a broker, perhaps again; its port opens some seconds later."""
        options = []
        if self._logs is not None:
            options = [f"-Dlog4j.configuration=file:{self._log_settings(node, *self._logs)}"]
        self._run(node, "kafka.Kafka", str(self.folder / f"{node}.properties"), options=options)

    def _log_settings(self, node: int, folder: Path, level: str) -> Path:
        own = folder.absolute() / f"broker-{node}"
        own.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"log4j-{node}.properties"
        file.write_text(LOG4J + "".join(
            APPENDER.format(logger=logger, level=level, name=name, file=own / f"{name}.log")
            for name, logger in (("controller", "kafka.controller"),
                                 ("state-change", "state.change.logger"))
        ))
        return file

    def kill(self, node: int) -> None:
        """Kill a broker, which says goodbye to nobody."""
        process = self.processes.pop(node)
        process.kill()
        process.wait()

    def log(self, node: int) -> str:
        """What a process has printed; 0 is ZooKeeper."""
        return (self.folder / f"{node}.log").read_text(errors="replace")

    def _run(self, node: int, *command: str, options: Sequence[str] = ()) -> None:
        with (self.folder / f"{node}.log").open("ab") as log:
            self.processes[node] = subprocess.Popen(
                [*JAVA, *options, "-cp", class_path(self.version), *command], cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )

    def _wait(self, node: int, port: int) -> None:
        deadline = time.monotonic() + LONGEST_START_S
        while True:
            if self.processes[node].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"node {node} does not start: {self.log(node)[-2000:]}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)

    def _start_zookeeper(self) -> None:
        file = self.folder / "zookeeper.properties"
        file.write_text(
            f"dataDir={self.folder / 'zookeeper'}\nclientPort={self.zookeeper_port}\n"
            "clientPortAddress=127.0.0.1\ntickTime=1000\nadmin.enableServer=false\n"
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._run(0, main, str(file))
        self._wait(0, self.zookeeper_port)

    def _configure(self, node: int) -> None:
        """Write a node's properties, and format its folder."""
        factor = str(min(len(self.ids), 3))
        properties = {
            "log.dirs": ",".join(map(str, self.directories(node))),
            "broker.rack": f"rack-{node}",
            "advertised.listeners": f"PLAINTEXT://localhost:{self.ports[node]}",
            "offsets.topic.replication.factor": factor,
            "transaction.state.log.replication.factor": factor,
            "group.initial.rebalance.delay.ms": "0",
            "num.network.threads": "2", "num.io.threads": "2",
            "log.cleaner.dedupe.buffer.size": "4194304",
        }
        properties |= self._of_kraft(node) if self.is_kraft else {
            "broker.id": str(node),
            "listeners": f"PLAINTEXT://localhost:{self.ports[node]}",
            "zookeeper.connect": f"localhost:{self.zookeeper_port}/kafka",
            "zookeeper.session.timeout.ms": "4000",
        }
        lines = (f"{key}={value}\n" for key, value in {**properties, **self._properties}.items())
        file = self.folder / f"{node}.properties"
        file.write_text("".join(lines))
        if self.is_kraft:
            subprocess.run(
                [*JAVA, "-cp", class_path(self.version), "kafka.tools.StorageTool", "format",
                 "-t", self._cluster_id, "-c", str(file)],
                check=True, stdout=subprocess.DEVNULL,
            )

    def _of_kraft(self, node: int) -> dict[str, str]:
        voters = (f"{at}@localhost:{port}" for at, port in self._controller_ports.items())
        is_voter = node in self._controller_ports
        listeners = [f"PLAINTEXT://localhost:{self.ports[node]}"]
        if is_voter:
            listeners.append(f"CONTROLLER://localhost:{self._controller_ports[node]}")
        return {
            "process.roles": "broker,controller" if is_voter else "broker",
            "node.id": str(node),
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": ",".join(listeners),
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "1000",
        }

    def _kill_all(self) -> None:
        for node in [*self.processes]:
            self.kill(node)


def free_port() -> int:
    """A port of this host that nobody listens at, and that no connection takes meanwhile."""
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port := random.randrange(*UNUSED_BY_CONNECTIONS)))
            except OSError:
                continue
            return port


def create_topics(bootstrap: str, topics: Mapping[str, Mapping[str, object]]) -> None:
    """Make topics as `KafkaAdminClient.create_topics` takes them; wait until each broker has them.

    A client asks any one broker, and `wait_for_topics` is content with the first that answers.
    """
    from kafka import KafkaAdminClient

    with KafkaAdminClient(bootstrap_servers=bootstrap.split(",")) as admin:
        admin.create_topics(dict(topics))
        admin.wait_for_topics([*topics], timeout_ms=60_000)
        deadline = time.monotonic() + 60
        for broker in admin.describe_cluster()["brokers"]:
            while not topics.keys() <= topics_known_to(admin, broker["broker_id"]):
                assert time.monotonic() < deadline, broker
                time.sleep(0.1)


def topics_known_to(admin: KafkaAdminClient, broker: int) -> set[str]:
    """Topics in the metadata of one broker, each with a leader for every partition."""
    from kafka.protocol.metadata import MetadataRequest

    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    # No public method asks a broker of one's choice.
    answer = admin._manager.run(admin._manager.send, request, broker)
    return {
        topic.name for topic in answer.topics
        if all(partition.leader_id >= 0 for partition in topic.partitions)
    }


def main() -> None:
    """Run brokers until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Run Kafka brokers until Ctrl-C.")
    parser.add_argument("--version", default="4.1.2")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--topics", type=int, default=0, help="topics to make, of 6 partitions")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores the first
        signal.signal(number, signal.default_int_handler)
    with KafkaBrokers(arguments.version, arguments.brokers) as brokers:
        if arguments.topics:
            create_topics(brokers.bootstrap, {
                f"topic-{number}": {
                    "num_partitions": 6, "replication_factor": min(3, arguments.brokers),
                    "configs": {"min.insync.replicas": str(min(2, arguments.brokers))},
                }
                for number in range(arguments.topics)
            })
        print(f"kafka://{brokers.bootstrap}")
        if not brokers.is_kraft:
            print(f"zk://localhost:{brokers.zookeeper_port}/kafka")
        for node, process in brokers.processes.items():
            name = f"broker {node}" if node else "ZooKeeper"
            print(f"{name}: process {process.pid}", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("stopping")


if __name__ == "__main__":
    main()
