"""Errors know what is wrong and what to do."""

import pickle
import re

import pytest

from vicheck import errors
from vicheck.errors import (
    ArgumentError,
    CacheError,
    HintedError,
    InputFileError,
    MissingExtraError,
    ModelError,
    StoreError,
    require_extra,
)

KINDS = [CacheError, InputFileError, MissingExtraError, ModelError, StoreError]


@pytest.mark.parametrize("kind", KINDS)
def test_sentence_and_hint_are_joined_and_kept_apart(kind):
    error = kind("it is full", hint="empty it")
    assert str(error) == "it is full: empty it"
    assert (error.sentence, error.hint) == ("it is full", "empty it")
    alone = kind("it is full")
    assert (str(alone), alone.sentence, alone.hint) == ("it is full", "it is full", "")


@pytest.mark.parametrize("kind", KINDS)
def test_they_come_back_from_another_process(kind):
    error = pickle.loads(pickle.dumps(kind("it is full", hint="empty it")))
    assert type(error) is kind
    assert (str(error), error.sentence, error.hint) == (
        "it is full: empty it",
        "it is full",
        "empty it",
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_code_tells_them_apart_and_may_be_more_exact(kind):
    assert kind("it is full").code == kind.code
    exact = kind("it is full", hint="empty it", code="disk-full")
    assert exact.code == pickle.loads(pickle.dumps(exact)).code == "disk-full"
    assert kind.code != "disk-full"


def test_every_class_has_a_code_of_its_own():
    every = [getattr(errors, name) for name in errors.__all__]
    hinted = [each for each in every if isinstance(each, type) and issubclass(each, HintedError)]
    codes = [each.code for each in hinted]
    assert len(hinted) > len(KINDS)
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", code) for code in codes)


def test_an_argument_is_named_as_whoever_gave_it_knows_it():
    error = ArgumentError("time_limit", "must be positive, got 0", hint="leave it out")
    assert str(error) == "time_limit must be positive, got 0: leave it out"
    assert error.sentence == "time_limit must be positive, got 0"
    assert error.sentence_with("--time-limit") == "--time-limit must be positive, got 0"
    assert isinstance(error, ValueError)


def test_an_argument_may_stand_with_its_value():
    error = ArgumentError("family", "takes at most 9 parameters", value="full_rank", code="large")
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == str(error) == "family='full_rank' takes at most 9 parameters"
    assert back.sentence_with("--family") == "--family='full_rank' takes at most 9 parameters"
    assert (back.argument, back.code, back.hint) == ("family", "large", "")


def test_they_are_what_callers_catch():
    assert issubclass(InputFileError, ValueError)
    assert issubclass(ModelError, ValueError)
    assert issubclass(MissingExtraError, ImportError)


def test_a_missing_extra_has_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr("vicheck.errors.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError) as caught:
        require_extra("dask")
    assert caught.value.sentence == "this needs distributed, which is not installed"
    assert caught.value.hint == "pip install 'vicheck[dask]'"
