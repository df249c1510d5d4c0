"""Workers whose Python has no kfast, or another one, refuse in one line that says what to do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import partial

import pytest

import kfast
from tests.conftest import ROOT
from tests.support.other_python import other_kfast, python_with

pytestmark = pytest.mark.spark

EAGER = ("check_workers", "fail", "from_dataframes")
"""What runs a job at once: its error is kfast's own."""

LAZY = ("sweep", "sweep_brokers", "scenario_rows", "fleet", "elect")
"""What the user runs: Spark's error has the line in it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pythons")


@pytest.mark.slow
def test_a_python_without_kfast_is_named_and_what_to_do(folder):
    environ = os.environ | {"PYSPARK_PYTHON": str(python_with(folder)), "PYTHONPATH": str(ROOT)}
    place = folder / "without"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.workers_driver", str(place)],
        cwd=place, env=environ, capture_output=True, text=True, timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    errors = json.loads((place / "errors.json").read_text())
    line = (
        rf"the Python of Spark's workers \(.*python.* on .*\) cannot import kfast: No module named "
        rf"'kfast'; install kfast {re.escape(kfast.__version__)} there .* PYSPARK_PYTHON before .*"
    )
    for name in EAGER:
        kind, text = errors[name]
        assert kind == "KfastError", text
        assert re.fullmatch(line, text), name
    for name in LAZY:
        kind, text = errors[name]
        assert kind == "PythonException", text
        assert any(re.search(line, part) for part in text.splitlines()), name
    # Spark looks for formats in the Python of the workers, and asks nobody else.
    assert "DATA_SOURCE_NOT_FOUND" in errors["source"][1]


def unpickle(program, packed):
    """The last line of the traceback of a process that unpickles something and calls it."""
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)())"
    done = subprocess.run([program, "-c", code], input=packed, capture_output=True, cwd="/")
    return done.stdout.decode() or done.stderr.decode().splitlines()[-1]


def packed(thing):
    from pyspark import cloudpickle

    return cloudpickle.dumps(thing)


def test_another_version_is_refused(folder):
    """It may make its scenarios in another order: rows of other brokers, without an error.

    Where kfast runs the job itself, `collect` makes an error of its own of the worker's.
    """
    from pyspark.errors import PySparkException

    from kfast.spark.workers import collect, for_workers

    place = other_kfast(
        folder / "older", "__init__.py", f'__version__ = "{kfast.__version__}"',
        '__version__ = "0.0.9"',
    )
    line = unpickle(python_with(folder, place), packed(for_workers(partial(sum, [1, 2]))))
    assert re.fullmatch((
        r"kfast\.errors\.KfastError: the Python of Spark's workers \(.* on .*\) has kfast 0\.0\.9 "
        rf"\(build [0-9a-f]{{16}}\), the driver kfast {re.escape(kfast.__version__)} \(build "
        rf"{kfast.build_digest()}\), and their rows may differ; install .* PYSPARK_PYTHON .*"
    ), line)

    class Refused:
        """A DataFrame whose tasks this worker takes."""

        def toArrow(self):  # noqa: N802 - PySpark's name
            raise PySparkException(f"Traceback (most recent call last):\n{line}\n")

    with pytest.raises(kfast.KfastError) as raised:
        collect(Refused())
    assert f"kfast.errors.KfastError: {raised.value}" == line


def test_the_same_version_of_another_build_is_refused(folder):
    """A checkout has one version for months: Python files count, and what kernels were built of."""
    from kfast.spark.workers import for_workers

    sent = packed(for_workers(partial(sum, [1, 2])))
    assert unpickle(python_with(folder, ROOT), sent) == "3\n"
    place = other_kfast(folder / "edited", "sweeps/scenarios.py", "TABLE_SCENARIOS = 65_536",
                        "TABLE_SCENARIOS = 65_535")
    line = unpickle(python_with(folder, place), sent)
    assert re.fullmatch(
        rf"kfast\.errors\.KfastError: the Python .* has kfast {kfast.__version__} \(build .*", line
    )


def test_a_kfast_without_kernels_is_refused(folder):
    """As `--py-files` would bring it."""
    from kfast.spark.workers import for_workers

    place = other_kfast(folder / "bare", "errors.py", "kfast", "kfast")
    for path in (place / "kfast" / "kernels").glob("*.so"):
        path.unlink()
    line = unpickle(python_with(folder, place), packed(for_workers(partial(sum, [1, 2]))))
    assert re.match(r"ImportError: the Python .* cannot import kfast: .*kfast\.kernels\.", line)
    assert "--py-files carries no compiled code" in line


def test_an_older_kfast_that_cannot_say_its_build_is_refused(folder):
    from kfast.spark.workers import for_workers

    listed = '    "state.build": "build_digest",\n'
    place = other_kfast(folder / "oldest", "__init__.py", listed, "")
    line = unpickle(python_with(folder, place), packed(for_workers(partial(sum, [1, 2]))))
    assert "(build unknown), the driver" in line


def test_readers_of_the_data_source_are_refused_too(folder):
    """Executors may run another machine's Python than the one that planned the query."""
    from kfast.spark.source import KfastSource

    source = KfastSource({"brokers": "5", "partitions": "20"})
    program = python_with(folder)
    for sent in (source, source.reader(source.schema())):
        assert "cannot import kfast: No module named" in unpickle(program, packed(sent))
    made = KfastSource({"table": "scenarios", "scenarios": "every_broker", "brokers": "5"})
    assert "No module named 'kfast'" in unpickle(program, packed(made.reader(made.schema())))


def test_what_is_packed_is_what_it_was():
    import pickle

    from kfast.spark.source import KfastSource

    source = KfastSource({"brokers": "5", "partitions": "20", "seed": "4"})
    reader = pickle.loads(packed(source.reader(source.schema())))
    rows = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert sum(batch.num_rows for batch in rows) == 20
    assert pickle.loads(packed(source)).schema() == source.schema()
