r"""Squared Smith doubling, a dense solver of $U = D + \gamma P U P^\top$.

The same code serves NumPy and any other array-API library: JAX arrays on a GPU stay there.
"""

from typing import Any

import array_api_compat as api

from mico.tabular._validation import check_tolerance, checked_discount
from mico.tabular.solvers.progress import tell
from mico.tabular.solvers.result import SolverResult


def doubling(transition: Any, gap: Any, discount: float, *, tolerance: float) -> SolverResult:
    r"""Solves $U = D + \gamma P U P^\top$ for P [..., S, S] and symmetric $D \ge 0$, in about $\log_2$ of the sweeps.

    With $m = 2^k$ terms summed, the next m are $E = \gamma^m P^m U_m (P^m)^\top$, and every later block of m is an
    average of entries of E times a power of $\gamma^m$. So the whole rest lies in
    $[\min E, \max E]\,\gamma^m/(1-\gamma^m)$: its middle is added, half its width is the error. On chains that mix
    that width falls much faster than $\gamma^m$. The residual of the result certifies it, rounding included.
    Rows are scaled first, to sum to 1; the equation is that of rows divided by their exact sums.
    """
    xp = api.array_namespace(transition, gap)
    discount = checked_discount(discount)
    check_tolerance(tolerance)
    transition = _checked(xp, transition, gap)
    power, scale, value, steps = transition, discount, gap, 0
    while True:
        block = scale * _conjugate(xp, power, value)
        value, steps = value + block, steps + 1
        middle, width = _middle(xp, block)
        rest = scale / (1 - scale)
        tell(rest * width)
        if rest * width <= tolerance / 4:
            break
        power, scale = _product(xp, power, power), scale * scale
    value = _symmetric(xp, value + rest * middle)
    before = value
    middle, width = _middle(xp, gap + discount * _conjugate(xp, transition, value) - value)
    value = xp.maximum(value + middle / (1 - discount), xp.zeros_like(value))
    rounding = max(_rounding(xp, transition, each) for each in (before, value))
    error = (width + rounding) / (1 - discount)
    return SolverResult(value, error, steps)


def _checked(xp: Any, transition: Any, gap: Any) -> Any:
    """Distributions in rows. Chains make sure of this themselves; arrays that come straight from a caller do not."""
    if not bool(xp.all(xp.isfinite(gap))) or float(xp.min(gap)) < 0:
        raise ValueError("gap must hold finite numbers, none of them negative")
    sums = xp.sum(transition, axis=-1, keepdims=True)
    if not float(xp.min(transition)) >= 0 or not float(xp.max(xp.abs(sums - 1))) <= 1e-5:
        raise ValueError("transition must hold distributions in its rows")
    return transition / sums  # floats, also of whole numbers


def _product(xp: Any, one: Any, two: Any) -> Any:
    """GPUs multiply float32 in fewer digits unless told otherwise, and the certificate counts on all of them."""
    return xp.matmul(one, two, precision="highest") if api.is_jax_namespace(xp) else xp.matmul(one, two)


def _conjugate(xp: Any, matrix: Any, value: Any) -> Any:
    return _product(xp, _product(xp, matrix, value), xp.matrix_transpose(matrix))


def _symmetric(xp: Any, value: Any) -> Any:
    return (value + xp.matrix_transpose(value)) / 2


def _middle(xp: Any, values: Any) -> tuple[Any, float]:
    """The middle of each matrix's range, [..., 1, 1], and half the widest range."""
    low, high = (f(values, axis=(-2, -1), keepdims=True) for f in (xp.min, xp.max))
    return (low + high) / 2, float(xp.max(high - low)) / 2


def _rounding(xp: Any, transition: Any, value: Any) -> float:
    r"""What rounding can add to one entry of the residual $D + \gamma P U P^\top - U$, of the largest entry of U.

    With n entries in a row: nu for each of the two products, nu for the scaling of each of their rows, and u for each
    of the discount, the gap, the three operations between them, the shift, its addition (twice, as it enters twice),
    and 3 to spare.
    """
    terms = 4 * int(xp.max(xp.count_nonzero(transition, axis=-1))) + 12
    return terms * float(xp.finfo(value.dtype).eps) / 2 * float(xp.max(xp.abs(value)))
