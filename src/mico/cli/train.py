"""`mico train`: agents with and without a metric loss, many runs as one fleet."""

from jax.errors import JaxRuntimeError
from rich import box

from mico.cli.train_options import parse
from mico.cli.training_display import Display, new_console
from mico.deep.fleet import compilation_cache
from mico.deep.training.train import Manner, train

_TOO_MUCH = "there is not enough memory: use a smaller --replay.capacity or fewer --seeds"


def main(argv: list[str]) -> None:
    """Run `mico train` with these arguments."""
    compilation_cache.enable()
    options, steps, runs = parse(argv)
    display = Display(runs, new_console())
    try:
        with display:
            train(
                runs,
                options.out,
                steps=steps,
                resume=options.resume,
                manner=Manner(options.checkpoint_seconds, options.checkpoint_replay, options.tensorboard),
                report=display.update,
            )
    except JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" in str(error):
            raise MemoryError(_TOO_MUCH) from error
        raise
    except ChildProcessError as error:
        raise ChildProcessError(f"{error}; --resume continues from the last checkpoint") from error
    display.console.print(display.returns(box.SIMPLE), soft_wrap=False)
    display.console.print(f"Logs and parameters are in {options.out}.")
