"""Scores of random policies and humans: spellings, what is missing, and one that is measured again."""

import numpy as np
import pytest

from mico.evidence.atari_scores import MEASURED, PAPER_GAMES, REFERENCES, WITHOUT_HUMAN, game, random_scores


def test_the_papers_60_games_and_the_five_without_a_human():
    assert len(PAPER_GAMES) == len(set(PAPER_GAMES)) == 60
    assert WITHOUT_HUMAN == ("air-raid", "carnival", "elevator-action", "journey-escape", "pooyan")
    assert set(WITHOUT_HUMAN) <= set(PAPER_GAMES) < set(REFERENCES)
    assert set(REFERENCES) - set(PAPER_GAMES) == {"defender", "surround"}


def test_humans_are_better_than_chance():
    assert all(scores.human > scores.random for scores in REFERENCES.values() if scores.human is not None)


def test_some_that_are_well_known():
    assert REFERENCES["pong"] == (-20.7, 14.6)
    assert REFERENCES["breakout"] == (1.7, 30.5)
    assert REFERENCES["seaquest"] == (68.4, 42054.7)
    assert REFERENCES["video-pinball"].random == 16256.9


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("atari/pong", "pong"),
        ("Pong", "pong"),
        ("ALE/Pong-v5", "pong"),
        ("PongNoFrameskip-v4", "pong"),
        ("Pong-ramDeterministic-v0", "pong"),
        ("ALE/Pong-ram-v5", "pong"),
        ("atari/space-invaders", "space-invaders"),
        ("SpaceInvaders-v4", "space-invaders"),
        ("up_n_down", "up-n-down"),
        ("UpNDown", "up-n-down"),
        ("Q*bert", "qbert"),
        ("MsPacman", "ms-pacman"),
    ],
)
def test_spellings(spelling, name):
    assert game(spelling) == name
    assert random_scores([spelling]) == {spelling: REFERENCES[name].random}


@pytest.mark.parametrize("name", REFERENCES)
def test_every_name_in_other_peoples_spelling(name):
    camel = "".join(part.capitalize() for part in name.split("-"))
    assert game(f"atari/{name}") == game(camel) == game(f"ALE/{camel}-v5") == game(f"{camel}NoFrameskip-v4") == name


@pytest.mark.parametrize(
    ("wrong", "near"), [("atari/pogn", "pong"), ("minatar/breakout", "breakout"), ("SpaceInvader-v5", "space-invaders")]
)
def test_unknown_names_are_answered_with_the_nearest(wrong, near):
    with pytest.raises(ValueError, match=f"env '{wrong}' is no Atari game with known scores; the nearest are .*{near}"):
        game(wrong)


def test_what_was_measured_is_what_counts():
    for name, found in MEASURED.items():
        assert REFERENCES[name] == (found.mean, None)
    assert all(found.low < found.mean < found.high for found in MEASURED.values())


def play(name, episodes, seed):
    """Returns of a policy that is uniform over the minimal action set, under the paper's protocol."""
    ale_py = pytest.importorskip("ale_py")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", seed)
    ale.setFloat("repeat_action_probability", 0.25)
    ale.setInt("frame_skip", 4)
    ale.loadROM(ale_py.roms.get_rom_path(name.replace("-", "_")))
    actions, rng, returns = ale.getMinimalActionSet(), np.random.default_rng(seed), []
    for _ in range(episodes):
        ale.reset_game()
        total = steps = 0
        while not ale.game_over() and steps < 27_000:
            total += ale.act(actions[rng.integers(len(actions))])
            steps += 1
        returns.append(total)
    return np.array(returns, dtype=float)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WITHOUT_HUMAN if name != "elevator-action"])  # its episodes are long
def test_they_come_out_again(name):
    returns = play(name, episodes=100, seed=2)
    error = np.hypot(returns.std(ddof=1) / 10, (MEASURED[name].high - MEASURED[name].low) / 3.92)
    assert abs(returns.mean() - MEASURED[name].mean) < 4 * error


def test_one_comes_out_about_the_same():
    returns = play("carnival", episodes=8, seed=3)
    assert abs(returns.mean() - MEASURED["carnival"].mean) < 5 * 363 / 8**0.5  # the standard deviation was 363
