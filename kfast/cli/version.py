"""`kfast --version`: which build of kfast runs, and on what."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import kfast
from kfast.kernels.source_digest import compiler, sources_digest

__all__ = ["version_text"]


def version_text() -> str:
    """Version, libraries, kernels and place, a line each; loads neither numpy nor pyarrow."""
    folder = Path(kfast.__file__).parent
    is_checkout = (folder.parent / "pyproject.toml").is_file()
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pyarrow", "click"))
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    return "\n".join((
        f"kfast {kfast.__version__}",
        f"Python {platform.python_version()} ({platform.python_implementation()}), {libraries}",
        f"kernels compiled from sources {sources_digest()} by {compiler()}",
        system,
        f"{'checkout' if is_checkout else 'installed'} in {folder}",
    ))
