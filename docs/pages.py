"""What pages list: public names, each of which gets a page, and the examples in order."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
MODULE_OR_NAME = re.compile(r"^\.\. currentmodule:: (\S+)$|^   ([\w.]+)$", re.MULTILINE)


def listed_names() -> list[str]:
    """Every name in a list of an API page, with its module."""
    names, module = [], ""
    for page in sorted(FOLDER.glob("api/*.rst")):
        for current, name in MODULE_OR_NAME.findall(page.read_text(encoding="utf-8")):
            module = current or module
            if name and page.stem != "index":
                names.append(f"{module}.{name}")
    return names


def example_place(file: str) -> int:
    """Place of an example: that of its question in the table of `docs/how_to.rst`."""
    table = (FOLDER / "how_to.rst").read_text(encoding="utf-8")
    return re.findall(r"<generated/gallery/(\w+)>", table).index(Path(file).stem)
