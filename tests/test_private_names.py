"""Alula uses only public names of other packages, so any version in a declared range works.

The standard library counts as another package. What a name belongs to is found as far as the source
code shows it: by imports, by base classes, and by names that nothing in Alula defines.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.source_code import parse

# Reading all of the source code covers none of it.
pytestmark = [pytest.mark.slow, pytest.mark.untraced]

SRC = Path(__file__).parents[1] / "src"

DOCUMENTED = {
    "_asdict",  # of named tuples
    "_fields",
    "_make",
    "_replace",
    "_exit",  # os
    "_getframe",  # sys
    "_current_frames",
    "_enter_task",  # asyncio, "Extending"
    "_leave_task",
    "_missing_",  # enum
    "_generate_next_value_",
    "_fields_",  # ctypes
}
"""Names that begin with an underscore, but are described in Python's documentation."""

BY_NAME = {"getattr", "hasattr", "setattr", "delattr"}
SELF = re.compile(r"\bself\.(_\w+)")


@cache
def nodes_of(tree: ast.Module) -> list[ast.AST]:
    return list(ast.walk(tree))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in DOCUMENTED


def names_defined_in(tree: ast.Module) -> Iterator[str]:
    """Yield each private name that a file gives to something of its own."""
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
                yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Assign):
            targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if targets == ["__slots__"]:
                yield from (c.value for c in ast.walk(node.value) if isinstance(c, ast.Constant))


def imported_names(tree: ast.Module) -> dict[str, tuple[str, str | None]]:
    """Map each name that a file imports from another package to its module and its name there."""
    imported: dict[str, tuple[str, str | None]] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = alias.name if alias.asname else alias.name.partition(".")[0]
                imported[alias.asname or module] = (module, None)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            for alias in node.names:
                imported[alias.asname or alias.name] = (node.module, alias.name)
    return {
        name: origin for name, origin in imported.items() if origin[0].partition(".")[0] != "alula"
    }


def private_imports(tree: ast.Module) -> Iterator[str]:
    """Yield the modules and names of other packages that are private and imported."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            package, *inner = name.split(".")
            if package != "alula" and package != "__future__" and any(map(is_private, inner)):
                yield f"{node.lineno}: imports {name}"


def attributes_of(node: ast.expr) -> tuple[str | None, list[str]]:
    """Return the name that ``name.a.b`` begins with, and ``["a", "b"]``."""
    inner: list[str] = []
    while isinstance(node, ast.Attribute):
        inner.append(node.attr)
        node = node.value
    return (node.id if isinstance(node, ast.Name) else None), inner[::-1]


def private_attributes(tree: ast.Module, ours: set[str]) -> Iterator[str]:
    """Yield private attributes of imported objects, and those that no file of ours defines."""
    imported = imported_names(tree)
    for node in nodes_of(tree):
        name = ""
        if isinstance(node, ast.Attribute):
            root, inner = attributes_of(node)
            name = node.attr
            if is_private(name) and root in imported and inner[-1] == name:
                yield f"{node.lineno}: {ast.unparse(node)} is private in {imported[root][0]}"
                continue
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in BY_NAME and node.args[1:]:
            given = node.args[1]
            name = given.value if isinstance(given, ast.Constant) else ""
        if is_private(name) and name not in ours:
            yield f"{node.lineno}: {ast.unparse(node)}: Alula defines no {name}"


@cache  # reading source code takes long
def private_names_of(base: type) -> set[str]:
    """Return the private names of a class: its methods, and what its code sets on ``self``."""
    names: set[str] = set()
    for each in base.__mro__:
        names |= each.__dict__.keys()
        path = getattr(sys.modules[each.__module__], "__file__", None) or ""
        # As text: `inspect.getsource` parses the whole module for each class.
        code = Path(path).read_text(encoding="utf-8") if path.endswith(".py") else ""
        own = re.search(rf"^class {each.__name__}\b.*\n(?:[ )\n].*\n?|\n)*", code, re.MULTILINE)
        names |= set(SELF.findall(own[0])) if own else set()
    return {name for name in names if is_private(name)}


def private_overrides(tree: ast.Module) -> Iterator[str]:
    """Yield names that a class shares with the private ones of a base class of another package."""
    imported = imported_names(tree)
    for node in nodes_of(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        used: set[str] = set()
        for inner in ast.walk(node):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                used.add(inner.name)
            elif isinstance(inner, ast.Attribute) and attributes_of(inner)[0] in {"self", "cls"}:
                used.add(attributes_of(inner)[1][0])
        for given in node.bases:
            base = class_of(given, imported)
            if base is not None:
                for name in sorted(used & private_names_of(base)):
                    yield f"{node.lineno}: {node.name}.{name} is private in {base.__qualname__}"


def class_of(node: ast.expr, imported: dict[str, tuple[str, str | None]]) -> type | None:
    """Return the class of another package that an expression names."""
    root, inner = attributes_of(node.value if isinstance(node, ast.Subscript) else node)
    if root not in imported:
        return None
    module, name = imported[root]
    path = [*module.split("."), *([name] if name else []), *inner]
    for size in range(len(path), 0, -1):
        try:
            found: object = importlib.import_module(".".join(path[:size]))
        except ImportError:
            continue
        for part in path[size:]:
            found = getattr(found, part, None)
        return found if isinstance(found, type) else None
    return None


def complaints_about(src: Path) -> list[str]:
    trees = {
        path.relative_to(src): parse(path.read_text(encoding="utf-8"))
        for path in sorted(src.rglob("*.py"))
    }
    ours = {name for tree in trees.values() for name in names_defined_in(tree)}
    return [
        f"{path}:{complaint}"
        for path, tree in trees.items()
        for complaint in (
            *private_imports(tree),
            *private_attributes(tree, ours),
            *private_overrides(tree),
        )
    ]


def test_alula_uses_no_private_name_of_another_package():
    assert complaints_about(SRC) == []


VIOLATIONS = {
    "from a package": ("from uvicorn import _types", "imports uvicorn._types"),
    "private module": ("from pydantic._internal import _fields", "pydantic._internal._fields"),
    "plain import": ("import asyncio._private", "imports asyncio._private"),
    "attribute": ("import uvicorn\nuvicorn._x", "uvicorn._x is private in uvicorn"),
    "inner attribute": ("import uvicorn\nuvicorn.main._x", "uvicorn.main._x is private"),
    "of a class": ("from uvicorn import Server\nServer._x", "Server._x is private in uvicorn"),
    "unknown object": ("def f(server):\n    server._wait_tick()", "Alula defines no _wait_tick"),
    "by its name": ("def f(a):\n    getattr(a, '_tick', 0)", "Alula defines no _tick"),
    "override": (
        "import asyncio\nclass Loop(asyncio.BaseEventLoop):\n    def _run_once(self): ...",
        "Loop._run_once is private in BaseEventLoop",
    ),
    "attribute of the base": (
        "from collections.abc import Mapping\nfrom asyncio import Queue\n"
        "class Mine(Queue[int]):\n    def size(self): return len(self._queue)",
        "Mine._queue is private in Queue",
    ),
}


@pytest.mark.parametrize("kind", VIOLATIONS)
def test_notices_a_planted_violation(tmp_path, kind):
    text, complaint = VIOLATIONS[kind]
    (tmp_path / "planted.py").write_text(text)
    complaints = complaints_about(tmp_path)
    assert any(complaint in line for line in complaints), complaints


def test_has_nothing_to_say_about_names_of_our_own(tmp_path):
    (tmp_path / "ours.py").write_text(
        "import os\nfrom alula._app import App\nfrom . import _more\nimport zzz_not_installed\n"
        "class Mine(App, zzz_not_installed.Base, os.PathLike[str]):\n"
        "    __slots__ = ('_slot',)\n"
        "    def _method(self, other):\n"
        "        return other._slot, self._method, os._exit, getattr(other, self.name)\n"
    )
    assert complaints_about(tmp_path) == []
