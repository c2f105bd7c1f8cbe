"""The losses in PyTorch: values and gradients of the JAX ones, on shared cases, the hard ones too."""

import dataclasses
import itertools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from batches import FIELDS, READINGS, SIZES, odd_rows, replayed
from mico.deep import metric_losses as jax_losses
from mico.deep.metric_losses.mico import distances as jax_distances
from mico.deep.metric_losses.pair_loss import PairBatch as JaxPairBatch
from mico.torch import (
    METRIC_LOSSES,
    FirstStep,
    KSMeLoss,
    MICoLoss,
    PairBatch,
    SimSRLoss,
    Sink,
    mico_distance,
    mico_distances,
)

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(4)
BOTH = [(METRIC_LOSSES[name], jax_losses.METRIC_LOSSES[name]) for name in METRIC_LOSSES]
each_loss = pytest.mark.parametrize(("ours", "theirs"), BOTH, ids=list(METRIC_LOSSES))


def tensor(array):
    return torch.tensor(np.asarray(array))


def torch_pairs(views, batch):
    """The replayed batch of the JAX losses, with the online views asking for gradients."""
    first = FirstStep(*map(tensor, views.first_step[:3]), float(views.first_step.bootstrap))
    sink = Sink(tensor(views.sink.online).requires_grad_(), tensor(views.sink.target))
    online = tensor(views.online).requires_grad_()
    target, after, reward = map(tensor, (views.target, views.target_next, batch.reward))
    return PairBatch(online, target, after, reward, float(batch.bootstrap), tensor(batch.terminal), first, sink)


def same_order(monkeypatch, size):
    """Shuffled as JAX shuffles."""
    order = tensor(jax.random.permutation(KEY, size))
    monkeypatch.setattr(torch, "randperm", lambda n, **_: order if n == size else pytest.fail(f"{n} rows"))


def compare(ours, theirs, views, batch, monkeypatch):
    same_order(monkeypatch, batch.reward.size + (ours.terminals == "absorbing"))
    value, gradient = jax.value_and_grad(lambda v: theirs.loss(None, v, batch, KEY), allow_int=True)(views)
    sides = torch_pairs(views, batch)
    loss = ours(sides)
    loss.backward()
    np.testing.assert_allclose(loss.item(), value, rtol=2e-5)
    np.testing.assert_allclose(sides.online.grad, gradient.online, rtol=2e-4, atol=2e-6)
    if ours.terminals == "absorbing":
        np.testing.assert_allclose(sides.sink.online.grad, gradient.sink.online, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("reading", READINGS[::7], ids=lambda reading: "-".join(reading.values()))
def test_readings_are_those_of_jax(reading, monkeypatch):
    """One in seven of all combinations, in which every value of every field is met."""
    assert all({one[field] for one in READINGS[::7]} == {one[field] for one in READINGS} for field in reading)
    compare(MICoLoss(beta=0.3, **reading), jax_losses.MICo(beta=0.3, **reading), *replayed(), monkeypatch)


@each_loss
@pytest.mark.parametrize("pairs", FIELDS["pairs"])
def test_each_loss_is_that_of_jax_on_random_batches(ours, theirs, pairs, monkeypatch):
    for seed in range(3):
        compare(ours(pairs=pairs), theirs(pairs=pairs), *replayed(seed), monkeypatch)


@each_loss
def test_fields_and_defaults_are_those_of_jax(ours, theirs):
    assert dataclasses.asdict(ours()) == {
        field.name: getattr(theirs(), field.name) for field in dataclasses.fields(theirs)
    }


@each_loss
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("pairs", FIELDS["pairs"])
@pytest.mark.parametrize("size", SIZES)
def test_hard_vectors_have_the_values_and_gradients_of_jax(ours, theirs, size, pairs, dtype, monkeypatch):
    rows, reward = odd_rows(size, jnp.dtype(dtype)), jnp.arange(6.0)
    same_order(monkeypatch, 6)
    theirs = theirs(pairs=pairs)
    of_rows = lambda v: theirs(JaxPairBatch(v, v, v, reward, 0.99), KEY)  # noqa: E731
    value, gradient = jax.value_and_grad(of_rows)(rows)
    x = tensor(rows.astype(jnp.float32)).to(getattr(torch, dtype)).requires_grad_()
    loss = ours(pairs=pairs)(PairBatch(x, x, x, tensor(reward), 0.99))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(x.grad).all()
    np.testing.assert_allclose(loss.item(), value, rtol=1e-4)
    expected = np.asarray(gradient, dtype=np.float64)
    largest = np.abs(expected).max()
    tolerance = 2e-2 if dtype == "bfloat16" else 1e-3
    np.testing.assert_allclose(x.grad.double().numpy(), expected, rtol=tolerance, atol=tolerance * largest)


@each_loss
@pytest.mark.parametrize("size", [size for size in SIZES if size < 1e10] + [1e9])
def test_squared_errors_and_their_gradients_are_finite_up_to_their_own_size(ours, theirs, size):
    del theirs
    x = tensor(odd_rows(size)).requires_grad_()
    loss = ours(error="squared")(PairBatch(x, x, x, torch.arange(6.0), 0.99))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(x.grad).all()


@each_loss
@pytest.mark.parametrize("name", ["online", "reward", "bootstrap", "sink"])
def test_tensors_are_named_by_the_losses_of_jax(ours, theirs, name, unchecked):
    del ours
    rows = jnp.ones((6, 8))
    sides = JaxPairBatch(rows, rows, rows, jnp.arange(6.0), 0.99)
    given = {"online": torch.ones(6, 8), "reward": torch.ones(6), "bootstrap": torch.tensor(0.9)}
    given["sink"] = Sink(torch.ones(8), torch.ones(8))
    with pytest.raises(ValueError, match=rf"^{name} must be an array, as for PyTorch's tensors there is mico\.torch"):
        theirs()(sides._replace(**{name: given[name]}), KEY)


@pytest.mark.parametrize("size", SIZES)
def test_distances_are_those_of_jax(size):
    rows = odd_rows(size)
    expected = jax_distances(rows, rows, 0.1)
    x = tensor(rows)
    np.testing.assert_allclose(mico_distances(x, x, 0.1), expected, rtol=1e-5, atol=1e-6)
    around = [1, 2, 3, 4, 5, 0]
    np.testing.assert_allclose(mico_distance(x, x[around], 0.1), expected[np.arange(6), around], rtol=1e-6, atol=1e-30)


def test_the_distance_by_hand():
    """Right angle, lengths 2 and 3: ½(4 + 9) + β·π/2."""
    assert mico_distance(torch.tensor([2.0, 0.0]), torch.tensor([0.0, 3.0]), 0.5).item() == pytest.approx(
        6.5 + np.pi / 4
    )


@pytest.mark.parametrize("second", FIELDS["second"])
def test_gradients_reach_the_online_representations_alone(second):
    sides = torch_pairs(*replayed())
    frozen = (sides.target, sides.target_next, sides.reward)
    for part in frozen:
        part.requires_grad_()
    MICoLoss(second=second)(sides).backward()
    assert sides.online.grad.abs().max() > 1e-3
    assert all(part.grad is None for part in frozen)


def test_a_generator_of_ones_own_shuffles_and_leaves_the_global_one_alone():
    sides = torch_pairs(*replayed(size=40))
    shuffled = MICoLoss(pairs="shuffled")
    before = torch.get_rng_state()
    one, same, other = (shuffled(sides, torch.Generator().manual_seed(seed)).item() for seed in (0, 0, 1))
    assert one == same != other
    assert torch.equal(torch.get_rng_state(), before)


def test_under_autocast_the_loss_stays_in_float32():
    """Networks in bfloat16, whose squares and products would be off in the third digit."""
    sides = torch_pairs(*replayed(width=64))
    expected = MICoLoss()(sides).item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        product = sides.online @ sides.online.T
        loss = MICoLoss()(sides)
    assert product.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected, rel=1e-6)


COMPILED = """
import itertools
import sys
import torch
from mico.torch import METRIC_LOSSES, FirstStep, PairBatch, Sink

torch.manual_seed(0)
rows = torch.randn(3, 6, 8)
rows[:, 3] = 0
reward, terminal, sink = torch.arange(6.0), torch.tensor([True, False] * 3), Sink(*torch.randn(2, 8))
rest = (rows[1], rows[2], reward, 0.99, terminal, FirstStep(-reward, rows[1], ~terminal, 0.9), sink)
readings = ({}, {"pairs": "shuffled", "terminals": "absorbing", "horizon": "one-step"})
for loss in (kind(**fields) for kind, fields in itertools.product(METRIC_LOSSES.values(), readings)):
    found = []
    for run in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        x = rows[0].clone().requires_grad_()
        torch.manual_seed(1)
        value = run(PairBatch(x, *rest))
        value.backward()
        found.append((value.detach(), x.grad))
    torch.testing.assert_close(*found)
print("jax" in sys.modules, "equinox" in sys.modules)
"""


def test_compiled_in_one_graph_and_without_jax():
    """In a process of its own: here shapes are checked, which does not compile, and JAX is there."""
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("missing", ["sink", "terminal"])
def test_a_part_that_is_not_there_is_named(missing):
    sides = torch_pairs(*replayed())
    with pytest.raises(ValueError, match=missing):
        MICoLoss(terminals="absorbing")(sides._replace(**{missing: None}))


def test_pairs_without_a_first_step_are_taken_to_be_of_one():
    sides = torch_pairs(*replayed())
    bare = sides._replace(first_step=None)
    assert SimSRLoss()(bare).item() == SimSRLoss(horizon="n-step")(sides).item()
    assert SimSRLoss()(bare).item() != pytest.approx(SimSRLoss()(sides).item())


def test_the_kernel_by_hand():
    """Targets are 1 + .5·4 and 1 + .5·1 on the diagonal, 1 − ½·2 + .5·(−2) = −1 off it; products now 4, 9 and 0."""
    now, later = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[2.0, 0.0], [-1.0, 0.0]])
    sides = PairBatch(now, now, later, torch.tensor([1.0, -1.0]), 0.5)
    assert KSMeLoss(error="squared")(sides).item() == pytest.approx((1 + 7.5**2 + 2) / 4)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("field", "kind"), [*itertools.product(FIELDS, METRIC_LOSSES)])
def test_an_unknown_choice_is_refused(field, kind):
    with pytest.raises(ValueError, match=rf"{field}.*'no such'"):
        METRIC_LOSSES[kind](**{field: "no such"})


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "much", True])
@pytest.mark.parametrize("field", ["alpha", "beta"])
def test_a_bad_number_is_refused(field, value):
    with pytest.raises(ValueError, match=rf"{field}.*{value}"):
        MICoLoss(**{field: value})


def test_alpha_is_a_share():
    with pytest.raises(ValueError, match=r"alpha.*1\.1"):
        MICoLoss(alpha=1.1)
    assert MICoLoss(beta=7.0).beta == 7


def test_without_pytorch_it_says_what_to_install():
    code = (
        "import importlib.util as util; found = util.find_spec\n"
        "util.find_spec = lambda name, *args: None if name == 'torch' else found(name, *args)\n"
        "import mico.torch"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: mico.torch needs PyTorch: pip install '.[torch]'")
