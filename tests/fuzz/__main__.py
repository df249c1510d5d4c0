"""Read many changed inputs; keep those that end in anything but an answer or a `KfastError`.

Where atheris is installed, inputs are guided by the code that they reach (`guided`), unless
`--unguided` is given. Else a process reads the inputs of one reader; it is watched by another,
which knows from the number of an input what it is: one that crashes the process, or does not end,
is kept too, and reading goes on behind it. Each kind of fault is kept once, made as short as a few
hundred tries can make it.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import secrets
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.fuzz.guided import is_available, run_guided
from tests.fuzz.limits import SECONDS, limit_address_space, problem
from tests.fuzz.readers import Reader, every_reader, make_input

FOUND = Path(__file__).resolve().parent / "found"
PATIENCE = 3 * SECONDS
TRIES = 300


def work(name: str, seed: int, first: int, last: int, until: float, at: Any, faults: Any) -> None:
    """Read inputs from `first` on; `at` is the number of the current one."""
    reader = every_reader()[name]
    limit_address_space()
    for number in range(first, last):
        at.value = number
        if time.time() > until:
            break
        fault = problem(reader.read, make_input(name, reader, seed, number))
        if fault:
            faults.put((number, fault))
    else:
        at.value = last
    faults.put(None)


def guide(
    name: str, reader: Reader, seed: int, inputs: int, seconds: float
) -> tuple[int, dict[str, bytes]]:
    """Read guided inputs of a reader; how many were read, and the first of each kind of fault."""
    with tempfile.TemporaryDirectory() as folder:
        n, reached, paths = run_guided(name, reader, Path(folder), seed, inputs, seconds)
        kinds: dict[str, bytes] = {}
        for path in paths:
            data, kind = path.read_bytes(), path.name.partition("-")[0]
            if kind == "fault":
                kind = problem(reader.read, data) or "fault that is not repeated"
            kinds.setdefault(kind, data)
    print(f"{name}: {reached} branches reached", flush=True)
    return n, kinds


def watch(
    name: str, reader: Reader, seed: int, inputs: int, seconds: float
) -> tuple[int, dict[str, bytes]]:
    """Read the inputs of a reader; how many were read, and the first of each kind of fault."""
    context = multiprocessing.get_context("fork")
    first, until = 0, time.time() + seconds
    kinds: dict[str, int] = {}
    while first < inputs and time.time() < until:
        at, faults = context.Value("q", first), context.Queue()
        arguments = (name, seed, first, inputs, until, at, faults)
        process = context.Process(target=work, args=arguments)
        process.start()
        seen, since, ended = first, time.time(), False
        while not ended and process.is_alive() and time.time() - since < PATIENCE:
            process.join(0.2)
            if at.value != seen:
                seen, since = at.value, time.time()
            while not faults.empty():
                item = faults.get()
                ended |= item is None
                if item is not None and kinds.setdefault(item[1], item[0]) == item[0]:
                    print(f"{name}: input {item[0]}: {item[1]}", flush=True)
        first = at.value
        if ended:
            process.join()
            break
        kind = "does not end" if process.is_alive() else f"ends with {process.exitcode}"
        process.kill()
        process.join()
        print(f"{name}: input {first}: {kind}", flush=True)
        kinds.setdefault(kind, first)
        first += 1
    return first, {kind: make_input(name, reader, seed, n) for kind, n in kinds.items()}


def shorten(reader: Reader, data: bytes, kind: str) -> bytes:
    """Leave parts out as long as the fault stays the same; faults that end a process stay long."""
    size, tries = len(data) // 2, 0
    while size and tries < TRIES:
        for begin in range(0, len(data), size):
            tries += 1
            shorter = data[:begin] + data[begin + size :]
            if tries < TRIES and problem(reader.read, shorter) == kind:
                data = shorter
                break
        else:
            size //= 2
    return data


def keep(name: str, reader: Reader, data: bytes, kind: str) -> Path:
    """Write an input below `found/`."""
    if " in " in kind:
        data = shorten(reader, data, kind)
    folder = FOUND / name.replace(" ", "_")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:12]
    path.write_bytes(data)
    return path


def main(arguments: list[str] | None = None) -> int:
    """Read inputs of all readers, or of one; 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    readers = every_reader()
    parser.add_argument("--reader", choices=sorted(readers), action="append")
    parser.add_argument("--seed", type=int, default=None, help="a fresh one unless one is given")
    parser.add_argument("--inputs", type=int, default=1000, help="of each reader")
    parser.add_argument("--seconds", type=float, default=3600.0, help="for each reader, at most")
    parser.add_argument("--unguided", action="store_true", help="the same inputs for a seed")
    options = parser.parse_args(arguments)
    read = guide if is_available() and not options.unguided else watch
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    print(f"seed {seed}, {'guided' if read is guide else 'unguided'}", flush=True)
    total, n_kinds = 0, 0
    for name in options.reader or readers:
        begin = time.time()
        n, kinds = read(name, readers[name], seed, options.inputs, options.seconds)
        for kind, data in kinds.items():
            path = keep(name, readers[name], data, kind)
            print(f"{name}: {kind}: {path}", flush=True)
        rate = n / max(time.time() - begin, 1e-9)
        print(f"{name}: {n} inputs, {rate:.0f}/s, {len(kinds)} kinds of faults", flush=True)
        total, n_kinds = total + n, n_kinds + len(kinds)
    print(f"{total} inputs, {n_kinds} kinds of faults")
    return int(n_kinds > 0)


if __name__ == "__main__":
    sys.exit(main())
