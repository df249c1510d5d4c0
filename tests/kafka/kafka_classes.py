"""Kafka's own controller classes, in a Java process that answers events.

`tests/kafka/src` (KRaft) or `tests/kafka/zookeeper` is compiled against a release of Kafka from
Maven Central, once for each release; what is built lies in `build/lockstep`. Needs Java 17 or later
and Maven.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.kraft_cases import Json

FOLDER = Path(__file__).resolve().parent
BUILD = FOLDER.parents[1] / "build" / "lockstep"
OLDEST_JAVA = 17


@dataclass(frozen=True)
class Project:
    """Java code around one of Kafka's controllers."""

    name: str
    folder: Path
    main_class: str

    def options(self, version: str) -> list[str]:
        """What Maven is told beside the release: ZooKeeper mode is built with a Scala."""
        if self.name == "kraft":
            return []
        numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
        return ["-Dkafka.artifact=" + ("kafka_2.13" if numbers >= (2, 6) else "kafka_2.12")]


KRAFT = Project("kraft", FOLDER, "org.apache.kafka.controller.Lockstep")
ZOOKEEPER = Project("zookeeper", FOLDER / "zookeeper", "kafka.controller.ZkLockstep")


class MissingToolError(Exception):
    """Java or Maven is not there, or cannot do what is needed."""


def check_tools() -> None:
    """Raise MissingToolError where Java or Maven is missing."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise MissingToolError(f"{tool} is not on the PATH: needed are Java and Maven")
    shown = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', shown.stderr + shown.stdout)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise MissingToolError(f"Java {OLDEST_JAVA} is needed: {shown.stderr.splitlines()[0]}")


def build(version: str, project: Project = KRAFT) -> Path:
    """Compile against a release of Kafka, unless that was done; the folder of the classes."""
    check_tools()
    folder = BUILD / (version if project is KRAFT else f"{version}-{project.name}")
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:  # Tests that run side by side download the same jars.
        fcntl.flock(lock, fcntl.LOCK_EX)
        _compile(version, project, folder)
    return folder


def _compile(version: str, project: Project, folder: Path) -> None:
    sources = [project.folder / "pom.xml", *(project.folder / "src").rglob("*.*")]
    jar = folder / "lockstep-1.jar"
    if jar.exists() and jar.stat().st_mtime > max(path.stat().st_mtime for path in sources):
        return
    command = [
        "mvn", "-q", "-B", "-f", str(project.folder / "pom.xml"), f"-Dkafka.version={version}",
        *project.options(version), f"-DbuildDirectory={folder}", "package",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not jar.exists():
        jar.unlink(missing_ok=True)
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
        raise MissingToolError(f"Maven cannot build for Kafka {version}\n" + "\n".join(errors[:20]))


class KafkaProcess:
    """The classes of one release, in a process; a cluster at a time."""

    def __init__(self, version: str, project: Project = KRAFT) -> None:
        folder = build(version, project)
        self.log = (folder / "java.log").open("w", encoding="utf-8")
        self.process = subprocess.Popen(
            [
                "java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
                f"{folder}/lockstep-1.jar:{folder}/lib/*", project.main_class,
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.communicate()
        self.log.close()

    def ask(self, event: Json) -> Json:
        """The answer to an event."""
        self.send([event])
        return self.answer()

    def send(self, events: Iterable[Json]) -> None:
        """Send events whose answers are taken later; all in flight fit into a pipe."""
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{json.dumps(event)}\n" for event in events))
        self.process.stdin.flush()

    def answer(self) -> Json:
        """The answer to the first event that has none yet."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise RuntimeError(f"Java stopped: see {self.log.name}")
        answer: Json = json.loads(line)
        return answer

    def start(self, given: Json) -> str:
        """Make a new cluster; the version of Kafka that runs."""
        return str(self.ask({"op": "start", "given": given})["kafka"])
