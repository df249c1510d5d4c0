"""Public names and signatures, kept as a text so that a change of them is seen in review.

`python -m tests.support.public_names` writes public_names.json anew.
"""

from __future__ import annotations

import importlib
import inspect
import json
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import click

RECORD = Path(__file__).with_name("public_names.json")
MODULES = ("kfast", "kfast.io", "kfast.spark")
"""Those whose names users import."""


def _signature(value: Any) -> str:
    """Parameters and their defaults; types are checked by mypy, and enums depend on Python's."""
    if isinstance(value, type) and issubclass(value, Enum):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def _members(kind: type) -> dict[str, str]:
    """Public names of a class that kfast itself defines; of methods without `self`."""
    names = {
        name: member for base in reversed(kind.__mro__)
        if base.__module__.startswith("kfast") for name, member in vars(base).items()
        if not name.startswith("_")
    }
    return {
        name: _signature(partial(member, None) if inspect.isfunction(member) else member)
        if callable(getattr(kind, name, None)) else "value"
        for name, member in sorted(names.items())
    }


def options() -> dict[str, str]:
    """Commands with their arguments and options."""
    from kfast.cli.app import commands

    context = click.Context(commands)
    return {
        f"$ kfast {name} {' '.join(param.opts)}": "flag" if getattr(param, "is_flag", False)
        else "value"
        for name in commands.list_commands(context)
        for param in commands.get_command(context, name).params
    }


def signatures() -> dict[str, str]:
    """All of them by name."""
    found: dict[str, str] = {}
    for path in MODULES:
        module = importlib.import_module(path)
        for name in module.__all__:
            value = getattr(module, name)
            found[f"{path}.{name}"] = _signature(value) if callable(value) else "value"
            if isinstance(value, type):
                found |= {f"{path}.{name}.{k}": v for k, v in _members(value).items()}
    return found | options()


def recorded() -> dict[str, str]:
    """Those on record."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


if __name__ == "__main__":
    RECORD.write_text(json.dumps(signatures(), indent=0) + "\n", encoding="utf-8")
