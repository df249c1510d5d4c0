"""The page itself: templates filled with answers, every script and style in it.

Names from a cluster reach the page in two ways only: as text, which jinja2 escapes, and as JSON in
which no character can end a script. A policy in the page lets no other script run, and lets the
page load nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from kfast.errors import require_extra
from kfast.report.answer import Document
from kfast.report.capacity_wording import share
from kfast.report.cluster_diff import MEASURES
from kfast.report.wording import (
    broker_ranges,
    controller_sentence,
    percent,
    plural,
)
from kfast.report.writing import json_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["page_html", "script_json"]

ESCAPES = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"})
"""Characters that could end a script, or begin a comment in it."""


MOST_IDS = 12
"""Brokers of a cell; the data have all."""


def page_html(document: Document, figures: Mapping[str, Figure]) -> bytes:
    """Fill the templates.

    Parameters
    ----------
    document : dict
        Of `report_answer`.
    figures : mapping of str to Figure

    Raises
    ------
    MissingExtraError
        plotly or jinja2 is not installed.
    """
    require_extra("report", "kfast report")
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=PackageLoader("kfast.report.page"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )
    environment.filters |= {
        "plural": plural, "percent": percent, "share": share, "brokers": _broker_list,
        "controller": controller_sentence,
    }
    scripts = {"plotly": get_plotlyjs(), "page": _text("page.js")}
    titles = {name: figure.layout.title.text for name, figure in figures.items()}
    drawn = {name: _untitled(json.loads(figure.to_json())) for name, figure in figures.items()}
    page = environment.get_template("page.html.jinja").render(
        report=document, sections=document["sections"], titles=titles, measures=MEASURES,
        style=_text("page.css"),
        scripts=scripts,
        hashes=[_hash(text) for text in scripts.values()],
        figures_json=script_json(drawn),
        data_json=script_json(document),
    )
    return page.encode("utf-8", "backslashreplace")


def _untitled(drawing: Document) -> Document:
    """A figure without its title, which stands above it as text and wraps."""
    del drawing["layout"]["title"]
    drawing["layout"]["margin"]["t"] = 34
    return drawing


def _broker_list(broker_ids: Sequence[int]) -> str:
    """Ids in a cell: runs as ranges, and of many the first."""
    more = len(broker_ids) - MOST_IDS
    return broker_ranges(broker_ids[:MOST_IDS]) + (f" and {more} more" if more > 0 else "")


def script_json(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it ends the element."""
    text = json.dumps(value, separators=(",", ":"), default=json_text)
    return text.translate(ESCAPES)


def _hash(script: str) -> str:
    """What a content security policy calls a script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _text(name: str) -> str:
    return (resources.files("kfast.report.page") / "templates" / name).read_text(encoding="utf-8")
