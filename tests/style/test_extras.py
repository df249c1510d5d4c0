"""Optional dependencies: what needs one that is not installed says how to install it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib

import pytest

from kfast.errors import EXTRAS, KfastError, MissingExtraError, require_extra
from tests.conftest import ROOT
from tests.style.test_layout import PACKAGE, imports_of, name_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

UNINSTALLED = {
    "a finder that finds nothing": """
import importlib.machinery, sys
find = importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = lambda name, *more: (
    None if name.partition(".")[0] in {modules} else find(name, *more)
)
""",
    "a finder that forbids": """
import sys

class Forbidding:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Forbidding())
""",
    "an entry in sys.modules": """
import sys
sys.modules.update(dict.fromkeys({modules}))
""",
}
"""Ways in which a module cannot be imported."""

USES = {
    "live": ("kfast.read('kafka://127.0.0.1:1')", "kafka://127.0.0.1:1"),
    "numba": ("kfast.Controller(state, policy=kfast.controllers.led_least)", "policy led_least"),
    "plot": (
        "__import__('kfast.report.pictures').report.pictures.check_picture(Path('x.svg'))",
        "--plot",
    ),
    "stats": (
        "kfast.risk(state).chance(5)",
        "the chance with 5 of 40 brokers down has to be drawn, which",
    ),
    "report": ("kfast.write_report(state, 'x.html')", "kfast report"),
    "spark": ("import kfast.spark", "kfast.spark"),
    "yaml": (
        "kfast.read(('c.yaml', b'apiVersion: kafka.strimzi.io/v1'))", "c.yaml, Strimzi's YAML,",
    ),
}
"""Of each extra something that needs it, and what the message calls that."""


MODULES = {"kafka-python": "kafka", "pyyaml": "yaml", "vl-convert-python": "vl_convert"}
"""Modules of packages that have another name."""


def name_of_package(requirement):
    name = re.match(r"[\w-]+", requirement).group().lower()
    return MODULES.get(name, name)


def message(extra):
    modules = " and ".join(EXTRAS[extra])
    return f"{USES[extra][1]} needs {modules} (not installed): pip install 'kfast[{extra}]'"


def run(tmp_path, way, extra, *command):
    """Run Python where the modules of an extra cannot be imported."""
    blocked = UNINSTALLED[way].format(modules=EXTRAS[extra])
    (tmp_path / "sitecustomize.py").write_text(blocked)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join((str(tmp_path), str(ROOT))))
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT, env=environment,
        timeout=60, check=False,
    )


def test_the_extras_are_those_of_the_project():
    """An extra that no code needs is not offered; `dev` and `docs` are for who works on kfast."""
    extras = PROJECT["optional-dependencies"]
    installed = {
        extra: tuple(map(name_of_package, packages))
        for extra, packages in extras.items() if extra not in ("dev", "docs")
    }
    assert installed == EXTRAS
    assert set().union(*EXTRAS.values()) <= set(map(name_of_package, extras["dev"]))


def test_every_other_package_is_a_dependency_or_of_an_extra():
    """Nothing is imported that no `pip install` of kfast brings."""
    allowed = {"kfast", "kfast_command", "pyspark_kfast", *sys.stdlib_module_names}
    allowed |= set(map(name_of_package, PROJECT["dependencies"])).union(*EXTRAS.values())
    for path in PACKAGE.rglob("*.py"):
        for module in imports_of(path):
            assert module.partition(".")[0] in allowed, f"{name_of(path)} imports {module}"


@pytest.mark.parametrize("way", UNINSTALLED)
@pytest.mark.parametrize("extra", EXTRAS)
def test_what_needs_an_extra_names_the_pip_install(tmp_path, extra, way):
    """One error for all of them, which is an `ImportError` too."""
    done = run(tmp_path, way, extra, "-c", f"""if True:
        from pathlib import Path
        import kfast, kfast.controllers
        from kfast.analysis import loss_chances
        loss_chances.EXACT_WORK = -1
        state = kfast.generate(brokers=40, partitions=300, placement="uniform")
        try:
            {USES[extra][0]}
        except kfast.MissingExtraError as error:
            print(error, isinstance(error, kfast.KfastError), isinstance(error, ImportError))
    """)
    assert done.stdout == f"{message(extra)} True True\n", done.stderr


@pytest.mark.parametrize("way", UNINSTALLED)
def test_a_pipeline_without_its_extra_is_wrong_usage(tmp_path, way):
    """Exit code 2 and one line, as for any other wrong usage; nobody is asked to report it."""
    command = ("-m", "kfast_command", "pipeline", "bench_data/pipeline.toml")
    done = run(tmp_path, way, "spark", *command)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Error: {message('spark')}\n"


def test_one_missing_module_of_several_is_named_alone(monkeypatch):
    monkeypatch.setitem(EXTRAS, "spark", ("click", "no_such_module"))
    with pytest.raises(MissingExtraError, match="it needs no_such_module ") as caught:
        require_extra("spark", "it")
    assert caught.value.name == "no_such_module"
    assert isinstance(caught.value, KfastError)
