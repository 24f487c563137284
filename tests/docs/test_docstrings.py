"""Every public name says what it is, and which errors it raises itself.

The rule that is held: where the body of a public function or method has ``raise SomeError(...)``,
or that of the functions which it returns, its docstring names ``SomeError`` or a class above it
below "Raises:". For a class, ``__init__`` counts, and the docstring of the class may say it.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.source_code import parse

import alula

# The text is the same with all versions of packages.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

# What only tests and commands use, or what Python itself calls.
NOT_CALLED_BY_USERS = ("alula.testing.", "alula._cli")

MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages(alula.__path__, "alula.")
    if not name.startswith(NOT_CALLED_BY_USERS)
)


def public_things(module: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield name, function and docstring of all that a module defines and offers."""
    for name in getattr(module, "__all__", ()):
        offered = getattr(module, name)
        if getattr(offered, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(offered):
            yield name, offered, inspect.getdoc(offered) or ""
        elif inspect.isclass(offered):
            yield from methods_of(offered)


def methods_of(owner: type) -> Iterator[tuple[str, Any, str]]:
    """Yield what a class defines itself and shows to the outside."""
    for name, member in vars(owner).items():
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if not inspect.isfunction(function):
            continue
        if name == "__init__":
            docstring = f"{inspect.getdoc(owner)}\n{inspect.getdoc(function)}"
            yield f"{owner.__name__}()", function, docstring
        elif not name.startswith("_"):
            yield f"{owner.__name__}.{name}", function, inspect.getdoc(getattr(owner, name)) or ""


def raised_by(function: Any) -> set[str]:
    """Return the names of the classes that a function raises itself."""
    if not Path(function.__code__.co_filename).is_relative_to(ROOT):
        return set()  # made for a dataclass or a protocol
    tree = parse(textwrap.dedent(inspect.getsource(function)))
    raises = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    made = [node.func for node in raises if isinstance(node, ast.Call)]
    names = {node.id for node in made if isinstance(node, ast.Name) and node.id[0].isupper()}
    return names - {"NotImplementedError"}  # derived classes write such a method anew


def classes_above(name: str, function: Any) -> set[str]:
    """Return the names of a class and of those that it derives from."""
    error_class = function.__globals__.get(name) or getattr(builtins, name, None)
    return (
        {base.__name__ for base in inspect.getmro(error_class)}
        if inspect.isclass(error_class)
        else {name}
    )


def documented_in(docstring: str) -> set[str]:
    """Return the names below "Raises:"."""
    section = re.search(r"^ *Raises:\n(.*?)(?:\n\n(?! )|\Z)", docstring, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"^ +(\w+):", section[1], re.MULTILINE)) if section else set()


def undocumented_by(function: Any, docstring: str) -> list[str]:
    """Return the errors of a function that its docstring does not name."""
    documented = documented_in(docstring)
    return sorted(
        name for name in raised_by(function) if not classes_above(name, function) & documented
    )


@pytest.mark.parametrize("name", MODULES)
def test_a_module_documents_its_public_names_and_their_errors(name):
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    things = list(public_things(module))
    assert [thing for thing, _, docstring in things if not docstring.strip()] == []
    undocumented = {
        thing: undocumented_by(function, docstring) for thing, function, docstring in things
    }
    assert {thing: errors for thing, errors in undocumented.items() if errors} == {}


def test_all_modules_are_looked_at():
    assert {"alula._app", "alula.express._response", "alula.query._grammar"} <= set(MODULES)


class Planted:
    """Something with mistakes.

    Raises:
        LookupError: There is none.
    """

    def __init__(self, names):
        if not names:
            raise KeyError(names)

    def documented(self):
        """Fail.

        Raises:
            ValueError: Always, and for
                a long time.
            TypeError: Never.
        """
        raise ValueError("no")

    def undocumented(self):
        """Fail."""
        if self:
            raise ValueError("no")
        raise OSError("no")

    def later(self):
        """Return a function that fails."""

        def fail():
            raise RuntimeError("no")

        return fail


def test_a_class_above_is_enough():
    planted = list(methods_of(Planted))[:2]
    assert [undocumented_by(function, text) for _, function, text in planted] == [[], []]


def test_what_is_not_documented_is_noticed():
    things = {name: undocumented_by(method, text) for name, method, text in methods_of(Planted)}
    assert things["Planted.undocumented"] == ["OSError", "ValueError"]
    assert things["Planted.later"] == ["RuntimeError"]
