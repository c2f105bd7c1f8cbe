"""What an agent remembers: the replay buffer, its n-step windows, priorities and stacks of frames."""

from mico.deep.replay.replay import Replay

__all__ = ["Replay"]
