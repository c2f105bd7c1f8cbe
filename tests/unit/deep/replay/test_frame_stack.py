"""Stacks of frames, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.replay.frame_stack import flatten, push, stack_frames, start_stack, unflatten
from mico.deep.types import Spec


def test_a_fresh_stack_has_zeros_before_its_frame():
    stack = start_stack(jnp.array([[1, 2], [3, 4]], jnp.uint8), 3)
    assert stack.dtype == jnp.uint8
    np.testing.assert_array_equal(stack, [[[0, 0], [0, 0]], [[0, 0], [0, 0]], [[1, 2], [3, 4]]])


def test_the_oldest_frame_drops_out():
    stack = start_stack(jnp.array([1.0]), 2)
    stack = push(push(stack, jnp.array([2.0])), jnp.array([3.0]))
    np.testing.assert_array_equal(stack, [[2.0], [3.0]])


def test_a_stack_of_one_is_the_newest_frame():
    np.testing.assert_array_equal(push(start_stack(jnp.array([1.0, 2.0]), 1), jnp.array([3.0, 4.0])), [[3.0, 4.0]])


def test_matrices_get_a_last_axis():
    observation = stack_frames(jnp.arange(12).reshape(3, 2, 2))
    assert observation.shape == (2, 2, 3)
    np.testing.assert_array_equal(observation[0, 1], [1, 5, 9])


@pytest.mark.parametrize(("shape", "joined"), [((4,), (12,)), ((2, 5, 4), (2, 5, 12)), ((2, 2, 2, 1), (2, 2, 2, 3))])
def test_other_frames_are_joined_along_their_last_axis_oldest_first(shape, joined):
    frames = np.random.default_rng(0).normal(size=(3, *shape))
    observation = stack_frames(jnp.asarray(frames))
    assert observation.shape == joined
    np.testing.assert_allclose(observation, np.concatenate(list(frames), axis=-1), rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "width", "kept"), [("bool", 3, "uint8"), ("uint8", 18, "uint8"), ("float32", 18, "float32")]
)
def test_rows_hold_frames(dtype, width, kept):
    spec = Spec((3, 3, 2), dtype, 2)
    frames = (10 * jax.random.normal(jax.random.key(0), (5, 3, 3, 2)) > 0).astype(dtype)
    frames = frames if dtype == "bool" else (frames * 100).astype(dtype)
    rows = flatten(frames, spec)
    assert rows.shape == (5, width)
    assert rows.dtype == kept
    assert unflatten(rows, spec).dtype == frames.dtype
    np.testing.assert_array_equal(unflatten(rows, spec), frames)
