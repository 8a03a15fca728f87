import jax
import pytest


@pytest.fixture(scope="module")
def compiled_plainly():
    """Compile without optimising, which takes half the time.

    For tests that run other people's code piece by piece, each piece once, and ask what it gives.
    Afterwards nothing of it is left for other tests, some of which compare bits.
    """
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()
