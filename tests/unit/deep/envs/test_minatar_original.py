"""The games against the original ones of the `minatar` package, step by step, wherever nothing random happens."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.envs import MinAtar
from seaquest_lists import lists

pytest.importorskip("minatar", reason="the original games are not installed")

pytestmark = pytest.mark.usefixtures("quick_compilation")

STEPS = 1_500
OXYGEN = 7  # a plane of Seaquest
# noop, left, up, right, down, fire; in Seaquest a player that goes up much is soon dead
CHANCES = {"seaquest": [0.1, 0.2, 0.05, 0.2, 0.25, 0.2]}


def original(game):
    from minatar import Environment

    return Environment(game.replace("-", "_"), sticky_action_prob=0.0).env


def played(env, seed):
    """States before each step, actions, outcomes."""

    @jax.jit
    def play(env, actions, key):
        key, reset_key = jax.random.split(key)

        def step(state, at):
            action, key = at
            after, outcome = env.step(state, action, key)
            return after, (state.game, outcome)

        first, _ = env.reset(reset_key)
        return jax.lax.scan(step, first, (actions, jax.random.split(key, STEPS)))[1]

    actions = np.random.default_rng(seed).choice(6, STEPS, p=CHANCES.get(env.game))
    states, outcomes = jax.tree.map(np.asarray, play(env, jnp.asarray(actions, jnp.int32), jax.random.key(seed)))
    before = [jax.tree.map(lambda leaf, t=t: leaf[t], states) for t in range(STEPS)]
    return before, actions, outcomes


def set_breakout(game, state):
    directions = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
    game.ball_x, game.last_x = int(state.x), int(state.last_x)
    game.ball_dir = directions.index((int(state.dx), int(state.dy)))


def set_space_invaders(game, state):
    pass  # nothing in it is random


def set_freeway(game, state):
    game.cars = state.cars.tolist()


def set_asterix(game, state):
    game.entities = [[*map(int, x[:2]), bool(x[2]), bool(x[3])] if x[4] else None for x in state.entities]


def set_seaquest(game, state):
    game.diver_count = int(state.diver_count)
    for name, rows, there in lists(state):
        entries = [[*row[:2], bool(row[2]), *row[3:]] for row in rows[there].tolist()]
        setattr(game, name, entries)


SETTERS = {
    "breakout": set_breakout,
    "space-invaders": set_space_invaders,
    "freeway": set_freeway,
    "asterix": set_asterix,
    "seaquest": set_seaquest,
}


def is_random(game, state, reward):
    """Whether the step from this state draws something."""
    if game == "freeway":
        return reward > 0
    if game == "asterix":
        return state.spawn_timer == 0
    if game == "seaquest":
        return state.e_spawn_timer == 0 or state.d_spawn_timer == 0
    return False


@pytest.mark.parametrize("game", SETTERS)
def test_plays_as_the_original(game):
    before, actions, outcomes = played(MinAtar(game, sticky=0.0, actions="all", max_steps="original"), seed=1)
    rules, compared, aligned = original(game), 0, False
    for t, (state, action) in enumerate(zip(before, actions, strict=True)):
        if not aligned:
            SETTERS[game](rules, state)
            rules.terminal = False
        reward, terminal = rules.act(action)
        aligned = not is_random(game, state, reward)
        if aligned:
            assert (reward, terminal) == (outcomes.reward[t], outcomes.terminal[t]), f"step {t}"
            seen = np.ones(rules.state_shape()[2], dtype=bool)
            if game == "seaquest" and terminal:
                seen[OXYGEN] = False  # gymnax fills it although nobody was saved
            np.testing.assert_array_equal(rules.state()[..., seen], outcomes.next_frame[t][..., seen], f"step {t}")
            compared += 1
        if outcomes.terminal[t]:
            rules.reset()
            aligned = False
    assert compared > STEPS * 0.8


def test_freeway_ends_after_as_many_steps_as_the_original():
    rules, steps, over = original("freeway"), 0, False
    while not over:
        over, steps = rules.act(0)[1], steps + 1
    env = MinAtar("freeway", max_steps="original")
    state, _ = env.reset(jax.random.key(0))
    step = jax.jit(env.step)
    for time, ends in ((steps - 2, False), (steps - 1, True)):
        near_the_end = state._replace(game=state.game._replace(time=jnp.int32(time)))
        _, outcome = step(near_the_end, jnp.int32(0), jax.random.key(0))
        assert (bool(outcome.terminal), bool(outcome.truncated)) == (ends, False)


def test_a_good_player_of_breakout_meets_what_it_meets_in_the_original():
    """Random play hardly ever gets to the roof or breaks a whole wall; a paddle under the ball does."""
    env = MinAtar("breakout", sticky=0.0, max_steps="original")
    step, rules, rng = jax.jit(env.step), original("breakout"), np.random.default_rng(0)
    state, frame = env.reset(jax.random.key(3))
    set_breakout(rules, state.game)
    rewards = roofs = 0
    for _ in range(1_500):
        _, paddle = np.argwhere(frame[..., 0])[0]
        row, ball = np.argwhere(frame[..., 1])[0]
        roofs += row == 0
        coming = ball + int(state.game.dx) * (1 if rng.random() < 0.5 else 0)  # met in front, or at its corner
        action = 0 if coming == paddle else 1 if coming < paddle else 2
        state, outcome = step(state, jnp.int32(action), jax.random.key(0))
        reward, terminal = rules.act([0, 1, 3][action])
        assert (reward, terminal) == (outcome.reward, outcome.terminal)
        np.testing.assert_array_equal(rules.state(), outcome.next_frame)
        rewards += reward
        frame = np.asarray(outcome.reset_frame)
        if terminal:
            rules.reset()
            set_breakout(rules, state.game)
    assert rewards > 60  # a new wall came
    assert roofs > 5
