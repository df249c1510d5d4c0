"""What the compilers say of the kernels: Cython's annotation, and the loops that gcc vectorises.

    python -m benchmarks.reports --folder build/reports census hosting     (all kernels: none named)

Written for each kernel: NAME.html, as `cython -a` makes it; NAME.vectors.txt, the loops by line of
the `.pyx` file, `vectorized` with the bytes of a vector, or gcc's reason why not. Printed: lines of
a loop that touch Python, which should be none, and how many lines have a loop in vectors.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "kfast" / "kernels"
ANNOTATED = re.compile(
    r'<pre class="cython line score-(\d+)"[^>]*>.*?<span class="">(\d+)</span>: (.*)'
)
SAID = re.compile(r"\.c:(\d+):\d+: (optimized|missed): +(.*)")
CAME_FROM = re.compile(r'^ *\* ?"(kfast/[\w/.]+)":(\d+)|^/\* "(kfast/[\w/.]+)":(\d+)')


def python_in_loops(page: str) -> list[tuple[int, str]]:
    """Lines inside a loop whose C code calls Python: number, text. A way out is no part of it."""
    found: list[tuple[int, str]] = []
    loops: list[int] = []
    for score, number, marked in ANNOTATED.findall(page):
        text = html.unescape(re.sub(r"<[^>]*>", "", marked))
        plain = text.strip()
        if not plain:
            continue
        indent = len(text) - len(text.lstrip())
        loops = [at for at in loops if at < indent]
        if int(score) and loops and not plain.startswith("return "):
            found.append((int(number), plain))
        if plain.startswith(("for ", "while ")):
            loops.append(indent)
    return found


def origins(source: str) -> list[str]:
    """For each line of a C file, the `file:line` of Cython that it was made of."""
    here, found = "", []
    for line in source.splitlines():
        named = CAME_FROM.match(line)
        if named:
            file, number = named.group(1) or named.group(3), named.group(2) or named.group(4)
            here = f"{Path(file).name}:{number}"
        found.append(here)
    return found


def said_of_loops(report: str, source: str) -> Iterator[str]:
    """What gcc says of loops, by line of the `.pyx` file."""
    places = origins(source)
    for number, kind, text in SAID.findall(report):
        if "loop" in text:
            yield f"{places[int(number) - 1]:28} {kind}: {text}"


def report(name: str, folder: Path) -> str:
    """Make the reports of a kernel; one line about it."""
    shutil.copytree(KERNELS, folder / "kfast" / "kernels", dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("*.so", "*.c"))
    (folder / "kfast" / "__init__.py").touch()
    made = folder / "kfast" / "kernels" / f"{name}.c"
    directives = "boundscheck=False,wraparound=False,initializedcheck=False,cdivision=True"
    subprocess.run(
        [sys.executable, "-m", "cython", "-3", "-a", "-X", directives,
         f"kfast/kernels/{name}.pyx"], cwd=folder, check=True, capture_output=True,
    )
    page = folder / f"{name}.html"
    shutil.move(made.with_suffix(".html"), page)
    compiler = os.environ.get("CC", "gcc")
    done = subprocess.run(
        [compiler, "-O3", "-fopenmp", "-fPIC", "-DNDEBUG", "-fwrapv", "-c", "-o", os.devnull,
         "-fopt-info-vec-optimized-missed", f"-I{sysconfig.get_paths()['include']}",
         f"-I{np.get_include()}", "-Ikfast/kernels", str(made.relative_to(folder))],
        cwd=folder, check=True, capture_output=True, text=True,
    )
    lines = list(dict.fromkeys(said_of_loops(done.stderr, made.read_text())))
    (folder / f"{name}.vectors.txt").write_text("\n".join(lines) + "\n")
    own = {line.split()[0] for line in lines if "optimized" in line and f"{name}.pyx" in line}
    touched = python_in_loops(page.read_text())
    words = "; ".join(f"{number}: {text}" for number, text in touched[:3])
    counted = f"{len(own):3} loops in vectors, {len(touched):2} lines in loops call Python"
    return f"{name:18} {counted}  {words}"


def main(arguments: list[str] | None = None) -> int:
    """Reports of the kernels named, or of all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reports")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "reports")
    parser.add_argument("kernels", nargs="*")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.kernels or sorted(path.stem for path in KERNELS.glob("*.pyx")):
        print(report(name, options.folder), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
