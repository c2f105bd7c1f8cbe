"""Sticky actions, action sets, limits, and the spawning in Asterix that is ours."""

import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.environments import minatar

from mico.deep.envs import MinAtar
from mico.deep.envs.minatar.minatar import ACTIONS, RULES, State
from mico.deep.types import Spec
from rollouts import rollout, rollouts

pytestmark = pytest.mark.usefixtures("quick_compilation")

PADDLE = 0  # a plane of Breakout
NOOP, LEFT, RIGHT = 0, 1, 2  # Breakout's minimal actions
NUMBER = 4_000
step = jax.jit(lambda env, *given: env.step(*given))
steps = jax.jit(jax.vmap(lambda env, *given: env.step(*given), in_axes=(None, None, None, 0)))
reset = jax.jit(lambda env, key: env.reset(key))


def paddle(frame):
    return int(frame[9, :, PADDLE].argmax())


def test_a_sticky_action_is_repeated_with_its_probability():
    env = MinAtar("breakout", sticky=0.3)
    played = jax.tree.map(np.asarray, rollouts(env, jax.random.split(jax.random.key(0), 8), 2_000))
    over = played.steps.ended
    done = played.states.last_action  # 0 where the next episode has begun
    went_on = ~over[:, :-1] & ~over[:, 1:]
    told = went_on & (played.actions[:, 1:] != done[:, :-1])
    repeated = done[:, 1:] == done[:, :-1]
    count = told.sum()
    assert abs(repeated[told].mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / count)
    assert np.all((done[:, 1:] == played.actions[:, 1:]) | repeated | ~went_on)


def test_a_sticky_action_moves_the_paddle_again():
    env, key = MinAtar("breakout", sticky=1.0), jax.random.key(0)
    state, frame = reset(env, key)
    assert paddle(frame) == 4
    assert paddle(step(env, state, jnp.int32(RIGHT), key)[1].next_frame) == 4  # nothing was done before
    pushed = state._replace(last_action=jnp.int32(RIGHT))
    after, outcome = step(env, pushed, jnp.int32(LEFT), key)
    assert paddle(outcome.next_frame) == 5
    assert int(after.last_action) == RIGHT
    free = MinAtar("breakout", sticky=0.0)
    assert paddle(step(free, pushed, jnp.int32(LEFT), key)[1].next_frame) == 3


def test_an_episode_begins_without_a_last_action():
    env = MinAtar("breakout", sticky=0.0)
    played = rollout(env, jax.random.key(0), 500)
    over, last = played.steps.terminal, played.states.last_action
    assert over.any()
    assert np.all(last[over] == NOOP)
    assert np.array_equal(last[~over], played.actions[~over])


def test_stickiness_may_differ_between_the_runs_of_a_fleet():
    fleet = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(MinAtar("breakout", sticky=p) for p in (0.0, 1.0)))
    played = jax.vmap(partial(rollout, steps=20))(fleet, jax.random.split(jax.random.key(0)))
    moved = np.ptp(np.asarray(played.steps.next_frame[:, :, 9, :, PADDLE]).argmax(axis=-1), axis=1)
    assert moved[0] > 0
    assert moved[1] == 0


@pytest.mark.parametrize(
    ("game", "planes", "minimal"),
    [("breakout", 4, 3), ("asterix", 4, 5), ("freeway", 7, 3), ("seaquest", 10, 6), ("space-invaders", 6, 4)],
)
def test_shapes_and_numbers_of_actions_are_those_of_the_paper(game, planes, minimal):
    assert MinAtar(game).spec == Spec((10, 10, planes), "bool", minimal)
    assert MinAtar(game, actions="all").spec.num_actions == 6


def test_all_actions_are_numbered_as_in_the_original():
    env, key = MinAtar("breakout", sticky=0.0, actions="all"), jax.random.key(0)
    state, _ = reset(env, key)
    where = [paddle(step(env, state, jnp.int32(action), key)[1].next_frame) for action in range(6)]
    assert where == [4, 3, 4, 5, 4, 4]  # noop, left, up, right, down, fire


def ends(game, time, **fields):
    """Terminal and time-out of the step after so many."""
    env = MinAtar(game, **fields)
    state, _ = reset(env, jax.random.key(0))
    _, outcome = step(env, at(state, time), jnp.int32(NOOP), jax.random.key(0))
    return bool(outcome.terminal), bool(outcome.truncated)


@pytest.mark.parametrize(("game", "limit"), [("breakout", 1_000), ("freeway", 2_500)])
def test_the_usual_limit_is_that_of_gymnax(game, limit):
    assert ends(game, limit - 2) == (False, False)
    assert ends(game, limit - 1) == (False, True)


@pytest.mark.parametrize("actions", ["minimal", "all"])
@pytest.mark.parametrize("game", RULES)
def test_the_rules_are_those_of_gymnax(game, actions):
    """Planes, actions in their order and the limit, which games of our own know without importing it."""
    names = {"space-invaders": "MinSpaceInvaders"}
    theirs = getattr(minatar, names.get(game, f"Min{game.capitalize()}"))(use_minimal_action_set=actions == "minimal")
    env = MinAtar(game, actions=actions)
    assert env.spec == Spec(tuple(theirs.obs_shape), "bool", theirs.num_actions)
    assert [ACTIONS.index(name) for name in env.action_names] == theirs.action_set.tolist()
    assert RULES[game].gymnax_limit == theirs.default_params.max_steps_in_episode


def test_games_of_our_own_need_no_gymnax():
    play = "env = MinAtar(game); state, _ = env.reset(key); env.step(state, jnp.int32(1), key)"
    code = f"""
import sys, jax, jax.numpy as jnp
from mico.deep.envs import MinAtar
key = jax.random.key(0)
for game in ("breakout", "asterix", "freeway", "seaquest"):
    {play}
assert "gymnax" not in sys.modules
MinAtar("space-invaders")
assert "gymnax" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_limits_may_be_set_or_left_out():
    assert ends("breakout", 1_999, max_steps=2_001) == (False, False)
    assert ends("breakout", 2_000, max_steps=2_001) == (False, True)
    assert ends("breakout", 10**6, max_steps="original") == (False, False)


def at(state, time):
    return State(state.game._replace(time=jnp.int32(time)), state.last_action)


def test_a_terminal_at_the_limit_is_a_terminal():
    key = jax.random.key(0)
    falling = {"x": 0, "y": 8, "dx": 1, "dy": 1, "last_x": 0, "last_y": 7}
    for limit in (1, 2):
        env = MinAtar("breakout", sticky=0.0, max_steps=limit)
        state, _ = reset(env, key)
        state = state._replace(game=state.game._replace(**{name: jnp.int32(n) for name, n in falling.items()}))
        _, outcome = step(env, state, jnp.int32(NOOP), key)
        assert (bool(outcome.terminal), bool(outcome.truncated)) == (True, False)
        assert np.asarray(outcome.next_frame)[9, 1, 1]  # the ball at the bottom
        assert not np.array_equal(outcome.next_frame, outcome.reset_frame)


def spawned(occupied):
    """Asterix's entities before and after a step in which one is due, the rows `occupied` being taken."""
    env, keys = MinAtar("asterix", sticky=0.0), jax.random.split(jax.random.key(0), NUMBER)
    state, _ = reset(env, keys[0])
    row = jnp.arange(8, dtype=jnp.int32)
    there = jnp.stack([jnp.full(8, 3), row + 1, jnp.ones(8), jnp.zeros(8), jnp.ones(8)], axis=1).astype(jnp.int32)
    entities = jnp.where(jnp.asarray(occupied)[:, None], there, 0)
    state = state._replace(game=state.game._replace(spawn_timer=jnp.int32(0), entities=entities))
    after, _ = steps(env, state, jnp.int32(NOOP), keys)
    return np.asarray(entities), np.asarray(after.game.entities)


def test_asterix_spawns_nothing_where_all_rows_are_taken():
    before, after = spawned([True] * 8)
    assert np.all(after == before)


def test_asterix_spawns_in_a_random_free_row_from_a_random_side():
    free = [0, 3, 7]
    before, after = spawned([row not in free for row in range(8)])
    taken = [row for row in range(8) if row not in free]
    assert np.all(after[:, taken] == before[taken])
    new = after[:, free, 4] == 1
    assert np.all(new.sum(axis=1) == 1)
    entity = after[:, free][new]
    column, row, rightward, gold, _ = entity.T
    assert np.array_equal(column, np.where(rightward == 1, 0, 9))
    assert np.array_equal(row, np.array(free)[new.argmax(axis=1)] + 1)
    for share, chance in ((new.mean(axis=0), 1 / 3), (rightward.mean(), 1 / 2), (gold.mean(), 1 / 3)):
        assert np.all(abs(share - chance) < 5 * np.sqrt(chance * (1 - chance) / NUMBER))


@pytest.mark.parametrize("game", ["asterix", "breakout", "freeway"])
def test_plays_the_same_under_x64(game):
    env, key = MinAtar(game), jax.random.key(0)
    narrow = jax.tree.map(np.asarray, rollout(env, key, 50))
    with jax.enable_x64(True):
        wide = jax.tree.map(np.asarray, rollout(env, key, 50))
    assert jax.tree.all(jax.tree.map(np.array_equal, narrow, wide))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sticky": 1.5}, "sticky must lie in .* but is 1.5"),
        ({"sticky": -0.1}, "sticky must lie in .* but is -0.1"),
        ({"actions": "some"}, "actions must be one of minimal, all, but is 'some'"),
        ({"max_steps": "never"}, "max_steps must be .* but is 'never'"),
        ({"max_steps": 1.5}, "max_steps must be .* but is 1.5"),
    ],
)
def test_bad_settings_are_refused(unchecked, fields, message):
    with pytest.raises(ValueError, match=message):
        MinAtar("breakout", **fields)
