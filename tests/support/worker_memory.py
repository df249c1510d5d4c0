"""What Python workers of a local Spark session need: read from /proc, so on Linux only."""

from __future__ import annotations

import os
import re
from pathlib import Path

PROC = Path("/proc")


def workers_with(name: str) -> dict[int, tuple[int, int]]:
    """Find this process's Spark workers that map a file whose name begins so.

    Returns
    -------
    dict
        Process id: peak resident bytes, and resident bytes of the mapping, which is shared.
    """
    found = {}
    for folder in PROC.glob("[0-9]*"):
        pid = int(folder.name)
        try:
            if b"pyspark.daemon" not in (folder / "cmdline").read_bytes() or not _is_ours(pid):
                continue
            smaps = (folder / "smaps").read_text()
            peak = re.search(r"VmHWM:\s+(\d+) kB", (folder / "status").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
        mapped = re.findall(rf"/{name}[^\n]*\n(?:\w+:.*\n)*?Rss:\s+(\d+) kB", smaps)
        if mapped and peak:
            found[pid] = (1024 * int(peak[1]), 1024 * sum(map(int, mapped)))
    return found


def _is_ours(pid: int) -> bool:
    """Whether a process descends from this one."""
    while pid > 1:
        parent = re.search(r"PPid:\s+(\d+)", (PROC / str(pid) / "status").read_text())
        assert parent is not None
        pid = int(parent[1])
        if pid == os.getpid():
            return True
    return False
