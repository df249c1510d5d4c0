"""Files that hold clusters: found by path, folder or glob, and dealt to tasks by size."""

from __future__ import annotations

import glob
import heapq
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kfast.errors import ArgumentError, InputError

__all__ = ["check_tasks", "deal", "deal_sizes", "find_files", "find_roots"]

Item = TypeVar("Item", bound=Any)

_HIDDEN = (".", "_")


def find_files(where: str | Path) -> list[str]:
    """Files at a path, in a folder (with all below it), or in all that a glob names; sorted.

    Names that begin with `.` or `_` are left out, as Spark leaves them out: they are being written.

    Raises
    ------
    InputError
        There are none.
    """
    text = _absolute(where)
    found: set[Path] = set()
    for root in map(Path, find_roots(where)):
        if str(root) != text and root.name.startswith(_HIDDEN):
            continue
        found.add(root)
        found.update(path for path in root.rglob("*") if not _is_hidden(path, root))
    files = sorted(str(path) for path in found if path.is_file())
    if not files:
        said = str(where)
        hint = "" if text in said else f" ({said} in the folder of this process: name it in full)"
        raise InputError(
            f"{text}: no file is there{hint}; give a file, a folder with files, or a glob"
        )
    return files


def find_roots(where: str | Path) -> list[str]:
    """The file or folder at a path, or all files and folders that a glob names."""
    text = _absolute(where)
    # `Path.glob` takes no absolute pattern.
    return [text] if Path(text).exists() else glob.glob(text, recursive=True)  # noqa: PTH207


def _absolute(where: str | Path) -> str:
    return str(Path(str(where).removeprefix("file:")).absolute())


def _is_hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(_HIDDEN) for part in path.relative_to(root).parts)


def check_tasks(tasks: int | None) -> None:
    """Refuse fewer than one task; None stands for as many as there is work for."""
    if tasks is not None and tasks < 1:
        raise ArgumentError(f"tasks is {tasks}; at least 1 is needed")


def deal(files: Sequence[str], hands: int) -> list[list[str]]:
    """Deal files to at most so many hands, the largest first to whoever has least.

    So a huge cluster has a task for itself, and tiny ones share one: a task costs 40 ms whatever it
    does. The hands do not depend on the order of the files.
    """
    return deal_sizes({name: Path(name).stat().st_size for name in files}, hands)


def deal_sizes(sizes: Mapping[Item, int], hands: int) -> list[list[Item]]:
    """`deal` for anything that has a size and an order."""
    heap = [(0, at) for at in range(max(1, min(hands, len(sizes))))]
    dealt: list[list[Item]] = [[] for _ in heap]
    for size, item in sorted(((size, item) for item, size in sizes.items()), reverse=True):
        held, at = heapq.heappop(heap)
        dealt[at].append(item)
        heapq.heappush(heap, (held + size + 1, at))
    return [sorted(hand) for hand in dealt if hand]
