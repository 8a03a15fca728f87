import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

REFERENCE = Path(__file__).parent / "reference"

# Examples are the same in every run, so that a failure is not a matter of luck.
settings.register_profile("vicheck", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("vicheck")


@pytest.fixture(scope="session")
def loo_cases():
    """Vectors of log ratios and what loo returns for each."""
    vectors = np.load(REFERENCE / "psis_loo.npz")
    cases = json.loads((REFERENCE / "psis_loo.json").read_text())["cases"]
    return {name: (vectors[name], case) for name, case in cases.items()}


@pytest.fixture
def rng():
    return np.random.default_rng(20180701)
