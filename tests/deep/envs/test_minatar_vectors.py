"""Freeway and Asterix as steps of vectors, against gymnax's steps car by car and entity by entity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.environments import minatar
from gymnax.environments.minatar import asterix as gymnax_asterix
from gymnax.environments.minatar import freeway as gymnax_freeway

from mico.deep.envs import MinAtar, asterix, freeway
from mico.deep.envs.minatar import State
from rollouts import rollouts

pytestmark = pytest.mark.usefixtures("quick_compilation")

GAMES, STEPS = 32, 500  # of random play
MANY = 10_000  # states of no particular play
ROWS = np.arange(1, 9)


def freeway_step(rules, game, action, key):
    """Frame, state, reward and terminal after gymnax's step from a state of ours."""
    state = gymnax_freeway.EnvState(**game._asdict(), terminal=jnp.zeros((), bool))
    frame, state, reward, terminal, _ = rules.step_env(key, state, action, rules.default_params)
    return frame, as_ours(freeway.Game, state), reward, terminal


def asterix_step(rules, game, action, key):
    """The same in Asterix, but for what enters, which is ours."""
    chance, free, due = jax.random.uniform(key, (10,)), game.entities[:, 4] == 0, game.spawn_timer == 0
    row, right, gold = jnp.argmax(jnp.where(free, chance[2:], -1)), chance[0] < 1 / 2, chance[1] < 1 / 3
    entered = game.entities.at[row].set(jnp.asarray([9 * ~right, row + 1, right, gold, 1]))
    game = game._replace(
        entities=jnp.where(due & free.any(), entered, game.entities),
        spawn_timer=jnp.where(due, game.spawn_speed, game.spawn_timer),
    )
    state = gymnax_asterix.EnvState(**game._asdict(), shot_timer=0, terminal=jnp.zeros((), bool))
    state = gymnax_asterix.step_agent(state, rules.action_set[action])
    state, reward, terminal = gymnax_asterix.step_entities(state)
    state = gymnax_asterix.step_timers(state, rules.default_params).replace(time=state.time + 1)
    return rules.get_obs(state), as_ours(asterix.Game, state), reward, terminal


GYMNAX = {"asterix": (minatar.MinAsterix, asterix_step), "freeway": (minatar.MinFreeway, freeway_step)}


def as_ours(kind, state):
    return kind(*(getattr(state, name) for name in kind._fields))


def check(name, games, frames=True, **fields):
    """Plays one random action in each of the games, ours and gymnax's; what it paid, and where it ended."""
    env = MinAtar(name, sticky=0.0, max_steps=10**6, **fields)
    rules, step = GYMNAX[name]
    rules = rules(use_minimal_action_set=env.actions == "minimal")
    count = len(games.time)
    action = jax.random.randint(jax.random.key(0), (count,), 0, env.spec.num_actions)

    @jax.jit
    @jax.vmap
    def play(game, action, key):
        game_key = jax.random.split(key, 3)[1]
        return env.step(State(game, action), action, key), step(rules, game, action, game_key)

    ours, theirs = jax.tree.map(np.asarray, play(games, action, jax.random.split(jax.random.key(1), count)))
    frame, game, reward, terminal = theirs
    np.testing.assert_array_equal(ours.terminal, terminal)
    np.testing.assert_array_equal(ours.reward, reward)
    assert not ours.timeout.any()
    if frames:
        np.testing.assert_array_equal(ours.next_frame, frame)
    for field in game._fields:
        our, their = getattr(ours.state.game, field), getattr(game, field)
        assert our.dtype == np.int32
        np.testing.assert_array_equal(our[~terminal], their[~terminal], field)
    return reward, terminal


def integers(*fields):
    return [jnp.asarray(field, jnp.int32) for field in fields]


def random_freeway(rows):
    draw = np.random.default_rng(0).integers
    speed = np.where(draw(0, 2, (MANY, 8)), 1, -1) * draw(1, 6, (MANY, 8))
    column = np.where(draw(0, 2, (MANY, 8)), draw(3, 6, (MANY, 8)), draw(0, 10, (MANY, 8)))  # many near the player
    wait, rest = draw(0, 6, (MANY, 8)), draw(0, 4, MANY)
    wait[: MANY // 2] = rest[: MANY // 2] = 0
    cars = np.stack(np.broadcast_arrays(column, rows, wait, speed), axis=-1)
    return freeway.Game(*integers(draw(0, 10, MANY), cars, rest, draw(0, 3_000, MANY)))


def random_asterix(rows):
    draw = np.random.default_rng(1).integers
    x, y = draw(0, 10, MANY), draw(1, 9, MANY)
    near = np.clip(x[:, None] + draw(-1, 2, (MANY, 8)), 0, 9)
    column = np.where(draw(0, 2, (MANY, 8)), near, draw(0, 10, (MANY, 8)))
    there = draw(0, 8, (MANY, 8)) > draw(-1, 8, (MANY, 1))
    sides, golds = draw(0, 2, (MANY, 8)), draw(0, 2, (MANY, 8))
    entities = np.stack(np.broadcast_arrays(column, rows, sides, golds, 1), axis=-1) * there[..., None]
    spawn_timer, move_timer, ramp_timer = draw(0, 10, MANY), draw(0, 5, MANY), draw(-1, 100, MANY)
    for timer in (spawn_timer, move_timer, ramp_timer):
        timer[: MANY // 2] = 0
    ramp_timer[: MANY // 4] = -1
    timers = draw(1, 11, MANY), spawn_timer, draw(1, 6, MANY), move_timer, ramp_timer
    return asterix.Game(*integers(x, y, *timers, draw(0, 10, MANY), entities, draw(0, 3_000, MANY)))


RANDOM = {"asterix": random_asterix, "freeway": random_freeway}


@pytest.mark.parametrize("name", GYMNAX)
def test_random_play_goes_on_as_in_gymnax(name):
    played = rollouts(MinAtar(name), jax.random.split(jax.random.key(0), GAMES), STEPS)
    games = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), played.outcomes.state.game)
    check(name, games)
    things = np.asarray(games.cars if name == "freeway" else games.entities)
    assert np.all((things[:, :, 1] == ROWS) | ~things.any(axis=2))  # each in a row of its own


@pytest.mark.parametrize("name", GYMNAX)
def test_any_state_goes_on_as_in_gymnax(name):
    reward, terminal = check(name, RANDOM[name](ROWS), actions="all")
    assert reward.sum() > 100
    assert terminal.sum() > 100 or name == "freeway"


@pytest.mark.parametrize("name", GYMNAX)
def test_many_that_meet_the_player_at_once_do_as_in_gymnax(name):
    """In no state of play are two in one row; frames, which count on it, are left out."""
    draw = np.random.default_rng(2).integers
    games, where = RANDOM[name](draw(4, 6, (MANY, 8))), jnp.asarray(draw(4, 6, MANY), jnp.int32)
    games = games._replace(**{"pos" if name == "freeway" else "player_y": where})
    reward, terminal = check(name, games, frames=False)
    if name == "asterix":
        assert (reward > 1).sum() > 100
        assert ((reward > 0) & terminal).sum() > 100


@pytest.mark.parametrize("name", GYMNAX)
def test_a_first_state_is_that_of_gymnax(name):
    keys, rules = jax.random.split(jax.random.key(0), 100), GYMNAX[name][0]()
    state, frame = jax.vmap(MinAtar(name).reset)(keys)
    their_frame, theirs = jax.vmap(lambda key: rules.reset_env(key, rules.default_params))(keys)
    np.testing.assert_array_equal(frame, their_frame)
    jax.tree.map(np.testing.assert_array_equal, state.game, as_ours(type(state.game), theirs))


@pytest.mark.parametrize("name", GYMNAX)
def test_a_step_scatters_nothing(name):
    env, (rules, step) = MinAtar(name), GYMNAX[name]
    keys = jax.random.split(jax.random.key(0), 2)
    state, _ = jax.vmap(env.reset)(keys)
    given = state.game, state.last_action, keys
    assert "scatter" not in str(jax.make_jaxpr(jax.vmap(env.step))(state, *given[1:]))
    assert "scatter" in str(jax.make_jaxpr(jax.vmap(lambda *given: step(rules(), *given)))(*given))
