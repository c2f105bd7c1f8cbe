"""Encoders and heads against JAX's own convolutions, against NumPy, and against the rules of their initialisers."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.networks.encoders import ENCODERS, NetworkConfig, RepresentationSizes
from mico.deep.networks.heads import Head
from mico.deep.networks.layers import Conv, Dense, Perceptron, Projection, with_library_convolutions

pytestmark = pytest.mark.usefixtures("quick_compilation")
KEY = jax.random.key(0)
# kernel, stride, padding, input: Nature's three layers, MinAtar's, the first for control, and odd ones
LAYERS = [
    (8, 4, "same", (84, 84, 4)),
    (4, 2, "same", (21, 21, 32)),
    (3, 1, "same", (11, 11, 64)),
    (3, 1, "valid", (10, 10, 7)),
    (3, 2, "same", (84, 84, 9)),
    (4, 2, "same", (13, 9, 2)),
    (6, 3, "valid", (17, 20, 1)),
    (2, 2, "same", (5, 7, 3)),
    (3, 3, "valid", (11, 8, 2)),
    (1, 1, "same", (4, 3, 5)),
    (5, 1, "same", (2, 3, 2)),
    (3, 2, "valid", (8, 11, 2)),
    (5, 3, "same", (13, 7, 3)),
    (4, 3, "valid", (12, 14, 1)),
    (2, 3, "same", (10, 7, 2)),
]
RNG = np.random.default_rng(0)
PIXELS = {
    "float32": lambda shape: jnp.asarray(RNG.normal(size=shape), jnp.float32),
    "uint8": lambda shape: jnp.asarray(RNG.integers(256, size=shape), jnp.uint8),
    "bool": lambda shape: jnp.asarray(RNG.random(shape) < 0.4),
}


def kernel(weight, conv, inputs):
    """Rows of a weight as a kernel [height, width, inputs, outputs]; whole strides of pixels come together."""
    block = conv.stride if conv.kernel % conv.stride == 0 else 1
    shifts = conv.kernel // block
    split = weight.reshape(-1, shifts, shifts, block, block, inputs)
    return split.transpose(1, 3, 2, 4, 5, 0).reshape(conv.kernel, conv.kernel, inputs, -1)


def convolved(x, weight, bias, conv):
    """By JAX's own convolution, of the numbers that the pixels stand for."""
    x = x.astype(float) / 255 if x.dtype == jnp.uint8 else x.astype(float)
    numbers = ("NHWC", "HWIO", "NHWC")
    stride = (conv.stride, conv.stride)
    return (
        jax.lax.conv_general_dilated(
            x[None], kernel(weight, conv, x.shape[-1]), stride, conv.padding.upper(), dimension_numbers=numbers
        )[0]
        + bias
    )


def check_convolution(layer, dtype):
    """Outputs, and gradients of some number that depends on all of them, in float64."""
    size, stride, padding, shape = layer
    conv = jax.eval_shape(lambda: Conv((shape[-1], 6), size, stride, padding, "xavier", key=KEY))
    x, weight, bias = PIXELS[dtype](shape), jnp.asarray(RNG.normal(size=conv.weight.shape)), jnp.arange(6.0)
    wanted = (0, 1, 2) if dtype == "float32" else (0, 1)

    def mixed(function, weight, bias, x):
        found = function(weight, bias, x)
        return (jnp.cos(jnp.arange(found.size)).reshape(found.shape) * found**2).sum(), found

    def ours(weight, bias, x):
        return jax.tree.unflatten(jax.tree.structure(conv), [weight, bias])(x, float)

    def by_jax(weight, bias, x):
        return with_library_convolutions(jax.tree.unflatten(jax.tree.structure(conv), [weight, bias]))(x, float)

    def theirs(weight, bias, x):
        return convolved(x, weight, bias, conv)

    ways = theirs, ours, by_jax
    (expected_gradients, expected), *others = jax.jit(
        lambda *args: [jax.grad(partial(mixed, way), wanted, has_aux=True)(*args) for way in ways]
    )(weight, bias, x)
    for gradients, found in others:
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
        for one, other in zip(gradients, expected_gradients, strict=True):
            # Without padding the last pixels may have no effect at all, so some gradients are 0.
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * float(jnp.abs(other).max()))


@pytest.mark.parametrize("layer", LAYERS)
def test_convolutions_and_their_gradients_are_those_of_jax(layer):
    with jax.enable_x64(True):
        check_convolution(layer, "float32")


@pytest.mark.parametrize("layer", [LAYERS[0], LAYERS[3]])
@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_bytes_are_fractions_of_255_and_bits_are_0_and_1(layer, dtype):
    with jax.enable_x64(True):
        check_convolution(layer, dtype)


@pytest.mark.parametrize(
    ("network", "shape", "features", "phi"),
    [
        (NetworkConfig("nature"), (84, 84, 4), 7744, 7744),
        *[(NetworkConfig("minatar"), (10, 10, channels), 1024, 1024) for channels in (4, 6, 7, 10)],
        (NetworkConfig("control", latent=50), (84, 84, 9), 42 * 42 * 32, 50),
        (NetworkConfig("control", width=30, latent=50), (6,), 30, 50),
        (NetworkConfig("control", width=30), (6,), 30, 30),
        (NetworkConfig("mlp", width=20), (3, 2), 20, 20),
        (NetworkConfig("mlp", width=20, latent=7), (3, 2), 20, 7),
        (NetworkConfig("table", width=5), (9,), 5, 5),
    ],
)
def test_sizes(network, shape, features, phi):
    assert network.sizes(shape) == RepresentationSizes(features, phi)

    def encoded(key):
        encoder, x = network.make(shape, key=key), jnp.ones(shape, bool)
        return encoder.features(x), encoder(x)

    found = jax.eval_shape(encoded, KEY)
    assert [(one.shape, one.dtype) for one in found] == [((features,), jnp.float32), ((phi,), jnp.float32)]


def rectified(encoder, x):
    for layer in encoder.layers:
        x = jax.nn.relu(convolved(x, layer.weight, layer.bias, layer))
    return x.reshape(-1)


@pytest.mark.parametrize(
    ("name", "shape"), [("nature", (84, 84, 4)), ("minatar", (10, 10, 6)), ("control", (21, 21, 3))]
)
def test_image_encoders_are_convolutions_with_rectifiers(name, shape):
    encoder, x = NetworkConfig(name).make(shape, key=KEY), PIXELS["uint8"](shape)
    found, expected = jax.jit(lambda encoder, x: (encoder(x), rectified(encoder, x)))(encoder, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def layers_and_fans(initialiser):
    """Every kind of layer, with the number of inputs of an output and the number of outputs of an input."""
    for name in ("nature", "minatar"):
        channels = 4
        for conv in NetworkConfig(name, initialiser=initialiser).make((84, 84, 4), key=KEY).layers:
            yield conv, conv.kernel**2 * channels, conv.kernel**2 * conv.bias.size
            channels = conv.bias.size
    network = NetworkConfig("mlp", width=70, hidden=90, initialiser=initialiser)
    one, two = network.make((6, 10), key=KEY).layers
    head = Head(70, 4, 51, network, key=KEY)
    table = NetworkConfig("table", width=70, initialiser=initialiser).make((60,), key=KEY).layers[0]
    yield from [(one, 60, 70), (two, 70, 70), (head.hidden, 70, 90), (head.output, 90, 204), (table, 60, 70)]


@pytest.mark.parametrize(
    ("initialiser", "bound"),
    [
        ("xavier", lambda fan_in, fan_out: np.sqrt(6 / (fan_in + fan_out))),
        ("fan-in", lambda fan_in, fan_out: np.sqrt(3 * (1 / np.sqrt(3)) / fan_in)),
    ],
)
def test_weights_start_uniformly_within_their_bounds_and_biases_at_0(initialiser, bound):
    """Xavier: ± √(6/(in+out)). Variance scaling by 1/√3 over the inputs: a third of the squared bound is 1/(√3·in)."""
    layers = list(layers_and_fans(initialiser))
    assert len(layers) == 9
    for layer, *fans in layers:
        weight, high = np.asarray(layer.weight, dtype=float), bound(*fans)
        assert 0.98 * high < np.abs(weight).max() <= high * (1 + 1e-6)
        # The mean of n uniform numbers strays by high/√(3n), their mean square by √(4/45n)·high².
        deviations = 4.5 / np.sqrt(weight.size)
        assert abs(weight.mean()) < deviations * high / np.sqrt(3)
        assert abs((weight**2).mean() - high**2 / 3) < deviations * high**2 * np.sqrt(4 / 45)
        np.testing.assert_array_equal(layer.bias, 0)


@pytest.mark.parametrize(("inputs", "outputs"), [(5, 3), (3, 5), (4, 4), (1, 3), (60, 50)])
def test_orthogonal_weights_are_of_length_1_at_right_angles(inputs, outputs):
    dense = Dense(inputs, outputs, "orthogonal", key=KEY)
    assert dense.weight.shape == (outputs, inputs)
    weight = np.asarray(dense.weight, dtype=float)
    products = weight @ weight.T if outputs <= inputs else weight.T @ weight
    np.testing.assert_allclose(products, np.eye(min(inputs, outputs)), atol=1e-5)
    np.testing.assert_array_equal(dense.bias, 0)


@pytest.mark.parametrize(("size", "stride"), [(3, 2), (4, 2)])
def test_filters_of_a_convolution_can_start_orthogonal(size, stride):
    """Each filter as one vector, whichever way it is laid out."""
    weight = np.asarray(Conv((4, 6), size, stride, "same", "orthogonal", key=KEY).weight, dtype=float)
    np.testing.assert_allclose(weight @ weight.T, np.eye(6), atol=1e-5)


def test_any_orthogonal_matrix_may_come():
    """Every number has mean 0 and mean square ¼; turns and mirrors come alike often."""
    count = 4_000
    found = jax.jit(jax.vmap(lambda key: Dense(4, 4, "orthogonal", key=key).weight))(jax.random.split(KEY, count))
    found = np.asarray(found, dtype=float)
    assert np.abs(found.mean(axis=0)).max() < 4.5 * 0.5 / np.sqrt(count)
    # The square of a number of a random direction in four dimensions is Beta(½, 3/2): its variance is 1/16.
    assert np.abs((found**2).mean(axis=0) - 0.25).max() < 4.5 * 0.25 / np.sqrt(count)
    assert abs((np.linalg.det(found) > 0).mean() - 0.5) < 4.5 * 0.5 / np.sqrt(count)


@pytest.mark.parametrize("squash", ["tanh", "none"])
def test_projections_against_numpy(squash):
    leaves, structure = jax.tree.flatten(Projection(6, 4, squash, "xavier", key=KEY))
    projection = jax.tree.unflatten(structure, [jnp.asarray(RNG.normal(size=leaf.shape)) for leaf in leaves])
    x = RNG.normal(size=6)
    dense = np.asarray(projection.dense.weight) @ x + np.asarray(projection.dense.bias)
    normed = (dense - dense.mean()) / np.sqrt(dense.var() + 1e-5)
    expected = normed * np.asarray(projection.norm.weight) + np.asarray(projection.norm.bias)
    expected = np.tanh(expected) if squash == "tanh" else expected
    np.testing.assert_allclose(projection(jnp.asarray(x)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("squash", ["tanh", "none"])
def test_a_latent_projects_what_the_layers_make(squash):
    network = NetworkConfig("mlp", width=6, latent=4, squash=squash, initialiser="orthogonal")
    encoder, x = network.make((3,), key=KEY), PIXELS["float32"]((3,))
    assert (encoder.projection.squash, encoder.projection.dense.weight.shape) == (squash, (4, 6))
    np.testing.assert_array_equal(encoder(x), encoder.project(encoder.features(x)))
    np.testing.assert_array_equal(encoder(x), encoder.projection(encoder.features(x)))
    one, two = (np.asarray(layer.weight) for layer in encoder.layers)
    np.testing.assert_allclose(encoder.features(x), np.maximum(two @ np.maximum(one @ x, 0), 0), rtol=1e-5, atol=1e-6)
    plain = NetworkConfig("mlp", width=6).make((3,), key=KEY)
    assert plain.projection is None
    np.testing.assert_array_equal(plain(x), plain.features(x))


def test_rounded_features_are_projected_without_more_rounding():
    network = NetworkConfig("mlp", width=700, latent=4, squash="none", precision="bfloat16")
    encoder, x = network.make((3,), key=KEY), PIXELS["float32"]((3,))
    features, phi = encoder.features(x), encoder(x)
    assert (features.dtype, phi.dtype) == (jnp.bfloat16, jnp.float32)
    weight = np.asarray(encoder.projection.dense.weight.astype(jnp.bfloat16), dtype=float)
    dense = weight @ np.asarray(features, dtype=float)
    np.testing.assert_allclose(phi, (dense - dense.mean()) / np.sqrt(dense.var() + 1e-6), rtol=1e-4, atol=1e-5)
    gradient = jax.grad(lambda encoder: encoder(x)[0])(encoder)
    assert {leaf.dtype for leaf in jax.tree.leaves(gradient)} == {jnp.dtype("float32")}
    plain = NetworkConfig("mlp", width=7, precision="bfloat16").make((3,), key=KEY)
    assert plain(x).dtype == jnp.float32


@pytest.mark.parametrize("hidden", [(), (7,), (7, 3)])
def test_perceptrons_against_numpy(hidden):
    leaves, structure = jax.tree.flatten(Perceptron((5, *hidden, 2), "xavier", key=KEY))
    net = jax.tree.unflatten(structure, [jnp.asarray(RNG.normal(size=leaf.shape), jnp.float32) for leaf in leaves])
    assert len(net.layers) == len(hidden) + 1
    x = RNG.normal(size=(3, 5)).astype(np.float32)
    expected = x
    for index, layer in enumerate(net.layers):
        expected = expected @ np.asarray(layer.weight).T + np.asarray(layer.bias)
        expected = np.maximum(expected, 0) if index < len(hidden) else expected
    np.testing.assert_allclose(net(jnp.asarray(x)), expected, rtol=1e-4, atol=1e-5)


def test_layers_start_apart():
    one, two = NetworkConfig("mlp", width=6).make((6,), key=KEY).layers
    head = Head(6, 1, 6, NetworkConfig(hidden=6), key=KEY)
    for first, second in ((one, two), (head.hidden, head.output)):
        assert np.abs(np.asarray(first.weight) - np.asarray(second.weight)).max() > 0.1


@pytest.mark.parametrize("hidden", [0, 7])
def test_heads_against_numpy(hidden):
    head = Head(5, 3, 4, NetworkConfig(hidden=hidden), key=KEY)
    assert (head.hidden is None) == (hidden == 0)
    phi = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    x = phi if head.hidden is None else np.maximum(phi @ np.asarray(head.hidden.weight).T, 0)
    expected = (x @ np.asarray(head.output.weight).T).reshape(2, 3, 4)
    np.testing.assert_allclose(head(jnp.asarray(phi)), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(head(jnp.asarray(phi[0])), expected[0], rtol=1e-5, atol=1e-6)


def test_biases_are_added():
    dense = Dense(2, 3, "xavier", key=KEY)
    biased = jax.tree.unflatten(jax.tree.structure(dense), [dense.weight, jnp.asarray([1.0, 2.0, 3.0])])
    np.testing.assert_allclose(biased(jnp.zeros(2)), [1, 2, 3])


def test_a_table_is_linear_and_signed_and_gives_each_state_a_vector():
    encoder = NetworkConfig("table", width=8).make((6,), key=KEY)
    vectors = jax.vmap(encoder)(jnp.eye(6, dtype=bool))
    np.testing.assert_array_equal(vectors, encoder.layers[0].weight.T)
    assert float(vectors.min()) < -0.1
    x, y = PIXELS["float32"]((2, 6))
    np.testing.assert_allclose(encoder(x - 2 * y), encoder(x) - 2 * encoder(y), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", PIXELS)
def test_an_mlp_against_numpy(dtype):
    encoder = NetworkConfig("mlp", width=8).make((4, 3), key=KEY)
    x = PIXELS[dtype]((4, 3))
    expected = np.asarray(x, dtype=float).ravel() / (255 if dtype == "uint8" else 1)
    for layer in encoder.layers:
        expected = np.maximum(np.asarray(layer.weight) @ expected, 0)
    np.testing.assert_allclose(encoder(x), expected, rtol=1e-5, atol=1e-6)
    assert expected.max() > 0


@pytest.mark.parametrize(("name", "shape"), [("nature", (20, 20, 4)), ("minatar", (10, 10, 6)), ("mlp", (30,))])
def test_bfloat16_computes_otherwise_and_stays_close(name, shape):
    exact, rough = (
        NetworkConfig(name, precision=precision).make(shape, key=KEY) for precision in ("float32", "bfloat16")
    )
    x = PIXELS["uint8"](shape)
    value_and_gradient = jax.jit(jax.grad(lambda encoder: ((phi := encoder(x)).sum(), phi), has_aux=True))
    (of_one, one), (of_other, other) = (jax.device_get(value_and_gradient(encoder)) for encoder in (exact, rough))
    assert other.dtype == np.float32
    np.testing.assert_array_equal(other, np.asarray(jnp.asarray(other).astype(jnp.bfloat16), dtype=np.float32))
    gap = np.abs(one - other).max()
    assert 1e-6 < gap < 0.03 * np.abs(one).max()  # bfloat16 keeps 8 bits: 0.4 % a rounding, a few in a row
    gradients = [of.layers[0].weight for of in (of_one, of_other)]
    assert gradients[1].dtype == np.float32
    np.testing.assert_allclose(*gradients, rtol=0, atol=0.1 * np.abs(gradients[0]).max())


@pytest.mark.parametrize("name", ENCODERS)
def test_many_networks_side_by_side_are_single_ones(name):
    shape = (9,) if name in ("mlp", "table") else (10, 10, 4)
    network, keys = NetworkConfig(name, width=5), jax.random.split(KEY, 3)
    x = PIXELS["uint8"]((3, *shape))
    encoders = [network.make(shape, key=key) for key in keys]
    many = jax.tree.map(lambda *weights: jnp.stack(weights), *encoders)
    together = jax.jit(jax.vmap(lambda encoder, x: encoder(x)))(many, x)
    single = [encoder(one) for encoder, one in zip(encoders, x, strict=True)]
    np.testing.assert_allclose(together, jnp.stack(single), rtol=1e-4, atol=1e-5)
    assert np.abs(np.asarray(single[0]) - np.asarray(single[1])).max() > 1e-3


@pytest.mark.parametrize(
    ("name", "shape"),
    [("nature", (84, 84)), ("nature", (7, 84, 4)), ("minatar", (100,)), ("minatar", (10, 2, 4)), ("nature", (4,))],
)
def test_images_of_other_shapes_are_refused(name, shape):
    with pytest.raises(ValueError, match=rf"encoder '{name}'.*\[{', '.join(map(str, shape))}\]"):
        NetworkConfig(name).make(shape, key=KEY)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("encoder", "no such"),
        ("initialiser", "zeros"),
        ("precision", "float16"),
        ("width", 0),
        ("width", 2.5),
        ("hidden", -1),
        ("hidden", True),
        ("latent", -1),
        ("squash", "relu"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_fields_are_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} .*{value}"):
        NetworkConfig(**{field: value})


def test_a_table_needs_one_hot_states():
    with pytest.raises(ValueError, match=r"encoder 'table' needs states as one-hot vectors, not frames of \[3, 3, 2\]"):
        NetworkConfig("table").make((3, 3, 2), key=KEY)
