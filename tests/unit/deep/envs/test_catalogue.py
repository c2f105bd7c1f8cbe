"""Names of environments: those that can be made, and what is suggested for others."""

import pytest

from mico.deep.envs import ENVS, environment
from mico.deep.envs.catalogue import every_name, members, suggestions


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("breakout", "minatar/breakout or atari/breakout"),
        ("Breakout", "minatar/breakout or atari/breakout"),
        ("ALE/Breakout-v5", "minatar/breakout or atari/breakout"),
        ("BreakoutNoFrameskip-v4", "minatar/breakout or atari/breakout"),
        ("four-rooms", "mdp/four-rooms"),
        ("four_rooms", "mdp/four-rooms"),
        ("CartPole-v1", "gym/CartPole-v1"),
        ("cartpole", "gym/CartPole-v1"),
        ("walker-walk", "control/walker-walk"),
        ("pong", "atari/pong"),
        ("mine.npz", "mdp/mine.npz"),
        ("minatr/brekout", "minatar/breakout, atari/breakout or mdp/small-breakout"),
        ("xyzzy", "minatar/…, mdp/… or gym/…"),
    ],
)
def test_what_was_meant(name, meant):
    assert suggestions(name) == meant


def test_every_family_has_names_and_each_stands_once():
    assert all(members(family) for family in ENVS)
    names = list(every_name())
    assert len(names) == len(set(names))
    assert {name.partition("/")[0] for name in names} == set(ENVS)


def test_names_of_gymnasium_can_be_made_where_their_packages_are():
    for member in ("Acrobot-v1", "CartPole-v1", "CliffWalking-v1", "FrozenLake-v1", "MountainCar-v0", "Pendulum-v1"):
        assert member in members("gym")
        assert environment(f"gym/{member}").name == f"gym/{member}"
