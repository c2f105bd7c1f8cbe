"""Shapes and types are checked while the tests run: jaxtyping annotations become beartype checks."""

import signal
import warnings

import jax
import jaxtyping
import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    install_import_hook("mico", "beartype.beartype")

settings.register_profile("mico", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mico")


@pytest.fixture
def unchecked():
    """Without the types that are checked while the tests run, as users have it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def patience():
    """Fails a test that would never end."""

    def give_up(*_):
        raise TimeoutError("no answer within 10 seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def opengl():
    """Skips a test that cannot draw."""
    from mico.physics.graphics import back_end

    try:
        return back_end()
    except OSError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def quick_compilation():
    """Programs that run a few steps are not worth the time that optimising them takes."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(autouse=True, scope="module")
def forgotten_programs():
    """What a module's tests compiled is of no use to the next one's, and fills the memory."""
    yield
    jax.clear_caches()
