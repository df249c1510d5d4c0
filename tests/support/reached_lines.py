"""Which lines of some modules run, and how often each of their functions is called.

A function whose lines have all run costs no more than its call.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any


def functions_below(code: CodeType) -> Iterator[CodeType]:
    """Functions that are defined in a code object, at any depth."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & inspect.CO_OPTIMIZED:
                yield inner
            yield from functions_below(inner)


def lines_of(code: CodeType) -> set[int]:
    """Lines of a function that run when it is called."""
    lines = {line for _, line in dis.findlinestarts(code) if line}
    return lines - {code.co_firstlineno}


class ReachedLines:
    """Watches modules while it is entered, as often as it is.

    Attributes
    ----------
    calls : Counter of str
        How often each function was called, as `module.function`.
    """

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        self.calls: Counter[str] = Counter()
        self.missing: dict[tuple[str, str, int], set[int]] = {}
        self.text: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}
        self._missing_of: dict[CodeType, tuple[str, set[int]] | None] = {}
        for module in modules:
            path = str(module.__file__)
            text = Path(path).read_text(encoding="utf-8")
            self.text[path] = text.splitlines()
            self._names[path] = module.__name__.rpartition(".")[2]
            for code in functions_below(compile(text, path, "exec")):
                self.missing[self._key(code)] = lines_of(code)

    @staticmethod
    def _key(code: CodeType) -> tuple[str, str, int]:
        return code.co_filename, code.co_qualname, code.co_firstlineno

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sys.settrace(self._before)

    def _watch(self, code: CodeType) -> tuple[str, set[int]] | None:
        missing = self.missing.get(self._key(code))
        if missing is None:
            return None
        return f"{self._names[code.co_filename]}.{code.co_qualname}", missing

    def _trace(self, frame: FrameType, _event: str, _value: Any) -> Any:
        code = frame.f_code
        if code not in self._missing_of:
            self._missing_of[code] = self._watch(code)
        watched = self._missing_of[code]
        if watched is None:
            return None
        name, missing = watched
        self.calls[name] += 1
        if not missing:
            return None

        def trace_lines(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                missing.discard(frame.f_lineno)
            return trace_lines

        return trace_lines

    def unreached(self) -> set[str]:
        """Lines that never ran, as `module.function: text`."""
        return {
            f"{self._names[path]}.{name}: {self.text[path][line - 1].strip()}"
            for (path, name, _), lines in self.missing.items()
            for line in lines
        }
