"""The folder that a sharded run writes to."""

from __future__ import annotations

from pathlib import Path

from kfast.errors import ArgumentError

__all__ = ["empty_folder"]

FOLDERS = ("state", "requests", "transitions", "elections")


def empty_folder(output: str | Path, dataset: str | Path) -> str:
    """Make the folders of the output, without what an earlier run left there."""
    root = Path(str(output).removeprefix("file:")).absolute()
    source = Path(str(dataset).removeprefix("file:")).absolute()
    if root == source or root in source.parents:
        raise ArgumentError(f"output {root} holds the dataset {source}, which would be replaced")
    strange = [p.name for p in root.iterdir() if p.name not in FOLDERS] if root.is_dir() else []
    if strange:
        raise ArgumentError(f"output {root} holds something else: {', '.join(sorted(strange)[:5])}")
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
        for old in (root / name).iterdir():
            old.unlink()
    return str(root)
