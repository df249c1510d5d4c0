"""Public names are loaded when they are asked for, and are then what they always were."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from tests.conftest import ROOT

PACKAGES = [
    "kfast", "kfast.state", "kfast.sweeps", pytest.param("kfast.spark", marks=pytest.mark.spark),
]


def run(code):
    """Run Python in a process of its own; give what it prints."""
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout


def load(name):
    if name == "kfast.spark":
        pytest.importorskip("pyspark", reason="kfast.spark needs PySpark")
    return importlib.import_module(name)


def hinted(package):
    """Names that type checkers see, and the modules from which they have them."""
    for block in ast.parse(inspect.getsource(package)).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                for alias in node.names:
                    yield alias.name, node.module.removeprefix(f"{package.__name__}.")


@pytest.mark.parametrize("name", PACKAGES)
def test_type_checkers_and_python_see_the_same_names(name):
    package = load(name)
    assert dict(hinted(package)) == package._MODULE_OF
    assert sorted({*package.__all__, "open"} & {*package._MODULE_OF}) == sorted(package._MODULE_OF)
    assert "open" not in package.__all__
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.parametrize("name", PACKAGES)
def test_each_name_is_what_its_module_has(name):
    package = load(name)
    for public, module in package._MODULE_OF.items():
        owner = sys.modules.get(f"{name}.{module}") or importlib.import_module(f"{name}.{module}")
        assert getattr(package, public) is getattr(owner, public)


def test_a_name_that_is_not_there_is_an_attribute_error():
    import kfast

    with pytest.raises(AttributeError, match="module 'kfast' has no attribute 'sweeep'"):
        _ = kfast.sweeep
    with pytest.raises(ImportError, match="cannot import name 'sweeep'"):
        from kfast import sweeep  # noqa: F401 - that it fails is the claim


@pytest.mark.parametrize("name", PACKAGES)
def test_no_module_bears_the_name_of_a_public_function(name):
    """Python puts an imported module into its package: it would take the function's place."""
    package = load(name)
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert not modules & set(package._MODULE_OF)


def test_every_public_name_but_open_comes_with_a_star():
    """`open` stays Python's own."""
    said = run(
        "import kfast\nfrom kfast import *\n"
        "print(set(kfast.__all__) - set(globals()), open is kfast.open, callable(kfast.open))"
    )
    assert said == "set() False True\n"


def test_importing_kfast_loads_nothing():
    said = run("import sys, kfast; print({'numpy', 'pyarrow', 'kfast.schema'} & set(sys.modules))")
    assert said == "set()\n"


def test_a_pickle_loads_what_it_needs():
    """Scenarios, which travel to workers, need neither the controller nor any reader of files."""
    import pickle

    import kfast

    scenarios = kfast.random_brokers(kfast.generate(brokers=5, partitions=9), k=2, n=4, seed=1)
    said = run(
        "import pickle, sys\n"
        f"print(len(pickle.loads({pickle.dumps(scenarios)!r})))\n"
        "print({'kfast.controllers', 'kfast.io', 'kfast.state.cluster'} & set(sys.modules))"
    )
    assert said == "5\nset()\n"


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64", "float64"])
def test_a_view_is_the_array(dtype):
    from kfast.state.arrow_views import view

    values = np.arange(12, dtype=dtype)
    assert view(values).equals(pa.array(values))
    assert view(values).buffers()[1].address == values.ctypes.data
    assert view(values[3:7]).equals(pa.array(values[3:7]))
    assert view(values[::2]).equals(pa.array(values[::2]))
    assert view(values[:0]).equals(pa.array(values[:0]))


@pytest.mark.spark
def test_a_task_of_a_sweep_loads_neither_pandas_nor_the_controller():
    """Each worker of each session loads what a task needs, so it should be little."""
    pytest.importorskip("pyspark", reason="kfast.spark needs PySpark")
    said = run(
        "import sys, pickle\n"
        "import numpy as np\n"
        "import kfast.spark.sweep_tasks, kfast.spark.workers\n"
        "from kfast.sweeps.scenarios import Combinations\n"
        "from kfast.sweeps.sweep_counts import SWEEP_COUNTS, SweepWork\n"
        "from kfast.sweeps.failover_order import FailoverOrder\n"
        "from kfast.sweeps.sweep_plan import FIELDS, SweepPlan\n"
        "ids, none = np.arange(3, dtype=np.int32), np.empty(0, np.int32)\n"
        "groups, tables = np.zeros((0, len(FIELDS)), np.int64), np.empty(0, np.uint16)\n"
        "plan = SweepPlan(ids, ids >= 0, 0, 0, groups, none, tables, tables, tables, none, None)\n"
        "some = Combinations(ids, 0, 4, ids, 1)\n"
        "work = SweepWork(plan, tuple(SWEEP_COUNTS), 1, FailoverOrder.of(plan), None)\n"
        "print(sum(batch.num_rows for batch in work.batches(some)))\n"
        "print({'pandas', 'kfast.controllers', 'kfast.io', 'kfast.state.cluster', "
        "'pyarrow.compute'} & set(sys.modules))"
    )
    assert said == "4\nset()\n"


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_says_no_more_than_help_loads_no_command(option):
    said = run(
        "import sys\n"
        "from kfast.cli import main\n"
        "try:\n"
        f"    sys.argv = ['kfast', {option!r}]\n"
        "    main()\n"
        "except SystemExit:\n"
        "    print({'numpy', 'pyarrow', 'rich', 'kfast.io'} & set(sys.modules))"
    )
    assert said.splitlines()[-1] == "set()"
