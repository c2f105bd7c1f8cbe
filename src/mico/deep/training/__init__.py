"""The training loop and the disk: chunks of steps, log rows, checkpoints and weights."""
