"""What is asked of every file of the source that ruff does not ask."""

import ast
from pathlib import Path

import mico

SOURCE = Path(mico.__file__).parent
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(text):
    """The docstrings of a file, with their lines."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED))
    return [(getattr(node, "lineno", 1), ast.get_docstring(node)) for node in nodes if ast.get_docstring(node)]


def test_docstrings_of_modules_classes_and_functions_are_found():
    text = '"""One."""\nclass A:\n    """Two."""\n    def f(self):\n        """The same."""\n        return ""\n'
    assert docstrings(text) == [(1, "One."), (2, "Two."), (4, "The same.")]


def test_every_docstring_stands_alone():
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 100
    found = [(file.name, *each) for file in files for each in docstrings(file.read_text())]
    assert [each for each in found if each[-1].startswith("The same")] == []
