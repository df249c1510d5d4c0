"""What can go wrong through a caller's mistake, and the one thing that is kfast's own fault.

Every error of a caller is a `KfastError` that is also the built-in it resembles. It is raised
before anything changes and says which argument, file or row, what was found, and what is allowed.
What Kafka itself would refuse is never an exception: it is a `schema.Code` in the result.
"""

from __future__ import annotations

from importlib.util import find_spec

__all__ = [
    "ArgumentError", "InputError", "InvariantError", "KfastError", "MissingExtraError",
    "PolicyError", "RowError", "require_extra",
]

EXTRAS = {
    "live": ("kafka", "kazoo"), "numba": ("numba",), "plot": ("altair", "vl_convert"),
    "report": ("plotly", "jinja2", "scipy"),
    "spark": ("pyspark", "pandas"), "stats": ("scipy",), "yaml": ("yaml",),
}
"""Optional dependencies: the extras of `pyproject.toml`, and the modules that each installs."""


class KfastError(Exception):
    """A caller's mistake; nothing was changed."""


class ArgumentError(KfastError, ValueError):
    """An argument has a value that Kafka or kfast cannot be asked for."""


class RowError(KfastError, IndexError):
    """A row is outside its table, or is listed twice."""


class InputError(KfastError, ValueError):
    """A file or a table cannot be read, or contradicts itself."""


class PolicyError(KfastError, ValueError):
    """A user's election rule cannot be compiled, raised, or elected whom it may not."""


class MissingExtraError(KfastError, ImportError):
    """An optional dependency is not installed; the message has the `pip install` that does it."""


class InvariantError(AssertionError):
    """A rule of docs/controller.md, section 9, does not hold: kfast's own mistake."""


def require_extra(extra: str, user: str) -> None:
    """Raise `MissingExtraError` unless the modules of an extra are installed; imports none.

    Parameters
    ----------
    extra : str
        Its name, a key of `EXTRAS`.
    user : str
        What needs it, for the message: "{user} needs {modules} (not installed): ...".
    """
    missing = [module for module in EXTRAS[extra] if not _is_installed(module)]
    if missing:
        raise MissingExtraError(
            f"{user} needs {' and '.join(missing)} (not installed): pip install 'kfast[{extra}]'",
            name=missing[0],
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # from a finder that forbids the module
        return False
