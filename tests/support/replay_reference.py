"""A replay that forgets nothing and searches everything, and the random episodes that are fed to it."""

from typing import NamedTuple

import jax
import numpy as np

from mico.deep.types import Spec, Timestep


class Episodic(NamedTuple):
    """One window, as lists of episodes give it."""

    observation: np.ndarray
    action: int
    reward: float
    next_observation: np.ndarray
    terminal: bool
    discount: float
    first_reward: float
    first_next: np.ndarray
    first_terminal: bool


class Reference:
    """Steps and frames as ever-growing lists; `capacity` only says which of the frames are too old."""

    def __init__(self, capacity, stack, after, length, discount):
        self.capacity, self.stack, self.after, self.length, self.discount = capacity, stack, after, length, discount
        self.steps, self.begins, self.places = [], [], []
        self.num_frames = 0

    def add(self, step):
        previous = self.steps[-1] if self.steps else None
        fresh = previous is None or previous.terminal or previous.truncated
        self.begins.append(len(self.steps) if fresh else self.begins[-1])
        self.places.append(self.num_frames)
        self.steps.append(step)
        self.num_frames += 2 if self.after == "true-frame" and (step.terminal or step.truncated) else 1

    def sampleable(self):
        return {i for i in range(len(self.steps)) if self._is_kept(i) and self._is_complete(i)}

    def window(self, i):
        taken = self._taken(i)
        last = self.steps[taken[-1]]
        return Episodic(
            observation=self._seen(i),
            action=int(self.steps[i].action),
            reward=sum(self.discount**k * float(self.steps[j].reward) for k, j in enumerate(taken)),
            next_observation=self._led_to(taken[-1]),
            terminal=bool(last.terminal),
            discount=0.0 if last.terminal else self.discount ** len(taken),
            first_reward=float(self.steps[i].reward),
            first_next=self._led_to(i),
            first_terminal=bool(self.steps[i].terminal),
        )

    def _taken(self, i):
        """The steps of a window, as far as they have been added."""
        taken = []
        for j in range(i, min(i + self.length, len(self.steps))):
            taken.append(j)
            if self.steps[j].terminal or self.steps[j].truncated:
                break
        return taken

    def _is_kept(self, i):
        earliest = max(self.begins[i], i - self.stack + 1)
        return self.places[earliest] >= self.num_frames - self.capacity

    def _is_complete(self, i):
        taken = self._taken(i)
        last = self.steps[taken[-1]]
        followed = taken[-1] + 1 < len(self.steps)
        if last.terminal or last.truncated:
            return self.after == "true-frame" or (followed and not last.truncated)
        return followed and len(taken) == self.length

    def _seen(self, i):
        return self._observation([self.steps[j].observation_frame for j in range(self.begins[i], i + 1)])

    def _led_to(self, i):
        history = [self.steps[j].observation_frame for j in range(self.begins[i], i + 1)]
        if self.after == "reset-frame" and self.steps[i].terminal:  # Dopamine writes stack − 1 blank frames there
            return self._seen(i + 1) if self.stack == 1 else self._observation([*history, np.zeros_like(history[0])])
        return self._observation([*history, self.steps[i].next_frame])

    def _observation(self, history):
        frames = ([np.zeros_like(history[0])] * self.stack + history)[-self.stack :]
        return np.stack(frames, axis=-1) if frames[0].ndim == 2 else np.concatenate(frames, axis=-1)


def episodes(spec: Spec, count: int, seed: int):
    """So many steps of random episodes, from 1 step long, ended by terminals and time-outs."""
    rng = np.random.default_rng(seed)
    steps, frame = [], None
    while len(steps) < count:
        if frame is None:
            left, cut, frame = int(rng.choice([1, 1, 2, 3, 5, 9, 20])), rng.random() < 0.4, _frame(spec, rng)
        left -= 1
        following = _frame(spec, rng)
        action, reward = np.int32(rng.integers(spec.num_actions)), np.float32(rng.normal())
        ends = np.bool_(left == 0 and not cut), np.bool_(left == 0 and cut)
        steps.append(Timestep(reward, following, *ends, observation_frame=frame, action=action))
        frame = following if left else None
    return steps


def together(steps):
    """Steps as one, with a leading axis."""
    return jax.tree.map(lambda *values: np.stack(values), *steps)


def _frame(spec, rng):
    if spec.dtype == "float32":
        return rng.normal(size=spec.shape).astype(np.float32)
    return rng.integers(2 if spec.dtype == "bool" else 256, size=spec.shape).astype(spec.dtype)
