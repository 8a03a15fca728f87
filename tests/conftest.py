import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

REFERENCE = Path(__file__).parent / "reference"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

# Examples are the same in every run, so that a failure is not a matter of luck.
settings.register_profile("vicheck", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("vicheck")


@pytest.fixture(scope="session")
def loo_cases():
    """Vectors of log ratios and what loo returns for each."""
    vectors = np.load(REFERENCE / "psis_loo.npz")
    cases = json.loads((REFERENCE / "psis_loo.json").read_text())["cases"]
    return {name: (vectors[name], case) for name, case in cases.items()}


@pytest.fixture
def rng():
    return np.random.default_rng(20180701)


# Playwright has an event loop running in the main thread for as long as it is open, in which Dask
# cannot start its own: it is closed after each file.
@pytest.fixture(scope="module")
def browser():
    """The chromium of the system, driven by Playwright."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        reason = f"no browser: none of {', '.join(BROWSERS)} is on the path"
        if os.environ.get("VICHECK_REQUIRE_BROWSER") == "1":
            pytest.fail(f"{reason}, and VICHECK_REQUIRE_BROWSER is set")
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        yield opened
        opened.close()
