"""The replay against one that forgets nothing, against statistics, and against hand-made cases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from mico.deep.replay.replay import Replay, Window
from mico.deep.types import Spec, Timestep
from replay_reference import Episodic, Reference, episodes, together

pytestmark = pytest.mark.usefixtures("quick_compilation")

PLANES, PIXELS, VECTOR = Spec((3, 3, 2), "bool", 4), Spec((4, 3), "uint8", 4), Spec((5,), "float32", 4)
ONE = Window(1, 0.9)
KEY = jax.random.key(0)

# frames, stack, steps of a window, steps at a time, sampling, next
CASES = [
    (PLANES, 1, 1, 1, "uniform", "true-frame"),
    (PLANES, 4, 3, 4, "prioritised", "true-frame"),
    (PIXELS, 4, 3, 4, "uniform", "true-frame"),
    (PIXELS, 4, 1, 1, "prioritised", "true-frame"),
    (VECTOR, 1, 3, 1, "uniform", "true-frame"),
    (VECTOR, 4, 3, 1, "uniform", "reset-frame"),
    (PIXELS, 4, 3, 4, "prioritised", "reset-frame"),
    (PLANES, 1, 1, 4, "uniform", "reset-frame"),
]


def functions(replay, window=ONE):
    """The replay's functions, compiled."""
    return (
        jax.jit(lambda memory, steps, time: replay.add(memory, steps, time, window)),
        jax.jit(lambda memory, time, key: replay.sample(memory, time, window, key)),
        jax.jit(lambda memory, time: replay.can_sample(memory, time, window)),
    )


def filled(replay, stream, window=ONE):
    """The memory after these steps, added one by one, and how many they are."""
    spec = Spec(stream[0].observation_frame.shape, str(stream[0].observation_frame.dtype), 4)

    def body(carry, step):
        memory, time = carry
        return (replay.add(memory, jax.tree.map(lambda x: x[None], step), time, window), time + 1), None

    return jax.jit(lambda steps: jax.lax.scan(body, (replay.init(spec), jnp.int32(0)), steps)[0])(together(stream))


def drawn(replay, memory, time):
    return jax.device_get(functions(replay)[1](memory, time, KEY))


def numbered(ends):
    """Steps whose frames are 1, 2, 3 … and whose last frames are 100 more; ends are '.', 'T' or 'O' (time-out)."""
    frames = [np.array([i + 1], np.float32) for i in range(len(ends) + 1)]
    after = [frames[i + 1] if end == "." else frames[i] + 100 for i, end in enumerate(ends)]
    rows = zip(frames, after, ends, strict=False)
    return [
        Timestep(np.float32(1), a, np.bool_(e == "T"), np.bool_(e == "O"), observation_frame=f, action=np.int32(0))
        for f, a, e in rows
    ]


def priority(memory, number):
    return np.asarray(memory.priorities.leaves).ravel()[number % memory.capacity]


@pytest.mark.parametrize(("spec", "stack", "length", "at_once", "sampling", "after"), CASES)
def test_every_window_is_what_the_episodes_say(spec, stack, length, at_once, sampling, after):
    capacity, discount = 19, 0.9
    replay = Replay(capacity=capacity, batch_size=400, stack=stack, sampling=sampling, next=after)
    add, sample, can_sample = functions(replay, Window(length, discount))
    reference, memory = Reference(capacity, stack, after, length, discount), replay.init(spec)
    stream = episodes(spec, 120, seed=length + stack)
    for time in range(0, len(stream), at_once):
        new = stream[time : time + at_once]
        memory = add(memory, together(new), jnp.int32(time))
        for step in new:
            reference.add(step)
        total = jnp.int32(time + at_once)
        expected = reference.sampleable()
        assert bool(can_sample(memory, total)) == bool(expected)
        if expected:
            batch, ids = jax.device_get(sample(memory, total, jax.random.fold_in(KEY, time)))
            assert set(ids.tolist()) == expected
            check_windows(batch, ids, {i: reference.window(i) for i in expected})
            np.testing.assert_allclose(batch.bootstrap, discount**length, rtol=1e-6)
            np.testing.assert_array_equal(batch.weight, 1)


def check_windows(batch, ids, windows):
    """Every field of every window in the batch, which holds all of them."""
    expected = Episodic(*(np.stack(values) for values in zip(*(windows[i] for i in ids.tolist()), strict=True)))
    assert batch.observation.dtype == expected.observation.dtype
    np.testing.assert_array_equal(batch.observation, expected.observation)
    np.testing.assert_array_equal(batch.next_observation, expected.next_observation)
    np.testing.assert_array_equal(batch.first.next_observation, expected.first_next)
    np.testing.assert_array_equal(batch.action, expected.action)
    np.testing.assert_array_equal(batch.terminal, expected.terminal)
    np.testing.assert_array_equal(batch.first.terminal, expected.first_terminal)
    np.testing.assert_allclose(batch.reward, expected.reward, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(batch.discount, expected.discount, rtol=1e-6)
    np.testing.assert_allclose(batch.first.reward, expected.first_reward, rtol=1e-6)


def test_the_true_last_frame_follows_an_end():
    replay = Replay(capacity=20, batch_size=64, stack=2)
    memory, time = filled(replay, numbered("..T.O."))
    batch, ids = drawn(replay, memory, time)
    found = {int(i): (o.tolist(), n.tolist()) for i, o, n in zip(ids, batch.observation, batch.next_observation)}
    assert found == {
        0: ([0, 1], [1, 2]),
        1: ([1, 2], [2, 3]),
        2: ([2, 3], [3, 103]),
        3: ([0, 4], [4, 5]),
        4: ([4, 5], [5, 105]),
    }
    end = {int(i): (bool(t), float(d)) for i, t, d in zip(ids, batch.terminal, batch.discount)}
    assert end[2] == (True, 0.0)
    assert end[4] == (False, pytest.approx(0.9))


RESET = {
    1: {0: ([1], [2]), 1: ([2], [3]), 2: ([3], [4]), 3: ([4], [5])},
    2: {0: ([0, 1], [1, 2]), 1: ([1, 2], [2, 3]), 2: ([2, 3], [3, 0]), 3: ([0, 4], [4, 5])},
}


@pytest.mark.parametrize("stack", RESET)
def test_with_reset_frames_a_terminal_leads_to_what_dopamine_writes_next_and_no_window_has_a_time_out(stack):
    replay = Replay(capacity=20, batch_size=64, stack=stack, next="reset-frame")
    memory, time = filled(replay, numbered("..T.O."))
    batch, ids = drawn(replay, memory, time)
    found = {int(i): (o.tolist(), n.tolist()) for i, o, n in zip(ids, batch.observation, batch.next_observation)}
    assert found == RESET[stack]
    assert {int(i) for i in ids[batch.terminal]} == {2}


@pytest.mark.parametrize("after", ["true-frame", "reset-frame"])
def test_uniform_draws_are_independent_and_equally_frequent(after):
    replay = Replay(capacity=60, batch_size=20_000, next=after)
    memory, time = filled(replay, episodes(VECTOR, 150, seed=5))
    _, ids = drawn(replay, memory, time)
    _, counts = np.unique(np.asarray(ids), return_counts=True)
    assert counts.size > 20
    assert 1e-3 < stats.chisquare(counts).pvalue < 1 - 1e-3


def test_prioritised_draws_follow_the_root_of_the_losses():
    replay = Replay(capacity=60, batch_size=5000, sampling="prioritised")
    memory, time = filled(replay, numbered("." * 30))
    memory = jax.jit(replay.update_priorities)(memory, jnp.arange(29), (2 * jnp.arange(1.0, 30.0)) ** 2)
    batch, ids = drawn(replay, memory, time)
    counts = np.bincount(np.asarray(ids), minlength=29)
    share = np.arange(1, 30) / np.arange(1, 30).sum()
    # One draw from each of 5000 parts of the mass: only the two parts at a leaf's edges are a matter of luck.
    assert np.abs(counts - 5000 * share).max() < 2.01
    weight = 1 / np.sqrt(np.asarray(ids) + 1.0)
    np.testing.assert_allclose(batch.weight, weight / weight.max(), rtol=1e-4)


def test_new_windows_get_the_largest_priority_so_far():
    replay = Replay(capacity=30, batch_size=4, sampling="prioritised")
    add, reprioritise = functions(replay)[0], jax.jit(replay.update_priorities)
    stream = numbered("." * 12)
    memory, time = filled(replay, stream[:6])
    assert [priority(memory, i) for i in range(7)] == [1, 1, 1, 1, 1, 0, 0]
    memory = reprioritise(memory, jnp.array([0, 1]), jnp.array([0.25, 9.0]))
    memory = add(memory, together([stream[6]]), time)
    memory = reprioritise(memory, jnp.array([1, 1]), jnp.array([4.0, 0.0]))
    memory = add(memory, together([stream[7]]), time + 1)
    np.testing.assert_allclose([priority(memory, i) for i in range(8)], [0.5, 1e-5, 1, 1, 1, 3, 3, 0], rtol=1e-5)


def test_priorities_leave_with_their_frames():
    replay = Replay(capacity=8, batch_size=4, sampling="prioritised")
    memory, _ = filled(replay, numbered("." * 10))
    assert int(memory.oldest) == 2
    assert [priority(memory, i) for i in range(2, 10)] == [1] * 7 + [0]


def test_windows_that_are_gone_and_losses_that_are_not_finite_change_no_priority():
    replay = Replay(capacity=8, batch_size=4, sampling="prioritised")
    memory, _ = filled(replay, numbered("." * 10))
    ids, losses = jnp.array([1, 9, 0, 4, 5]), jnp.array([100.0, 100.0, 100.0, jnp.nan, jnp.inf])
    after = jax.jit(replay.update_priorities)(memory, ids, losses)
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), memory, after)))


@pytest.mark.parametrize("after", ["true-frame", "reset-frame"])
def test_uniform_replay_has_no_priorities_to_change(after):
    replay = Replay(capacity=8, batch_size=4, next=after)
    memory, _ = filled(replay, numbered("....."))
    assert replay.update_priorities(memory, jnp.array([0, 1]), jnp.array([100.0, 0.0])) is memory


def test_the_discount_may_be_traced():
    replay = Replay(capacity=20, batch_size=16)
    memory, time = filled(replay, numbered("." * 8), Window(3, 0.5))
    batch, _ = jax.jit(lambda d: replay.sample(memory, time, Window(3, d), KEY))(jnp.float32(0.5))
    np.testing.assert_allclose(batch.reward, 1.75)
    np.testing.assert_allclose(batch.discount, 0.125)


def test_the_batch_size_is_how_many_windows_are_drawn():
    replay = Replay(capacity=20, batch_size=7)
    batch, ids = jax.eval_shape(lambda: replay.sample(replay.init(PIXELS), jnp.int32(9), ONE, KEY))
    assert ids.shape == (7,)
    assert batch.observation.shape == (7, 4, 3, 1)


@pytest.mark.parametrize(("spec", "shape"), [(PLANES, (3, 3, 8)), (PIXELS, (4, 3, 4)), (VECTOR, (20,))])
def test_the_shape_of_observations_is_known_before(spec, shape):
    assert Replay(stack=4).observation_shape(spec) == shape


@pytest.mark.parametrize(("sampling", "after"), [("prioritised", "true-frame"), ("uniform", "reset-frame")])
def test_runs_together_are_as_runs_alone(sampling, after):
    replay, window = Replay(capacity=19, batch_size=8, stack=4, sampling=sampling, next=after), Window(3, 0.9)
    streams = [episodes(PLANES, 60, seed=seed) for seed in range(3)]

    def one(memory, steps, time, key):
        memory = replay.add(memory, steps, time, window)
        batch, ids = replay.sample(memory, time + 4, window, key)
        return replay.update_priorities(memory, ids, jnp.abs(batch.reward)), (batch, ids)

    def stacked(trees):
        return jax.tree.map(lambda *leaves: np.stack(leaves), *jax.device_get(trees))

    alone, fleet = jax.jit(one), jax.jit(jax.vmap(one, in_axes=(0, 0, None, 0)))
    keys, memories = jax.random.split(KEY, 3), [replay.init(PLANES)] * 3
    fleet_memories = stacked(memories)
    for time in range(0, 60, 4):
        steps = [together(stream[time : time + 4]) for stream in streams]
        results = [alone(memories[i], steps[i], jnp.int32(time), keys[i]) for i in range(3)]
        memories = [memory for memory, _ in results]
        fleet_memories, found = fleet(fleet_memories, stacked(steps), jnp.int32(time), keys)
        pairs = stacked(results), (fleet_memories, found)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), *pairs)


@pytest.mark.parametrize("sampling", ["uniform", "prioritised"])
def test_a_fleet_updates_its_memories_in_place(sampling):
    replay, window, runs = Replay(capacity=100_000, stack=4, sampling=sampling), Window(3, 0.99), 4
    steps = jax.eval_shape(lambda: jax.tree.map(lambda x: jnp.stack([x] * runs), together(episodes(PLANES, 4, 0))))

    def one(memory, steps, time, key):
        memory = replay.add(memory, steps, time, window)
        batch, ids = replay.sample(memory, time + 4, window, key)
        return replay.update_priorities(memory, ids, jnp.abs(batch.reward)), batch.next_observation.sum()

    def run(memories, steps, key):
        def body(carry, key):
            memories, time = carry
            memories, out = jax.vmap(one, in_axes=(0, 0, None, 0))(memories, steps, time, jax.random.split(key, runs))
            return (memories, time + 4), out

        return jax.lax.scan(body, (memories, jnp.int32(0)), jax.random.split(key, 8))

    memories = jax.eval_shape(jax.vmap(lambda _: replay.init(PLANES)), jnp.arange(runs))
    key = jax.eval_shape(lambda: jax.random.key(0))
    analysis = jax.jit(run, donate_argnums=0).lower(memories, steps, key).compile().memory_analysis()
    frames = memories.frames.size * memories.frames.dtype.itemsize
    assert analysis.alias_size_in_bytes >= runs * replay.size(PLANES)
    assert analysis.temp_size_in_bytes < frames / 2


def test_types_are_kept_in_double_precision():
    replay, window = Replay(capacity=20, stack=2, sampling="prioritised"), Window(3, 0.9)
    with jax.enable_x64(True):
        memory = replay.init(PLANES)
        steps = together(episodes(PLANES, 4, seed=0))

        def once(memory, steps, time):
            memory = replay.add(memory, steps, time, window)
            batch, ids = replay.sample(memory, time + 4, window, KEY)
            return batch, ids, replay.update_priorities(memory, ids, batch.reward**2)

        batch, ids, after = jax.eval_shape(once, memory, steps, jnp.zeros((), jnp.int32))
        assert batch.reward.dtype == batch.weight.dtype == memory.priorities.leaves.dtype == jnp.float64
        assert ids.dtype == jnp.int32
        assert jax.tree.map(lambda a: (a.shape, a.dtype), after) == jax.tree.map(lambda a: (a.shape, a.dtype), memory)


def test_size_is_what_a_run_takes():
    spec = Spec((10, 10, 4), "bool", 6)
    steps, scalars = 4 + 1 + 4 + 4 + 1, 4 + 1 + 4 + 4
    assert Replay(capacity=100).size(spec) == 100 * (50 + steps) + scalars
    weights = (10 * 10 + 10 + 1) * 4
    assert Replay(capacity=100, sampling="prioritised").size(spec) == 100 * (50 + steps) + scalars + weights
    assert Replay(capacity=100).size(spec._replace(dtype="float32")) == 100 * (1600 + steps) + scalars


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("capacity", 2),
        ("capacity", 2**31),
        ("batch_size", 0),
        ("stack", 0),
        ("stack", 257),
        ("sampling", "greedy"),
        ("next", "last"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_settings_out_of_range_are_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} must be .* but is {value!r}"):
        Replay(**{field: value})


def test_windows_longer_than_the_ring_are_refused():
    replay = Replay(capacity=6, stack=2)
    steps = together(numbered("...."))
    memory = replay.init(Spec((1,), "float32", 4))
    with pytest.raises(ValueError, match="capacity must be at least 7, but is 6"):
        replay.sample(memory, jnp.int32(0), Window(4, 0.9), KEY)
    with pytest.raises(ValueError, match="capacity must be at least 8, but is 6"):
        replay.add(memory, steps, jnp.int32(0), ONE)
    with pytest.raises(ValueError, match=r"window.length must be at least 1, but is 0"):
        replay.sample(memory, jnp.int32(0), Window(0, 0.9), KEY)
