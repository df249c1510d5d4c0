"""Execute `docs/tour.py` into `docs/tour.ipynb`: `python -m docs.notebook`.

A figure is stored twice, in a few kB: as plotly's JSON, which Jupyter draws with plotly's own
extension, and as HTML for the site, with the script that the site has. Both work offline.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from plotly import io

FOLDER = Path(__file__).resolve().parent
SOURCE = FOLDER / "tour.py"
NOTEBOOK = FOLDER / "tour.ipynb"
SCRIPT = "_static/plotly.min.js"
# The column gets narrower when the table of contents beside it is there.
FIT = "addEventListener('load', () => Plotly.Plots.resize('{plot_id}'))"
FIGURE = "application/vnd.plotly.v1+json"


def executed() -> NotebookNode:
    """The notebook with its output, the same in every run."""
    notebook = jupytext.read(SOURCE)
    notebook.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    }
    NotebookClient(
        notebook, kernel_name="python3", record_timing=False,
        resources={"metadata": {"path": str(FOLDER)}},
    ).execute(env={**os.environ, "PLOTLY_RENDERER": "plotly_mimetype"})
    notebook.metadata["language_info"] = {"name": "python"}  # without the version
    script: str | bool = SCRIPT
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number}"
        for output in cell.get("outputs", ()):
            if FIGURE in output.get("data", ()):
                output.data["text/html"] = io.to_html(
                    output.data[FIGURE], {"displayModeBar": False, "responsive": True},
                    include_plotlyjs=script, full_html=False, validate=False,
                    div_id=f"figure-{number}", post_script=FIT,
                )
                script = False  # once is enough for a page
    return notebook


if __name__ == "__main__":
    nbformat.write(executed(), sys.argv[1] if len(sys.argv) > 1 else NOTEBOOK)
