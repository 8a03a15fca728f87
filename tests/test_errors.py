"""Errors know what is wrong and what to do."""

import pickle

import pytest

from vicheck.errors import (
    CacheError,
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
