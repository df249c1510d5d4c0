"""The page of `kfast report` in a real browser."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest

import kfast
from tests.report.browser import browser_path, open_page
from tests.report.clusters import HOSTILE, PLAIN, bench, named

pytest.importorskip("plotly", reason="a report needs plotly")
pytest.importorskip("playwright", reason="a browser is driven by playwright")
pytestmark = [
    pytest.mark.skipif(browser_path() is None, reason="no Chromium or Chrome is installed"),
    # Of playwright's own connection.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ELEMENTS = """() => [...document.querySelectorAll('*')]
    .filter((one) => !one.closest('.plot')).map((one) => one.tagName)"""
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report of the cluster in bench_data."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    kfast.write_report(bench(), path)
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_a_page_opens_offline_without_a_word(report, width, scheme):
    """No error, no request; nothing is wider than the window; every figure is drawn."""
    seen = []
    with open_page(report, width=width, scheme=scheme, seen=seen) as page:
        assert page.evaluate(OVERFLOW) <= 0
        figures = page.locator(".plot").count()
        assert page.locator(".plot .main-svg[viewBox]").count() >= figures >= 5
        colours = page.evaluate("""() => [document.body, document.querySelector('.plot text')]
            .map((one) => getComputedStyle(one)).map((s) => [s.backgroundColor, s.fill])""")
        dark = colours[0][0] == "rgb(21, 24, 28)", colours[1][1] == "rgb(231, 233, 236)"
        assert dark == ((scheme == "dark"),) * 2
    assert seen == []


@pytest.mark.slow
def test_a_page_prints_with_nothing_folded(report):
    with open_page(report) as page:
        printed = page.pdf(format="A4")
        assert page.locator("details:not([open])").count() > 0, "folded again after it"
    assert printed.startswith(b"%PDF")
    assert 8 <= printed.count(b"/Type /Page\n") <= 30


def test_hostile_names_change_nothing(tmp_path):
    """Names that are markup, scripts or templates give the elements of plain names."""
    elements, texts, seen = [], [], []
    for names in (HOSTILE, PLAIN):
        path = tmp_path / "report.html"
        kfast.write_report(named(names), path)
        with open_page(path, seen=seen) as page:
            elements.append(Counter(page.evaluate(ELEMENTS)))
            texts.append(page.evaluate("document.body.textContent"))
            assert page.locator(".plot a, .plot img, .plot script").count() == 0
            data = page.evaluate("JSON.parse(document.getElementById('kfast-data').textContent)")
            assert {fault["topics"][0]["topic"] for fault in data["faults"]} <= set(names["topics"])
    assert elements[0] == elements[1]
    assert "{{ 7 * 7 }}{% raw %}" in texts[0]
    assert seen == []


@pytest.mark.slow
def test_axe_finds_no_accessibility_fault(report, tmp_path):
    """axe-core, which npm installs: in both themes, wide and narrow."""
    try:
        subprocess.run(
            ["npm", "install", "--silent", "--no-audit", "--no-fund", "axe-core"], cwd=tmp_path,
            check=True, capture_output=True, timeout=120,
        )
    except (OSError, subprocess.SubprocessError):
        pytest.skip("axe-core cannot be installed: npm or the network is missing")
    for width in (1280, 400):
        for scheme in ("light", "dark"):
            with open_page(report, width=width, scheme=scheme, bypass_csp=True) as page:
                page.add_script_tag(path=tmp_path / "node_modules/axe-core/axe.min.js")
                found = page.evaluate("axe.run()")
            assert len(found["passes"]) > 30
            assert [fault["id"] for fault in found["violations"]] == []
