"""The line of code of a verdict runs as it stands.

``model`` is a model with its data; ``fit``, ``check`` and ``calibration`` are what was judged.
"""

import numpy as np
import pytest

import vicheck
from tests.calibration.made import calibration
from tests.calibration.problems import pair_model
from tests.judging.situations import ended, pooled, ratios
from tests.plots.subjects import normal_check
from vicheck.judging import judge_check
from vicheck.results.calibration import Calibration
from vicheck.results.status import FitStatus

Y = np.array([0.5, 1.0, -1.0])


def with_khat(made, khat):
    return Calibration(made.data.assign(khat=made.data["khat"] * 0.0 + khat), made.settings)


CALIBRATIONS = {
    "good": lambda: calibration(seed=3, x=(0.0, 1.0)),
    "good, full rank": lambda: calibration(seed=3, settings={"family": "full_rank"}, x=(0.0, 1.0)),
    "too narrow": lambda: calibration(x=(0.0, 0.6)),
    "far too narrow": lambda: with_khat(calibration(x=(0.0, 0.2)), 2.0),
    "joint missed": lambda: with_khat(calibration(seed=3, x=(0.0, 1.0)), 2.0),
    "biased": lambda: calibration(x=(0.5, 1.0)),
    "biased, at the data": lambda: calibration(x=(0.5, 1.0), settings={"kind": "posterior"}),
    "too few": lambda: calibration(5, settings={"family": "full_rank"}),
    "not converged": lambda: calibration(60, statuses=dict.fromkeys(range(30), "STALLED")),
}


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_the_line_of_a_calibration_runs(name):
    result = CALIBRATIONS[name]()
    names = {"vicheck": vicheck, "model": pair_model(y=Y), "calibration": result}
    assert result.verdict.code
    exec(result.verdict.code, names)
    if "check =" in result.verdict.code:
        assert isinstance(names["check"], vicheck.Check)
    if "calibration =" in result.verdict.code:
        again = names["calibration"]
        assert again is not result
        assert again.settings.kind == result.settings.kind
        assert "full_rank" in again.title


@pytest.fixture(scope="module")
def own():
    model = pair_model(y=Y)
    fit = vicheck.fit(model)
    return {"vicheck": vicheck, "model": model, "fit": fit, "check": vicheck.check(fit)}


def test_the_line_of_a_check_of_vichecks_own_fit_runs(own):
    exec(own["check"].verdict.code, {**own})


VERDICTS = {
    # what is judged, and a name that the line gives to its result, if it gives one
    "good": (("khat-good", ended()), None),
    "usable": (("khat-usable", ended()), "posterior"),
    "too poor a family": (("khat-high", ended(richer="full_rank")), "check"),
    "made elsewhere": (("khat-high", None), "comparison"),
    "too few draws": (("khat-few-draws", ended(richer="full_rank")), "check"),
    "stochastic": (("khat-high", ended(FitStatus.MAX_ITERATIONS, solver="stan_advi")), "check"),
    "too few draws of the ELBO": (("khat-high", ended(FitStatus.SAMPLING_ERROR)), "check"),
    "not converged": (("khat-high", ended(FitStatus.MAX_ITERATIONS)), "check"),
    "no finite ratio": (("khat-undefined", ended()), None),
}


@pytest.mark.filterwarnings("ignore::vicheck.errors.UnreliableWarning")  # of another check
@pytest.mark.parametrize("name", VERDICTS)
def test_the_line_of_a_check_runs(own, name):
    (khat, convergence), result = VERDICTS[name]
    code = judge_check(ratios()[khat], {}, convergence, None).code
    assert code
    exec(code, names := {**own})
    if result is not None:
        assert names[result] is not own.get(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "verdict",
    [
        lambda: judge_check(ratios()["khat-good"], {}, ended(), pooled(0.3)),
        lambda: calibration(x=(0.5, 1.0), settings={"family": "full_rank", "richer": ""}).verdict,
    ],
    ids=["missed mode", "no richer family"],
)
def test_the_line_that_samples_runs(own, verdict):
    exec(verdict().code, names := {**own})
    assert names["reference"].reliable


def test_a_check_without_a_model_of_its_own_has_lines_for_its_draws():
    check = normal_check(sd=0.95)
    assert check.verdict.level == "good"
    exec(check.verdict.code, {"check": check})
