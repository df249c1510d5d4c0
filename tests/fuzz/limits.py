"""What one input may take: time, memory, and no exception but a `KfastError` of one line."""

from __future__ import annotations

import resource
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import kfast
from kfast.errors import KfastError

SECONDS = 10.0
"""Of the processor."""
MEMORY_BYTES = 256 << 20
BYTES_FOR_EACH = 64
"""Memory that an input may take: 256 MiB, and 64 bytes for each of its own."""
HARD_BYTES = 2 << 30
"""Address space beyond what a process has when it begins: what asks for more fails at once."""
FOLDER = str(Path(kfast.__file__).parent)


def limit_address_space() -> None:
    """Let this process have little more than it has."""
    status = Path("/proc/self/statm").read_text().split()
    now = int(status[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + HARD_BYTES, resource.RLIM_INFINITY))


def resident(field: str) -> int:
    """`VmRSS` or `VmHWM` of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def place_of(error: BaseException) -> str:
    """The error's class and the last line of kfast that it came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if FOLDER in f.filename]
    where = f"{Path(frames[-1].filename).name} {frames[-1].name}" if frames else "outside kfast"
    return f"{type(error).__name__} in {where}"


def problem(read: Callable[[bytes], object], data: bytes) -> str | None:
    """Say what is wrong with how an input is read; None where nothing is."""
    Path("/proc/self/clear_refs").write_text("5")
    before, begin = resident("VmRSS"), time.process_time()
    fault = None
    try:
        read(data)
    except KfastError as error:
        if "\n" in str(error):
            fault = f"message of several lines from {place_of(error)}"
    except Exception as error:  # noqa: BLE001 - any other one is a fault, and is reported
        fault = place_of(error)
    if fault is None and time.process_time() - begin > SECONDS:
        fault = "takes too long"
    if fault is None and resident("VmHWM") - before > MEMORY_BYTES + BYTES_FOR_EACH * len(data):
        fault = "takes too much memory"
    return fault
