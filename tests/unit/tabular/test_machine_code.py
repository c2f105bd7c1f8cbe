"""Functions that Numba compiles where machine code cannot be kept, and as Python runs them."""

from types import ModuleType

import numba

from mico.tabular import _machine_code
from mico.tabular._machine_code import interpreted, machine_code


def test_no_folder_for_compiled_code(monkeypatch):
    """Where neither the package's folder nor the user's can be written, machine code is not kept."""

    def njit(cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr(_machine_code, "njit", njit)
    assert machine_code(lambda x: x + 1)(2) == 3


def test_interpreted_functions_call_each_other_without_the_compiler():
    module = ModuleType("doubles")

    def double(x):
        return 2 * x

    module.double = machine_code(double)
    exec("def twice(x): return double(double(x)) + one", vars(module))
    module.twice, module.one = machine_code(module.twice), 1
    plain = interpreted(module)
    assert plain.twice(3) == 13
    assert plain.double([1]) == [1, 1]  # which Numba would not compile
    assert not module.double.signatures
    assert not module.twice.signatures
