"""One question for many clusters: rows as one machine counts them, errors as rows."""

from __future__ import annotations

import inspect
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kfast
import kfast.spark
from kfast.spark.fleets import ExportReader

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three clusters of very different size, one with a brokers file, and three bad exports."""
    where = tmp_path_factory.mktemp("fleet")
    for name, brokers, partitions in (("a", 6, 50), ("b", 30, 9000), ("c", 4, 1)):
        (where / name).mkdir()
        state = kfast.generate(
            brokers=brokers, partitions=partitions, replication_factor=2, racks=2, seed=3
        )
        kfast.write(state, where / name / ("x.txt" if name == "a" else "x.parquet"))
    racks = "".join(f"{broker},{'rs'[broker % 2]}\n" for broker in range(6))
    (where / "a" / "brokers.csv").write_text("broker_id,rack\n" + racks)
    (where / "d").mkdir()
    (where / "d" / "empty.txt").write_text("")
    (where / "d" / "cut.parquet").write_bytes((where / "b" / "x.parquet").read_bytes()[:500])
    kfast.write(kfast.generate(brokers=3, partitions=4), where / "d" / "rackless.arrow")
    return where


def alone(folder, make) -> dict[str, list[dict]]:
    """Rows per readable export, in order."""
    rows = {}
    for path in (folder / "a/x.txt", folder / "b/x.parquet", folder / "c/x.parquet"):
        beside = path.parent / "brokers.csv"
        state = kfast.read(path, brokers_file=beside if beside.exists() else None)
        scenarios = make(state)
        table = kfast.sweep(state, scenarios).to_pylist()
        rows[str(path)] = [
            {"source": str(path), "error": None, "partitions": state.n_partitions,
             "brokers": scenarios.brokers(row["scenario"]), **row}
            for row in table
        ]
    return rows


def work_of(spec):
    """What a task knows of a question."""
    from kfast.spark import fleets

    return fleets._Work(ExportReader({}, "brokers.csv"), spec, ("offline",), None)


def by_source(table: pa.Table) -> dict[str, list[dict]]:
    good = table.filter(pc.is_null(table["error"]))
    found: dict[str, list[dict]] = {}
    for row in good.sort_by([("source", "ascending"), ("scenario", "ascending")]).to_pylist():
        found.setdefault(row["source"], []).append({**row, "brokers": sorted(row["brokers"])})
    return found


@pytest.mark.parametrize("tasks", [1, 7, None])
def test_rows_and_errors(spark, folder, tasks):
    table = kfast.spark.fleet(spark, folder, "every_rack", tasks=tasks).toArrow()
    assert by_source(table) == alone(folder, kfast.every_rack)
    bad = table.filter(pc.is_valid(table["error"]))
    errors = dict(zip(bad["source"].to_pylist(), bad["error"].to_pylist(), strict=True))
    assert sorted(errors) == [
        str(folder / "d" / name) for name in ("cut.parquet", "empty.txt", "rackless.arrow")
    ]
    assert "is empty" in errors[str(folder / "d/empty.txt")]
    assert "damaged Parquet" in errors[str(folder / "d/cut.parquet")]
    assert "rack" in errors[str(folder / "d/rackless.arrow")]
    assert bad["scenario"].null_count == bad.num_rows == 3


def test_a_frame_of_paths_and_shared_exports(spark, folder, tmp_path, monkeypatch):
    """An export that several tasks were to share, and that cannot be read, is one row too."""
    from kfast.spark import fleets

    monkeypatch.setattr(fleets, "COUNT_SECONDS", 3e-6)
    nonsense = tmp_path / "nonsense.txt"
    nonsense.write_text("nonsense\n" * 9000)
    paths = [str(folder / "a/x.txt"), "file:" + str(folder / "b/x.parquet"),
             str(folder / "c/x.parquet"), str(folder / "nowhere.txt"), str(nonsense)]
    frame = spark.createDataFrame([(path,) for path in paths], "path string")
    question = ("random_brokers", {"k": 2, "n": 300, "seed": 5})
    table = kfast.spark.fleet(spark, frame, question).toArrow()
    wanted = alone(folder, lambda state: kfast.random_brokers(state, k=2, n=300, seed=5))
    assert by_source(table) == wanted
    assert len(fleets._share_units({"b": 9000}, work_of(question), None)) > 3
    bad = table.filter(pc.is_valid(table["error"]))
    assert sorted(bad["source"].to_pylist()) == sorted([str(folder / "nowhere.txt"), str(nonsense)])


def test_a_shared_export_that_changes_is_an_error(tmp_path):
    """Rows of some of its tasks alone, or of two clusters, are no answer."""
    from kfast.spark import fleets

    name = str(tmp_path / "one.arrow")
    kfast.write(kfast.generate(brokers=6, partitions=50, seed=1), name)
    reader = fleets.ExportReader({}, "brokers.csv")
    work = fleets._Work(reader, "every_broker", ("offline",), None)
    shares, digests = [[(name, part, 3)] for part in range(3)], {name: reader.digest(name)}

    def count(task):
        return [row for batch in fleets._count_share(work, shares, digests, task)
                for row in batch.to_pylist()]

    assert [row["scenario"] for task in range(3) for row in count(task)] == list(range(7))
    kfast.write(kfast.generate(brokers=6, partitions=50, seed=2), name)
    for task in range(3):
        with pytest.raises(kfast.InputError, match=r"one\.arrow changed while tasks read it"):
            count(task)
    kfast.write(kfast.generate(brokers=6, partitions=50, seed=1), name)
    (tmp_path / "brokers.csv").write_text("broker_id,rack\n" + "0,a\n1,b\n2,a\n3,b\n4,a\n5,b\n")
    for task in range(3):
        with pytest.raises(kfast.InputError, match=r"one\.arrow changed while tasks read it"):
            count(task)
    Path(name).unlink()
    for task in range(3):
        with pytest.raises(kfast.InputError, match=r"could be read, and then not any more: .*one"):
            count(task)


@pytest.mark.parametrize("tasks", [1, 7])
def test_exports_in_the_rows_of_a_frame(spark, folder, monkeypatch, tasks):
    """As text or bytes, with brokers beside them or not; one is shared by several tasks."""
    from kfast.spark import fleet, fleets

    monkeypatch.setattr(fleets, "COUNT_SECONDS", 3e-6)
    paths = [folder / name for name in ("a/x.txt", "b/x.parquet", "c/x.parquet", "d/empty.txt")]
    brokers = [(p.parent / "brokers.csv") for p in paths]
    rows = [
        (str(path), bytearray(path.read_bytes()), beside.read_text() if beside.exists() else None)
        for path, beside in zip(paths, brokers, strict=True)
    ]
    types = "cluster string, content binary, brokers string"
    frame = spark.createDataFrame([*rows, ("nothing", None, None)], types)
    question = ("random_brokers", {"k": 2, "n": 300, "seed": 5})
    table = fleet(spark, frame, question, tasks=tasks).toArrow()
    wanted = alone(folder, lambda state: kfast.random_brokers(state, k=2, n=300, seed=5))
    assert by_source(table) == wanted
    bad = table.filter(pc.is_valid(table["error"])).select(["source", "error"]).to_pylist()
    errors = sorted(row["error"] for row in bad)
    assert errors == [f"{paths[3]}: is empty; kfast has nothing to read in it",
                      "nothing: content is null"]
    text = spark.createDataFrame([("a", paths[0].read_text())], "cluster string, content string")
    alike = fleet(spark, text, "every_broker", tasks=tasks).toArrow().sort_by("scenario")
    state = kfast.read(paths[0])
    wanted = kfast.sweep(state, kfast.every_broker(state))
    assert alike.select(wanted.column_names).cast(wanted.schema).equals(wanted)


def test_files_that_spark_read_are_exports(spark, folder):
    """A path is the cluster's name, and brokers.csv goes with the exports beside it."""
    from kfast.spark import fleet

    frame = spark.read.format("binaryFile").load([str(folder / "a"), str(folder / "b")])
    table = fleet(spark, frame, "every_rack", tasks=2).toArrow()
    wanted = alone(folder, kfast.every_rack)
    assert by_source(table) == {
        name: wanted[name] for name in (str(folder / "a/x.txt"), str(folder / "b/x.parquet"))
    }
    assert table["error"].null_count == table.num_rows


def test_frames_that_are_no_exports_are_refused(spark):
    from kfast.spark import fleet

    for rows, types, message in (
        ([("a",)], "name string", "right is a column path, or the columns cluster and content"),
        ([(1, "x")], "id int, content string", "cluster is missing"),
        ([("a", 1)], "cluster string, content int", "column content is int; right is binary"),
        ([("a", ""), ("a", "")], "cluster string, content string", "cluster a stands 2 times"),
        ([(None, "")], "cluster string, content string", "has no cluster"),
        ([], "cluster string, content string", "has no rows"),
    ):
        with pytest.raises(kfast.KfastError, match=message):
            fleet(spark, spark.createDataFrame(rows, types), "every_rack")


@pytest.mark.parametrize("kind", ["folder", "content"])
def test_a_worker_that_dies_is_started_again(spark, folder, tmp_path, kind):
    from kfast.spark import fleet
    from tests.support.deadly import DeadlyQuestion

    exports = str(folder)
    if kind == "content":
        rows = [(str(path), path.read_bytes()) for path in sorted(folder.rglob("x.*"))]
        exports = spark.createDataFrame(rows, "cluster string, content binary")
    question = DeadlyQuestion(str(tmp_path / "marker"))
    seen = fleet(spark, exports, question, tasks=2).toArrow()
    assert (tmp_path / "marker").exists()
    calm = fleet(spark, exports, question, tasks=3).toArrow()
    assert by_source(seen) == by_source(calm) != {}


def test_work_is_dealt_evenly():
    """One cluster of a million partitions and 500 tiny ones."""
    from kfast.spark.fleets import _share_units

    random = work_of(("random_brokers", {"k": 2, "n": 10**6, "seed": 1}))
    sizes = {"huge": 1_000_000} | {f"tiny{n}": 60 for n in range(500)}
    shares = _share_units(sizes, work_of("every_rack"), None)
    assert shares[0] == [("huge", 0, 1)]
    tiny = [len(share) for share in shares[1:]]
    assert sum(tiny) == 500
    assert max(tiny) - min(tiny) <= 1
    assert len(shares) == 4
    shared = _share_units(sizes, random, None)
    assert [len(share) for share in shared[:15]] == [1] * 15
    assert sorted(unit for share in shared for unit in share if unit[0] == "huge") == [
        ("huge", part, 15) for part in range(15)
    ]


def test_what_cannot_be_asked_is_refused(folder, tmp_path):
    (tmp_path / "brokers.csv").write_text("broker_id,rack\n")
    for error, message, arguments in (
        (kfast.ArgumentError, "'all_racks' are unknown", (folder, "all_racks")),
        (kfast.InputError, "no exports besides", (tmp_path, "every_rack")),
        (kfast.InputError, "no file is there", (tmp_path / "x", "every_rack")),
    ):
        with pytest.raises(error, match=message):
            kfast.spark.fleet(None, *arguments)
    with pytest.raises(kfast.ArgumentError, match="counts is"):
        kfast.spark.fleet(None, folder, "every_rack", counts=["leaders"])
    with pytest.raises(kfast.ArgumentError, match="tasks is 0"):
        kfast.spark.fleet(None, folder, "every_rack", tasks=0)


def test_what_is_wrong_for_every_export_is_refused_at_once(folder):
    made = kfast.every_broker(kfast.generate(brokers=4, partitions=5))
    for message, scenarios, more in (
        ("scenarios is a kfast Combinations, made of one cluster, .*: right is the name", made, {}),
        ("scenarios is 3: right is the name of a maker", 3, {}),
        (r"scenarios is \('every_rack',\): right is", ("every_rack",), {}),
        ("k of every_broker is '2': a whole number", ("every_broker", {"k": "2"}), {}),
        ("p of independent_racks is 2: .* from 0 to 1",
         ("independent_racks", {"p": 2, "n": 9, "seed": 1}), {}),
        ("seed of bursts is -1", ("bursts", {"share": 0.5, "n": 9, "seed": -1}), {}),
        ("default 'replicas' is not one", "every_rack", {"defaults": {"replicas": 3}}),
        ("default min.insync.replicas: ", "every_rack", {"defaults": {"min.insync.replicas": "x"}}),
        ("defaults is 'x': names of settings", "every_rack", {"defaults": "x"}),
        ("counts is", "every_rack", {"counts": [["offline"]]}),
        ("vectors", "every_rack", {"vectors": "fast"}),
    ):
        with pytest.raises(kfast.ArgumentError, match=message):
            kfast.spark.fleet(None, folder, scenarios, **more)
    with pytest.raises(kfast.ArgumentError, match="exports is None: a folder, a glob, or a Data"):
        kfast.spark.fleet(None, None, "every_rack")


def test_arguments_of_all_makers_are_checked():
    """Whatever a maker takes beside the cluster has its check."""
    from kfast.spark import sweeps

    for name in sweeps.MAKERS:
        taken = list(inspect.signature(getattr(kfast, name)).parameters)[1:]
        assert set(taken) <= set(sweeps._VALUES), name


def test_a_fleet_may_be_told_its_controller(tmp_path):
    """As `kfast.with_controller`; else each export tells its own."""
    path = tmp_path / "east.txt"
    path.write_text(
        "Topic: t\tTopicId: q6t8O81ZR3Odgwr8kOJx6Q\tPartitionCount: 1\tReplicationFactor: 2\t"
        "Configs: \n\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n")
    inferred = ExportReader({}, "brokers.csv").checked().read(str(path))
    told = ExportReader({}, "brokers.csv", "kraft-4.1", True).checked().read(str(path))
    assert (inferred.controller, inferred.quorum.elr_on) == ("kraft-4.3", False)
    assert (told.controller, told.quorum.elr_on) == ("kraft-4.1", True)
    with pytest.raises(kfast.ArgumentError, match="controller 'kraft-9' is unknown"):
        ExportReader({}, "brokers.csv", "kraft-9").checked()
