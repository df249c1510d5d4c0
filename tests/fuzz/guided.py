"""Inputs that are chosen by what of kfast's Python code they reach, where atheris installs.

An input that reaches code which none has reached is kept and changed further, half of the time as
`mutation` does it, else by the fuzzer. What is reached in compiled kernels is not seen.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from tests.fuzz.limits import limit_address_space, problem
from tests.fuzz.readers import Reader, every_reader

PROGRAM = """
import sys
import atheris
with atheris.instrument_imports(include=["kfast"], enable_loader_override=False):
    from tests.fuzz.guided import fuzz
fuzz(*sys.argv[1:])
"""
"""What a process of the fuzzer does: only modules that are imported within it are watched."""
MOST_BYTES = 1 << 20
MOST_MEMORY_MB = 4096
MOST_SECONDS = 30
MOST_INPUTS = 8192
"""Of one process, whose memory grows with them; the next goes on with what reaches most."""
HEAP = {"MALLOC_MMAP_THRESHOLD_": str(1 << 17)}
"""Else glibc puts the fuzzer's large buffers between small ones, and the heap grows on and on."""
OWN_CHANGES = 0.5
"""How often the fuzzer changes an input in its own way."""
EXECUTED = re.compile(r"^stat::number_of_executed_units: +(\d+)$", re.MULTILINE)
REACHED = re.compile(r"^#\d+\t\w+ +cov: (\d+)", re.MULTILINE)


def is_available() -> bool:
    """Whether the fuzzer is installed: it has wheels for Linux on x86-64."""
    return importlib.util.find_spec("atheris") is not None


def run_guided(
    name: str, reader: Reader, folder: Path, seed: int, inputs: int, seconds: float
) -> tuple[int, int, list[Path]]:
    """Read inputs of a reader; how many, the branches that they reached, and the faults' files."""
    corpus, faults = folder / "corpus", folder / "faults"
    for made in (corpus, faults):
        made.mkdir(parents=True)
    for number, sample in enumerate(reader.seeds):
        (corpus / str(number)).write_bytes(sample)
    n, reached, until = 0, 0, time.monotonic() + seconds
    while n < inputs and (left := until - time.monotonic()) > 1:
        known = len(list(faults.iterdir()))
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, name, str(folder), str(seed + n),
             str(min(inputs - n, MOST_INPUTS)), str(int(left))],
            env=os.environ | HEAP, capture_output=True, text=True, errors="replace", check=False,
        )
        executed = EXECUTED.search(done.stderr)
        if executed is None or int(executed[1]) == 0:
            raise RuntimeError(f"the fuzzer of {name} ended with {done.returncode}: {done.stderr}")
        n += int(executed[1])
        reached = max([reached, *map(int, REACHED.findall(done.stderr))])
        if done.returncode != 0 and len(list(faults.iterdir())) == known:
            raise RuntimeError(f"the fuzzer of {name} ended with {done.returncode}: {done.stderr}")
    return n, reached, sorted(faults.iterdir())


def fuzz(name: str, folder: str, seed: str, inputs: str, seconds: str) -> None:
    """Read inputs; this ends the process.

    The first input of each kind of fault is put into `folder/faults`; those that end the process
    or take too long, the fuzzer puts there.
    """
    import atheris

    reader, faults, seen = every_reader()[name], Path(folder) / "faults", set()
    samples = list(reader.seeds)
    limit_address_space()

    def read(data: bytes) -> None:
        fault = problem(reader.read, data)
        if fault is not None and fault not in seen:
            seen.add(fault)
            (faults / f"fault-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)

    def change(data: bytes, most_bytes: int, seed: int) -> bytes:
        draw = Random(seed)
        if draw.random() < OWN_CHANGES:
            changed: bytes = atheris.Mutate(data, most_bytes)
            return changed
        return reader.change(draw, data, samples)[:most_bytes]

    options = {
        "runs": inputs, "max_total_time": seconds, "seed": seed, "max_len": MOST_BYTES,
        "rss_limit_mb": MOST_MEMORY_MB, "timeout": MOST_SECONDS, "print_final_stats": 1,
        "artifact_prefix": f"{faults}/",
    }
    flags = [f"-{option}={value}" for option, value in options.items()]
    atheris.Setup([name, f"{folder}/corpus", *flags], read, custom_mutator=change)
    atheris.Fuzz()
