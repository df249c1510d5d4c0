"""Compile every kernel: `kfast/kernels/NAME.pyx` becomes `kfast.kernels.NAME`.

One environment variable each chooses another build:

`KFAST_DEBUG=1`
    bounds and initialisation checks (a negative index is out of bounds), and C assertions, among
    them that of every row that is read by address (`row_at` of `slots.pxd`).
`KFAST_SANITIZE=address,undefined`
    the C compiler's sanitizers. Python must then be started with the sanitizer's library:
    ``LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 python ...``
    (`make sanitize` does all of it, in a copy of the tree).
`KFAST_OPENMP=0`
    no OpenMP, even where the compiler has it.

gcc and clang compile the kernels; MSVC cannot, for it has no integers of 128 bits. On Windows it is
MinGW-w64: ``build_ext --compiler=mingw32``.

What stands in `pyproject.toml` is not repeated here.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import Cython
from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

ROOT = Path(__file__).resolve().parent
SHARED = "kfast._cyutility"
"""The module that holds the C code that all kernels need, so that it is compiled once."""

DEBUG = os.environ.get("KFAST_DEBUG", "0") not in ("", "0")
SANITIZE = os.environ.get("KFAST_SANITIZE", "")
OPENMP = os.environ.get("KFAST_OPENMP", "1") not in ("", "0")

INLINED = [] if DEBUG else [
    "-finline-limit=3000", "--param=inline-unit-growth=500", "--param=large-function-growth=2000",
]
"""A rule is inlined into the loop over rows, however long it is: left alone, gcc stops earlier."""

OPENMP_FLAGS = (
    (["-fopenmp"], ["-fopenmp"]),
    (["-Xpreprocessor", "-fopenmp"], ["-lomp"]),
)
"""Flags of the compiler and of the linker that may bring OpenMP; the second ones are Apple's."""

DIRECTIVES: dict[str, bool | int] = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "binding": True,
    "embedsignature": False,
    "emit_code_comments": DEBUG,
    "freethreading_compatible": True,
    "show_performance_hints": not DEBUG,
    "warn.multiple_declarators": True,
    "warn.unreachable": True,
    "warn.unused": True,
}
"""The compiler directives of every kernel. In a debug build a warning of Cython is an error.

Not `overflowcheck`: it raises without holding the GIL. The sanitizer `undefined` finds overflows.
"""


def compile_flags() -> list[str]:
    """Flags of the C compiler, OpenMP's apart."""
    checked = ["-O1", "-g", "-UNDEBUG", "-Wno-maybe-uninitialized"]
    if SANITIZE:
        sanitizer = [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all", "-fno-wrapv"]
        return [*checked, *sanitizer, "-fno-omit-frame-pointer"]
    return checked if DEBUG else ["-O3", "-g0", "-DNDEBUG"]


def link_flags() -> list[str]:
    """Flags of the linker, OpenMP's apart."""
    return [f"-fsanitize={SANITIZE}"] if SANITIZE else []


def write_settings() -> tuple[Path, str]:
    """Keep what this build was asked for in a file that changes only when the answer does.

    Every extension depends on the file, so that another value of a `KFAST_*` variable compiles
    everything again.

    Returns
    -------
    path, digest
        The file, and a short name of its text.
    """
    asked = {
        "cython": Cython.__version__,
        "directives": DIRECTIVES,
        "compiler": os.environ.get("CC", ""),
        "compile": compile_flags() + INLINED,
        "link": link_flags(),
        "openmp": OPENMP,
    }
    text = json.dumps(asked, indent=2) + "\n"
    return keep_text("settings.json", text), hashlib.sha256(text.encode()).hexdigest()[:8]


def keep_text(name: str, text: str) -> Path:
    """Write a file below `build/`, unless it says that already; return its path."""
    path = ROOT / "build" / name
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return path


def digest_sources() -> str:
    """Digest of all sources of kernels, which `kernels/source_digest.pyx` is compiled with.

    So the digest is that of what was compiled, wherever it is installed and whatever was edited
    since.
    """
    digest = hashlib.sha256()
    for path in sorted((ROOT / "kfast" / "kernels").iterdir()):
        if path.suffix in (".pyx", ".pxd", ".h"):
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def extensions() -> list[Extension]:
    """Every kernel and the module they share, translated to C below `build/`."""
    names = sorted(path.stem for path in (ROOT / "kfast" / "kernels").glob("*.pyx"))
    if not names:
        raise SystemExit(f"no kernel (*.pyx) in {ROOT / 'kfast' / 'kernels'}: an incomplete copy?")
    settings, digest = write_settings()
    build_dir = os.path.join("build", f"cython-{digest}")
    shared_c = os.path.join(*SHARED.split(".")) + ".c"
    headers = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "kfast" / "kernels").glob("*.h"))
    options = {
        "extra_compile_args": compile_flags(),
        "extra_link_args": link_flags(),
        "depends": [os.path.relpath(settings, ROOT), *headers],
        "include_dirs": [os.path.join("kfast", "kernels"), "build"],
    }
    modules = [
        Extension(f"kfast.kernels.{name}", [f"kfast/kernels/{name}.pyx"], **options)
        for name in names
    ]
    facts = {"SOURCES": digest_sources(), "FLAGS": " ".join(compile_flags())}
    defined = "".join(f'#define KFAST_{name} "{fact}"\n' for name, fact in facts.items())
    header = keep_text("sources.h", defined)
    sources = next(m for m in modules if m.name == "kfast.kernels.source_digest")
    sources.depends = [*sources.depends, os.path.relpath(header, ROOT)]
    Options.warning_errors = DEBUG
    return cythonize(
        [*modules, Extension(SHARED, [shared_c], **options)],
        build_dir=build_dir,
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=SHARED,
        show_all_warnings=False,
        nthreads=(os.cpu_count() or 1) if sys.platform == "linux" else 0,
    )


class BuildKernels(build_ext):
    """`build_ext` that adds flags where a probe shows that the compiler takes them."""

    PROBE = "int main(void) { return 0; }"
    OPENMP_PROBE = """
        #include <omp.h>
        int main(void) { return omp_get_max_threads() < 1; }
    """

    def build_extensions(self) -> None:
        """Compile everything."""
        if self.compiler.compiler_type == "msvc":
            raise SystemExit(
                "kfast's kernels need integers of 128 bits, which MSVC does not have: build with "
                "MinGW-w64 (build_ext --compiler=mingw32)"
            )
        compiled = INLINED if self.takes(self.PROBE, ["-Werror", *INLINED], []) else []
        openmp = [flags for flags in OPENMP_FLAGS if self.takes(self.OPENMP_PROBE, *flags)]
        if not OPENMP or not openmp:
            self.warn("OpenMP is not used: kernels run on one thread")
            openmp = [([], [])]
        for_openmp, linked = openmp[0]
        for extension in self.extensions:
            extension.extra_compile_args = [*extension.extra_compile_args, *compiled, *for_openmp]
            extension.extra_link_args = [*extension.extra_link_args, *linked]
        self.parallel = self.parallel or os.cpu_count()
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        """Compile a kernel; with `pip install -e` only where the one in the checkout is older.

        Such an installation builds in a new folder each time, and all kernels again.
        """
        name = self.get_ext_filename(self.get_ext_fullname(ext.name))
        earlier, built = ROOT / name, Path(self.build_lib, name)
        if self.editable_mode and earlier.exists():
            built.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(earlier, built)
        super().build_extension(ext)

    def takes(self, program: str, compiled: list[str], linked: list[str]) -> bool:
        """Whether this compiler and linker make a program with some flags."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text(program)
            try:
                objects = self.compiler.compile(
                    [str(source)], output_dir=folder, extra_postargs=compiled
                )
                self.compiler.link_executable(
                    objects, str(source.with_suffix("")), extra_postargs=linked
                )
            except (CompileError, LinkError):
                return False
        return True


if __name__ == "__main__":
    os.chdir(ROOT)
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernels})
