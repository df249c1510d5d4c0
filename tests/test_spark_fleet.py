"""One question for many clusters: rows as one machine counts them, errors as rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kfast
from tests.spark_session import need_java

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


def by_source(table: pa.Table) -> dict[str, list[dict]]:
    good = table.filter(pc.is_null(table["error"]))
    found: dict[str, list[dict]] = {}
    for row in good.sort_by([("source", "ascending"), ("scenario", "ascending")]).to_pylist():
        found.setdefault(row["source"], []).append({**row, "brokers": sorted(row["brokers"])})
    return found


@pytest.mark.parametrize("tasks", [1, 7, None])
def test_rows_and_errors(spark, folder, tasks):
    import kfast.spark

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


def test_a_frame_of_paths_and_a_shared_export(spark, folder, monkeypatch):
    import kfast.spark
    from kfast.spark import fleets

    monkeypatch.setattr(fleets, "SHARED_BYTES", 4000)
    paths = [str(folder / "a/x.txt"), "file:" + str(folder / "b/x.parquet"),
             str(folder / "c/x.parquet"), str(folder / "nowhere.txt")]
    frame = spark.createDataFrame([(path,) for path in paths], "path string")
    question = ("random_brokers", {"k": 2, "n": 300, "seed": 5})
    table = kfast.spark.fleet(spark, frame, question).toArrow()
    wanted = alone(folder, lambda state: kfast.random_brokers(state, k=2, n=300, seed=5))
    assert by_source(table) == wanted
    assert len(fleets._share_out([str(folder / "b/x.parquet")], None)) > 3
    bad = table.filter(pc.is_valid(table["error"]))
    assert bad["source"].to_pylist() == [str(folder / "nowhere.txt")]


def test_what_cannot_be_asked_is_refused(folder, tmp_path):
    need_java()
    import kfast.spark

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
