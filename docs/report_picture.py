"""Draw `docs/report.png`, the first screen of a report: `python -m docs.report_picture`.

Needs playwright, and Chromium or Chrome.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import kfast
from tests.report.browser import open_page

ROOT = Path(__file__).resolve().parents[1]


def main(output: Path) -> None:
    """Write a report of the cluster in `bench_data`, and take its picture."""
    state = kfast.read(
        str(ROOT / "bench_data/describe.txt"), brokers_file=str(ROOT / "bench_data/brokers.csv")
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        kfast.write_report(state, path)
        with open_page(path) as page:
            page.screenshot(path=output, clip={"x": 60, "y": 0, "width": 1160, "height": 860})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "report.png")
