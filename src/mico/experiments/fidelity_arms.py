"""The two losses, and the networks that are compared: learnt, learnt from shuffled rewards, fitted, untrained."""

from collections.abc import Iterator
from math import pi

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from mico import representations
from mico.deep.metric_losses import MICo
from mico.deep.networks.encoders import Encoder
from mico.experiments.fidelity_learning import Fitted, Sampled, Tables, Training, drawing_keys, trained, untrained
from mico.tabular import MDP, MICoFactors


def losses(discount: float) -> dict[str, MICo]:
    r"""The released MICo loss, and one whose fixed point is U, with β large enough for the largest ΠU.

    Squared errors have means as their fixed points, and pairs of one transition with itself are not independent. Of a
    state with itself the second side must be the same vector, for an angle to a target that lags behind would count as
    a part of U(x, x). φ is never negative, so no angle is more than π/2; ΠU is at most 1/(1 − γ), for rewards lie in
    [0, 1].
    """
    wide = 2 / pi / (1 - discount)
    return {
        "released": MICo(alpha=1.0),
        "fixed-point": MICo(alpha=1.0, beta=wide, error="squared", self_pairs="exclude", second="frozen"),
    }


def arms(
    loss: MICo, mdp: MDP, exact: MICoFactors, tables: Tables, training: Training, *, seed: int
) -> Iterator[tuple[str, Encoder]]:
    """The networks of all seeds, arm by arm; every arm has the same starts and sees the same states."""
    keys = jax.random.split(jax.random.key(seed), training.seeds)
    starts, draws = untrained(tables, training, keys), drawing_keys(training, keys)
    reward = mdp.reward[:, 0]
    true, sham = np.tile(reward, (training.seeds, 1)), shuffled(reward, training.seeds, seed=seed)
    objectives = {
        "learnt": Sampled(loss, jnp.asarray(true, jnp.float32), mdp.discount),
        "sham": Sampled(loss, jnp.asarray(sham, jnp.float32), mdp.discount),
        "fitted": Fitted.to(exact, loss),
    }
    for arm, objective in objectives.items():
        yield arm, trained(objective, starts, tables, training, draws)
    yield "untrained", starts


def shuffled(reward: Float[np.ndarray, " S"], count: int, *, seed: int) -> Float[np.ndarray, "N S"]:
    """Permute the rewards among the states, several times independently."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(reward) for _ in range(count)])


def learnt_distances(
    loss: MICo, x: Float[np.ndarray, "Q D"], y: Float[np.ndarray, "C D"]
) -> dict[str, Float[np.ndarray, "Q C"]]:
    r"""$U_\omega$ of every x with every y, and that less self-distances: βθ, as $U_\omega(x, x) = \|\phi_x\|^2$."""

    def encode(vectors: np.ndarray) -> jax.Array:
        return jnp.asarray(vectors, jnp.float64)

    with jax.enable_x64(True):  # float32 takes angles below a thousandth for 0
        return {
            "U": representations.distances(encode, loss, x, y, distance="learnt"),
            "ΠU": representations.distances(encode, loss, x, y, distance="reduced"),
        }
