"""Packages whose public names are loaded when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["LazyPackage", "load_lazily"]


class LazyPackage(ModuleType):
    """A package that finds public names in its modules when they are asked for."""

    _MODULE_OF: Mapping[str, str]

    def __getattr__(self, name: str) -> Any:
        if name not in self._MODULE_OF:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{self.__name__}.{self._MODULE_OF[name]}"), name)
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._MODULE_OF})


def load_lazily(package: str, names: Mapping[str, str]) -> None:
    """Let a package, which is being imported, find its public names when they are asked for.

    Parameters
    ----------
    package : str
        Its name.
    names : mapping of str to str
        Its modules, and the public names that each has, with blanks between them.
    """
    module = sys.modules[package]
    own = {name: where for where, some in names.items() for name in some.split()}
    vars(module)["_MODULE_OF"] = own
    module.__class__ = LazyPackage
