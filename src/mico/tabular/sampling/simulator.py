"""Transitions drawn from a known MDP, compiled."""

from functools import partial
from typing import Any

from mico._checks import install_hint

try:  # before jaxtyping's Array, which is JAX's
    import jax
    import jax.numpy as jnp
    from jax import lax
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"mico.tabular.sampling needs JAX: {install_hint('deep')}", name="jax") from error

import numpy as np
from jaxtyping import Array, Float, Int, Key

from mico.tabular._validation import check_whole, checked_rows, numbers
from mico.tabular.mdp import MDP
from mico.tabular.outcomes import Outcomes
from mico.tabular.policies import PolicyLike, policy_array
from mico.tabular.problems.problem import Problem, as_mdp
from mico.tabular.sampling.logs import Transitions


def simulate(
    mdp: MDP | Problem,
    policy: PolicyLike = "uniform",
    *,
    num_steps: int,
    num_trajectories: int = 1,
    start: Any = "uniform",
    seed: int,
) -> Transitions:
    """Trajectories of `num_steps` one after the other; `start` is the distribution [S] of their first states.

    Next state and reward are drawn jointly, and a trajectory goes on in an absorbing state. `num_steps=1` gives
    independent transitions, as a generative model does.
    """
    problem, mdp = mdp, as_mdp(mdp)
    probs = policy_array(policy, problem)
    for name, count in (("num_steps", num_steps), ("num_trajectories", num_trajectories)):
        check_whole(name, count, 1)
    check_whole("seed", seed, 0)
    first_law = _checked_start(start, mdp.num_states)
    outcomes = mdp.outcomes()
    mass = outcomes.probability * probs[outcomes.state, outcomes.action]
    possible = Outcomes(*(column[mass > 0] for column in outcomes))
    # Cumulative probabilities want float64, and a walk through a table gains nothing from an accelerator.
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        first_key, walk_key = jax.random.split(jax.random.key(seed))
        first = jax.random.choice(first_key, mdp.num_states, (num_trajectories,), p=jnp.asarray(first_law))
        keys = jax.random.split(walk_key, num_trajectories)
        rows = np.searchsorted(possible.state, np.arange(mdp.num_states + 1))
        drawn = np.asarray(_walks(keys, first, mass[mass > 0].cumsum(), possible.next_state, rows, num_steps)).ravel()
    last = np.tile(np.arange(num_steps) == num_steps - 1, num_trajectories)
    columns = (possible.state, possible.action, possible.reward, possible.next_state)
    return Transitions(*(column[drawn] for column in columns), last=last)


def _checked_start(start: Any, num_states: int) -> Float[np.ndarray, " S"]:
    if isinstance(start, str):
        if start != "uniform":
            raise ValueError(f"start must be 'uniform' or an array [S], not {start!r}")
        return np.full(num_states, 1.0 / num_states)
    law = numbers("start", start)
    if law.shape != (num_states,):
        raise ValueError(f"start has shape {list(law.shape)}, but the MDP asks for [{num_states}]")
    return checked_rows("start", law[None], lambda _: "the trajectories")[0]


@partial(jax.jit, static_argnames="num_steps")
def _walks(
    keys: Key[Array, " N"],
    first: Int[Array, " N"],
    levels: Float[Array, " K"],
    next_state: Int[Array, " K"],
    rows: Int[Array, " R"],
    num_steps: int,
) -> Int[Array, "N T"]:
    """Which outcome happened at each step: outcomes are sorted by state, so state x owns the levels from x to x + 1."""

    def step(x, chance):
        outcome = jnp.searchsorted(levels, x + chance, side="right", method="scan_unrolled")
        outcome = jnp.clip(outcome, rows[x], rows[x + 1] - 1)  # rounding may not carry a draw into another state's row
        return next_state[outcome], outcome

    def walk(key, x):
        return lax.scan(step, x, jax.random.uniform(key, (num_steps,)))[1]

    return jax.vmap(walk)(keys, first)
