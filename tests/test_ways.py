"""The ways of new users, with files as they have them: from their own things to a verdict."""

import ast
import json
from pathlib import Path

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro.infer import SVI, Trace_ELBO, autoguide

import vicheck
from tests.cli.command_line import call
from vicheck.paper.models import EIGHT_SCHOOLS as SCHOOLS

DOCS = Path(__file__).parents[1] / "docs"
ADVI = Path(__file__).parent / "reference" / "stan_csv" / "eight_schools_cp_meanfield.csv"

RADON = """
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist


def radon(county, floor, log_radon=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    with numpyro.plate("counties", 3):
        a = numpyro.sample("a", dist.Normal(mu, 0.5))
    numpyro.sample("log_radon", dist.Normal(a[county] + slope * floor, 1.0), obs=log_radon)
"""


def houses(first_county):
    """A table as people have it: a column of row numbers, text, and more than the model takes."""
    rng = np.random.default_rng(1)
    county = np.arange(30) % 3
    return pd.DataFrame(
        {
            "county_name": np.array(["Aitkin", "Anoka", "Becker"])[county],
            "county": county + first_county,
            "floor": rng.integers(2, size=30),
            "log_radon": 1.0 + 0.3 * county + rng.normal(size=30),
            "zip code": "55109",
        }
    )


@pytest.fixture
def radon(tmp_path):
    (tmp_path / "radon.py").write_text(RADON)
    houses(0).to_csv(tmp_path / "radon.csv")
    houses(1).to_csv(tmp_path / "from_r.csv")
    return tmp_path


def test_a_model_of_ones_own_with_a_csv_file_that_has_more_columns(radon):
    model = ("check", f"{radon / 'radon.py'}:radon", "--draws", 2000, "--json")
    done = call(*model, "--data", radon / "radon.csv", "--family", "fullrank")
    assert done.returncode in (0, 1), done.stderr
    assert "left out: county_name, zip code" in done.stderr
    answer = json.loads(done.stdout)
    assert set(answer["moments"]) == {"mu", "slope", "a[0]", "a[1]", "a[2]"}


def test_counties_that_count_from_1_are_noticed(radon):
    model = ("check", f"{radon / 'radon.py'}:radon", "--draws", 2000)
    done = call(*model, "--data", radon / "from_r.csv")
    assert done.returncode == 65
    said = " ".join(done.stderr.split())
    assert "county is used as an index and counts from 1" in said
    assert "subtract 1 from county" in said


def test_columns_can_be_chosen_and_a_wrong_name_is_told(radon):
    model = ("check", f"{radon / 'radon.py'}:radon", "--data", radon / "radon.csv")
    done = call(*model, "--columns", "county,storey,log_radon")
    assert done.returncode == 65
    said = " ".join(done.stderr.split())
    assert "has no column 'storey'" in said
    assert "'floor'" in said
    done = call(*model[:2], "--columns", "county")
    assert done.returncode == 64
    assert "--columns chooses among the columns of a CSV file" in " ".join(done.stderr.split())


def line(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(slope * x, sigma), obs=y)


def test_columns_of_a_data_frame_a_guide_and_a_key():
    table = pd.DataFrame({"x": np.linspace(-1.0, 1.0, 20)})
    table["y"] = 0.5 * table["x"] + np.random.default_rng(0).normal(size=20)
    guide = autoguide.AutoNormal(line)
    svi = SVI(line, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
    x, y = table["x"].to_numpy(), table["y"].to_numpy()
    result = svi.run(jax.random.key(0), 50, x, y=y, progress_bar=False)
    checked = vicheck.check_numpyro(
        line, guide, result, table["x"], y=table["y"], num_draws=1000, seed=jax.random.key(3)
    )
    assert str(checked.verdict.converged) == "no"
    assert "run SVI longer" in " ".join(finding.hint for finding in checked.findings)


def test_draws_in_a_data_frame_go_to_a_report_and_back(tmp_path):
    z = np.random.default_rng(0).normal(size=(1000, 2))
    table = pd.DataFrame({"alpha": z[:, 0], "beta": z[:, 1]})
    table["lp__"] = -0.5 * (z**2).sum(axis=1)
    table["log_q"] = table["lp__"] - np.log(2.0 * np.pi)
    checked = vicheck.check(table)
    assert checked.verdict.level == "good"
    assert list(checked.moments.index) == ["alpha", "beta"]
    checked.save(tmp_path / "check.npz")
    assert vicheck.check(tmp_path / "check.npz").khat == checked.khat


def test_a_comparison_says_how_fits_ended_and_how_long_they_took():
    x = np.linspace(-1.0, 1.0, 20)
    y = 0.5 * x + np.random.default_rng(0).normal(size=20)
    model = vicheck.from_numpyro(line, x, y=y)
    compared = vicheck.compare(
        {"line": model}, families=("advi", "fullrank"), num_draws=1000, num_starts=1
    )
    assert set(compared.checks) == {"line, mean_field", "line, full_rank"}
    assert set(compared.table["status"]) == {"CONVERGED"}
    assert (compared.table["seconds"] > 0.0).all()


@pytest.mark.slow
def test_a_model_of_pymc_keeps_its_names_up_to_arviz():
    import pymc as pm

    plate = np.arange(12) % 3
    y = plate + np.random.default_rng(0).normal(size=12)
    with pm.Model(coords={"plate": ["a", "b", "c"]}):
        mu = pm.Normal("mu", 0.0, 2.0)
        effect = pm.Normal("effect", mu, 1.0, dims="plate")
        pm.Normal("y", effect[plate], 1.0, observed=y)
        approx = pm.fit(100, progressbar=False, random_seed=1)
    checked = vicheck.check(approx, num_draws=1000)
    assert set(checked.moments.index) == {"mu", "effect[0]", "effect[1]", "effect[2]"}
    with pytest.warns(vicheck.UnreliableWarning):  # a hundred steps are too few
        posterior = checked.to_arviz()["posterior"]
    assert posterior["effect"].coords["plate"].to_numpy().tolist() == ["a", "b", "c"]


@pytest.mark.slow
def test_a_program_and_a_file_of_stan_keep_the_names_of_stan(tmp_path):
    data = {"J": 8, "centred": 0, **{key: np.asarray(v).tolist() for key, v in SCHOOLS.items()}}
    (tmp_path / "schools.json").write_text(json.dumps(data))
    names = {f"theta[{school}]" for school in range(1, 9)}
    program = (DOCS / "eight_schools.stan", "--data", tmp_path / "schools.json", "--draws", 2000)
    answer = json.loads(call("check", *program, "--json").stdout)
    assert {name for name in answer["moments"] if name.startswith("theta[")} == names
    saved, page = tmp_path / "check.npz", tmp_path / "page.html"
    done = call("check", ADVI, "--save", saved, "--report", page, "--prob", "0.025,0.975")
    assert done.returncode in (0, 1, 2), done.stderr
    loaded = vicheck.load(saved)
    assert names < set(loaded.moments.index)
    assert loaded.quantiles().loc["theta[8]", "psis_q97.5"] > 0.0
    assert "theta[8]" in page.read_text()


NOTEBOOK = """
# %% the model
model = vicheck.from_numpyro(line, x, y=y)
model
# %% its fit
fitted = vicheck.fit(model, num_starts=1)
fitted
# %% did it work?
checked = vicheck.check(fitted, num_draws=2000)
checked
# %% why not?
checked.explain()
# %% a picture
vicheck.plots.solver(checked)
# %% for later
fitted.save(folder / "fit.npz")
vicheck.load(folder / "fit.npz", model)
"""


@pytest.mark.slow
def test_a_notebook_shows_what_its_cells_end_with(tmp_path, capsys):
    x = np.linspace(-1.0, 1.0, 20)
    y = 0.5 * x + np.random.default_rng(0).normal(size=20)
    here = {"vicheck": vicheck, "line": line, "x": x, "y": y, "folder": tmp_path}
    shown = []
    for cell in NOTEBOOK.split("# %%")[1:]:
        *statements, last = ast.parse(cell.partition("\n")[2]).body
        exec(compile(ast.Module(statements, []), "<cell>", "exec"), here)
        shown.append(eval(compile(ast.Expression(last.value), "<cell>", "eval"), here))
    model, fitted, checked, why, figure, loaded = shown
    assert len(repr(model)) < 100
    assert repr(loaded) == repr(fitted)
    assert checked.verdict.sentence in checked._repr_html_()
    assert "<" in why._repr_html_()
    assert figure._repr_html_() or figure._repr_png_()
    assert capsys.readouterr() == ("", "")  # progress belongs on terminals and in notebooks
