"""MDPs as environments: their laws against the matrices, their ends, their frames."""

from functools import partial
from hashlib import sha256

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.envs import Tabular, environment
from mico.deep.envs.mdp import State
from mico.tabular import MDP, PROBLEMS, Outcomes, Problem, from_map, garnet, load, make, save
from rollouts import rollout

pytestmark = pytest.mark.usefixtures("quick_compilation")

NUMBER = 20_000
steps = jax.jit(jax.vmap(lambda env, *given: env.step(*given), in_axes=(None, None, None, 0)))


def taken(env, position, action, number=NUMBER):
    """Where one step leads and what it pays, many times over."""
    state = State(jnp.int32(position), jnp.int32(0))
    keys = jax.random.split(jax.random.key(100 * position + action), number)
    return jax.tree.map(np.asarray, steps(env, state, jnp.int32(action), keys)[1])


def close(share, chance):
    return np.all(np.abs(share - chance) < 5 * np.sqrt(chance * (1 - chance) / NUMBER) + 1e-9)


def test_transitions_and_rewards_follow_the_matrices():
    mdp = garnet(4, 2, seed=3).mdp
    env = Tabular(mdp)
    for x in range(4):
        for a in range(2):
            outcome = taken(env, x, a)
            assert close(outcome.next_frame.mean(axis=0), mdp.transition[x, a])
            np.testing.assert_allclose(outcome.reward, mdp.reward[x, a], rtol=1e-6)


def test_next_state_and_reward_are_drawn_together():
    law = {(0, 0, 1, 3.0): 0.2, (0, 0, 1, -1.0): 0.3, (0, 0, 2, 5.0): 0.5, (0, 0, 2, 7.0): 0.0}
    loops = {(1, 0, 1, 0.0): 1.0, (2, 0, 2, 1.0): 1.0}
    state, action, next_state, reward = (np.array(column) for column in zip(*law, *loops))
    chance = np.array([*law.values(), *loops.values()])
    env = Tabular(MDP.from_outcomes(Outcomes(state, action, next_state, chance, reward), 3, 1, 0.9))
    outcome = taken(env, 0, 0)
    where = outcome.next_frame.argmax(axis=1)
    for (_, _, to, pay), probability in law.items():
        assert close(np.mean((where == to) & (outcome.reward == pay)), np.array(probability))
    assert np.array_equal(outcome.terminal, where == 1)  # state 2 holds the agent too, but pays


def test_a_fair_coin_pays_half_the_time():
    reward = taken(Tabular("random-reward"), 0, 0).reward
    assert set(np.unique(reward)) == {0.0, 1.0}
    assert close(reward.mean(), np.array(0.5))


def test_episodes_start_uniformly_where_something_can_happen():
    env = Tabular("five-state")
    frames = jax.jit(jax.vmap(lambda key: env.reset(key)[1]))(jax.random.split(jax.random.key(0), NUMBER))
    assert close(np.asarray(frames).mean(axis=0), np.array([0.25, 0.25, 0.25, 0.25, 0.0]))


def test_episodes_start_where_they_are_told():
    env = Tabular("four-rooms", start=5, max_steps=10)
    played = rollout(env, jax.random.key(0), 100)
    over = np.asarray(played.steps.ended)
    assert over.sum() >= 10
    assert np.all(np.asarray(played.steps.reset_frame)[over].argmax(axis=1) == 5)


def test_entering_the_goal_is_a_terminal_with_the_goal_as_true_frame():
    env = Tabular(from_map(["#####", "#. G#", "#####"], discount=0.9), start=1)
    outcome = taken(env, 1, 3, number=1)  # to the right
    assert (outcome.reward[0], outcome.terminal[0], outcome.truncated[0]) == (1.0, True, False)
    assert outcome.next_frame[0].tolist() == [False, False, True]
    assert outcome.reset_frame[0].tolist() == [False, True, False]
    left = taken(env, 1, 2, number=1)
    assert (left.reward[0], left.terminal[0], left.reset_frame[0].argmax()) == (0.0, False, 0)


def test_a_goal_at_the_limit_is_a_terminal():
    env = Tabular(from_map(["#####", "#. G#", "#####"], discount=0.9), max_steps=1)
    reached, moved = taken(env, 1, 3, number=1), taken(env, 1, 2, number=1)
    assert (reached.terminal[0], reached.truncated[0]) == (True, False)
    assert (moved.terminal[0], moved.truncated[0]) == (False, True)


def test_images_show_agent_walls_and_goals():
    text = ["#####", "#. G#", "#####"]
    env = Tabular(from_map(text, discount=0.9), observation="image", start=1)
    _, frame = env.reset(jax.random.key(0))
    assert env.spec.shape == (3, 5, 3)
    marks = np.array([list(line) for line in text])
    assert np.array_equal(frame[..., 0], marks == " ")  # where state 1 is
    assert np.array_equal(frame[..., 1], marks == "#")
    assert np.array_equal(frame[..., 2], marks == "G")


def test_a_sink_without_a_cell_shows_no_agent():
    env = Tabular("frozen-lake", observation="image", slippery=False, start=4)
    fallen = taken(env, 4, 2, number=1)  # to the right, where the first hole is
    assert fallen.terminal[0]
    assert not fallen.next_frame[0, ..., 0].any()
    assert fallen.reset_frame[0, ..., 0].argmax() == 4


def test_gives_back_its_problem():
    named, given = Tabular("garnet", seed=3, num_states=4, num_actions=2), garnet(4, 2, seed=3).mdp
    assert np.array_equal(named.problem.mdp.transition, given.transition)
    assert Tabular(given).problem.mdp is given
    problem = Problem(given)
    assert Tabular(problem).problem is problem
    assert Tabular(given).name == "mdp/unnamed"


def test_no_problem_has_an_option_of_the_environments_own_name():
    own = set(Tabular.__init__.__annotations__) - {"options"}
    for factory in PROBLEMS.values():
        assert not own & set(factory.__annotations__) - {"return"}


def test_fleets_of_many_seeds_share_the_table_shape():
    envs = [Tabular("garnet", seed=0, num_states=4) for _ in range(3)]
    fleet = jax.tree.map(lambda *leaves: jnp.stack(leaves), *envs)
    assert fleet.spec == envs[0].spec
    one = rollout(envs[0], jax.random.key(0), 30)
    many = jax.vmap(partial(rollout, steps=30), in_axes=(0, None))(fleet, jax.random.key(0))
    assert all(np.array_equal(each, one.steps.next_frame) for each in many.steps.next_frame)


@pytest.mark.parametrize("ending", ["npz", "json", "NPZ"])
def test_a_file_is_the_problem_that_metrics_are_computed_of(tmp_path, monkeypatch, ending):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    path = tmp_path / "sub" / f"mine.{ending}"
    save(path, make("five-state"))
    for typed in (f"sub/mine.{ending}", f"./sub/mine.{ending}", str(path)):
        env = environment(f"mdp/{typed}", max_steps=7)
        assert env.name == f"mdp/mine.{ending}"
        assert env.problem.names == make("five-state").names
        np.testing.assert_array_equal(env.problem.mdp.transition, load(path).mdp.transition)
        settings = {"observation": "one-hot", "max_steps": 7, "start": "uniform", "path": str(path)}
        assert env.settings() == settings | {"digest": sha256(path.read_bytes()).hexdigest()}
    monkeypatch.chdir("/")
    again = environment(env.name, **env.settings())
    assert again.settings() == env.settings()


def test_a_file_that_changed_or_is_none_is_refused(tmp_path):
    path = tmp_path / "mine.npz"
    save(path, make("five-state"))
    settings = environment(f"mdp/{path}").settings()
    save(path, make("terminals"))
    with pytest.raises(ValueError, match=r"mine.npz is not as it was when the run was made"):
        environment("mdp/mine.npz", **settings)
    assert environment(f"mdp/{path}").spec.shape == (3,)
    with pytest.raises(ValueError, match="a problem from a file has no options, but slip is given"):
        environment(f"mdp/{path}", slip=0.1)
    with pytest.raises(ValueError, match=r"gone\.npz: No such file"):
        environment(f"mdp/{tmp_path}/gone.npz")


@pytest.mark.parametrize(
    ("source", "fields", "message"),
    [
        ("garnet", {"seed": 0, "observation": "image"}, "'image' needs a problem with a map"),
        ("four-rooms", {"observation": "words"}, "observation must be one of one-hot, image, but is 'words'"),
        ("four-rooms", {"start": 104}, "start must be .* but is 104"),
        ("five-state", {"start": 4}, "start must be .* but is 4"),
        ("four-rooms", {"start": "corner"}, "start must be .* but is 'corner'"),
        (MDP([[[1.0]]], [[0.0]], 0.9), {}, "all are absorbing"),
        (garnet(4, 2, seed=3).mdp, {"seed": 3}, "but seed is given"),
    ],
)
def test_bad_settings_are_refused(unchecked, source, fields, message):
    with pytest.raises(ValueError, match=message):
        Tabular(source, **fields)


def test_an_image_needs_a_cell_for_each_state(unchecked):
    problem = from_map(["..G"], discount=0.9)
    chain = Problem(garnet(4, 2, seed=3).mdp, layout=problem.layout)
    with pytest.raises(ValueError, match="state 3 has none"):
        Tabular(chain, observation="image")
