"""Which build of kfast runs: two that differ may give other rows.

A version is not enough: a checkout has the same one from one release to the next.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from kfast.kernels.source_digest import sources_digest

__all__ = ["build_digest"]


@functools.cache
def build_digest() -> str:
    """Digest of the code of this process: 16 hexadecimal digits.

    It stands for the sources of the kernels as they were compiled (an edited kernel counts when it
    is built), and for every Python file of the package, that with the version among them, as it
    lies there when this is first asked.
    """
    digest = hashlib.sha256(f"{sources_digest()}\0".encode())
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
