"""What the files of a dataset have in common, however they are named; without a session."""

from __future__ import annotations

import gzip
import shutil
from typing import Any

import pyarrow as pa
import pytest

import kfast
from kfast.io import SourceTables, read_tables, write

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path):
    """Give a dataset whose `_cluster.arrow` says what its files do not: a counter, a default."""
    from kfast.spark.dataset import split

    state = kfast.generate(brokers=5, partitions=60, topics=6, seed=2)
    split(state, tmp_path / "state", shards=3)
    common = read_tables(tmp_path / "state" / "_cluster.arrow")
    said = common.cluster
    for name, value in (("unclean_elections", 7), ("default_min_insync_replicas", 2)):
        at = said.schema.get_field_index(name)
        said = said.set_column(at, said.schema.field(at), pa.array([value], said.schema.types[at]))
    write(
        SourceTables("", common.partitions, common.topics, common.brokers, said),
        tmp_path / "state" / "_cluster.arrow",
    )
    return tmp_path / "state"


def look(where) -> Any:
    """`inspect_files` without a session, which is not asked where a `_cluster.arrow` is found."""
    from kfast.spark.dataset import inspect_files

    nobody: Any = None
    return inspect_files(nobody, where)


def test_a_dataset_is_the_same_by_its_folder_a_glob_or_a_file(folder):
    whole = look(folder)
    row = whole.cluster.to_pylist()[0]
    assert (row["unclean_elections"], row["default_min_insync_replicas"]) == (7, 2)
    (folder / "more").mkdir()
    shutil.move(folder / "shard-000002.parquet", folder / "more")
    for name in ("", "*.parquet", "shard-*", "**", "../st*", "../state/**/*.parquet"):
        found = look(folder / name)
        assert found.cluster == whole.cluster, name
        assert found.brokers == whole.brokers, name
        assert len(found.files) == (2 if name in ("*.parquet", "shard-*") else 3)
    one = look(f"file:{folder}/shard-000001.parquet")
    assert [name.rsplit("/", 1)[1] for name in one.files] == ["shard-000001.parquet"]
    assert one.cluster == whole.cluster


def test_folders_that_contradict_each_other_are_refused(folder):
    other = folder.parent / "other"
    shutil.copytree(folder, other)
    where = folder.parent / "*" / "*.parquet"
    assert look(where).cluster == look(folder).cluster
    common = read_tables(other / "_cluster.arrow")
    at = common.cluster.schema.get_field_index("controller_epoch")
    said = common.cluster.set_column(at, common.cluster.schema.field(at), pa.array([9], pa.int32()))
    write(
        SourceTables("", common.partitions, common.topics, common.brokers, said),
        other / "_cluster.arrow",
    )
    with pytest.raises(kfast.InputError, match=r"the cluster in .*state/_c.* and in .*other/_c"):
        look(where)
    (other / "_cluster.arrow").unlink()
    with pytest.raises(kfast.InputError, match=r"folder .*/other has no _cluster\.arrow, but .*st"):
        look(where)


FORMS = {
    "a.arrow": "arrow", "b.parquet": "parquet", "c.parquet": "parquet-flat", "d.txt": "describe",
    "e.txt.gz": "describe",
}


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Give one cluster in every form whose size is guessed."""
    where = tmp_path_factory.mktemp("forms")
    state = kfast.generate(brokers=30, partitions=20_000, placement="uniform", seed=1)
    for name, form in FORMS.items():
        kfast.write(state, where / name, format=form)
    text = (where / "e.txt.gz").read_bytes()
    (where / "e.txt.gz").write_bytes(gzip.compress(text, 6))
    return where


@pytest.mark.parametrize("name", FORMS)
def test_the_size_of_an_export_is_guessed_by_its_form(exports, name):
    from kfast.spark.paths import estimate_partitions

    assert 8_000 < estimate_partitions(exports / name) < 50_000


def test_a_large_parquet_file_is_asked_for_its_size(exports, monkeypatch):
    from kfast.spark import paths

    monkeypatch.setattr(paths, "LARGE_BYTES", 1)
    for name in ("b.parquet", "c.parquet"):
        assert paths.estimate_partitions(exports / name) == 20_000


def test_the_size_of_an_export_in_a_row_is_guessed_as_that_of_a_file(spark, exports):
    from kfast.spark.fleets import _estimate

    rows = [(name, (exports / name).read_bytes()) for name in FORMS]
    frame = spark.createDataFrame(rows, "name string, content binary")
    found = frame.select("name", _estimate(frame.content).alias("about")).collect()
    about = {row.name: row.about for row in found}
    assert len(about) == len(FORMS)
    assert all(8_000 < n < 50_000 for n in about.values()), about


@pytest.mark.parametrize("form", ["parquet-flat", "parquet"])
@pytest.mark.parametrize("seed", range(8))
def test_shards_of_a_kraft_cluster_add_up_to_its_digest(seed, form, tmp_path):
    """Each has all configurations, and what only KRaft has of its partitions."""
    from kfast.spark.dataset import split
    from kfast.state.compare import digest_parts, join_digests
    from tests.support.kraft_clusters import RandomCluster
    from tests.support.kraft_states import state_of_twin

    state = state_of_twin(RandomCluster(seed).controller().state)
    state.quorum.set_configuration(2, "topic0", "retention.ms", "1")
    files = split(state, tmp_path / "dataset", shards=3, form=form)
    shards = [kfast.read(file) for file in files]
    assert sum(shard.n_partitions for shard in shards) == state.n_partitions
    assert join_digests([digest_parts(shard) for shard in shards]).together() == state.digest()
    assert all(shard.quorum.features == state.quorum.features for shard in shards)
