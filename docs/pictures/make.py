"""Make the pictures of reports: `python docs/pictures/make.py`, where there is a Chromium."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import numpyro
import numpyro.distributions as dist

import vicheck
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_centred

HERE = Path(__file__).parent
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


def main():
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


if __name__ == "__main__":
    main()
