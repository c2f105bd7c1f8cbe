"""Gradients with a metric loss that rides along, against those of the sum of losses written out."""

import copy

import pytest
import torch
from torch import nn

from mico.torch import MICoLoss, PairBatch, Sink
from mico.torch.hooks import MetricLossHook, ReplayBatch

torch.set_num_threads(1)
FAR = {"layer": "0", "bootstrap": 0.9}


@pytest.fixture
def case():
    torch.manual_seed(0)
    online = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    target = copy.deepcopy(online)
    nn.init.normal_(target[0].weight)
    x, after = torch.randn(2, 6, 3)
    batch = ReplayBatch(x, after, torch.randn(6), torch.tensor([True, False] * 3))
    return online, target, batch


def gradients(network, loss):
    return torch.autograd.grad(loss, list(network.parameters()), retain_graph=True)


def written_out(metric, online, target, batch):
    """The metric loss of the first layer's outputs."""
    zero = torch.zeros(1, 3)
    sides = PairBatch(
        online[0](batch.observations),
        target[0](batch.observations),
        target[0](batch.next_observations),
        batch.reward,
        0.9,
        batch.terminal,
        sink=Sink(online[0](zero)[0], target[0](zero)[0]),
    )
    return metric(sides)


@pytest.mark.parametrize("terminals", ["bootstrap", "absorbing"])
def test_the_first_pass_over_a_batch_carries_the_loss(case, terminals):
    online, target, batch = case
    metric = MICoLoss(alpha=0.3, beta=0.7, terminals=terminals)
    expected_output = online(batch.observations)
    td = gradients(online, expected_output.square().mean())
    own = gradients(online[0], written_out(metric, online, target, batch))
    hook = MetricLossHook(metric, online, target, **FAR)
    with hook.attached():
        hook.set_batch(batch)
        with torch.no_grad():
            online(batch.observations)
        online(batch.next_observations)
        output, later = online(batch.observations), online(batch.observations)
        hook.check_used()
    assert torch.equal(output, expected_output)
    joint = gradients(online, output.square().mean())
    for found, plain, added in zip(joint, td, (*own, 0.0, 0.0), strict=True):
        torch.testing.assert_close(found, 0.7 * plain + 0.3 * added, rtol=1e-4, atol=1e-6)
    assert max(gradient.abs().max() for gradient in own) > 1e-2
    torch.testing.assert_close(gradients(online, later.square().mean()), td)
    assert hook.logs["loss"] == pytest.approx([written_out(metric, online, target, batch).item()], rel=1e-5)


class Twins(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x), 2 * self.network(x)


def test_of_two_outputs_the_loss_rides_on_the_first_and_both_are_weighted(case):
    online, target, batch = case
    metric = MICoLoss(alpha=0.3)
    td = gradients(online, online(batch.observations).square().mean() + (2 * online(batch.observations)).abs().mean())
    own = gradients(online[0], written_out(metric, online, target, batch))
    hook = MetricLossHook(metric, Twins(online), Twins(target), layer="network.0", bootstrap=0.9)
    with hook.attached():
        hook.set_batch(batch)
        one, two = hook.online(batch.observations)
    for found, plain, added in zip(gradients(online, one.square().mean() + two.abs().mean()), td, (*own, 0.0, 0.0)):
        torch.testing.assert_close(found, 0.7 * plain + 0.3 * added, rtol=1e-4, atol=1e-6)


def test_the_target_networks_own_pass_over_next_states_is_used(case):
    """Once for each batch: by the agent, if it has looked, else by us."""
    online, target, batch = case
    metric = MICoLoss(alpha=0.3)
    expected = written_out(metric, online, target, batch).item()
    hook = MetricLossHook(metric, online, target, **FAR)
    passes = []
    target.register_forward_hook(lambda _, inputs, __: passes.append(inputs[0]))
    with hook.attached():
        for over in ([batch.next_observations], []):
            hook.set_batch(batch)
            for observations in over:
                target(observations)
            online(batch.observations)
    assert hook.logs["loss"] == pytest.approx([expected, expected])
    kinds = [{id(batch.observations): "now", id(batch.next_observations): "next"}[id(each)] for each in passes]
    assert kinds == ["next", "now", "now", "next"]


def test_a_batch_that_no_pass_was_over_is_not_forgotten(case):
    online, target, batch = case
    hook = MetricLossHook(MICoLoss(), online, target, **FAR)
    with hook.attached():
        hook.set_batch(batch)
        online(batch.observations.clone())
    with pytest.raises(RuntimeError, match="no metric loss was added"):
        hook.check_used()
    assert not hook.logs
