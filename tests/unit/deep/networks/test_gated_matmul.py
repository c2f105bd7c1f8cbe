"""IQN's product by kernels: interpreted against NumPy, lowered for a GPU, and where it is used."""

import re
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batches import GivenViews
from mico.deep.agents.iqn import QuantileHead
from mico.deep.agents.value_agent import Transition
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.networks.kernels import gated_matmul as module
from mico.deep.networks.kernels.gated_matmul import fits, fused, gated_product, plain
from mico.deep.types import Params, Representations
from small_runs import lake, small_agent, small_batch

pytestmark = [
    pytest.mark.usefixtures("quick_compilation"),
    pytest.mark.filterwarnings("ignore:The Pallas Triton backend:DeprecationWarning"),
]
KEY = jax.random.key(5)
SIZES = [(8, 16, 16, 64), (4, 32, 64, 128), (4, 64, 128, 192)]  # states, fractions, outputs, features
MINATAR = 32, 64, 128, 1024
fractions = pytest.mark.parametrize("choice", ["each", "shared"])
agents = pytest.mark.parametrize("name", ["iqn", "m-iqn"])


def factors(sizes, draw, runs=()):
    """Those of the product, and how much each of its numbers counts in a sum."""
    states, count, outputs, features = sizes
    shapes = (states, features), (count, features), (outputs, features), (states, count, outputs)
    return [jnp.asarray(draw((*runs, *shape)), jnp.bfloat16) for shape in shapes]


def integers(seed):
    """So small that all products and sums are exact, but for the last rounding."""
    return lambda shape: np.random.default_rng([seed, *shape]).integers(-7, 8, shape)


def weighed(product):
    return lambda phi, gates, weight, worth: (product(phi, gates, weight) * worth.astype(jnp.float32)).sum()


def interpreted(phi, gates, weight):
    return fused(phi, gates, weight, True)


def with_gradients(product):
    """The product, and the gradient of its sum, which counts differently for each number."""
    slopes = jax.grad(weighed(product), (0, 1, 2))
    return lambda *four: (product(*four[:3]), *slopes(*four))


def naive(phi, gates, weight, worth):
    """The same of one run in float64."""
    phi, gates, weight, worth = (np.asarray(factor, np.float64) for factor in (phi, gates, weight, worth))
    return (
        np.einsum("bd,nd,hd->bnh", phi, gates, weight),
        np.einsum("bnh,nd,hd->bd", worth, gates, weight),
        np.einsum("bnh,bd,hd->nd", worth, phi, weight),
        np.einsum("bnh,bd,nd->hd", worth, phi, gates),
    )


@pytest.mark.parametrize("sizes", SIZES)
def test_a_product_and_its_gradients_are_exact_but_for_the_last_rounding(sizes):
    four = factors(sizes, integers(0))
    for found, expected in zip(with_gradients(interpreted)(*four), naive(*four), strict=True):
        assert found.dtype == jnp.bfloat16
        np.testing.assert_array_equal(found, expected.astype(jnp.bfloat16))


def test_runs_side_by_side_are_each_on_its_own():
    four = factors(SIZES[0], integers(1), runs=(3,))
    found = jax.vmap(with_gradients(interpreted))(*four)
    for run in range(3):
        expected = naive(*(factor[run] for factor in four))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one[run], other.astype(jnp.bfloat16))


def test_errors_are_no_larger_than_those_of_the_plain_product():
    """Of any numbers; eight bits are kept."""
    four = factors(SIZES[1], np.random.default_rng(2).standard_normal)
    expected = naive(*four)

    def errors(product):
        pairs = zip(with_gradients(product)(*four), expected, strict=True)
        return np.array(
            [np.abs(np.asarray(found, float) - right).max() / np.abs(right).max() for found, right in pairs]
        )

    assert (errors(interpreted) < 2**-7).all()
    assert (errors(interpreted) <= 1.01 * errors(plain)).all()


def kernels(function, *arguments):
    """How many a program for a GPU calls."""
    try:
        lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",))
    except RuntimeError as error:
        if "No supported GPU" not in str(error):
            raise
        pytest.skip("this JAX lowers kernels only where there is a GPU")
    return len(re.findall(r"custom_call @\S*triton", lowered.as_text()))


@pytest.mark.parametrize("runs", [(), (20,)])
@pytest.mark.parametrize("count", [64, 32])
def test_kernels_lower_for_a_gpu(runs, count):
    states, _, outputs, features = MINATAR
    four = factors((states, count, outputs, features), np.zeros, runs)
    many = jax.vmap if runs else lambda function: function

    def product(phi, gates, weight):
        return fused(phi, gates, weight, False)

    assert kernels(many(product), *four[:3]) == 1
    assert kernels(many(jax.value_and_grad(weighed(product), (0, 1, 2))), *four) == 2
    assert kernels(many(plain), *four[:3]) == 0


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        (MINATAR, True),
        ((32, 32, 128, 1024), True),
        ((8, 16, 16, 64), True),
        ((1, 64, 128, 1024), False),  # half of a program
        ((2, 32, 128, 1024), False),
        ((32, 48, 128, 1024), False),
        ((32, 128, 128, 1024), False),
        ((32, 8, 128, 1024), False),
        ((32, 64, 256, 1024), False),
        ((32, 64, 100, 1024), False),
        ((32, 64, 128, 1000), False),
    ],
)
def test_which_sizes_fit(sizes, expected):
    three = factors(sizes, np.zeros)[:3]
    assert fits(*three) == expected
    for wide in range(3):
        assert not fits(*(factor.astype(float) if at == wide else factor for at, factor in enumerate(three)))


def test_kernels_are_used_on_a_gpu_alone(monkeypatch):
    three = factors(SIZES[0], integers(3))[:3]
    assert "pallas_call" not in str(jax.make_jaxpr(gated_product)(*three))
    np.testing.assert_array_equal(gated_product(*three), plain(*three))
    monkeypatch.setattr(module, "has_kernels", lambda: True)
    assert "pallas_call" in str(jax.make_jaxpr(lambda *three: gated_product(*three))(*three))
    exact = [factor.astype(jnp.float32) for factor in three]
    assert "pallas_call" not in str(jax.make_jaxpr(lambda *three: gated_product(*three))(*exact))


@pytest.mark.parametrize(
    ("backend", "capability", "expected"),
    [
        *[("gpu", newer, True) for newer in ("8.0", "9.0", "10.0", "12.1")],
        *[("gpu", other, False) for other in ("7.5", "gfx942", None)],
        ("cpu", None, False),
        ("tpu", "v5", False),
    ],
)
def test_which_devices_have_them(monkeypatch, backend, capability, expected):
    device = types.SimpleNamespace(**({} if capability is None else {"compute_capability": capability}))
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(jax, "devices", lambda: [device])
    assert module.has_kernels() == expected


def made(agent, network, size, states):
    """Two heads, views and transitions."""
    spec = lake().spec
    heads = [agent.make_head(size, spec.num_actions, network, key=key) for key in jax.random.split(KEY)]
    views = GivenViews(**Representations(*jax.random.normal(KEY, (3, states, size)))._asdict())
    return *(Params(None, head, None) for head in heads), views, small_batch(spec, states)


@agents
@fractions
@pytest.mark.parametrize("hidden", [5, 0])
def test_losses_of_a_batch_are_those_of_its_transitions(name, choice, hidden):
    agent = small_agent(name, fractions=choice)
    params, target, seen, batch = made(agent, NetworkConfig("table", hidden=hidden), 6, 5)
    found, other = jax.jit(lambda: agent.loss(params, target, seen, batch, KEY))()
    one = jax.jit(lambda view, transition, key: agent.td_loss(params.head, target.head, view, transition, key))
    keys = jax.random.split(KEY, 5) if choice == "each" else [KEY] * 5
    for row in range(5):
        view = Representations(seen.online[row], seen.target[row], seen.target_next[row])
        transition = Transition(batch.action[row], batch.reward[row], batch.discount[row])
        np.testing.assert_allclose(found[row], one(view, transition, keys[row]), rtol=1e-5)
    assert other == 0


@pytest.mark.parametrize(
    ("name", "choice", "precision", "expected"),
    [
        ("iqn", "shared", "bfloat16", 4),  # predictions, targets and policy, and the gradient of the first
        ("m-iqn", "shared", "bfloat16", 5),
        ("iqn", "each", "bfloat16", 0),
        ("iqn", "shared", "float32", 0),
    ],
)
def test_kernels_of_an_update(monkeypatch, name, choice, precision, expected):
    monkeypatch.setattr(module, "has_kernels", lambda: True)
    counts = {"num_quantiles": 64, "num_target_quantiles": 64, "num_policy_quantiles": 32, "num_cosines": 64}
    agent = small_agent(name, fractions=choice, **counts)
    network = NetworkConfig(hidden=128, precision=precision)

    def loss(params, target, seen, batch):
        return agent.loss(params, target, seen, batch, KEY)[0].sum()

    both = [made(agent, network, 1024, 32)] * 2
    runs = jax.tree.map(lambda *leaves: jnp.stack(leaves), *both)
    assert kernels(jax.vmap(jax.value_and_grad(loss)), *runs) == expected


def test_acting_takes_no_kernel(monkeypatch):
    monkeypatch.setattr(module, "has_kernels", lambda: True)
    head = QuantileHead(64, 3, NetworkConfig(hidden=16, precision="bfloat16"), 4, key=KEY)
    states, tau = jnp.zeros((8, 64)), jnp.linspace(0, 1, 16)
    assert kernels(jax.vmap(head, in_axes=(0, None)), states, tau) == 0
    assert kernels(lambda states: head(states, tau), states) == 1
