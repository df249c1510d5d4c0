"""One large cluster in Kafka's own controller classes and in kfast: time and memory, side by side.

    python -m benchmarks.beside [--partitions 1000000] [--kafka 4.1.2]

Each side is a process of its own and runs the same events: it loads the cluster, single brokers
fail one after another, then a rack, which returns; its replicas join their ISRs, and the periodic
task elects preferred leaders. After each event leaders, ISRs and epochs must be those of the other
side, and so must the number of records that KRaft writes, and of partitions in the requests that
ZooKeeper mode sends. kfast runs twice: with tables of all of these, as Kafka makes them too, and
with their counts. docs/lockstep.md says what this flatters. The exit code is 2 where Java or Maven
is missing, 1 where the sides differ.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import kfast
from benchmarks import cases
from benchmarks.conftest import REPLICAS_PER_BROKER
from tests.kafka.kafka_classes import KRAFT, ZOOKEEPER, MissingToolError, build
from tests.kafka.lockstep import profile_of

FACTOR, RACKS, SEED = 3, 3, 42
SINGLES = 7
"""Brokers of one rack that fail one after another; then all of another rack do."""
WARM_PARTITIONS, WARM_RUNS = 20_000, 5
"""A smaller cluster, on which the JVM runs all events first, so that it has compiled them."""
EVENTS = (
    "load", "fail one", "fail a third", "return of a third", "catch up of a third",
    "rebalance leaders",
)
JOURNALS = ("full", "counts")
SIDES = {"kafka": "Kafka", "full": "kfast, all tables", "counts": "kfast, counts"}

Row = dict[str, Any]


def n_brokers_of(n_partitions: int) -> int:
    """10 000 replicas for each broker."""
    return max(cases.FEWEST_BROKERS, n_partitions * FACTOR // REPLICAS_PER_BROKER)


def write_cluster(path: Path, n_partitions: int, n_brokers: int, profile: str) -> None:
    """What both sides read, as big-endian numbers: who fails, sizes of topics, replicas."""
    state = kfast.generate(
        brokers=n_brokers, partitions=n_partitions, replication_factor=FACTOR, racks=RACKS,
        seed=SEED, controller=profile,
    )
    sizes = np.bincount(state.topic_row)
    singles, rack = np.arange(1, n_brokers, RACKS)[:SINGLES], np.arange(0, n_brokers, RACKS)
    parts = [
        [singles.size], singles, [rack.size], rack, [FACTOR], [sizes.size], sizes,
        state.replicas.ravel(),
    ]
    path.write_bytes(b"".join(np.asarray(part, ">i4").tobytes() for part in parts))


def read_cluster(path: Path) -> tuple[list[int], list[int], np.ndarray, np.ndarray]:
    """Single brokers, the rack, sizes of topics, replicas."""
    numbers = np.fromfile(path, ">i4").astype(np.int32)
    found, at = [], 0
    for _ in range(2):
        found.append(numbers[at + 1 : at + 1 + numbers[at]])
        at += 1 + numbers[at]
    n_topics = numbers[at + 1]
    sizes, replicas = np.split(numbers[at + 2 :], [n_topics])
    return found[0].tolist(), found[1].tolist(), sizes, replicas.reshape(-1, FACTOR)


def java_input(n_brokers: int, profile: str) -> Row:
    """What Kafka's cluster has before topics: features and brokers."""
    state = kfast.generate(
        brokers=n_brokers, partitions=1, replication_factor=1, racks=RACKS, controller=profile
    )
    assert state.quorum is not None
    features: list[Row] = [
        {"type": "FEATURE_LEVEL_RECORD", "name": name, "featureLevel": level}
        for name, level in sorted(state.quorum.features.items(), reverse=True)
    ]
    brokers: list[Row] = [
        {"type": "REGISTER_BROKER_RECORD", "brokerId": broker, "incarnation": f"i{broker}",
         "brokerEpoch": len(features) + broker, "rack": rack, "fenced": False,
         "inControlledShutdown": False, "logDirs": [f"{broker}/0"]}
        for broker, rack in zip(state.broker_id.tolist(), state.rack.to_pylist(), strict=True)
    ]
    return {"controller_id": 3000, "session_timeout_ms": 9000, "max_elections": 1000,
            "static_config": {}, "records": features + brokers}


# ------------------------------------------------------------------------------------------- kfast


def tables_of(sizes: np.ndarray, replicas: np.ndarray, profile: str) -> tuple[pa.Table, ...]:
    """Brokers, topics, partitions and cluster as Arrow tables: what kfast loads."""
    n_brokers, n_topics = int(replicas.max()) + 1, sizes.size
    names = pa.array([f"topic-{number}" for number in range(n_topics)])
    topic = pa.DictionaryArray.from_arrays(np.repeat(np.arange(n_topics, dtype=np.int32), sizes),
                                           names)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    offsets = pa.array(np.arange(0, replicas.size + 1, FACTOR, dtype=np.int32))
    lists = pa.ListArray.from_arrays(offsets, pa.array(replicas.ravel()))
    brokers = pa.table({
        "broker_id": np.arange(n_brokers, dtype=np.int32),
        "rack": ["abc"[broker % RACKS] for broker in range(n_brokers)],
    })
    partitions = pa.table({
        "topic": topic, "replicas": lists, "isr": lists,
        "partition": (np.arange(len(replicas)) - starts).astype(np.int32),
        "leader": np.ascontiguousarray(replicas[:, 0]),
    })
    return brokers, pa.table({"topic": names}), partitions, pa.table({"controller": [profile]})


def resident() -> int:
    """Resident bytes of this process."""
    pa.default_memory_pool().release_unused()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise KeyError("VmRSS")


def state_sums(state: kfast.ClusterState) -> list[int]:
    """Partitions without a leader, and sums of leaders, epochs and ISRs: what sides agree on."""
    records = state.records
    leader = records["leader"].astype(np.int64)
    return [
        int((leader < 0).sum()), int(leader.sum()), int(records["leader_epoch"].sum()),
        int(records["version"].sum()),
        int(np.unpackbits(np.ascontiguousarray(records["isr"]).view(np.uint8)).sum()),
    ]


class Kraft:
    """Events of `kfast.QuorumController`: records that each wrote."""

    def __init__(self, state: kfast.ClusterState, journal: str) -> None:
        self.state = state
        self.controller = kfast.QuorumController(state, journal=journal)
        self.controller.activate()

    def load(self) -> int:
        """What the loaded cluster stands for: a record of each topic and partition."""
        return self.state.topic_exists.size + self.state.n_partitions

    def fail(self, brokers: list[int]) -> int:
        """Fence them, one after another."""
        return self._n_records(self.controller.fence_broker(broker) for broker in brokers)

    def restore(self, brokers: list[int]) -> int:
        """Unfence them, one after another."""
        return self._n_records(self.controller.unfence_broker(broker) for broker in brokers)

    def catch_up(self, brokers: list[int]) -> int:
        """Their replicas join their ISRs."""
        return self._n_records(self.controller.catch_up(brokers))

    def rebalance(self) -> int:
        """The periodic task, until it has nothing to do."""
        return self._n_records(self._rounds())

    def _rounds(self) -> Iterator[kfast.QuorumOutcome]:
        again = True
        while again:
            outcome = self.controller.maybe_balance_partition_leaders()
            again = bool(outcome.response)
            yield outcome

    def _n_records(self, outcomes: Iterable[kfast.QuorumOutcome]) -> int:
        return sum(
            outcome.records.num_rows if outcome.level == "full"
            else sum(outcome.counts.records.values()) for outcome in outcomes
        )


class ZooKeeper:
    """Events of `kfast.Controller`: partitions in the requests that each sent."""

    def __init__(self, state: kfast.ClusterState, journal: str) -> None:
        self.state = state
        self.controller = kfast.Controller(state, journal=journal)

    def load(self) -> int:
        """The controller takes office."""
        return self._n_partitions(self.controller.on_controller_failover())

    def fail(self, brokers: list[int]) -> int:
        """They fail at once."""
        return self._n_partitions(self.controller.on_broker_failure(brokers))

    def restore(self, brokers: list[int]) -> int:
        """They register at once."""
        return self._n_partitions(self.controller.on_broker_startup(brokers))

    def catch_up(self, brokers: list[int]) -> int:
        """Their replicas join their ISRs."""
        return self._n_partitions(self.controller.catch_up(brokers))

    def rebalance(self) -> int:
        """The periodic task, once."""
        return self._n_partitions(self.controller.rebalance_leaders())

    def _n_partitions(self, outcome: kfast.Outcome) -> int:
        outcome.tables  # noqa: B018 - makes all of them at level full
        return sum(outcome.counts.request_partitions.values())


def run_kfast(path: Path, profile: str, journal: str) -> list[Row]:
    """The events in kfast; ids of brokers are rows in these clusters."""
    singles, rack, sizes, replicas = read_cluster(path)
    tables = list(tables_of(sizes, replicas, profile))
    rows: list[Row] = []
    side: Kraft | ZooKeeper

    def load() -> int:
        nonlocal side
        state = kfast.ClusterState.from_tables(*tables)
        side = (ZooKeeper if profile.startswith("zk") else Kraft)(state, journal)
        return side.load()

    def measure(event: str, act: Callable[[], int]) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        n = act()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        tables.clear()
        rows.append({"event": event, "seconds": wall, "cpu_seconds": cpu, "records": n,
                     "state": state_sums(side.state), "resident": resident()})

    measure("load", load)
    for broker in singles:
        measure("fail one", partial(side.fail, [broker]))
    measure("fail a third", lambda: side.fail(rack))
    measure("return of a third", lambda: side.restore(rack))
    measure("catch up of a third", lambda: side.catch_up(rack))
    measure("rebalance leaders", side.rebalance)
    return rows


# ------------------------------------------------------------------------------------ the two sides


def lines_of(command: list[str]) -> list[Row]:
    """What a process of its own printed."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def run_sides(n_partitions: int, version: str, heap: str) -> dict[str, list[Row]]:
    """Rows of every side, one side after another."""
    profile = profile_of(version)
    project = ZOOKEEPER if profile.startswith("zk") else KRAFT
    folder, n_brokers = build(version, project), n_brokers_of(n_partitions)
    with tempfile.TemporaryDirectory() as name:
        large, start, small = (Path(name) / file for file in ("large", "start.json", "small"))
        write_cluster(large, n_partitions, n_brokers, profile)
        write_cluster(small, WARM_PARTITIONS, n_brokers, profile)
        if project is KRAFT:
            start.write_text(json.dumps(java_input(n_brokers, profile)))
        beside = project.main_class.replace("Lockstep", "Beside")
        sides = {"kafka": lines_of([
            "java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-cp",
            f"{folder}/lockstep-1.jar:{folder}/lib/*", beside, str(large),
            str(start) if project is KRAFT else str(n_brokers), str(small), str(WARM_RUNS),
        ])}
        for journal in JOURNALS:
            sides[journal] = lines_of([
                sys.executable, "-m", "benchmarks.beside", "--only", str(large),
                "--profile", profile, "--journal", journal,
            ])
    return sides


def differences(sides: dict[str, list[Row]]) -> list[str]:
    """Where a side's records or state after an event are not Kafka's."""
    return [
        f"{SIDES[side]}, {ours['event']}: {key} {theirs[key]}, Kafka has {ours[key]}"
        for side, rows in sides.items()
        for ours, theirs in zip(sides["kafka"], rows, strict=True)
        for key in ("event", "records", "state") if ours[key] != theirs[key]
    ]


def summary(sides: dict[str, list[Row]]) -> list[Row]:
    """Each event: medians of each side, Kafka's over kfast's; memory after the last one."""
    out = []
    for event in EVENTS:
        row: Row = {"event": event}
        for side, rows in sides.items():
            some = [r for r in rows if r["event"] == event]
            for key in ("seconds", "cpu_seconds"):
                row[f"{side} {key}"] = statistics.median(r[key] for r in some)
        out.append(row)
    return out


def milliseconds(seconds: float) -> str:
    """Three digits, and no exponent."""
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:.0f}"


def markdown(sides: dict[str, list[Row]], where: str) -> str:
    """The table of a run."""
    lines = [
        where, "", f"| | {' | '.join(SIDES.values())} | Kafka / kfast |", "|---|---|---|---|---|",
    ]
    for row in summary(sides):
        cells = [
            f"{milliseconds(row[f'{side} seconds'])} ({milliseconds(row[f'{side} cpu_seconds'])})"
            for side in SIDES
        ]
        ratios = [row["kafka cpu_seconds"] / row[f"{side} cpu_seconds"] for side in JOURNALS]
        lines.append(
            f"| {row['event']}, ms | {' | '.join(cells)} | {ratios[0]:.3g}, {ratios[1]:.3g} |"
        )
    memory = {side: rows[-1]["resident"] / (1 << 20) for side, rows in sides.items()}
    ratios = [memory["kafka"] / memory[side] for side in JOURNALS]
    shown = " | ".join(f"{memory[side]:.0f}" for side in SIDES)
    lines.append(f"| resident memory, MiB | {shown} | {ratios[0]:.3g}, {ratios[1]:.3g} |")
    heap = sides["kafka"][-1]["heap"] / (1 << 20)
    return "\n".join(lines) + (
        f"\n\nLive heap of the JVM: {heap:.0f} MiB. In brackets: processor time, of which the last "
        "column has the ratios.\n"
    )


def draw(path: Path, sides: dict[str, list[Row]], where: str) -> None:
    """Processor time of each event in each side, on a logarithmic axis."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kfast"
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(10, 4.5))
    rows = summary(sides)
    for number, (side, label) in enumerate(SIDES.items()):
        places = np.arange(len(rows)) + (number - 1) * 0.27
        seconds = [row[f"{side} cpu_seconds"] for row in rows]
        bars = axis.bar(places, [1000 * value for value in seconds], 0.25, label=label)
        axis.bar_label(bars, [milliseconds(value) for value in seconds], fontsize=8)
    axis.set_yscale("log")
    axis.set_ylabel("ms of processor time")
    axis.set_xticks(np.arange(len(rows)), [r["event"].replace(" of ", "\nof ") for r in rows])
    axis.margins(y=0.15)
    axis.legend()
    figure.suptitle(where, fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> int:
    """Run all sides; write figures, a table and a plot into a folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside")
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--kafka", default="4.1.2", metavar="VERSION")
    parser.add_argument("--heap", default="6g", help="most memory of the JVM's heap")
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--only", type=Path, help="only kfast, on the cluster of a file")
    parser.add_argument("--profile", default="kraft-4.1")
    parser.add_argument("--journal", default="full", choices=["full", "counts"])
    options = parser.parse_args(arguments)
    if options.only:
        for row in run_kfast(options.only, options.profile, options.journal):
            print(json.dumps(row))
        return 0
    try:
        sides = run_sides(options.partitions, options.kafka, options.heap)
    except MissingToolError as error:
        print(f"beside cannot run: {error}", file=sys.stderr)
        return 2
    n_brokers = n_brokers_of(options.partitions)
    where = (
        f"{options.partitions} partitions, {n_brokers} brokers, RF {FACTOR}; "
        f"Kafka {options.kafka}; {cases.processor_name()}"
    )
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "beside.json").write_text(json.dumps({"where": where, **sides}, indent=1))
    text = markdown(sides, where)
    (options.folder / "beside.md").write_text(text)
    draw(options.folder / "beside.svg", sides, where)
    print(text)
    wrong = differences(sides)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
