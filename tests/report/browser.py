"""A real browser without a window: Chromium or Chrome, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser_path():
    """Where a browser is; None where there is none."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@contextmanager
def open_page(path: Path, *, width=1280, scheme="light", seen=None, bypass_csp=False) -> Iterator:
    """Open a page that is a file, offline; `seen` takes what the browser complains of."""
    from playwright.sync_api import sync_playwright

    seen = [] if seen is None else seen
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path(), args=["--no-sandbox", "--disable-gpu"]
        )
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True,
            bypass_csp=bypass_csp,
        )
        page = context.new_page()
        page.on("console", lambda message: seen.append((message.type, message.text)))
        page.on("pageerror", lambda error: seen.append(("error", str(error))))
        page.on("dialog", lambda dialog: (seen.append(("dialog", dialog.message)),
                                          dialog.dismiss()))
        page.on("request", lambda request: seen.append(("request", request.url))
                if not request.url.startswith(("file:", "blob:", "data:")) else None)
        page.goto(path.resolve().as_uri())
        page.wait_for_function("document.querySelectorAll('.plot .main-svg').length > 0"
                               " || !document.querySelector('.plot')")
        page.wait_for_timeout(300)
        try:
            yield page
        finally:
            browser.close()
