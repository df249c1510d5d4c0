"""The folder that a sharded run writes to, and the lock that keeps two runs apart."""

from __future__ import annotations

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kfast.errors import ArgumentError, InputError
from kfast.spark.dataset import CLUSTER_FILE
from kfast.spark.paths import folder_with

__all__ = ["check_turn", "empty_folder", "locked", "output_folder"]

FOLDERS = ("state", "requests", "transitions", "elections")
LOCK = ".lock"
TURN = ".turn"
"""File with a random number: of the run that may write here."""


@contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """Be alone in a folder; a process that ends, or is killed, lets go of its lock.

    Raises
    ------
    ArgumentError
        Somebody else is at work there, and nobody is to wait.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise ArgumentError(
                f"output {folder} is being written by another run; give another folder, or wait"
            ) from None
        yield


@contextmanager
def output_folder(output: str | Path, dataset: str | Path) -> Iterator[Path]:
    """Take a folder for as long as a run lasts; nothing in it is changed yet.

    Raises
    ------
    ArgumentError
        It is a file, the dataset or something else lies in it, it lies in the dataset, or another
        run is at work there.
    """
    root = Path(str(output).removeprefix("file:")).absolute()
    source = Path(str(dataset).removeprefix("file:")).absolute()
    if root == source or root in source.parents:
        raise ArgumentError(f"output {root} holds the dataset {source}, which would be replaced")
    around = folder_with(root, dataset)
    if around is not None:
        raise ArgumentError(f"output {root} lies in {around}, so it would be taken for shards")
    _check_own(root)
    with locked(root, wait=False):
        _check_own(root)
        yield root


def empty_folder(root: Path) -> str:
    """Remove what an earlier run left; gives the turn that tasks show to `check_turn`."""
    turn = secrets.token_hex(8)
    # Without this file what is left of an earlier run is no dataset any more.
    (root / "state" / CLUSTER_FILE).unlink(missing_ok=True)
    (root / TURN).write_text(turn)
    for name in FOLDERS:
        (root / name).mkdir(exist_ok=True)
        for old in (root / name).iterdir():
            old.unlink(missing_ok=True)
    return turn


def _check_own(root: Path) -> None:
    """Refuse a folder that holds anything but what runs leave there."""
    if root.exists() and not root.is_dir():
        raise ArgumentError(f"output {root} is a file; a folder is needed")
    known = (*FOLDERS, LOCK, TURN)
    strange = [p.name for p in root.iterdir() if p.name not in known] if root.is_dir() else []
    if strange:
        raise ArgumentError(f"output {root} holds something else: {', '.join(sorted(strange)[:5])}")


def check_turn(folder: str, turn: str) -> None:
    """Refuse to write where another run has begun: tasks can outlive the driver of theirs.

    Raises
    ------
    InputError
        The folder is another run's by now.
    """
    if (Path(folder) / TURN).read_text() != turn:
        raise InputError(f"output {folder} was taken by another run; this one has ended")
