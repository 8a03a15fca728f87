import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import vicheck
from tests.gaussians import CORRELATED, FACTOR, LOC, constant_of, constrained, made_up
from vicheck.adapters.stan.csv_files import draws_of_stan_csv, read_stan_csv
from vicheck.checking.run import check
from vicheck.errors import InputFileError
from vicheck.stats.psis import psis

REFERENCE = Path(__file__).parents[1] / "reference" / "stan_csv"
CENTRED = REFERENCE / "eight_schools_cp_meanfield.csv"
NONCENTRED = REFERENCE / "eight_schools_ncp_meanfield.csv"

ADVI_HEADER = """\
# stan_version_major = 2
# stan_version_minor = 35
# stan_version_patch = 0
# model = small_model
# method = variational
#   variational
#     algorithm = {algorithm} (Default)
#       {algorithm}
#     output_samples = {size}
"""
PATHFINDER_HEADER = """\
# stan_version_major = 2
# method = pathfinder
#   pathfinder
#     num_paths = {num_paths}
#     psis_resample = {psis_resample}
#     calculate_lp = {calculate_lp}
#     num_draws = 300
"""
LAPLACE_HEADER = """\
# stan_version_major = 2
# method = laplace
#   laplace
#     jacobian = {jacobian} (Default)
#     draws = 400
#     calculate_lp = {calculate_lp} (Default)
"""
NAMES = ("a", "b.1", "b.2", "sigma", "p")


def rows_of(numbers, digits):
    return "".join(",".join(f"{x:.{digits}g}" for x in row) + "\n" for row in numbers)


def with_derived(values):
    """Add what Stan would: a transformed parameter and a generated quantity."""
    return np.column_stack([values, values[:, 0] * values[:, 3], values[:, 1] ** 2])


def advi_text(digits=6, algorithm="meanfield", factor=FACTOR, size=400, header=ADVI_HEADER):
    z, log_p, log_g = made_up(factor, size)
    rows = np.column_stack([np.zeros(size), log_p, log_g, with_derived(constrained(z))])
    mean = np.concatenate([np.zeros(3), with_derived(constrained(LOC[None]))[0]])
    return (
        header.format(algorithm=algorithm, size=size)
        + f"lp__,log_p__,log_g__,{','.join(NAMES)},derived,square\n"
        + "# Stepsize adaptation complete.\n# eta = 1\n"
        + rows_of([mean, *rows], digits)
    )


def laplace_text(jacobian="1", calculate_lp="1", digits=8):
    z, log_p, log_q = made_up(CORRELATED)
    rows = np.column_stack([log_p, log_q, with_derived(constrained(z))])
    header = LAPLACE_HEADER.format(jacobian=jacobian, calculate_lp=calculate_lp)
    return f"{header}log_p__,log_q__,{','.join(NAMES)},derived,square\n{rows_of(rows, digits)}"


def pathfinder_text(num_paths="1", psis_resample="1", calculate_lp="1", path=None):
    z, log_p, quadratic = made_up(CORRELATED, size=300)
    log_q = quadratic + constant_of(CORRELATED)
    extra = [] if path is None else [np.resize(path, 300)]
    names = ["lp_approx__", "lp__", *(["path__"] if extra else []), *NAMES]
    rows = np.column_stack([log_q, log_p, *extra, constrained(z)])
    header = PATHFINDER_HEADER.format(
        num_paths=num_paths, psis_resample=psis_resample, calculate_lp=calculate_lp
    )
    return header + ",".join(names) + "\n" + rows_of(rows, 8).replace(",", ", ")


def read_text(text):
    return draws_of_stan_csv(text.encode(), "made.csv")


def columns_of(path):
    return np.loadtxt(path, delimiter=",", comments="#", skiprows=20)


# --- real files of rstan ---------------------------------------------------------------------


@pytest.mark.parametrize("path", [CENTRED, NONCENTRED])
def test_khat_is_that_of_the_rows_after_the_first(path):
    table = columns_of(path)[1:]
    draws = read_stan_csv(path)
    checked = check(draws)
    assert draws.num_draws == 1000
    np.testing.assert_array_equal(draws.log_p, table[:, 1])
    assert checked.psis.khat == pytest.approx(psis(table[:, 1] - table[:, 2]).khat, abs=1e-9)


def test_variables_come_out_as_arrays_in_order():
    table = columns_of(NONCENTRED)[1:]
    values = read_stan_csv(NONCENTRED).values
    assert list(values) == ["theta_trans", "mu", "tau", "theta"]
    np.testing.assert_array_equal(values["theta_trans"], table[:, 3:11])
    np.testing.assert_array_equal(values["tau"], table[:, 12])
    np.testing.assert_array_equal(values["theta"], table[:, 13:21])
    assert "theta[7]" in check(read_stan_csv(NONCENTRED)).names


def test_densities_are_those_of_the_same_q_by_vicheck_itself():
    from vicheck.model import double_precision
    from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_centred
    from vicheck.vi.families.mean_field import MeanField

    table = columns_of(CENTRED)
    draws = read_stan_csv(CENTRED)
    z = np.column_stack([table[:, 3:12], np.log(table[:, 12])])
    squares = (z[1:] - z[0]) ** 2
    scales = 1 / np.sqrt(-2 * np.linalg.lstsq(squares, table[1:, 2])[0])
    # A standard deviation of 1000 draws is off by 2.2%: by 10% once in 200 000 tries.
    np.testing.assert_allclose(scales, z[1:].std(axis=0), rtol=0.1)
    model = vicheck.from_numpyro(eight_schools_centred, **EIGHT_SCHOOLS)
    order = [8, 9, *range(8)]  # the model has mu and tau first
    assert [name.split("[")[0] for name in model.coordinates] == ["mu", "tau", *["theta"] * 8]
    # Stan's half-Cauchy prior is a Cauchy on the positive half, without the factor 2.
    log_p = np.asarray(model.log_density(z[1:, order])) - np.log(2.0)
    np.testing.assert_allclose(draws.log_p, log_p, atol=2e-4)
    with double_precision():
        q = MeanField(z[0, order], np.log(scales[order]))
        log_q = np.array([q.log_prob(row) for row in z[1:51, order]])
    constant = -np.log(scales).sum() - 5 * np.log(2 * np.pi)
    np.testing.assert_allclose(draws.log_q[:50] + constant, log_q, atol=2e-4)
    normal = stats.norm(z[0, order], scales[order])
    native = psis(log_p - normal.logpdf(z[1:, order]).sum(axis=1))
    assert check(draws).khat == pytest.approx(native.khat, abs=1e-3)


ELBO_IS_LOST = ["eight_schools_cp_meanfield", "eight_schools_ncp_meanfield",
                "eight_schools_cp_fullrank", "eight_schools_cp_noadapt",
                "cmdstan_eight_schools_cp_meanfield_200", "cmdstan_constraints_fullrank",
                "cmdstan_eight_schools_cp_laplace_at_point"]  # fmt: skip


@pytest.mark.parametrize("name", ELBO_IS_LOST)
def test_elbo_of_advi_and_laplace_is_unknown_and_why(name):
    checked = check(read_stan_csv(REFERENCE / f"{name}.csv"))
    assert np.isfinite(checked.khat)
    for measure in (checked.divergences.elbo, checked.log_evidence):
        assert np.isnan(measure.value)
        assert "leaves the constants out of log_" in measure.reason
        assert "vicheck.from_stan" in measure.reason
    assert "ELBO and log evidence are unknown: Stan's" in str(checked)


def test_a_run_without_adaptation_is_read():
    assert read_stan_csv(REFERENCE / "eight_schools_cp_noadapt.csv").num_draws == 200


# --- real files of CmdStan 2.35 --------------------------------------------------------------


def test_mean_field_of_cmdstan():
    draws = read_stan_csv(REFERENCE / "cmdstan_eight_schools_cp_meanfield_200.csv")
    assert draws.num_draws == 200
    assert list(draws.values) == ["mu", "tau", "theta"]
    assert "meanfield ADVI of eight_schools_cp_model by Stan 2.35.0" in draws.title


def test_laplace_of_cmdstan_has_the_density_of_its_hessian():
    path = REFERENCE / "cmdstan_eight_schools_cp_laplace_at_point.csv"
    hessian = np.array(
        json.loads(path.with_name(f"{path.stem}_hessian.json").read_text())["Hessian"]
    )
    draws = read_stan_csv(path)
    z = np.column_stack([draws.values["mu"], np.log(draws.values["tau"]), draws.values["theta"]])
    z -= z.mean(axis=0)
    quadratic = np.einsum("si,ij,sj->s", z, hessian, z) / 2  # up to terms linear in z
    rest = draws.log_q - quadratic
    design = np.column_stack([z, np.ones(len(z))])
    np.testing.assert_allclose(design @ np.linalg.lstsq(design, rest)[0], rest, atol=1e-4)


def test_single_path_of_several_is_one_approximation():
    draws = read_stan_csv(REFERENCE / "cmdstan_eight_schools_cp_pathfinder_4paths_saved_path_1.csv")
    assert draws.num_draws == 100
    assert draws.unnormalized == ""


def test_model_with_simplex_matrix_and_integers():
    draws = read_stan_csv(REFERENCE / "cmdstan_constraints_pathfinder_1path.csv")
    assert {name: array.shape[1:] for name, array in draws.values.items()} == {
        "p": (3,), "r": (), "s": (), "odds": (), "m": (2, 2), "k_rep": ()
    }  # fmt: skip
    np.testing.assert_array_equal(draws.values["m"][:, 0, 1], draws.values["p"][:, 1])
    np.testing.assert_array_equal(draws.values["m"][:, 1, 0], draws.values["r"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("meanfield_200_elbo", "ADVI's diagnostic file"),
        ("laplace_failed", "holds no draws"),
        ("nuts", "draws by MCMC"),
        ("optimize", "result of an optimisation"),
        ("pathfinder_1path_nolp", "calculate_lp=1"),
        ("pathfinder_4paths_saved", "4 paths after importance resampling"),
    ],
)
def test_files_of_cmdstan_that_cannot_be_checked(name, message):
    path = REFERENCE / f"cmdstan_eight_schools_cp_{name}.csv"
    with pytest.raises(InputFileError, match=message):
        read_stan_csv(path)


# --- methods and formats ---------------------------------------------------------------------


@pytest.mark.parametrize("digits", [6, 8, 18])
@pytest.mark.parametrize(("algorithm", "factor"), [("meanfield", FACTOR), ("fullrank", CORRELATED)])
def test_advi_of_cmdstan(algorithm, factor, digits):
    _, log_p, log_g = made_up(factor)
    draws = read_text(advi_text(digits, algorithm, factor))
    assert draws.num_draws == 400
    np.testing.assert_allclose(draws.log_q, log_g, atol=100 * 10.0**-digits)
    np.testing.assert_allclose(draws.log_p, log_p, atol=100 * 10.0**-digits)
    assert draws.values["b"].shape == (400, 2)
    assert draws.title == f"{algorithm} ADVI of small_model by Stan 2.35.0 (made.csv)"


def test_mean_row_that_was_removed_is_not_missed():
    lines = advi_text().splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.startswith("0,0,0,"))
    draws = read_text("".join(lines[:start] + lines[start + 1 :]))
    with_mean = read_text(advi_text())
    assert draws.num_draws == 400
    np.testing.assert_allclose(draws.log_q, with_mean.log_q, atol=1e-4)


def test_pathfinder_with_one_path_is_normalised():
    _, log_p, log_q = made_up(CORRELATED, size=300)
    draws = read_text(pathfinder_text())
    assert draws.unnormalized == ""
    np.testing.assert_allclose(draws.log_p, log_p, atol=1e-5)
    np.testing.assert_allclose(draws.log_q, log_q + constant_of(CORRELATED), atol=1e-5)
    assert list(draws.values) == ["a", "b", "sigma", "p"]


def test_path_column_is_no_parameter():
    draws = read_text(pathfinder_text(path=[1]))
    assert list(draws.values) == ["a", "b", "sigma", "p"]


def test_laplace_lacks_constants_of_both_densities():
    _, log_p, log_q = made_up(CORRELATED)
    draws = read_text(laplace_text(jacobian="true", calculate_lp="true"))
    np.testing.assert_allclose(draws.log_q, log_q, atol=1e-6)
    np.testing.assert_allclose(draws.log_p, log_p, atol=1e-6)
    assert "those of ~ statements out of log_p__" in draws.unnormalized


@pytest.mark.parametrize(
    ("names", "name", "shape", "element"),
    [
        (["S.1.1", "S.2.1", "S.1.2", "S.2.2"], "S", (2, 2), ((1, 0), 1)),
        (["S[1,1]", "S[2,1]", "S[1,2]", "S[2,2]"], "S", (2, 2), ((1, 0), 1)),
        (["t:2.1", "t:2.2", "t:2.3", "t:2.4"], "t:2", (4,), ((2,), 2)),
        (["x", "y", "z", "w"], "z", (), ((), 2)),
        (["v.1", "v.2", "v.4", "v.5"], "v[4]", (), ((), 2)),
    ],
)
def test_names_become_arrays(names, name, shape, element):
    rows = np.random.default_rng(2).normal(size=(20, 6))
    text = f"lp_approx__,lp__,{','.join(names)}\n{rows_of(rows, 17)}"
    values = read_text(text).values
    index, column = element
    assert values[name].shape == (20, *shape)
    np.testing.assert_array_equal(values[name][:, *index], rows[:, 2 + column])


def test_byte_order_mark_and_windows_line_ends():
    content = advi_text().replace("\n", "\r\n").encode("utf-8-sig")
    plain = read_text(advi_text())
    draws = draws_of_stan_csv(content, "windows.csv")
    np.testing.assert_array_equal(draws.log_q, plain.log_q)


def test_one_path_or_a_sequence_of_one():
    assert read_stan_csv([CENTRED]).num_draws == read_stan_csv(str(CENTRED)).num_draws == 1000
    with pytest.raises(ValueError, match="paths must name one file, got 2: every run has"):
        read_stan_csv([CENTRED, NONCENTRED])
    with pytest.raises(ValueError, match="paths must name one file, got 0"):
        read_stan_csv([])


# --- what cannot be read ---------------------------------------------------------------------

ADVI_NAMES = "lp__,log_p__,log_g__,x\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "made.csv is empty"),
        ("# stan_version_major = 2\n", "holds no data, only comments"),
        (ADVI_NAMES, "holds no draws after q's mean"),
        (ADVI_NAMES + "0,0,0,1\n", "holds no draws after q's mean"),
        ("log_p__,log_q__,x\n", "holds no draws$"),
        (ADVI_NAMES + "0,0,0,1\n0,1,2\n", "line 3: expected 4 values, got 3: the file is cut off"),
        (ADVI_NAMES + "0,0,0\n0,1,2,3\n", "line 2: expected 4 values, got 3$"),
        (
            "# output_samples = 9\n" + ADVI_NAMES + "0,0,0,1\n0,1,2,3",
            "line 4: the file is cut off in the middle of a line, after 1 of 9 draws",
        ),
        (ADVI_NAMES + "0,0,0,1\n# c\n0,-1,oops,3\n", r"line 4, column 3 \(log_g__\): 'oops' is no"),
        (ADVI_NAMES + "0,0,0,1\n0,-1,,3\n", r"line 3, column 3 \(log_g__\): '' is not a number"),
        (ADVI_NAMES + "0,0,0,1\n0,-1,-1,nan\n", "line 3, column 4 is nan. No variable remains"),
        (ADVI_NAMES + "0,0,0,1\n0,-1,-1,3\n0,0,0,4\n", "line 4: another mean of q among the draws"),
        ("lp__,log_p__,log_g__,x,x\n0,0,0,1,1\n", "has 2 columns called 'x'"),
        ("lp__,log_p__,log_g__\n0,0,0\n", "has no columns of parameters"),
        ("lp__,x,y\n0,1,2\n", "but lp__, x, y: .*Stan before 2019"),
        ("# method = sample (Default)\nlp__,x\n-1,2\n", "draws by MCMC"),
        ("lp__,accept_stat__,treedepth__,divergent__,x\n-1,1,2,0,2\n", "look at R-hat"),
        ("# method = optimize\nlp__,x\n-1,2\n", "result of an optimisation"),
        ("# Point Estimate Generated by Stan (LBFGS)\nlp__,x\n-1,2\n", "an optimisation"),
        ("# iter,time_in_seconds,ELBO\n100,0.1,-50\n", "ADVI's diagnostic file"),
        (pathfinder_text(num_paths="4"), "4 paths after importance resampling.*num_paths=1"),
        (pathfinder_text(num_paths="4", psis_resample="false"), "of each draw's own path"),
        (pathfinder_text("4", "0", path=[1, 2, 4]), "holds draws of 3 paths"),
        (pathfinder_text(calculate_lp="0"), "run with calculate_lp=1"),
        (laplace_text(jacobian="false"), "lacks the Jacobian.*jacobian=1"),
        (laplace_text(calculate_lp="0"), "run with calculate_lp=1"),
    ],
)
def test_unusable_files_are_refused(text, message):
    with pytest.raises(InputFileError, match=message) as error:
        read_text(text)
    assert "made.csv" in str(error.value)


def test_binary_file_is_refused():
    with pytest.raises(InputFileError, match="is no Stan CSV file: it starts with"):
        draws_of_stan_csv(b"\xff\xfe\x00\x01", "x")


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_stan_csv(tmp_path / "none.csv")
    with pytest.raises(IsADirectoryError):
        read_stan_csv(tmp_path)


def test_fewer_draws_than_announced_are_noted():
    lines = advi_text().splitlines(keepends=True)
    draws = read_text("".join(lines[:-100]))
    assert draws.num_draws == 300
    assert any("announces 400 draws and holds 300" in note for note in draws.notes)


def test_variable_that_is_not_finite_is_left_out_with_a_note():
    head, last, _ = advi_text().rsplit("\n", 2)
    last = ",".join([*last.split(",")[:-1], "nan"])
    draws = read_text(f"{head}\n{last}\n")
    line = head.count("\n") + 2
    assert list(draws.values) == ["a", "b", "sigma", "p", "derived"]
    note = (
        f"square is left out, because not all its draws are finite: line {line}, column 10 is nan."
    )
    assert note in draws.notes


def test_nan_density_is_for_psis_to_report():
    text = "lp_approx__,lp__,x\n" + "-1,-2,0.5\n" * 30 + "-1,nan,0.5\n"
    draws = read_text(text)
    assert np.isnan(draws.log_p[-1])
    assert check(draws).psis.num_invalid == 1


def test_rounding_that_moves_khat_is_noted():
    z, log_p, log_g = made_up(size=400)
    rows = np.column_stack([np.zeros(400), log_p * 0.1 + log_g - 185_000.0, log_g, z[:, 0]])
    mean = "0,0,0,0.3\n"
    coarse = read_text(ADVI_NAMES + mean + rows_of(rows, 6))
    fine = read_text(ADVI_NAMES + mean + rows_of(rows, 12))
    assert any("6 significant digits, too few" in note for note in coarse.notes)
    assert any("sig_figs=18" in note for note in coarse.notes)
    assert not any("significant digits" in note for note in fine.notes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("theta.1", "theta.999999999999999"),
        ("theta.1", "theta." + "9" * 5000),
        ("theta.1", "theta" + ".1" * 3000),
        ("# method", "#" + " " * 5000 + "x\n# method"),
    ],
)
def test_odd_names_and_comments_are_no_trap(tmp_path, old, new):
    text = (REFERENCE / "eight_schools_cp_meanfield.csv").read_text()
    lines = text.splitlines(keepends=True)
    path = tmp_path / "odd.csv"
    path.write_text("".join(line.replace(old, new, 1) for line in ["# method\n", *lines]))
    assert read_stan_csv(path).num_draws > 0
