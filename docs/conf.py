"""How Sphinx makes the documentation a site: `make docs` writes it to build/docs.

Names such as `pyarrow.Table` link to the documentation of other projects, whose inventories are on
the network. A build must succeed without one and be the same everywhere, so inventories are read
only where `DOCS_ONLINE` is set, as `make docs-links` does. Elsewhere such names are plain text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import plotly
from numpydoc.xref import DEFAULT_LINKS
from plotly.io import renderers
from plotly.io.base_renderers import HtmlRenderer
from sphinx.application import Sphinx

import kfast
from docs.pages import listed_names

project = "kfast"
author = "the authors of kfast"
project_copyright = f"{author}, Apache License 2.0"
version = release = kfast.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery"]  # its examples are executed into generated/gallery
templates_path = ["templates"]

# Pages are written for GitHub too, so anchors of headings are made as it makes them.
myst_heading_anchors = 4
# Notebooks hold their output; what a build executes is the gallery.
nb_execution_mode = "off"
# A figure is in them as HTML, which the site shows, and as JSON of plotly, which Jupyter shows.
suppress_warnings = ["mystnb.unknown_mime_type"]

PROJECTS = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "pandas": "https://pandas.pydata.org/docs",
    "pyarrow": "https://arrow.apache.org/docs",
    "pyspark": "https://spark.apache.org/docs/latest/api/python",
}
# A word in backquotes is a link where it is a public name, and code everywhere else. Types of a
# signature may be names that only kfast's own modules have.
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [("py:obj", ".*"), ("py:class", r"[A-Z]\w*|npt?\..*")]

smartquotes = False  # "--option" is two dashes

autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # docstrings name the types
numpydoc_show_class_members = False  # the template of classes has them
# What of validation says that a docstring contradicts the signature, or the order of sections.
numpydoc_validation_checks = {"GL05", "GL06", "GL07", "PR02", "PR05", "PR10"}
# Docstrings and signatures have the short names of types.
TYPES = {name.rpartition(".")[2]: name for name in reversed(listed_names())} | {
    "DataFrame": "pyspark.sql.DataFrame",
    "SparkSession": "pyspark.sql.SparkSession",
    "pa.RecordBatch": "pyarrow.RecordBatch",
    "pa.RecordBatchReader": "pyarrow.RecordBatchReader",
    "pa.Schema": "pyarrow.Schema",
    "pa.Table": "pyarrow.Table",
}
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
if os.environ.get("DOCS_ONLINE"):
    intersphinx_mapping = {name: (address, None) for name, address in PROJECTS.items()}
    numpydoc_xref_aliases = TYPES
else:
    nitpick_ignore_regex.append((".*", rf"(collections\.abc|contextlib|{'|'.join(PROJECTS)})\..*"))
    numpydoc_xref_aliases = {name: name for name in DEFAULT_LINKS} | TYPES

# Figures of examples share one script, which comes with the site: it opens offline.
PLOTLY_SCRIPT = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
renderers["site"] = HtmlRenderer(
    include_plotlyjs=f"../../_static/{PLOTLY_SCRIPT.name}",
    config={"displayModeBar": False, "responsive": True},
)
renderers.default = "site"

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": "",
    "within_subsection_order": "docs.pages.example_place",
    "abort_on_example_error": True,
    "image_scrapers": (),
    "notebook_extensions": set(),
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"

html_title = "kfast"
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
html_static_path = ["static", str(PLOTLY_SCRIPT)]
html_css_files = ["site.css"]
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True


def show_return_type(
    _app: Sphinx, _what: str, _name: str, described: Any, _options: Any, signature: str,
    _returns: Any,
) -> tuple[str, str] | None:
    """Show what a function returns, which not every docstring says again."""
    returned = getattr(described, "__annotations__", {}).get("return")
    if not isinstance(returned, str) or returned == "None":
        return None
    return signature, re.sub(
        r"[\w.]+", lambda word: f"~{TYPES[word[0]]}" if word[0] in TYPES else word[0], returned
    )


def setup(app: Sphinx) -> None:
    """Connect what is written above."""
    app.connect("autodoc-process-signature", show_return_type)
