"""Freeway, Asterix and Seaquest as steps of vectors, against gymnax's steps car by car and entity by entity."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.environments import minatar
from gymnax.environments.minatar import asterix as gymnax_asterix
from gymnax.environments.minatar import freeway as gymnax_freeway
from gymnax.environments.minatar import seaquest as gymnax_seaquest

from mico.deep.envs import MinAtar
from mico.deep.envs.minatar import asterix, freeway, seaquest
from mico.deep.envs.minatar.minatar import State
from rollouts import rollouts
from seaquest_lists import lists

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


def seaquest_step(rules, game, action, key):
    """The same in Seaquest, its state as lists, and enemy bullets, in which order means nothing, in order."""
    frame, state, reward, terminal, _ = rules.step_env(key, seaquest_state(game), action, rules.default_params)
    return frame, seaquest_in_order(state), reward, terminal


def seaquest_state(game):
    """Gymnax's lists of a hundred places."""
    entries = {}
    for name, rows, there in lists(game):
        first = jnp.argsort(~there, stable=True)
        entries[name] = jnp.zeros((100, rows.shape[1]), jnp.int32).at[: len(rows)].set((rows * there[:, None])[first])
        entries[COUNTS[name]] = there.sum(dtype=jnp.int32)
    same = {name: getattr(game, name) for name in game._fields if name not in ("f_bullets", "divers", "enemies")}
    return gymnax_seaquest.EnvState(**(same | entries), surface=game.sub_y == 0, terminal=jnp.zeros((), bool))


def seaquest_in_order(state):
    places = jnp.where(jnp.arange(100) < state.e_bullet_count, state.e_bullets @ jnp.asarray([100, 10, 1]), 10**6)
    return state.replace(e_bullets=state.e_bullets[jnp.argsort(places)])


COUNTS = {
    "f_bullets": "f_bullet_count",
    "e_bullets": "e_bullet_count",
    "e_fish": "e_fish_count",
    "e_subs": "e_subs_count",
    "divers": "divers_count",
}
GYMNAX = {
    "asterix": (minatar.MinAsterix, asterix_step),
    "freeway": (minatar.MinFreeway, freeway_step),
    "seaquest": (minatar.MinSeaquest, seaquest_step),
}
IN_ROWS = ["asterix", "freeway"]  # one in a row at most


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

    (after, ours), theirs = jax.tree.map(np.asarray, play(games, action, jax.random.split(jax.random.key(1), count)))
    frame, game, reward, terminal = theirs
    played = after.game
    assert {leaf.dtype.name for leaf in jax.tree.leaves(played)} <= {"int32", "uint32", "bool"}
    if name == "seaquest":
        in_order = jax.jit(jax.vmap(lambda game: seaquest_in_order(seaquest_state(game))))
        played = jax.tree.map(np.asarray, in_order(played))
    np.testing.assert_array_equal(ours.terminal, terminal)
    np.testing.assert_array_equal(ours.reward, reward)
    assert not ours.truncated.any()
    if frames:
        np.testing.assert_array_equal(ours.next_frame, frame)
    for (path, our), their in zip(jax.tree.leaves_with_path(played), jax.tree.leaves(game), strict=True):
        np.testing.assert_array_equal(our[~terminal], their[~terminal], jax.tree_util.keystr(path))
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


def random_seaquest():
    """Much of it near the player, and many timers at zero."""
    draw = np.random.default_rng(3).integers
    often = lambda value, low, high: np.where(draw(0, 2, MANY), value, draw(low, high, MANY))  # noqa: E731
    x, y = draw(0, 10, MANY), often(1, 0, 9)

    def place(count):
        close = draw(0, 4, (MANY, count)) == 0
        column = np.clip(x[:, None] + draw(-2, 3, (MANY, count)), 0, 9)
        row = np.clip(y[:, None] + draw(-1, 2, (MANY, count)), 1, 8)
        return np.where(close, column, draw(0, 10, (MANY, count))), np.where(close, row, draw(1, 9, (MANY, count)))

    e_spawn_timer, d_spawn_timer, shot_timer = often(0, 0, 20), often(0, 0, 30), often(0, 0, 5)
    column, row = place(32)
    reload, share = often(0, 0, 11)[:, None] * np.ones((1, 32), int), draw(0, draw(1, 34, (MANY, 1)))
    reload[:, ::2] = draw(0, 11, (MANY, 16))
    there, sub = draw(0, 32, (MANY, 32)) < share, draw(0, 2, (MANY, 32)) > 0
    shot = sub & (draw(0, 32, (MANY, 32)) < share) & ((reload > 0) | ~there)  # a bullet has left before the next shot
    there[:, 0] &= e_spawn_timer > 0  # what is oldest has left before a place is needed
    shot[:, 0] &= e_spawn_timer > 0
    wait, bullet = draw(0, 6, (MANY, 32)) * draw(0, 2, (MANY, 32)), place(32)[0]
    bits = lambda of: jnp.asarray((of * 2 ** np.arange(32)).sum(axis=1), jnp.uint32)  # noqa: E731
    digits = lambda of, count: tuple(bits(of >> digit & 1) for digit in range(count))  # noqa: E731
    enemies = seaquest.Enemies(
        there=bits(there),
        right=bits(draw(0, 2, (MANY, 32))),
        sub=bits(sub),
        x=digits(column, 4),
        y=digits(row, 4),
        wait=digits(wait, 3),
        reload=digits(reload, 4),
        shot=bits(shot),
        bullet=digits(bullet, 4),
    )

    def pair(kind, timer, *more):
        (column, row), right = place(2), draw(0, 2, (MANY, 2)) > 0
        gone = (draw(0, 3, (MANY, 2)) == 0) | np.stack([timer == 0, np.zeros(MANY, bool)], axis=1)
        if kind is seaquest.Bullet:  # the player, which is no faster, stays behind them
            right, gone = column > x[:, None], gone | (column == x[:, None])
            gone[:, 0] |= (column[:, 0] == column[:, 1]) & (row[:, 0] == row[:, 1])
        fields = [*integers(np.where(gone, seaquest._GONE, column), row), jnp.asarray(right), *integers(*more)]
        return tuple(kind(*(field[:, one] for field in fields)) for one in range(2))

    looks = np.where((x == 0) | (x == 9), x == 9, draw(0, 2, MANY) > 0)
    aboard = np.where(draw(0, 2, MANY), draw(5, 7, MANY), draw(-2, 7, MANY))
    wait = often(0, 0, 6)[:, None] * draw(0, 2, (MANY, 2))
    start = *integers(np.maximum(draw(-20, 201, MANY), 0), x, y), jnp.asarray(looks), *integers(aboard)
    things = pair(seaquest.Bullet, shot_timer), pair(seaquest.Diver, d_spawn_timer, wait), enemies
    timers = often(1, 1, 21), e_spawn_timer, d_spawn_timer, often(2, 2, 6), draw(0, 20, MANY), shot_timer
    return seaquest.Game(*[*start, *things, *integers(*timers, draw(0, 3_000, MANY))])


RANDOM = {"asterix": random_asterix, "freeway": random_freeway, "seaquest": lambda rows: random_seaquest()}


@pytest.mark.parametrize("name", GYMNAX)
def test_random_play_goes_on_as_in_gymnax(name):
    played = rollouts(MinAtar(name), jax.random.split(jax.random.key(0), GAMES), STEPS)
    games = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[::3], played.states.game)
    check(name, games)
    if name in IN_ROWS:
        things = np.asarray(games.cars if name == "freeway" else games.entities)
        assert np.all((things[:, :, 1] == ROWS) | ~things.any(axis=2))  # each in a row of its own


@pytest.mark.parametrize("name", GYMNAX)
def test_any_state_goes_on_as_in_gymnax(name):
    reward, terminal = check(name, RANDOM[name](ROWS), actions="all")
    assert reward.sum() > 100
    assert terminal.sum() > 100 or name == "freeway"


@pytest.mark.parametrize("name", IN_ROWS)
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
    ours = state.game if name in IN_ROWS else jax.jit(jax.vmap(seaquest_state))(state.game)
    jax.tree.map(np.testing.assert_array_equal, ours, as_ours(type(ours), theirs) if name in IN_ROWS else theirs)


@pytest.mark.parametrize("name", GYMNAX)
def test_a_step_scatters_nothing(name):
    env, (rules, step) = MinAtar(name), GYMNAX[name]
    keys = jax.random.split(jax.random.key(0), 2)
    state, _ = jax.vmap(env.reset)(keys)
    given = state.game, state.last_action, keys
    assert "scatter" not in str(jax.make_jaxpr(jax.vmap(env.step))(state, *given[1:]))
    assert "scatter" in str(jax.make_jaxpr(jax.vmap(lambda *given: step(rules(), *given)))(*given))


SPEEDS = [(max(1, 20 - times), max(2, 5 - times // 2)) for times in range(20)]  # of Seaquest: entries, moves


def test_seaquest_at_any_speed_goes_on_for_long_as_in_gymnax():
    """Beyond what ends a game, and so with as many enemies as there can be."""
    rules, (entries, moves) = minatar.MinSeaquest(), integers(*zip(*SPEEDS, strict=True))
    actions = jnp.asarray(np.random.default_rng(0).choice(6, (400, 20), p=[0.1, 0.15, 0.1, 0.15, 0.2, 0.3]))
    keys = jax.random.split(jax.random.key(0), (400, 20))
    first = seaquest.reset(keys[0, 0])

    @jax.vmap
    def step(games, action, key):
        game, state = games
        toward = lambda more, less: (action == more).astype(jnp.int32) - (action == less)  # noqa: E731
        game, reward, terminal = seaquest.step(game, toward(3, 1), toward(4, 2), action == 5, key)
        frame, state, their_reward, their_terminal, _ = rules.step_env(key, state, action, rules.default_params)
        state = state.replace(terminal=jnp.zeros((), bool))
        ours = seaquest_in_order(seaquest_state(game)), reward, terminal, seaquest.frame(game)
        return (game, state), (ours, (seaquest_in_order(state), their_reward, their_terminal, frame))

    @jax.jit
    @jax.vmap
    def started(entries, moves):
        game = first._replace(e_spawn_speed=entries, move_speed=moves)
        return game, seaquest_state(game)

    play = jax.jit(lambda games: jax.lax.scan(lambda games, given: step(games, *given), games, (actions, keys))[1])
    ours, theirs = play(started(entries, moves))
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    state, reward, *_ = theirs
    assert (state.e_fish_count + state.e_subs_count).max() > 10
    assert state.e_bullet_count.max() > 3
    assert reward.sum() > 100


def test_what_enters_in_seaquest_has_left_before_its_place_is_needed():
    """By then 32 more enemies, two more divers or two more bullets would have come."""
    entries, moves = integers(*zip(*SPEEDS, strict=True))
    keys = jax.random.split(jax.random.key(1), (20, 100))

    @jax.jit
    @partial(jax.vmap, in_axes=(0, 0))
    @partial(jax.vmap, in_axes=(None, 0))
    def leave(speed, key):
        game = seaquest.reset(key)
        game = game._replace(move_speed=speed, e_spawn_timer=jnp.int32(0), d_spawn_timer=jnp.int32(0))

        def step(game, time):
            fires = time == 0  # at the left wall, to the right
            game, *_ = seaquest.step(game, jnp.int32(0), jnp.int32(0), fires, key)
            kept = game._replace(e_spawn_timer=jnp.int32(99), d_spawn_timer=jnp.int32(99))
            enemies, (_, diver), (_, bullet) = kept.enemies, kept.divers, kept.f_bullets
            return kept, (enemies.there | enemies.shot, diver.x >= 0, bullet.x >= 0)

        game = game._replace(sub_x=jnp.int32(0), sub_or=jnp.ones((), bool))
        return jax.lax.scan(step, game, jnp.arange(70))[1]

    enemies, divers, bullets = (np.asarray(there) != 0 for there in leave(moves, keys))
    life = lambda there: there.sum(axis=-1).max(axis=1)  # noqa: E731
    assert np.all(enemies[..., 0] & divers[..., 0] & bullets[..., 0])
    assert np.all(life(enemies) == 10 * np.asarray(moves) + 9)
    assert np.all(life(enemies) < 32 * np.asarray(entries))
    assert np.all(life(divers) < 2 * 30)
    assert np.all(life(bullets) < 2 * 5)
