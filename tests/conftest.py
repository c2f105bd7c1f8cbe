"""Shapes and types are checked while the tests run: jaxtyping annotations become beartype checks."""

import gc
import os
import signal
import tempfile
import warnings
from importlib import metadata

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

# XLA's older code generator for fused loops, in one piece, takes half the time of the newer one to compile. Another
# jaxlib than the one that is pinned may no longer know the flags, and would stop at them.
QUICKER = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"


def pytest_configure(config):
    """What one worker compiled, the other and the processes that tests start take from a folder of the session.

    Each has one thread for its algebra: together they have enough for all cores. Slow tests have programs as users do.
    POT, of which only a solver of NumPy's arrays is used, need not import PyTorch, a second in each process.
    """
    if not hasattr(config, "workerinput"):
        if config.option.markexpr == "not slow" and metadata.version("jaxlib").startswith("0.10."):
            os.environ["XLA_FLAGS"] = f"{QUICKER} {os.environ.get('XLA_FLAGS', '')}"
        if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # a folder that is given outlives the session
            folder = tempfile.TemporaryDirectory(prefix="mico-programs-", ignore_cleanup_errors=True)
            config.add_cleanup(folder.cleanup)
            os.environ["JAX_COMPILATION_CACHE_DIR"] = folder.name
        os.environ |= {
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "OMP_NUM_THREADS": "1",
            "POT_BACKEND_DISABLE_PYTORCH": "1",
        }
    jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


LONGEST = (
    "test_benchmarks",
    "test_cluster",
    "test_experiments",
    "test_local_sweep",
    "test_minatar_vectors",
    "test_readme",
    "test_resume",
)


def pytest_collection_modifyitems(items):
    """The longest modules first, so that no worker is left alone with one of them at the end."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)


def pytest_collection_finish():
    """What has been imported stays, so the collector need not look at it again; nor, while JAX traces, so often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)


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
    from mico.control_suite.graphics import back_end

    try:
        return back_end()
    except OSError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def quick_compilation():
    """Programs that run a few steps are not worth the time that optimising them takes."""
    jax.config.update("jax_disable_most_optimizations", True)
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # for processes that tests start
    yield
    del os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"]
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(autouse=True, scope="module")
def forgotten_programs():
    """What a module's tests compiled is of no use to the next one's, and fills the memory."""
    yield
    jax.clear_caches()
