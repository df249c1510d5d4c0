"""Files of other file systems are read and written as local ones are: on an S3 server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

import kfast
from kfast.cli.app import commands
from kfast.errors import ArgumentError, InputError
from kfast.io.file_systems import RemotePath, open_store, parse_path
from kfast.io.files import writing
from tests.conftest import ROOT
from tests.support.s3_server import contents, upload

EXAMPLE = ROOT / "bench_data"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a/b.txt", Path("a/b.txt")),
        ("file:///a/b.txt", Path("/a/b.txt")),
        ("dbfs:/a/b.txt", Path("/dbfs/a/b.txt")),
        ("dbfs:///a", Path("/dbfs/a")),
        ("s3a://bucket/a//b/", RemotePath("s3a://bucket", "a/b")),
        ("gs://bucket", RemotePath("gs://bucket", "")),
        ("abfss://c@account.dfs.core.windows.net/a%b",
         RemotePath("abfss://c@account.dfs.core.windows.net", "a%b")),
        ("hdfs:///user/a", RemotePath("hdfs://", "user/a")),
        ("HDFS://name:8020/a", RemotePath("HDFS://name:8020", "a")),
    ],
)
def test_a_url_is_a_path(text, path):
    assert parse_path(text) == path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ftp://host/a", r"ftp://host/a: kfast knows no file system ftp://; right is .* file://"),
        ("s3:///a", "s3:///a: no bucket is named; right is s3://BUCKET/PATH"),
    ],
)
def test_other_urls_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        kfast.read(text)


def test_a_file_system_that_arrow_cannot_open_says_what_it_needs(monkeypatch):
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", "/nowhere")
    open_store.cache_clear()
    with pytest.raises(InputError, match=r"hdfs://nowhere:1: pyarrow .* cannot (.|\n)*libhdfs"):
        kfast.read("hdfs://nowhere:1/a.txt")


def test_what_a_path_has_is_what_pathlib_has():
    remote, local = RemotePath("s3://b", "x/y/z.txt"), Path("/x/y/z.txt")
    assert remote.name == local.name
    assert [path.key for path in remote.parents] == [str(p).strip("/") for p in local.parents]
    assert os.fspath(remote) == str(remote) == "s3://b/x/y/z.txt"
    assert remote.parent / "a" == RemotePath("s3://b", "x/y/a")
    assert remote.is_relative_to(RemotePath("s3://b", "x"))
    assert not remote.is_relative_to(RemotePath("s3://c", "x"))
    assert not remote.is_relative_to(local)


@pytest.mark.parametrize("name", ["a.txt", "a.arrow", "a.parquet", "folder of/ä+b%20?.json"])
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_cluster_goes_there_and_back(bucket, tmp_path, scheme, name):
    state = kfast.read(EXAMPLE / "describe.txt")
    local = tmp_path / Path(name).name
    kfast.write(state, local)
    url = str(bucket / name).replace("s3", scheme, 1)
    kfast.write(state, url)
    assert (bucket / name).read_bytes() == local.read_bytes()
    assert kfast.read(url).digest() == kfast.read(local).digest()


def test_large_files_arrive_in_parts(bucket):
    data = os.urandom(11 << 20)
    with writing(bucket / "large") as file:
        file.write(data)
    assert (bucket / "large").read_bytes() == data
    with writing(bucket / "large"):
        pass
    assert (bucket / "large").read_bytes() == b""


def raising(error):
    """Give something to write, and then an error."""
    yield b"half"
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, ValueError])
def test_what_fails_while_it_is_written_leaves_the_old_file(bucket, error):
    for path in (bucket / "old", bucket / "new"):
        if path.name == "old":
            with writing(path) as file:
                file.write(b"old")
        with pytest.raises(error), writing(path) as file:
            file.writelines(raising(error))
    assert contents(bucket) == {"old": b"old"}


def test_what_is_not_there_is_refused_by_its_name(bucket):
    with pytest.raises(InputError, match=f"{bucket}none.txt: cannot be read: Path does not exist"):
        kfast.read(str(bucket / "none.txt"))
    with pytest.raises(ArgumentError, match=r"s3://no-bucket/a: cannot be written: .*NO_SUCH_BUCK"):
        kfast.write(kfast.generate(brokers=3, partitions=3), "s3://no-bucket/a", format="arrow")


def test_commands_take_urls(bucket):
    """INPUT, files beside it, and what is written."""
    upload(EXAMPLE, bucket / "in")
    beside = ["--brokers-file", EXAMPLE / "brokers.csv"]
    remote = [str(bucket / "in/describe.txt"), "--brokers-file", str(bucket / "in/brokers.csv")]

    def run(*arguments):
        done = CliRunner().invoke(commands, [*map(str, arguments)])
        assert done.exit_code == 0, done.output
        return done.stdout

    local = run("fail", EXAMPLE / "describe.txt", *beside, "--racks", "a", "--format", "json")
    assert run("fail", *remote, "--racks", "a", "--format", "json").replace(
        str(bucket / "in"), str(EXAMPLE)
    ) == local
    run("save", *remote, "-o", bucket / "out/c.parquet")
    run("sweep", *remote, "--every", "1", "-o", bucket / "out/sweep.parquet")
    assert kfast.read(str(bucket / "out/c.parquet")).n_brokers == 12
    assert (bucket / "out/sweep.parquet").read_bytes().startswith(b"PAR1")


@pytest.mark.parametrize(
    "pattern",
    ["", "*", "a", "a/*.txt", "a/**", "**/*.txt", "?/x.txt", "a/[xy].txt", "b/c", "b/*/z.gz",
     "none", "a/x.txt", "_h"],
)
def test_files_are_the_same_that_are_looked_for_locally(bucket, tmp_path, pattern):
    pytest.importorskip("pyspark")
    from kfast.spark.paths import find_files

    for name in ("a/x.txt", "a/y.txt", "a/.y.part", "b/c/z.gz", "b/c/d/u.txt", "_h/x.txt", "v.txt"):
        for path in (tmp_path / name, bucket / name):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("1")
    local = [str(Path(name).relative_to(tmp_path)) for name in
             find_files(tmp_path / pattern, required=False)]
    assert [str(parse_path(name).relative_to(bucket)) for name in
            find_files(str(bucket / pattern), required=False)] == local
