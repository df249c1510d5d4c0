"""The digest of a build: of what runs, wherever it lies."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from setuptools import Distribution

import kfast
from kfast.kernels.source_digest import sources_digest
from tests.conftest import ROOT
from tests.support.other_python import other_kfast


def digest_of(place):
    """Digest of the kfast that a place has, as a process of its own says it."""
    code = "import kfast; print(kfast.__file__, kfast.build_digest())"
    process = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(place)}, cwd=place, check=True,
        capture_output=True, text=True,
    )
    file, digest = process.stdout.split()
    assert file == str(place / "kfast" / "__init__.py")
    return digest


def test_every_file_of_a_package_is_in_the_wheel(monkeypatch):
    """Apart from the sources of kernels: those are compiled."""
    monkeypatch.chdir(ROOT)
    distribution = Distribution()
    distribution.parse_config_files()
    build = distribution.get_command_obj("build_py")
    build.ensure_finalized()
    packed = {Path(folder, name) for _, folder, _, names in build.data_files for name in names}
    listed = subprocess.run(
        ["git", "ls-files", "kfast"], check=True, capture_output=True, text=True,
    ).stdout.split()
    data = {Path(name) for name in listed if not name.endswith((".py", ".pyx"))}
    assert data <= packed
    assert not {path.suffix for path in packed} & {".c", ".so", ".pyc"}


@pytest.mark.kernels
def test_the_kernels_are_compiled_from_the_sources_that_are_here():
    """Where this fails, build them: `python setup.py build_ext --inplace`."""
    spec = importlib.util.spec_from_file_location("setup_of_kfast", ROOT / "setup.py")
    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    assert sources_digest() == setup.digest_sources()


def test_the_digest_is_the_same_wherever_it_lies(tmp_path):
    copy = other_kfast(tmp_path, "errors.py", "kfast", "kfast")
    assert digest_of(copy) == kfast.build_digest()
    assert re.fullmatch("[0-9a-f]{16}", kfast.build_digest())


@pytest.mark.parametrize(
    ("file", "old"),
    [("__init__.py", '__version__ = "0'), ("spark/sharded_tasks.py", "REBALANCE = ")],
)
def test_another_version_and_another_python_file_change_it(tmp_path, file, old):
    assert digest_of(other_kfast(tmp_path, file, old, f"\n{old}")) != kfast.build_digest()
