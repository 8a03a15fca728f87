"""What identifies a value in another process."""

import enum
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vicheck.quantities import Quantities, Quantity
from vicheck.results.status import FitStatus
from vicheck.runtime.portable import portable_digest
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.families.registry import Entry, Kind, kind_of

SHAPES = jax.ShapeDtypeStruct((2,), np.float64)


def test_values_that_differ_have_different_digests():
    values = [
        None, 0, 0.0, False, "0", b"0", "", (), [], {}, (0,), (0, 0), ((0,), 0), (0, (0,)), ("ab",),
        ("a", "b"), {"a": 0}, {"a": 1}, {"b": 0}, float("nan"), np.dtype("f8"), np.dtype("i8"),
        np.float64(0.0), float, int, FitStatus.CONVERGED, FitStatus.FAILED,
        kind_of("mean_field", 3, None), kind_of("low_rank", 3, 1), kind_of("low_rank", 3, 2),
        jax.tree.structure((0, 0)), jax.tree.structure([0, 0]), jax.tree.structure({"a": 0}),
        jax.tree.structure({"b": 0}), jax.tree.structure(MeanField(SHAPES, SHAPES)),
        jnp.sum, jnp.exp,
    ]  # fmt: skip
    digests = [portable_digest(value) for value in values]
    assert None not in digests
    assert len(set(digests)) == len(values)
    assert digests == [portable_digest(value) for value in values]


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Options:
    step: float = 0.1


class Own(MeanField):
    pass


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        Options(),
        Own,
        Kind(Entry("own", Own)),
        jax.tree.structure(Own(SHAPES, SHAPES)),
        test_values_that_differ_have_different_digests,
        lambda x: x,
        partial(jnp.sum, axis=0),
        object(),
        {1, 2},
        jnp.zeros(2),
        Quantities((Quantity("x", (), "x"),)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_the_users_or_unknown_has_none(value):
    assert portable_digest(value) is None
    assert portable_digest((1, [value])) is None
