"""What a worker process takes of its machine."""

import subprocess
import sys

COUNT = """
import os, sys
from mico.sweeps.processes import take_cores
take_cores(float(sys.argv[1]))
import jax.numpy as jnp
(jnp.ones((300, 300)) @ jnp.ones((300, 300))).block_until_ready()
sys.stdout.write(str(len(os.listdir("/proc/self/task"))))
"""


def threads(cores):
    done = subprocess.run([sys.executable, "-c", COUNT, cores], capture_output=True, text=True, timeout=120, check=True)
    return int(done.stdout)


def test_cores_are_threads():
    one, nine = threads("0.5"), threads("9.9")
    assert nine - one >= 8  # in each of its pools
