"""The site of the documentation, opened from a disk as after `make docs`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, in a directory whose name is one that addresses have to encode."""
    directory = tmp_path_factory.mktemp("site") / "with a space"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    subprocess.run(
        [*command, "--site-dir", str(directory)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True,
    )  # fmt: skip
    return directory


@pytest.mark.parametrize("page", ["index.html", "api/checks.html"])
def test_search_works_without_a_server_or_a_network(browser, site, page):
    with browser.new_context(offline=True) as context:
        opened = context.new_page()
        requests, errors = [], []
        opened.on("request", lambda request: requests.append(request.url))
        opened.on("pageerror", lambda error: errors.append(error))  # noqa: PLW0108
        opened.goto((site / page).as_uri())
        opened.click(".md-search__input")
        opened.keyboard.type("exceedance")
        found = opened.locator(".md-search-result__item h1")
        found.first.wait_for()
        assert "Results and errors" in found.all_inner_texts()
    assert errors == []
    assert all(address.startswith(("file:", "data:")) for address in requests)
