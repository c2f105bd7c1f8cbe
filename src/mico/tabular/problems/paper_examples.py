"""Small MDPs whose distances are known in closed form, from the paper and its neighbourhood."""

from typing import Literal

import numpy as np

from mico.tabular.mdp import MDP
from mico.tabular.outcomes import Outcomes
from mico.tabular.problems.problem import Problem


def two_state(*, discount: float = 0.9) -> Problem:
    r"""Two states where the reduced distance is below the value gap (the paper's lemma on $\Pi U$).

    $U(x, y) = 1/(1-\gamma/2) = |V(x) - V(y)|$, while $\Pi U(x, y) = 1/(1-\gamma/4)$.

    Args:
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    return Problem(_one_action([[0.5, 0.5], [0, 1]], [1, 0], discount), names=("x", "y"))


def bound_example(
    *, k: float = 2.0, policy: Literal["printed", "mirrored"] = "printed", discount: float = 0.9
) -> Problem:
    r"""Two states whose values differ by more than the bisimulation metric: b has reward k, a has 0 and 1.

    $d^\sim(x, y) = 1/(1-\gamma)$. The printed policy, b in x and a in y, has $|\Delta V| = (k-1)/(1-\gamma)$; only the
    mirrored one has the $k/(1-\gamma)$ of the paper's caption.

    Args:
        k: Reward of action b in both states; action a has reward 0 in x and 1 in y.
        policy: Policy that the problem comes with: `printed` takes b in x and a in y, `mirrored` a in x and b in y.
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    if policy not in ("printed", "mirrored"):
        raise ValueError(f"policy must be 'printed' or 'mirrored', not {policy!r}")
    swap, rows = np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2)
    loops = [[rows[0], rows[0]], [rows[1], rows[1]]]
    return Problem(
        MDP(loops, [[0, k], [1, k]], discount), names=("x", "y"), policy=swap if policy == "printed" else rows
    )


def pessimism(*, k: float = 1.0, discount: float = 0.9) -> Problem:
    r"""Two states of equal value that bisimulation holds $k/(1-\gamma)$ apart, since their good actions differ.

    s: a → t (+k), b → u; t: b → s (+k), a → u; u loops. The policy is the optimal one, under which s and t are at 0.

    Args:
        k: Reward of the good action in each of the two states of equal value.
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    s, t, u = np.eye(3)
    mdp = MDP([[t, u], [u, s], [u, u]], [[k, 0], [0, k], [0, 0]], discount)
    return Problem(mdp, names=("s", "t", "u"), policy=np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))


def coin_chain(*, discount: float = 0.9) -> Problem:
    r"""Four states, of which the first tosses a coin between the last two: $U(x, x) > 0$ there alone.

    Args:
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    rows = [[0, 0, 0.5, 0.5], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    return Problem(_one_action(rows, [0, 0, 0, 1], discount), names=("coin", "before tails", "tails", "heads"))


def value_example(*, discount: float = 0.9) -> Problem:
    """Two states that mix, with values near 6.46 and 5.67 at a discount of 0.9.

    Args:
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    return Problem(_one_action([[0.5, 0.5], [0.8, 0.2]], [1, 0], discount), names=("x", "y"))


def terminals(*, discount: float = 0.9) -> Problem:
    r"""Two states that end in a sink: dropping the sink's distance would break $|\Delta V| \le U$.

    Args:
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    rows = [[0.5, 0, 0.5], [0, 0, 1], [0, 0, 1]]
    return Problem(_one_action(rows, [1, 0, 0], discount), names=("x", "y", "sink"))


def random_reward(*, discount: float = 0.9) -> Problem:
    r"""One state whose reward is 0 or 1 by a fair coin: mean rewards give $U = 0$, sampled ones $0.5/(1-\gamma)$.

    Args:
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    here = np.zeros(2, dtype=int)
    outcomes = Outcomes(here, here, here, np.array([0.5, 0.5]), np.array([0.0, 1.0]))
    return Problem(MDP.from_outcomes(outcomes, 1, 1, discount), names=("x",))


def five_state(*, discount: float = 0.9) -> Problem:
    """Two short paths to one terminal that differ in their last reward, 0.5 against 1.

    Args:
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    s1, s2, t1, t2, end = range(5)
    kernel = np.zeros((5, 2, 5))
    kernel[[s1, s2, t1, t2, end], 0, [s2, end, t2, end, end]] = 1
    kernel[:, 1, end] = 1
    reward = np.zeros((5, 2))
    reward[[s1, s2, t1, t2], 0] = [0.2, 0.5, 0.2, 1.0]
    return Problem(MDP(kernel, reward, discount), names=("s1", "s2", "t1", "t2", "T"))


def action_reward(*, discount: float = 0.9) -> Problem:
    r"""One state, two actions with rewards 0 and 1: $U = 0$, while pairs with actions average $0.5/(1-\gamma)$.

    Args:
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    return Problem(MDP([[[1], [1]]], [[0, 1]], discount), names=("x",), policy=np.array([[0.5, 0.5]]))


def _one_action(rows: list, reward: list, discount: float) -> MDP:
    return MDP(np.array(rows)[:, None], np.array(reward)[:, None], discount)
