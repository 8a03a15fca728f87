"""Make the pictures of the documentation: of reports, where there is a Chromium, and the gallery.

`python docs/pictures/make.py` makes all of them, `python docs/pictures/make.py batting` that of one
page of the gallery.
"""

import doctest
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpyro
import numpyro.distributions as dist

import vicheck
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_centred

HERE = Path(__file__).parent
GALLERY = HERE.parent / "gallery"
WIDTH, HEIGHTS = 1180, {"good": 1480, "bad": 2040, "vsbc": 1560}


def regression(x, y=None):
    """Define a model whose posterior is nearly normal."""
    slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 5.0))
    scale = numpyro.sample("scale", dist.HalfNormal(2.0))
    numpyro.sample("y", dist.Normal(intercept + slope * x, scale), obs=y)


def write_reports(directory):
    """Write a good report, a bad one and one on simulated datasets."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=200)
    line = vicheck.from_numpyro(regression, x=x, y=1.0 + 2.0 * x + 0.5 * rng.normal(size=200))
    schools = vicheck.from_numpyro(eight_schools_centred, **EIGHT_SCHOOLS)
    vicheck.check(vicheck.fit(line, family="full_rank")).report(directory / "good.html")
    vicheck.check(vicheck.fit(schools)).report(directory / "bad.html")
    vicheck.vsbc(schools, progress=False).report(directory / "vsbc.html")


def picture_reports():
    """Write the reports, and take a picture of each."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if browser is None:
        raise SystemExit("there is no Chromium here: on Debian, apt-get install chromium")
    with tempfile.TemporaryDirectory() as temporary:
        write_reports(Path(temporary))
        for name, height in HEIGHTS.items():
            subprocess.run(
                [
                    browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                    f"--window-size={WIDTH},{height}", f"--user-data-dir={temporary}/profile",
                    f"--screenshot={HERE / f'report-{name}.png'}",
                    (Path(temporary) / f"{name}.html").as_uri(),
                ],
                check=True, capture_output=True,
            )  # fmt: skip


def picture_page(page):
    """Run the examples of a page of the gallery, and save the figure that it ends with."""
    names = {}
    for example in doctest.DocTestParser().get_examples(page.read_text(encoding="utf-8")):
        exec(compile(example.source, page.name, "exec"), names)
    names["figure"].savefig(page.with_suffix(".png"), dpi=110)


def main(chosen):
    """Make all pictures, or those of the pages of the gallery that are named."""
    if not chosen:
        picture_reports()
    for page in sorted(GALLERY.glob("*.md")):
        if page.stem != "index" and (not chosen or page.stem in chosen):
            picture_page(page)


if __name__ == "__main__":
    main(sys.argv[1:])
