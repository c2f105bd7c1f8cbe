"""What is run: a run as a value, its schedule, presets, names on the command line, and JSON."""

from mico.deep.config.run import Run, Schedule

__all__ = ["Run", "Schedule"]
