import json

import numpy as np
import pytest

import vicheck
from vicheck.results.estimates import Divergences, Estimate
from vicheck.results.psis import PsisResult
from vicheck.results.verdict import Verdict
from vicheck.stats.estimates import expectation, plain_log_weights


def through_json(record):
    return type(record).from_dict(json.loads(json.dumps(record.to_dict())))


def test_psis_result_survives_json(rng):
    result = vicheck.psis(rng.normal(size=500))
    back = through_json(result)
    assert isinstance(back, PsisResult)
    assert back.khat == result.khat
    assert back.status is result.status
    np.testing.assert_array_equal(back.log_weights, result.log_weights)
    np.testing.assert_array_equal(back.khat_interval(), result.khat_interval())


def test_batch_survives_json(rng):
    log_ratios = rng.normal(size=(2, 3, 100))
    log_ratios[0, 1] = 0.0
    back = through_json(vicheck.psis(log_ratios))
    assert back.status.shape == (2, 3)
    assert back.status[0, 1] is vicheck.PsisStatus.CONSTANT
    assert back.khat.shape == (2, 3)


def test_null_becomes_nan():
    with pytest.warns(vicheck.UndefinedKhatWarning):
        values = vicheck.psis([1.0, 2.0]).to_dict()
    values["khat"] = None
    assert np.isnan(PsisResult.from_dict(values).khat)


def test_null_in_a_batch_becomes_nan(rng):
    log_ratios = rng.normal(size=(3, 100))
    log_ratios[1] = np.nan
    with pytest.warns(vicheck.UndefinedKhatWarning):
        values = vicheck.psis(log_ratios).to_dict()
    strict = json.loads(json.dumps(values).replace("NaN", "null"))
    back = PsisResult.from_dict(strict)
    np.testing.assert_array_equal(np.isnan(back.khat), [False, True, False])
    np.testing.assert_array_equal(np.isnan(back.khat_interval()).any(axis=1), [False, True, False])


def test_nested_records_survive_json(rng):
    log_ratios = 2.0 * rng.normal(size=2000)
    divergences = through_json(vicheck.divergences(log_ratios, orders=[0.5, 3.0]))
    assert isinstance(divergences, Divergences)
    assert set(divergences.renyi) == {0.5, 3.0}
    assert divergences.elbo.value == log_ratios.mean()
    assert "3 times khat" in divergences.renyi[3.0].reason
    verdict = through_json(vicheck.judge_psis(vicheck.psis(log_ratios)))
    assert isinstance(verdict, Verdict)
    assert verdict.findings[0].sentence == verdict.sentence
    estimate = through_json(expectation(rng.normal(size=(50, 2)), plain_log_weights(50)))
    assert isinstance(estimate, Estimate)
    assert estimate.mean.shape == (2,)


def test_records_cannot_be_changed(rng):
    result = vicheck.psis(rng.normal(size=100))
    with pytest.raises(AttributeError):
        result.khat = 0.0


def test_records_print_without_their_arrays(rng):
    assert len(repr(vicheck.psis(rng.normal(size=1000)))) < 150
    assert "batch=(4,)" in repr(vicheck.psis(rng.normal(size=(4, 100))))
    assert "<array (37,)>" in repr(vicheck.psis(rng.normal(size=300)).khat_posterior)
    assert str(vicheck.divergences(0.1 * rng.normal(size=100)).elbo).count("+-") == 1
