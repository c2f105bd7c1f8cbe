"""Convolutions over blocks of pixels against JAX's own convolutions of the plain kernels."""

import re
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.networks.encoders import NetworkConfig
from mico.deep.networks.kernels.select import with_fast_convolutions
from mico.deep.networks.kernels.space_to_depth import SpaceToDepthConvs, is_faster
from mico.deep.networks.layers import Conv, Dense, LibraryConv, relu

pytestmark = pytest.mark.usefixtures("quick_compilation")
KEY = jax.random.key(0)
# channels, the first stride, picture: those of control; few layers and many, rows that the stride leaves out or not
STACKS = [
    ((9, 32, 32, 32, 32), 2, (84, 84)),
    ((3, 4, 6, 5, 2), 2, (12, 8)),
    ((3, 4, 6, 5), 2, (8, 12)),
    ((2, 5, 3), 2, (11, 4)),
    ((2, 5, 3), 2, (4, 7)),
    ((2, 3, 4), 1, (6, 10)),
    ((1, 3, 2, 4), 1, (10, 4)),
    ((3, 2, 4, 3, 5, 2), 1, (2, 4)),
    ((2, 3), 2, (8, 8)),
    ((2, 3), 1, (4, 6)),
]


def stack(channels, stride):
    strides = (stride, *(1 for _ in channels[2:]))
    keys = jax.random.split(KEY, len(strides))
    layers = [
        Conv(pair, 3, step, "same", "xavier", key=key)
        for pair, step, key in zip(pairwise(channels), strides, keys, strict=True)
    ]
    return tuple(layers)


def plain(parts, stride, x):
    """By JAX's own convolution, of kernels [height, width, inputs, outputs]; a ReLU after each."""
    axes = ("NHWC", "HWIO", "NHWC")
    for index, (kernel, bias) in enumerate(parts):
        step = (1, 1) if index else (stride, stride)
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, kernel, step, "SAME", dimension_numbers=axes) + bias)
    return x


def as_layers(parts, layers):
    """A kernel of 3×3 is as rows of the weight: outputs, then height, width and inputs together."""
    leaves = [leaf for kernel, bias in parts for leaf in (kernel.reshape(-1, bias.size).T, bias)]
    return jax.tree.unflatten(jax.tree.structure(layers), leaves)


@pytest.mark.parametrize(("channels", "stride", "shape"), STACKS)
def test_outputs_and_gradients_are_those_of_the_plain_kernels(channels, stride, shape):
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        layers = jax.eval_shape(lambda: stack(channels, stride))
        x = jnp.asarray(rng.normal(size=(2, *shape, channels[0])))
        parts = [
            (jnp.asarray(rng.normal(size=(3, 3, *pair)) / 3), jnp.asarray(rng.normal(size=pair[1])))
            for pair in pairwise(channels)
        ]

        def mixed(function, parts, x):
            found = function(parts, x)
            return (jnp.cos(jnp.arange(found.size)).reshape(found.shape) * found**2).sum(), found

        def alone(parts, x):
            return jnp.stack([SpaceToDepthConvs(as_layers(parts, layers))(one, float) for one in x])

        def together(parts, x):
            return jax.vmap(lambda one: SpaceToDepthConvs(as_layers(parts, layers))(one, float))(x)

        def theirs(parts, x):
            return plain(parts, stride, x)

        ways = [partial(mixed, way) for way in (theirs, alone, together)]
        (gradients, expected), *others = jax.jit(
            lambda *args: [jax.grad(way, (0, 1), has_aux=True)(*args) for way in ways]
        )(parts, x)
    for of_it, found in others:
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        for one, other in zip(jax.tree.leaves(of_it), jax.tree.leaves(gradients), strict=True):
            assert np.abs(other).max() > 0.01
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9 * float(np.abs(other).max()))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_encoder_over_blocks_gives_the_same_features_in_the_same_order(precision, monkeypatch):
    shape = (20, 12, 9)
    network = NetworkConfig("control", precision=precision)
    encoder = network.make(shape, key=KEY)
    x = jnp.asarray(np.random.default_rng(1).integers(256, size=shape), jnp.uint8)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    quick = with_fast_convolutions(network, shape, encoder)
    found, expected = (np.asarray(one.features(x), dtype=float) for one in (quick, encoder))
    assert found.shape == (10 * 6 * 32,)
    # Of eight bits, half of one may be lost in each of four layers.
    rough = 1e-5 if precision == "float32" else 4 * 2**-8
    np.testing.assert_allclose(found, expected, rtol=0, atol=rough * expected.max())


def test_gradients_in_bfloat16_are_near_those_of_the_plain_kernels():
    rng, channels = np.random.default_rng(2), (9, 16, 16)
    layers = jax.eval_shape(lambda: stack(channels, 2))
    x = jnp.asarray(rng.normal(size=(3, 12, 12, 9)), jnp.float32)
    parts = [
        (jnp.asarray(rng.normal(size=(3, 3, *pair)) / 6, jnp.float32), jnp.full(pair[1], 0.1, jnp.float32))
        for pair in pairwise(channels)
    ]

    def rounded(parts):
        return (
            jax.vmap(lambda one: SpaceToDepthConvs(as_layers(parts, layers))(one, jnp.bfloat16))(x)
            .astype(jnp.float32)
            .sum()
        )

    found, expected = jax.jit(
        lambda parts: (jax.grad(rounded)(parts), jax.grad(lambda p: plain(p, 2, x).sum())(parts))
    )(parts)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.linalg.norm(one - other) < 0.03 * np.linalg.norm(other)


def test_a_batch_takes_one_convolution_a_layer_and_no_groups():
    """Also where gradients are taken: of each weight, and of all inputs but the first."""

    def features(layers, x):
        return jax.vmap(lambda x: SpaceToDepthConvs(layers)(x, float))(x)

    def objective(layers, x):
        return features(layers, x).sum()

    layers, x = stack((9, 8, 8, 8), 2), jnp.zeros((5, 12, 12, 9), jnp.uint8)
    for function, count in ((features, 3), (jax.grad(objective), 3 + 3 + 2)):
        text = jax.jit(function).lower(layers, x).compile().as_text()
        assert len(re.findall(r" = \S+ (?:convolution|custom-call)\(", text)) == count
        assert "group_count" not in text


@pytest.mark.parametrize("own_pictures", [True, False])
def test_many_networks_side_by_side_are_single_ones(own_pictures):
    many = [stack((2, 4, 4, 3), 2), jax.tree.map(lambda leaf: 1 - leaf, stack((2, 4, 4, 3), 2))]
    x = jnp.asarray(np.random.default_rng(2).normal(size=(2, 8, 4, 2)), jnp.float32)
    x = x if own_pictures else x[0]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *many)
    found = jax.vmap(lambda layers, x: SpaceToDepthConvs(layers)(x, float), (0, 0 if own_pictures else None))(
        stacked, x
    )
    expected = [SpaceToDepthConvs(layers)(x[index] if own_pictures else x, float) for index, layers in enumerate(many)]
    np.testing.assert_allclose(found, jnp.stack(expected), rtol=1e-5, atol=1e-5)


def conv(channels=(32, 32), kernel=3, stride=1, padding="same"):
    return Conv(channels, kernel, stride, padding, "xavier", key=KEY)


@pytest.mark.parametrize(
    ("layers", "shape", "expected"),
    [
        ((conv(stride=2), conv()), (84, 84, 32), True),
        ((conv(), conv(), conv()), (4, 6, 32), True),
        ((conv(stride=2), conv()), (11, 12, 32), True),
        ((conv(stride=2), conv()), (12, 10, 32), False),
        ((conv(stride=2),), (12, 12, 32), False),
        ((conv(stride=2), conv(stride=2)), (16, 16, 32), False),
        ((conv(stride=3), conv()), (12, 12, 32), False),
        ((conv(), conv((32, 33))), (12, 12, 32), False),
        ((conv(), conv(kernel=5)), (12, 12, 32), False),
        ((conv(), conv(padding="valid")), (12, 12, 32), False),
        ((conv(), Dense(2, 3, "xavier", key=KEY)), (12, 12, 32), False),
    ],
)
def test_blocks_pay_for_several_small_convolutions_with_an_even_number_of_outputs(layers, shape, expected):
    assert is_faster(layers, shape) is expected


@pytest.mark.parametrize(
    ("backend", "shape", "expected"),
    [
        ("cpu", (12, 12, 9), [LibraryConv] * 4),
        ("gpu", (12, 12, 9), [SpaceToDepthConvs]),
        ("gpu", (12, 10, 9), [LibraryConv] * 4),
    ],
)
def test_blocks_are_for_gpus(backend, shape, expected, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    network = NetworkConfig("control")
    found = with_fast_convolutions(network, shape, network.make(shape, key=KEY))
    assert [type(layer) for layer in found.layers] == expected


def test_a_rectifier_and_its_gradient():
    x = jnp.asarray([-2.0, -0.0, 0.0, 2**-90, 3.0, jnp.inf])
    np.testing.assert_array_equal(relu(x), [0, 0, 0, 2**-90, 3, jnp.inf])
    np.testing.assert_array_equal(jax.vmap(jax.grad(relu))(x), [0, 0, 0, 1, 1, 1])
