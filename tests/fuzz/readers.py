"""Every reader of kfast, with the small files that are changed for it."""

from __future__ import annotations

import gzip
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import msgspec

import kfast
from kfast.controllers import open_events
from kfast.kernels.metadata_log import checksum
from kfast.log_replay import replay
from kfast.state.cluster import with_controller
from tests.fuzz.mutation import Change, mutate, sign_batches
from tests.io import test_damaged_exports as exports
from tests.io.test_metadata_damage import SEGMENT, SNAPSHOT
from tests.support.replay_story import write_logs

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
"""Real exports; without them the samples of the tests remain."""
MOST_SEED_BYTES = 1 << 16
MOST_EVENTS_ROWS = 2000
"""A state of more rows is read and counted; events are run on smaller ones."""


@dataclass(frozen=True)
class Reader:
    """What reads an input, the files that are changed, and how."""

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    change: Change = mutate


def make_input(name: str, reader: Reader, seed: int, number: int) -> bytes:
    """Input `number` of a run: the same for the same seed."""
    draw = Random(f"{name} {seed} {number}")
    samples = list(reader.seeds)
    return reader.change(draw, draw.choice(samples), samples)


def exercise(state: kfast.ClusterState) -> None:
    """Let kernels follow what was read: count, write, fail a broker and let it return."""
    state.to_tables().partitions.validate(full=True)
    state.digest()
    if state.n_partitions > MOST_EVENTS_ROWS or not state.up.any():
        return
    events = open_events(state.copy())
    first = [int(state.broker_id[state.up][0])]
    events.start()
    events.brokers_failed(first)
    events.brokers_returned(first)


def read_cluster(name: str, data: bytes) -> None:
    """Read a file that is a cluster by itself."""
    exercise(kfast.read((name, data)))


def read_beside(data: bytes) -> None:
    """Read a file beside one that has partitions."""
    exercise(kfast.read(("x", data), exports.PLACED))


def is_read(data: bytes) -> bool:
    """Whether a file is a cluster by itself."""
    try:
        kfast.read(("x", data))
    except kfast.KfastError:
        return False
    return True


def read_log(data: bytes) -> None:
    """Read a metadata log or a snapshot, whole and record by record."""
    name = SNAPSHOT if data[:12] == data[:8] + b"\0\0\0\x41" else SEGMENT
    exercise(kfast.read((name, data)))


def read_plan(data: bytes) -> None:
    """A plan, by itself."""
    kfast.read_plan(("plan.json", data))


def read_logs(data: bytes) -> None:
    """Text logs of a controller: what stands before the mark is `controller.log`."""
    with scratch() as folder:
        first, _, second = data.partition(MARK)
        (folder / "controller.log").write_bytes(first)
        (folder / "state-change.log").write_bytes(second)
        replay(folder)


def read_saved(data: bytes) -> None:
    """A saved state, its files one after the other as `unpack` has them."""
    with scratch() as folder:
        for name, content in unpack(data).items():
            (folder / name).write_bytes(content)
        state = kfast.open(folder)
        exercise(state)


MARK = b"\n=====\n"


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory, for one input."""
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="kfast-fuzz-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def pack_folder(folder: Path) -> bytes:
    """All files of a folder as one."""
    return msgspec.msgpack.encode({f.name: f.read_bytes() for f in sorted(folder.iterdir())})


def unpack(data: bytes) -> dict[str, bytes]:
    """Files by name; a change that spoils the wrapping gives none."""
    try:
        return {
            name: content
            for name, content in msgspec.msgpack.decode(data, type=dict[str, bytes]).items()
            if name and "/" not in name and "\0" not in name and len(name) < 100
        }
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


class StateFile(msgspec.Struct):
    """What a saved state's `state.json` has around its checksum."""

    format: int
    state: dict[str, object]


def change_saved(draw: Random, data: bytes, samples: list[bytes]) -> bytes:
    """Change one file of a saved state; mostly with checksums that are right afterwards."""
    files = unpack(data)
    try:
        document = msgspec.json.decode(files.get("state.json", b""), type=StateFile)
    except (msgspec.DecodeError, UnicodeDecodeError):  # An earlier change has spoiled it.
        document = None
    if document is None or draw.random() < 0.1:
        return mutate(draw, data, samples)
    name = draw.choice(sorted(files))
    if name != "state.json":
        files[name] = mutate(draw, files[name], list(files.values()))
    document.state["checksums"] = {Path(n).stem: zlib.crc32(c) for n, c in files.items()}
    saved = msgspec.json.encode(document.state)
    if name == "state.json":
        saved = mutate(draw, saved, [saved])
    head = f'{{"format":{document.format},"checksum":{zlib.crc32(saved)},"state":'.encode()
    return msgspec.msgpack.encode(files | {"state.json": head + saved + b"}"})


def change_log(draw: Random, data: bytes, samples: list[bytes]) -> bytes:
    """Change a metadata log, mostly with checksums that are right afterwards."""
    changed = mutate(draw, data, samples)
    return sign_batches(changed, checksum) if draw.random() < 0.8 else changed


def made_states() -> Iterator[kfast.ClusterState]:
    """A small cluster of either kind, after a failure."""
    for controller in ("zk-3.9", "kraft-4.1"):
        state = kfast.generate(brokers=5, partitions=30, topics=4, racks=2, seed=3)
        state = with_controller(state, controller)
        events = open_events(state)
        events.start()
        events.brokers_failed([1, 2])
        yield state


def written(form: str) -> tuple[bytes, ...]:
    """The small clusters as files of a format."""
    with scratch() as folder:
        for number, state in enumerate(made_states()):
            kfast.write(state, folder / f"{number}", format=form)
        return tuple(path.read_bytes() for path in sorted(folder.iterdir()))


def saved() -> tuple[bytes, ...]:
    """The small clusters as saved states."""
    with scratch() as folder:
        for number, state in enumerate(made_states()):
            state.save(folder / f"{number}")
        return tuple(pack_folder(path) for path in sorted(folder.iterdir()))


def logs() -> tuple[bytes, ...]:
    """Logs of a short story, of several releases, and the begin of each."""
    logs_of_releases = []
    with scratch() as folder:
        for version in ("1.1", "2.4", "3.9"):
            write_logs(folder / version, version)
            parts = [sorted((folder / version).rglob(f"{name}.log"))[0].read_bytes() for name in
                     ("controller", "state-change")]
            begins = [b"".join(part.splitlines(keepends=True)[:20]) for part in parts]
            logs_of_releases += [MARK.join(parts), MARK.join(begins)]
    return tuple(logs_of_releases)


def metadata() -> tuple[bytes, ...]:
    """A snapshot and the begin of a log of real clusters."""
    folder = SHARED / "kraft_live" / "metadata" / "__cluster_metadata-0"
    if not SHARED.is_dir():
        return ()
    log, end = (folder / SEGMENT).read_bytes(), 0
    while end < MOST_SEED_BYTES:
        end += 12 + int.from_bytes(log[end + 8 : end + 12], "big")
    return (SHARED / "exports" / "kraft_snapshot_39_62p.checkpoint").read_bytes(), log[:end]


def samples() -> dict[str, bytes]:
    """Files of every form that is a cluster, and real exports where they are."""
    files = dict(exports.SAMPLES)
    if SHARED.is_dir():
        files |= {name: data for name, data in exports.exports(SHARED).items()
                  if name not in exports.OTHERS and name not in exports.BESIDE}
    return {
        name: data for name, data in files.items()
        if len(data) <= MOST_SEED_BYTES and not name.endswith((".gz", ".checkpoint"))
    }


def other(name: str) -> Reader:
    """A reader of what is no cluster, with its sample."""
    read, data = exports.OTHERS[name]
    return Reader(lambda changed: read((name, changed)), (data,))


LOADS = exports.OTHERS["loads"][1], exports.OTHERS["log dirs"][1]
PROMETHEUS = (
    b'# TYPE kafka_log_log_size gauge\nkafka_log_log_size{topic="t",partition="0",broker="1"} 7e9\n'
    b'kafka_server_brokertopicmetrics_bytesin_total{topic="t",broker="1"} 12 1700000000000\n'
)
CSV_LOAD = b"topic,partition,size,bytes_in\nt,0,100,5\nt,1,7,2.5\n"


def every_reader() -> dict[str, Reader]:
    """All readers by name."""
    arrow = partial(read_cluster, "x.arrow")
    alone = [data for data in samples().values() if is_read(data)]
    described = written("describe")[0]
    return {
        "describe": Reader(partial(read_cluster, "x.txt"), tuple(
            data for data in alone if b"\tPartition: " in data) or (described,)),
        "json and text": Reader(partial(read_cluster, "x"), tuple(
            data for data in alone if b"\tPartition: " not in data)),
        "beside": Reader(read_beside, (*exports.BESIDE.values(), *(
            data for data in samples().values() if data not in alone))),
        "plans": Reader(read_plan, (exports.OTHERS["plan"][1], exports.OTHERS["proposals"][1])),
        "brokers": other("brokers"),
        "broker sets": other("broker sets"),
        "loads": Reader(lambda data: kfast.read_load(("x", data)), (*LOADS, PROMETHEUS, CSV_LOAD)),
        "capacity": other("capacity"),
        "logs": Reader(read_logs, logs()),
        "metadata": Reader(read_log, metadata() or (b"\0",), change_log),
        "arrow": Reader(arrow, written("arrow")),
        "parquet": Reader(arrow, written("parquet")),
        "parquet-flat": Reader(arrow, (*written("parquet-flat"), *(
            gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            for path in sorted((exports_folder()).glob("*.parquet*"))
        ))),
        "saved states": Reader(read_saved, saved(), change_saved),
    }


def exports_folder() -> Path:
    """Flat Parquet files of other writers."""
    return Path(__file__).resolve().parents[1] / "support" / "data" / "flat"
