"""What commands that fit models share: names, options and errors."""

import pytest

from tests.cli.command_line import call
from vicheck.adapters.numpyro.models import from_numpyro
from vicheck.cli import loading
from vicheck.cli.failures import CommandError
from vicheck.errors import ARGUMENTS_DO_NOT_FIT, ArgumentError, ModelError
from vicheck.vi.families.registry import family_names
from vicheck.vi.solvers.registry import solver_names

OPTIONS = {"num_draws": "--draws", "family": "--family"}


@pytest.mark.parametrize("command", ["check", "vsbc"])
def test_help_lists_the_families_and_solvers_of_the_registries(command):
    page = " ".join(call(command, "--help", COLUMNS="80").stdout.split())
    for names in (family_names(), solver_names()):
        assert f": {', '.join(names[:-1])} or {names[-1]}. " in page


@pytest.mark.parametrize("option", ["family", "solver"])
def test_an_unknown_name_is_refused_with_the_known_ones(option):
    done = call("check", "model.py", f"--{option}", "nonsense")
    assert done.returncode == 64
    names = family_names() if option == "family" else solver_names()
    known = ", ".join(map(repr, names))
    assert f"vicheck: --{option}: 'nonsense' is not one of {known}\n" in done.stderr


@pytest.mark.parametrize(
    ("error", "sentence", "hint"),
    [
        (ArgumentError("num_draws", "is odd", hint="add one"), "--draws is odd", "add one"),
        (ArgumentError("family", "is new", value="t"), "--family='t' is new", ""),
        (ArgumentError("rank", "is odd"), "rank is odd", ""),
        (ValueError("num_draws and family do not agree"), "num_draws and family do not agree", ""),
    ],
)
def test_an_argument_is_called_by_its_option(error, sentence, hint):
    with pytest.raises(CommandError) as caught:
        loading.fail_over_option(error, OPTIONS)
    assert (caught.value.sentence, caught.value.hint) == (sentence, hint)
    assert caught.value.code == 64


def test_arguments_that_do_not_fit_have_a_code_of_their_own():
    with pytest.raises(ModelError) as caught:
        from_numpyro(lambda x, y=None: None, z=1.0)
    assert caught.value.code == ARGUMENTS_DO_NOT_FIT
