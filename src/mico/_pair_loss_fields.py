"""The fields of losses over pairs of states, declared once for JAX and for PyTorch: choices, defaults and help."""

import textwrap
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar, get_args

Pairs = Literal["all", "shuffled"]
SelfPairs = Literal["include", "exclude"]
Second = Literal["target", "frozen", "online"]
Error = Literal["huber", "squared"]
Horizon = Literal["n-step", "one-step"]
Terminals = Literal["bootstrap", "absorbing"]

Class = TypeVar("Class", bound=type)
_WIDTH = 120


class Declaration(NamedTuple):
    """A field's default, its sentence in the help, and its type."""

    default: Any
    purpose: str
    kind: Any = float


ALPHA = Declaration(0.01, "Weight α of the metric loss; the TD loss has weight 1 − α, so 0 is the baseline.")
PAIRS = Declaration(
    "all", "Which states of a batch are compared: all ordered pairs, or each state with one other.", Pairs
)
SELF_PAIRS = Declaration("include", "Whether the pairs contain a state paired with itself.", SelfPairs)
SECOND = Declaration(
    "target",
    "Network that represents the second state of a pair: the target network, the online network without a gradient"
    " (frozen), or the online network with one.",
    Second,
)
ERROR = Declaration("huber", "Loss of the error of a pair.", Error)
HORIZON = Declaration(
    "n-step", "Rewards and discount of the target: those of the agent's n-step return, or of one step.", Horizon
)
TERMINALS = Declaration(
    "bootstrap",
    "State after a terminal: the next state that the replay holds, or an absorbing state without rewards.",
    Terminals,
)
BETA = Declaration(0.1, "Weight β of the angle between representations in MICo's parametrisation of the distance.")

PAIR_LOSS = {
    "alpha": ALPHA,
    "pairs": PAIRS,
    "self_pairs": SELF_PAIRS,
    "second": SECOND,
    "error": ERROR,
    "horizon": HORIZON,
    "terminals": TERMINALS,
}
MICO = PAIR_LOSS | {"beta": BETA}
SIMSR = PAIR_LOSS | {
    "alpha": ALPHA._replace(default=0.5),
    "second": SECOND._replace(default="online"),
    "horizon": HORIZON._replace(default="one-step"),
}


def explain_fields(declared: Mapping[str, Declaration]) -> Callable[[Class], Class]:
    """Decorate a loss with the section Args of its docstring, before the section Raises or last."""

    def decorate(loss: Class) -> Class:
        head, raises, rest = (loss.__doc__ or "").rstrip().partition("\n    Raises:")
        arguments = "\n".join(line for name, field in declared.items() for line in _explain(name, field))
        loss.__doc__ = f"{head.rstrip()}\n\n    Args:\n{arguments}\n{raises}{rest}\n    "
        return loss

    return decorate


def _explain(name: str, declared: Declaration) -> list[str]:
    choices = ", ".join(f'`"{value}"`' for value in get_args(declared.kind))
    shown = f'`"{declared.default}"`' if choices else declared.default
    one = f" One of {choices}; by default" if choices else " By default"
    text = f"{name}: {declared.purpose}{one} {shown}."
    return textwrap.wrap(text, _WIDTH, initial_indent=8 * " ", subsequent_indent=12 * " ")
