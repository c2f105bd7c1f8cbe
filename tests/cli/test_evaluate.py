"""`mico evaluate` and what it prints: returns of plain loops, and of policies whose returns are known."""

import equinox as eqx
import gymnasium
import jax
import numpy as np
import pytest

from mico import cli
from mico.deep import Trained, load
from mico.deep.envs import environment
from mico.deep.envs.host.episodes import episode_seed
from mico.deep.learner.state import init_params
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.trained.evaluate import evaluate
from mico.deep.training.run_folder import Outputs
from mico.deep.training.weights import save_parameters
from mico.runs.files import writable
from small_runs import small_run
from trainings import FLAGS

pytestmark = pytest.mark.usefixtures("quick_compilation")


def always(action, run):
    """The run with a head that prefers one action everywhere."""
    params = init_params(run, run.env.spec)
    preferred = (np.arange(run.env.spec.num_actions) == action).astype(np.float32)
    head = eqx.tree_at(lambda head: head.output.bias, jax.tree.map(np.zeros_like, params.head), preferred)
    return Trained(run, 0, params._replace(head=head))


def saved(out, **runs):
    """Folders of runs, as a training leaves them."""
    outputs = Outputs(writable(out), {name: run.settings for name, run in runs.items()}, 40, resume=False)
    for folder, run in zip(outputs.folders, runs.values()):
        save_parameters([folder], 40, jax.tree.map(lambda leaf: np.asarray(leaf)[None], run.params))
    return out


def five_state(**fields):
    """s1 → s2 pays 0.2, s2 → T 0.5, t1 → t2 0.2, t2 → T 1.0, all by action 0; action 1 leads to T for nothing."""
    return small_run(seed=0, env=environment("mdp/five-state", **fields))


def plain_loop(run, start):
    """The return from a state of a deterministic MDP, one step after the other, acting as the run does."""
    mdp, state, total = run.settings.env.problem.mdp, start, 0.0
    while state != 4:
        action = run.act(np.arange(5) == state)
        row = mdp.transition[state, action]
        total += float(mdp.reward[state, action])
        state = int(np.flatnonzero(row == 1).item())
    return total


@pytest.mark.parametrize(("start", "best"), [(0, 0.7), (2, 1.2)])
def test_returns_are_those_of_a_plain_loop_and_the_known_ones(start, best):
    run = always(0, five_state(start=start))
    assert plain_loop(run, start) == pytest.approx(best)
    assert evaluate(run, episodes=3, seed=0, epsilon=0.0) == pytest.approx([best] * 3)
    assert evaluate(always(1, five_state(start=start)), episodes=3, seed=0, epsilon=0.0) == pytest.approx([0.0] * 3)


def test_each_episode_counts_once_however_short():
    """From a uniform start the four returns are equally likely; short episodes go on, but count no more."""
    returns = evaluate(always(0, five_state()), episodes=2000, seed=1, epsilon=0.0)
    levels, counts = np.unique(returns.round(4), return_counts=True)
    assert levels == pytest.approx([0.5, 0.7, 1.0, 1.2])
    assert np.abs(counts - 500).max() < 5 * (2000 * 0.25 * 0.75) ** 0.5


def test_epsilon_is_the_share_of_random_actions():
    """One half of them is right, so that p = 1 − ε/2 are, and the states are worth p(0.2 + p/2), p/2, p(0.2 + p), p."""
    run = always(0, five_state())
    for epsilon in (0.0, 0.5, 1.0):
        returns = evaluate(run, episodes=2000, seed=2, epsilon=epsilon)
        p = 1 - epsilon / 2
        assert abs(returns.mean() - (p * (0.2 + p / 2) + p / 2 + p * (0.2 + p) + p) / 4) < 5 * returns.std() / 2000**0.5


def test_the_seed_decides_everything():
    run = always(0, five_state())
    first, again, other = (evaluate(run, episodes=2000, seed=seed, epsilon=0.5) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(("limit", "max_steps", "expected"), [(100, 27_000, 100), (1000, 30, 30), (1000, 300, 300)])
def test_long_episodes_end_with_the_environment_or_are_cut(limit, max_steps, expected):
    """One state that pays 1 a step, for ever."""
    run = always(1, small_run(seed=0, env=environment("mdp/action-reward", max_steps=limit)))
    assert evaluate(run, episodes=2, seed=0, epsilon=0.0, max_steps=max_steps).tolist() == [expected, expected]


def test_environments_outside_jax_against_gymnasium():
    env = environment("gym/CartPole-v1")
    run = always(1, small_run(seed=0, env=env, network=NetworkConfig("mlp", width=8, hidden=8)))
    seeds = np.asarray(jax.random.randint(jax.random.split(jax.random.key(5))[0], (4,), 0, 2**31 - 1))
    plain, expected = gymnasium.make("CartPole-v1"), []
    for seed in seeds.tolist():
        plain.reset(seed=episode_seed(seed, 0))
        steps, over = 0, False
        while not over:
            over, steps = plain.step(1)[2], steps + 1
        expected.append(steps)
    assert len(set(expected)) > 1
    assert evaluate(run, episodes=4, seed=5, epsilon=0.0).tolist() == expected
    assert evaluate(run, episodes=4, seed=5, epsilon=0.0, max_steps=6).tolist() == [6, 6, 6, 6]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"episodes": 0}, "episodes must be at least 1, but is 0"),
        ({"max_steps": 0}, "max_steps must be at least 1, but is 0"),
        ({"seed": -1}, r"seed must lie in \[0, 2³¹\), but is -1"),
        ({"epsilon": 1.5}, r"epsilon must lie in \[0, 1\], but is 1\.5"),
    ],
)
def test_what_cannot_be_played_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        evaluate(always(0, five_state()), **({"episodes": 1, "seed": 0} | given))


@pytest.fixture
def shown(capsys, monkeypatch):
    """What a command prints on a terminal of 80 columns, line by line."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*argv):
        cli.main(list(map(str, argv)))
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return run


def table(lines):
    """The cells of each line below the rule."""
    (rule,) = [index for index, line in enumerate(lines) if "──" in line]
    return [line.split() for line in lines[rule + 1 :] if line]


def test_what_is_printed(tmp_path, shown):
    out = saved(tmp_path, good=always(0, five_state(start=0)), bad=always(1, five_state(start=0)))
    lines = shown("evaluate", out, "--episodes", 7, "--epsilon", 0)
    assert "7 episodes of each run, ε = 0" in lines
    cells = table(lines)
    assert cells == [
        ["bad", "40", "0.00", "0.00", "…", "0.00", "0.00", "0.00"],
        ["good", "40", "0.70", "0.70", "…", "0.70", "0.70", "0.70"],
    ]
    assert table(shown("evaluate", out / "good", "--epsilon", 0, "--episodes", 1)) == [
        ["good", "40", "0.70", "–", "0.70", "0.70"]
    ]


def test_runs_of_two_fleets_have_names_of_their_own(tmp_path, shown, monkeypatch):
    """However their folders are given; one that is given twice is played once."""
    monkeypatch.chdir(tmp_path)
    one, two = (saved(tmp_path / name, it=always(action, five_state(start=0))) for action, name in enumerate("ab"))
    cells = table(shown("evaluate", "a", two, one / "it", "--episodes", 1, "--epsilon", 0))
    assert [(name, mean) for name, _, mean, *_ in cells] == [("a/it", "0.70"), ("b/it", "0.00")]


def test_a_run_without_its_configuration_is_named(tmp_path, capsys):
    out = saved(tmp_path, good=always(0, five_state(start=0)), bad=always(1, five_state(start=0)))
    (out / "bad" / "config.json").unlink()
    cli.main(["evaluate", str(out), "--episodes", "1", "--epsilon", "0"])
    printed = capsys.readouterr()
    assert [cells[0] for cells in table([line.rstrip() for line in printed.out.splitlines()])] == ["good"]
    lost = "1 of 2 runs are left out, without config.json or log.jsonl: bad"
    assert printed.err == f"mico: {out.name}: {lost}\n"


def test_episodes_are_cut_where_the_command_says(tmp_path, shown):
    """Every step of an endless game pays 1."""
    run = always(1, small_run(seed=0, env=environment("mdp/action-reward", max_steps=1000)))
    out = saved(tmp_path, it=run)
    (cells,) = table(shown("evaluate", out, "--episodes", 2, "--epsilon", 0, "--max-steps", 30))
    assert cells[2] == "30.00"


def test_every_option_changes_what_it_says(tmp_path, shown):
    out = saved(tmp_path, it=always(0, five_state()))
    usual = shown("evaluate", out, "--episodes", 20)
    assert shown("evaluate", out, "--episodes", 20) == usual
    for other in (("--episodes", 21), ("--episodes", 20, "--seed", 1), ("--episodes", 20, "--epsilon", 1)):
        assert table(shown("evaluate", out, *other)) != table(usual)


def test_names_of_runs_are_whole_on_a_narrow_terminal(tmp_path, shown):
    name = "rainbow-mico-learning-rate0.00025-alpha0.01-sticky0.1-discount0.99-seed1234567"
    lines = shown("evaluate", saved(tmp_path, **{name: always(0, five_state())}), "--episodes", 5)
    assert max(map(len, lines)) <= 80
    assert "".join(cells[0] for cells in table(lines)) == name


def test_a_trained_run_reaches_the_known_best_return(tmp_path, shown):
    """The best that can be had from t1 is 1.2: an agent that has learnt gets it."""
    flags = ["--env", "mdp/five-state", "--env.start", 2, "--steps", 2000, "--out", tmp_path / "out"]
    shown("train", *FLAGS, *flags, "--agent.learning-rate", 0.01, "--schedule.epsilon", 0.2)
    ((name, step, mean, *_),) = table(shown("evaluate", tmp_path / "out", "--epsilon", 0))
    assert (name, step, mean) == ("dqn-none-seed0", "2,000", "1.20")
    assert plain_loop(load(tmp_path / "out" / name), 2) == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["evaluate"], "evaluate needs a RUN: the folder of a run, or of a fleet"),
        (["evaluate", "nothing"], "nothing: there is no such folder"),
        (["evaluate", "fleet", "--episodes", "0"], "episodes must be at least 1, but is 0"),
        (["evaluate", "fleet"], "has no parameters yet"),
    ],
)
def test_errors_are_one_line(tmp_path, monkeypatch, capsys, argv, message):
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "fleet", it=always(0, five_state()))
    if "--episodes" not in argv:
        (tmp_path / "fleet" / "it" / "params" / "40.arrays").unlink()
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    printed = capsys.readouterr()
    assert (stop.value.code, printed.out) == (2, "")
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_episodes_in_rounds_are_those_of_all_at_once(monkeypatch):
    env = environment("gym/CartPole-v1")
    run = small_run(seed=0, env=env, network=NetworkConfig("mlp", width=8, hidden=8))
    trained = Trained(run, 0, init_params(run, env.spec))
    whole = evaluate(trained, episodes=5, seed=3, epsilon=0.5, max_steps=60)
    counts, make = [], type(env).make
    monkeypatch.setattr(type(env), "max_parallel", property(lambda self: 2))
    monkeypatch.setattr(type(env), "make", lambda self, count: counts.append(count) or make(self, count))
    np.testing.assert_array_equal(evaluate(trained, episodes=5, seed=3, epsilon=0.5, max_steps=60), whole)
    assert counts == [2, 2, 1]
    assert len(set(whole)) > 2
