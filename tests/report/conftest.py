"""A browser for the tests of pages: the chromium of the system, driven by Playwright."""

import os
import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


# Playwright has an event loop running in the main thread for as long as it is open, in which Dask
# cannot start its own: it is closed after each file.
@pytest.fixture(scope="module")
def browser():
    executable = next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        reason = f"no browser: none of {', '.join(NAMES)} is on the path"
        if os.environ.get("VICHECK_REQUIRE_BROWSER") == "1":
            pytest.fail(f"{reason}, and VICHECK_REQUIRE_BROWSER is set")
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        yield opened
        opened.close()
