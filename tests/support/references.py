"""Slow and plain ways to every exact metric, to hold the quick ones against: loops, and other people's solvers."""

import itertools
from functools import partial

import numpy as np
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import linear_sum_assignment, linprog
from scipy.stats import wasserstein_distance


def transport_cost(mass, other, cost):
    """Optimal transport as a linear program, by HiGHS."""
    m, n = cost.shape
    leaves, arrives = np.zeros((m, m * n)), np.zeros((n, m * n))
    for i, j in itertools.product(range(m), range(n)):
        leaves[i, i * n + j] = arrives[j, i * n + j] = 1
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    equal, to = np.vstack([leaves, arrives[1:]]), np.concatenate([mass, other[1:]])  # one arrival follows from the rest
    found = linprog(cost.ravel(), A_eq=equal, b_eq=to, options=options)
    assert found.status == 0, found.message
    return found.fun


def transport_cost_of_parts(mass, other, cost, parts):
    """The same for masses that are multiples of 1/parts: then it is a matching of equal parts, and quick."""
    i, j = (np.repeat(np.arange(row.size), np.rint(row * parts).astype(int)) for row in (mass, other))
    matched = cost[np.ix_(i, j)]
    return matched[linear_sum_assignment(matched)].sum() / parts


def fixed_point(update, num_states, discount, precision):
    """Value iteration from zero until the contraction proves the precision."""
    d = np.zeros((num_states, num_states))
    while True:
        new = update(d)
        if np.abs(new - d).max() * discount <= precision * (1 - discount):
            return new
        d = new


def update_of_policy(chain, cost, d):
    """|r_x − r_y| + γ·W_d(P_x, P_y), pair by pair."""
    rows, new = chain.dense_transition(), np.zeros_like(d)
    for x, y in itertools.combinations(range(chain.num_states), 2):
        gap = abs(chain.reward[x] - chain.reward[y])
        new[x, y] = new[y, x] = gap + chain.discount * cost(rows[x], rows[y], d)
    return new


def action_gap(mdp, cost, d, x, a, y, b):
    """|r(x, a) − r(y, b)| + γ·W_d of where they lead."""
    return abs(mdp.reward[x, a] - mdp.reward[y, b]) + mdp.discount * cost(row(mdp, x, a), row(mdp, y, b), d)


def update_of_bisimulation(mdp, cost, d):
    new = np.zeros_like(d)
    for x, y in itertools.combinations(range(mdp.num_states), 2):
        new[x, y] = new[y, x] = max(action_gap(mdp, cost, d, x, a, y, a) for a in range(mdp.num_actions))
    return new


def update_of_lax_bisimulation(mdp, cost, d):
    new, actions = np.zeros_like(d), range(mdp.num_actions)
    for x, y in itertools.combinations(range(mdp.num_states), 2):
        gaps = [[action_gap(mdp, cost, d, x, a, y, b) for b in actions] for a in actions]
        left = max(min(gaps[a][b] for b in actions) for a in actions)
        right = max(min(gaps[a][b] for a in actions) for b in actions)
        new[x, y] = new[y, x] = max(left, right)
    return new


def row(mdp, state, action):
    kernel = mdp.kernels[action]
    return kernel[state] if isinstance(kernel, np.ndarray) else kernel.toarray()[state]


def mico(chain):
    """U = D + γ P U Pᵀ by SciPy's solver."""
    return solve_discrete_lyapunov(np.sqrt(chain.discount) * chain.dense_transition(), reward_gap(chain))


def reward_gap(chain):
    """E|R_x − R_y| over independent draws; without a law of rewards, |r_x − r_y|."""
    gap = np.zeros((chain.num_states, chain.num_states))
    for x, y in itertools.product(range(chain.num_states), repeat=2):
        for (reward, p), (other, q) in itertools.product(law(chain, x), law(chain, y)):
            gap[x, y] += p * q * abs(reward - other)
    return gap


def law(chain, state):
    """The rewards that a state can pay, each with its probability."""
    if chain.law is None:
        return [(chain.reward[state], 1.0)]
    return list(zip(chain.law.levels, chain.law.weights.toarray()[state], strict=True))


def reduced(distance):
    half = np.diag(distance) / 2
    return distance - half[:, None] - half[None, :]


def reward_law(chain, precision):
    """Σ γᵗ W₁ of the laws of r(X_t), by SciPy's distance between weighted samples."""
    total, reach, scale = np.zeros((chain.num_states, chain.num_states)), np.eye(chain.num_states), 1.0
    span = np.ptp(chain.reward)
    while scale * span > precision * (1 - chain.discount):
        for x, y in itertools.combinations(range(chain.num_states), 2):
            apart = wasserstein_distance(chain.reward, chain.reward, reach[x], reach[y])
            total[x, y] = total[y, x] = total[x, y] + scale * apart
        reach, scale = reach @ chain.dense_transition(), scale * chain.discount
    return total


def metric(name, mdp, policy, *, parts, precision):
    """Any registered metric of an MDP whose chain under the policy has probabilities that are multiples of 1/parts."""
    cost = partial(transport_cost_of_parts, parts=parts)
    chain = mdp.chain("uniform" if policy is None else policy)
    solved = partial(fixed_point, num_states=mdp.num_states, discount=mdp.discount, precision=precision)
    return {
        "mico": lambda: mico(chain),
        "reduced-mico": lambda: reduced(mico(chain)),
        "reward-law": lambda: reward_law(chain, precision),
        "pi-bisimulation": lambda: solved(partial(update_of_policy, chain, cost)),
        "bisimulation": lambda: solved(partial(update_of_bisimulation, mdp, cost)),
        "lax-bisimulation": lambda: solved(partial(update_of_lax_bisimulation, mdp, cost)),
    }[name]()


def paths(mdp, policy, x, steps):
    """All that can happen from x in some steps: probability, discounted sum of rewards, last state."""
    if steps == 0:
        return [(1.0, 0.0, x)]
    found = []
    for state, action, next_state, probability, reward in zip(*mdp.outcomes(), strict=True):
        if state == x:
            for p, gain, end in paths(mdp, policy, next_state, steps - 1):
                found.append((policy[x, action] * probability * p, reward + mdp.discount * gain, end))
    return found
