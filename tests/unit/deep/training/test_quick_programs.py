"""Programs that begin and that act before learning: compiled with fewer optimisations, they make the same bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.fleet import jax_engine as module
from mico.deep.fleet.jax_engine import stack
from mico.deep.fleet.shards import ShardedFleet
from small_runs import small_run

AGENTS = ["dqn", "rainbow", "iqn", "sac"]


def bits(tree):
    keys = (leaf if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else jax.random.key_data(leaf) for leaf in tree)
    return [np.asarray(leaf).tobytes() for leaf in keys]


@pytest.mark.parametrize("agent", AGENTS)
def test_fewer_optimisations_change_no_bit(agent):
    fleet = stack([small_run(agent, seed=3)])
    quick, usual = module._begin_on_cpu(fleet), module._begin(fleet)
    assert bits(jax.tree.leaves(quick)) == bits(jax.tree.leaves(usual))
    given = {"length": 40, "learns": False}
    after_quick, after_usual = (
        program(fleet, state, jnp.int32(0), **given)
        for program, state in ((module._act_on_cpu, quick), (module._train, usual))
    )
    assert bits(jax.tree.leaves(after_quick)) == bits(jax.tree.leaves(after_usual))


@pytest.mark.parametrize(("backend", "learns", "quick"), [("cpu", 0, 1), ("cpu", 1, 0), ("gpu", 0, 0), ("gpu", 1, 0)])
def test_the_quick_program_acts_on_a_cpu_alone(monkeypatch, backend, learns, quick):
    monkeypatch.setattr(module.jax, "default_backend", lambda: backend)
    assert module._program(bool(learns)) is (module._act_on_cpu if quick else module._train)


def test_what_is_compiled_ahead_is_compiled_once(monkeypatch):
    """Four programs of one shape for two runs: to begin, to act, to learn and for rows; each a compilation."""
    jax.clear_caches()
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        listener := lambda event, duration_secs, fun_name="", **kwargs: (
            compiled.append(fun_name) if event == "/jax/core/compile/backend_compile_duration" else None
        )
    )
    try:
        with_parts = ShardedFleet([small_run(seed=seed) for seed in (0, 1)], [1, 1])
        with_parts.compile_ahead("act", with_parts.shapes(), 40)
        states = with_parts.begin()
        with_parts.compile_ahead("diagnose", with_parts.shapes(), 40)
        states, _ = with_parts.play(states, 0, 40, False)
        states, _ = with_parts.play(states, 40, 40, True)
        with_parts.diagnose(states, jnp.int32(80))
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)
    assert sorted(name for name in compiled if name in {"jit(_begin_all)", "jit(_chunk)", "jit(diagnose)"}) == [
        "jit(_begin_all)", "jit(_chunk)", "jit(_chunk)", "jit(diagnose)"
    ]  # fmt: skip
