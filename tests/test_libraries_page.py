"""The table of libraries: every row has a test, and every function a row."""

import ast
import re
from pathlib import Path

import pytest

import vicheck

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "libraries.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| library", "|---"))
]
LINES = [re.findall("`([^`]*)`", row[2])[0] for row in ROWS]

# The test of each row, by its line of code: against the real library, except for BridgeStan.
TESTS = {
    "vicheck.check_numpyro(model, guide, svi_result, *args)": (
        "adapters/test_numpyro_guides.py",
        "test_a_mean_field_guide_has_the_khat_of_the_same_q",
    ),
    "vicheck.vsbc_numpyro(model, guide, optim, num_steps, *args)": (
        "adapters/test_numpyro_guides.py",
        "test_stopping_early_turns_the_finding_round_and_is_noticed",
    ),
    "vicheck.from_numpyro(model, *args)": (
        "adapters/test_numpyro.py",
        "test_log_density_equals_numpyros_own",
    ),
    "vicheck.check(approx)": (
        "adapters/test_pymc.py",
        "test_checks_of_pymcs_fits_are_those_of_the_same_q",
    ),
    "vicheck.check(result)": (
        "adapters/test_pymc.py",
        "test_results_of_dadvi_are_rebuilt_from_means_and_sds",
    ),
    "vicheck.from_pymc(model)": (
        "adapters/test_pymc.py",
        "test_fit_and_check_agree_with_numpyro",
    ),
    "vicheck.check_pyro(model, guide, *args)": (
        "pyro/test_pyro.py",
        "test_khat_is_that_of_the_same_q_checked_natively",
    ),
    'vicheck.check("output.csv")': (
        "adapters/test_stan_csv.py",
        "test_densities_are_those_of_the_same_q_by_vicheck_itself",
    ),
    "vicheck.check(fit)": (
        "adapters/test_cmdstanpy.py",
        "test_a_fit_has_the_khat_of_its_file",
    ),
    'vicheck.from_stan("model.stan", data)': (
        "adapters/test_stan.py",
        "test_the_same_q_has_the_same_khat",
    ),
    "vicheck.from_stan(stan_model)": (
        "adapters/test_stan.py",
        "test_any_object_with_the_interface_of_bridgestan",
    ),
    "vicheck.check_blackjax(state, log_density)": (
        "adapters/test_blackjax.py",
        "test_mean_field_has_the_khat_of_the_same_q",
    ),
    "vicheck.check_distribution(q, log_density)": (
        "adapters/test_blackjax.py",
        "test_a_distribution_of_numpyro",
    ),
    "vicheck.check(data)": (
        "adapters/test_arviz.py",
        "test_files_are_read_and_the_command_line_takes_them",
    ),
    'vicheck.check("check.npz")': (
        "checking/test_check.py",
        "test_a_saved_check_is_read_back",
    ),
    "vicheck.check(table)": (
        "adapters/test_tables.py",
        "test_files_have_moments_and_a_report_on_the_command_line",
    ),
    "vicheck.check_draws(draws, log_p, log_q)": (
        "results/test_check.py",
        "test_arrays_and_dictionaries_give_the_same",
    ),
    "vicheck.vsbc(model, fit=function)": (
        "calibration/test_user_fits.py",
        "test_a_biased_sampler_is_caught_with_its_direction",
    ),
}


def test_every_row_has_a_test():
    assert list(TESTS) == LINES


@pytest.mark.parametrize("line", TESTS)
def test_the_test_of_a_row_is_there(line):
    path, name = TESTS[line]
    functions = {
        node.name
        for node in ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert name in functions


def test_every_way_in_has_a_row():
    ways = {name for name in vicheck.__all__ if re.match(r"(check|from|read|vsbc)_", name)}
    named = {name for row in ROWS for name in re.findall(r"vicheck\.(\w+)\(", row[2])}
    assert ways - {"from_log_density", "from_shards"} <= named
    assert named <= set(vicheck.__all__)
