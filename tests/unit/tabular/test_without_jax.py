"""The exact side without JAX: it works, and what needs JAX says so and how to get it."""

import subprocess
import sys

from mico._checks import install_hint

CODE = """
import sys
sys.modules["jax"] = None
import mico.tabular as mt
from mico.tabular import abstraction, diagnostics, embeddings, plotting
from mico.tabular.abstraction import bisimilarity, clustering, partition
from mico.tabular.sampling import logs
for name in mt.METRICS:
    mt.solve(name, mt.make("two-state"))
print(mt.solve("mico", mt.make("FrozenLake-v1"), "optimal", method="factored").method)
for call in (
    lambda: __import__("mico.tabular.sampling.online"),
    lambda: __import__("mico.tabular.sampling.simulator"),
    lambda: mt.factored_mico(mt.make("two-state"), backend="jax"),
):
    try:
        call()
    except ModuleNotFoundError as error:
        print(error)
"""


def test_all_but_sampling_works_without_jax():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    first, *refusals = done.stdout.splitlines()
    assert first == "factored"
    needs = ("mico.tabular.sampling", "mico.tabular.sampling", "backend='jax'")
    assert refusals == [f"{name} needs JAX: {install_hint('deep')}" for name in needs]
