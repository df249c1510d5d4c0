"""Pythons for Spark's workers that have PySpark and its kin, and no kfast, or another one."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

from tests.conftest import ROOT

OWN = ("kfast", "pyspark_kfast", "__editable__")


def python_with(folder: Path, *paths: Path) -> Path:
    """Write a program that runs this Python with its libraries, kfast apart, and some paths."""
    libraries = folder / "libraries"
    if not libraries.exists():
        libraries.mkdir(parents=True)
        for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
            if not path.name.startswith(OWN):
                (libraries / path.name).symlink_to(path)
    program = folder / f"python-{len(list(folder.iterdir()))}"
    found = os.pathsep.join(map(str, [*paths, libraries]))
    base = Path(sysconfig.get_config_var("BINDIR"), "python" + sysconfig.get_python_version())
    program.write_text(f'#!/bin/sh\nPYTHONPATH={found} exec {base} -S "$@"\n')
    program.chmod(0o755)
    return program


def other_kfast(folder: Path, file: str, old: str, new: str) -> Path:
    """Copy kfast with something in one of its files replaced; return where it can be imported."""
    for name in ("kfast", "pyspark_kfast"):
        shutil.copytree(
            ROOT / name, folder / name, copy_function=os.symlink,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    text = (ROOT / "kfast" / file).read_text()
    assert old in text
    (folder / "kfast" / file).unlink()
    (folder / "kfast" / file).write_text(text.replace(old, new))
    return folder
