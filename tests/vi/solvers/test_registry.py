"""The list of solvers."""

import pytest

from vicheck.vi.solvers.registry import make_solver, solver_names
from vicheck.vi.solvers.stochastic import Stochastic


def test_every_solver_is_where_the_list_says():
    classes = [type(make_solver(name, {})).__name__ for name in solver_names()]
    assert classes == ["Deterministic", "Stochastic", "StanAdvi"]
    assert make_solver("stochastic", {"num_steps": 7}) == Stochastic(num_steps=7)


def test_errors_say_what_there_is():
    with pytest.raises(ValueError, match="one of deterministic, stochastic, stan_advi, got 'sgd'"):
        make_solver("sgd", {})
    with pytest.raises(TypeError, match=r"the option depth, but .*'stan_advi' are: iter, grad_sam"):
        make_solver("stan_advi", {"depth": 3})
