"""Pairs that are given to the losses in PyTorch: rewards of every type, and what does not fit."""

import re

import numpy as np
import pytest
import torch

from batches import FIELDS
from mico.torch import KSMeLoss, MICoLoss, PairBatch, SimSRLoss, Sink
from mico.torch.pairing import FirstStep

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("unchecked")
each_way = pytest.mark.parametrize("pairs", FIELDS["pairs"])


@pytest.fixture
def sides():
    torch.manual_seed(0)
    online, target, after = torch.randn(3, 5, 4)
    ends = torch.tensor([True, False, False, True, False])
    return PairBatch(online, target, after, torch.randn(5), 0.9, ends, sink=Sink(*torch.randn(2, 4)))


def naive_kernel_loss(sides, reward):
    """Of all pairs of products, with squared errors, in float64."""
    online, target, after = (part.double().numpy() for part in sides[:3])
    errors = [
        1 - abs(float(reward[i]) - float(reward[j])) / 2 + sides.bootstrap * after[i] @ after[j] - online[i] @ target[j]
        for i, j in np.ndindex(5, 5)
    ]
    return np.mean(np.square(errors))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64, torch.bool, torch.float16, torch.float64])
def test_rewards_of_every_type_are_the_numbers_that_they_show(sides, dtype):
    least, most = {torch.uint8: (0, 255), torch.int8: (-128, 127), torch.bool: (0, 1)}.get(dtype, (-300, 300))
    reward = torch.tensor([least, most, 1, most, least]).to(dtype)
    found = KSMeLoss(error="squared")(sides._replace(reward=reward))
    assert found.item() == pytest.approx(naive_kernel_loss(sides, reward.tolist()), rel=1e-5)
    for reading in ({"pairs": "shuffled"}, {"terminals": "absorbing"}):
        of_type, of_floats = (
            MICoLoss(**reading)(sides._replace(reward=numbers), torch.Generator().manual_seed(0))
            for numbers in (reward, reward.float())
        )
        torch.testing.assert_close(of_type, of_floats)


OTHERWISE = {
    "online": lambda rows: rows[0],
    "target": lambda rows: rows[:1],
    "target_next": lambda rows: rows[:1],
    "reward": lambda numbers: numbers[:, None],
    "bootstrap": lambda number: torch.full((5,), number),
    "terminal": lambda ends: ends[:, None],
}


@each_way
@pytest.mark.parametrize("name", OTHERWISE)
def test_a_shape_that_does_not_fit_is_named(sides, name, pairs):
    wrong = OTHERWISE[name](getattr(sides, name))
    shape = ", ".join(map(str, wrong.shape))
    with pytest.raises(ValueError, match=rf"^{name} .*\[{shape}\]"):
        MICoLoss(pairs=pairs, terminals="absorbing")(sides._replace(**{name: wrong}))


def test_what_a_reading_does_not_use_is_not_looked_at(sides):
    """As where `dones` are floats, and terminals bootstrap."""
    torch.testing.assert_close(MICoLoss()(sides._replace(terminal=torch.ones(5), sink=None)), MICoLoss()(sides))


@pytest.mark.parametrize("shape", [(), (1,), (4,), (5, 5)])
def test_rewards_are_one_a_row(sides, shape):
    with pytest.raises(ValueError, match=r"^reward must have shape \[5\]"):
        MICoLoss()(sides._replace(reward=torch.ones(shape)))


def test_the_first_step_and_the_sink_are_looked_at_too(sides):
    first = FirstStep(sides.reward[:, None], sides.target_next, sides.terminal, 0.9)
    with pytest.raises(ValueError, match=r"reward.*\[5, 1\]"):
        SimSRLoss()(sides._replace(first_step=first))
    with pytest.raises(ValueError, match=r"sink\.target.*\[2, 4\]"):
        MICoLoss(terminals="absorbing")(sides._replace(sink=sides.sink._replace(target=torch.ones(2, 4))))
    with pytest.raises(ValueError, match=r"terminal.*float32"):
        MICoLoss(terminals="absorbing")(sides._replace(terminal=sides.terminal.float()))


@pytest.mark.parametrize("name", ["online", "target", "target_next", "reward", "terminal"])
@pytest.mark.parametrize("kind", [list, np.ndarray])
def test_what_is_no_tensor_is_named(sides, name, kind):
    given = getattr(sides, name).numpy()
    with pytest.raises(ValueError, match=rf"^{name} must be a tensor, got {kind.__name__}"):
        MICoLoss(terminals="absorbing")(sides._replace(**{name: given.tolist() if kind is list else given}))


@pytest.mark.parametrize("given", [None, [0.9], "0.9", np.array(0.9)])
def test_a_bootstrap_that_is_no_number_is_named(sides, given):
    with pytest.raises(ValueError, match=rf"^bootstrap must be one number, got {re.escape(repr(given))}"):
        MICoLoss()(sides._replace(bootstrap=given))


@pytest.mark.parametrize("number", [1, np.float32(0.9), torch.tensor(0.9)])
def test_a_bootstrap_may_be_a_number_of_any_kind(sides, number):
    torch.testing.assert_close(
        MICoLoss()(sides._replace(bootstrap=number)), MICoLoss()(sides._replace(bootstrap=float(number)))
    )


def test_without_a_pair_that_counts_the_loss_is_0(sides):
    one, none = (PairBatch(*(part[:count] for part in sides[:4]), 0.9) for count in (1, 0))
    assert MICoLoss()(none) == MICoLoss(self_pairs="exclude")(one) == 0
    assert MICoLoss()(one) > 0


def test_weights_may_be_numbers_of_numpy(sides):
    numpy, plain = MICoLoss(alpha=np.float32(0.5), beta=np.float32(0.25)), MICoLoss(alpha=0.5, beta=0.25)
    assert numpy.alpha == plain.alpha
    sides.online.requires_grad_()
    found = [torch.autograd.grad(loss.alpha * loss(sides), sides.online)[0] for loss in (numpy, plain)]
    torch.testing.assert_close(*found)
    with pytest.raises(ValueError, match=r"alpha.*1\.5"):
        MICoLoss(alpha=np.float32(1.5))
