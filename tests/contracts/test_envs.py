"""To register an environment is to be tested: what every entry of ENVS keeps to."""

from functools import cache
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.envs import ENVS, AbstractEnv, AbstractHostEnv, Episodes, environment
from mico.deep.envs.minatar.minatar import Game
from rollouts import rollouts

pytestmark = pytest.mark.usefixtures("quick_compilation")

LIMIT, STEPS, RUNS = 40, 200, 4
INSIDE = {
    **{f"minatar/{game}": {} for game in get_args(Game)},
    "mdp/four-rooms": {"slip": 0.3},
    "mdp/frozen-lake": {"observation": "image"},
    "mdp/garnet": {"seed": 0, "num_states": 6},
}
OUTSIDE = {
    "gym/CartPole-v1": {},
    "gym/FrozenLake-v1": {},
    "atari/pong": {},
    "control/pendulum-swingup": {"observation": "state"},
}
LASTING = ("atari/pong", "control/pendulum-swingup")  # which never end so soon
ALL = {**INSIDE, **OUTSIDE}
over_inside = pytest.mark.parametrize("name", INSIDE)
over_outside = pytest.mark.parametrize("name", OUTSIDE)


@cache
def inside(name):
    """Two fleets with keys of their own, and many first frames."""
    env = environment(name, max_steps=LIMIT, **INSIDE[name])
    keys = jax.random.split(jax.random.key(0), (2, RUNS))
    played = [jax.tree.map(np.asarray, rollouts(env, each, STEPS)) for each in keys]
    starts = np.asarray(jax.jit(jax.vmap(lambda key: env.reset(key)[1]))(jax.random.split(jax.random.key(1), 2_048)))
    return env, keys, played, starts


def begun(name, seeds):
    env = environment(name, max_steps=LIMIT, **OUTSIDE[name])
    return env, Episodes(env.make(len(seeds)), np.array(seeds))


def outside(name, seeds):
    """First frames, and the outcomes of actions that are the same for all seeds."""
    env, episodes = begun(name, seeds)
    return episodes.start(), [episodes.step(now) for now in drawn(env.spec).repeat(len(seeds), axis=1)]


def drawn(spec):
    """Actions at random, for one environment."""
    rng = np.random.default_rng(0)
    if spec.num_actions:
        return rng.integers(spec.num_actions, size=(STEPS, 1))
    return rng.uniform(-1, 1, size=(STEPS, 1, spec.action_size)).astype(np.float32)


def test_every_family_is_tested():
    assert {name.partition("/")[0] for name in ALL} == set(ENVS)


@pytest.mark.parametrize("name", ALL)
def test_is_of_one_kind_and_knows_its_name(name):
    env = environment(name, **ALL[name])
    assert isinstance(env, AbstractEnv if env.in_jax else AbstractHostEnv)
    assert env.in_jax == (name in INSIDE)
    assert env.name == name


@pytest.mark.parametrize("name", ALL)
def test_the_same_settings_make_one_program(name):
    one, two = environment(name, **ALL[name]), environment(name, **ALL[name])
    assert jax.tree.structure(one) == jax.tree.structure(two)
    assert jax.tree.structure(one) != jax.tree.structure(environment(name, **ALL[name], max_steps=7))


@pytest.mark.parametrize("name", ALL)
def test_steps_without_end_are_refused(name):
    with pytest.raises(ValueError, match=r"max_steps must be .* but is 0"):
        environment(name, **ALL[name], max_steps=0)


@over_inside
def test_frames_are_as_announced(name):
    env, _, (played, _), starts = inside(name)
    for frames in (starts, played.first_frame, played.steps.reset_frame, played.steps.next_frame):
        assert frames.dtype == env.spec.dtype
        assert frames.shape[-len(env.spec.shape) :] == env.spec.shape


@over_inside
@pytest.mark.parametrize("x64", [False, True])
def test_types_are_the_same_after_each_step_and_under_x64(name, x64):
    env = inside(name)[0]
    with jax.enable_x64(x64):
        state, frame = jax.eval_shape(env.reset, jax.random.key(0))
        after, outcome = jax.eval_shape(env.step, state, jnp.int32(0), jax.random.key(0))
    found = [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves((after, outcome.reset_frame))]
    assert found == [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves((state, frame))]
    assert not any(weak for _, _, weak in found)
    assert {leaf.dtype.itemsize for leaf in jax.tree.leaves((after, outcome))} <= {1, 4}
    assert [leaf.dtype for leaf in outcome[:5]] == [jnp.float32, frame.dtype, bool, bool, frame.dtype]


@over_inside
def test_programs_hold_no_large_constants(name):
    env = inside(name)[0]
    state, _ = jax.eval_shape(env.reset, jax.random.key(0))
    program = jax.make_jaxpr(lambda *given: given[0].step(*given[1:]))(env, state, jnp.int32(0), jax.random.key(0))
    assert sum(np.size(constant) for constant in program.consts) < 100


@over_inside
def test_equal_keys_give_equal_trajectories_and_others_do_not(name):
    env, keys, (played, others), _ = inside(name)
    again = rollouts(env, keys[0], STEPS)
    assert jax.tree.all(jax.tree.map(np.array_equal, played, again))
    assert not np.array_equal(played.steps.next_frame, others.steps.next_frame)
    assert not np.array_equal(played.steps.next_frame[0], played.steps.next_frame[1])


@over_inside
def test_episodes_go_on_until_they_end_and_then_begin_anew(name):
    _, _, (played, _), starts = inside(name)
    outcomes = played.steps
    over = outcomes.ended
    assert np.array_equal(outcomes.reset_frame[~over], outcomes.next_frame[~over])
    always = (starts == starts[0]).all(axis=0)  # what all first frames share
    assert np.all(outcomes.reset_frame[over][:, always] == starts[0][always])
    assert np.any(outcomes.reset_frame[over] != outcomes.next_frame[over])


@over_inside
def test_time_outs_come_at_the_limit_and_never_with_a_terminal(name):
    _, _, (played, _), _ = inside(name)
    assert not np.any(played.steps.terminal & played.steps.truncated)
    for terminal, timeout in zip(played.steps.terminal, played.steps.truncated, strict=True):
        length = 0
        for ended, cut in zip(terminal, timeout, strict=True):
            length += 1
            assert cut == (length == LIMIT and not ended)
            length = 0 if ended or cut else length


@over_inside
def test_rewards_are_finite(name):
    _, _, (played, _), _ = inside(name)
    assert np.isfinite(played.steps.reward).all()


@over_outside
def test_frames_of_host_environments_are_as_announced(name):
    env, episodes = begun(name, [3, 5])
    first, outcome = episodes.start(), episodes.step(drawn(env.spec)[0].repeat(2, axis=0))
    for frames in (first, outcome.reset_frame, outcome.next_frame):
        assert (frames.shape, str(frames.dtype)) == ((2, *env.spec.shape), env.spec.dtype)
    assert (outcome.reward.dtype, outcome.terminal.dtype, outcome.truncated.dtype) == (np.float32, bool, bool)


@over_outside
def test_equal_seeds_give_equal_host_trajectories_and_others_do_not(name):
    first, outcomes = outside(name, [3, 5, 3])
    frames = np.stack([first, *(outcome.next_frame for outcome in outcomes)])
    assert np.array_equal(frames[:, 0], frames[:, 2])
    assert not np.array_equal(frames[:, 0], frames[:, 1])


@over_outside
def test_host_episodes_end_and_begin_anew(name):
    _, outcomes = outside(name, [3, 5])
    length = np.zeros(2, dtype=int)
    for outcome in outcomes:
        length += 1
        over = outcome.ended
        assert np.array_equal(outcome.truncated, (length == LIMIT) & ~outcome.terminal)
        assert np.array_equal(outcome.reset_frame[~over], outcome.next_frame[~over])
        assert np.isfinite(outcome.reward).all()
        assert not any(np.array_equal(outcome.reset_frame[i], outcome.next_frame[i]) for i in np.flatnonzero(over))
        length[over] = 0
    assert name in LASTING or any(outcome.terminal.any() for outcome in outcomes)


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("minatr/breakout", {}, "did you mean minatar"),
        ("minatar/brakeout", {}, "did you mean breakout"),
        ("mdp/fourrooms", {}, "did you mean four-rooms"),
        ("gym/CartPol-v1", {}, "did you mean CartPole-v1"),
        ("control/cheeta-run", {}, "did you mean cheetah-run"),
        ("mdp", {}, "names a family alone"),
        ("minatar/breakout", {"stick": 0.1}, "'stick'"),
        ("mdp/four-rooms", {"slid": 0.1}, "'slid'"),
        ("mdp/garnet", {}, "seed must be given"),
        ("gym/CartPole-v1", {"gravity": 1.0}, "'gravity'"),
    ],
)
def test_unknown_names_and_fields_are_refused(unchecked, name, fields, message):
    with pytest.raises(ValueError, match=message):
        environment(name, **fields)
