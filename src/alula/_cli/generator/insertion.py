"""Adds to Python code that somebody else has written, where its syntax tree says it belongs.

Everything else stays as it is, to the last comment. What is there already is not added again.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection
from typing import Final

__all__ = [
    "NoPlaceError",
    "add_after",
    "add_field",
    "add_import",
    "add_statement",
    "add_whole_import",
]

_WIDTH: Final = 100


class NoPlaceError(Exception):
    """The code has no place for what is to be added; the text says what was looked for."""


def add_import(code: str, module: str, name: str, own: Collection[str] = ()) -> str:
    """Return code with ``from module import name``.

    Args:
        code: The code of a module.
        module: What is imported from.
        name: What is imported.
        own: The modules of the application, whose imports come last.

    Raises:
        NoPlaceError: The code can not be read.
    """
    imports = [each for each in _parse(code).body if isinstance(each, ast.Import | ast.ImportFrom)]
    same = [each for each in imports if isinstance(each, ast.ImportFrom) and each.module == module]
    names = {alias.name for each in same for alias in each.names if alias.asname is None}
    if name in names:
        return code
    for each in same:
        if not each.level and "#" not in "".join(_lines(code)[each.lineno - 1 : each.end_lineno]):
            written = [ast.unparse(alias) for alias in each.names]
            return _replace(code, each, _import(module, [*written, name]))
    new = _import(module, [name])
    ours = [each for each in imports if _root(_module(each)) in own and _root(module) in own]
    for later in ours:
        if _module(later) > module:
            return _insert(code, later.lineno - 1, new)
    if ours:
        return _insert(code, _end(ours[-1]), new)
    if imports:
        return _insert(code, _end(imports[-1]), ["", *new])
    return _insert(code, _after_docstring(code), ["", *new])


def add_whole_import(code: str, module: str) -> str:
    """Return code with ``import module``, for a module of the standard library.

    Raises:
        NoPlaceError: The code can not be read.
    """
    body = _parse(code).body
    found = [each for each in body if isinstance(each, ast.Import | ast.ImportFrom)]
    whole = [each for each in found if isinstance(each, ast.Import)]
    if any(alias.name == module and not alias.asname for each in whole for alias in each.names):
        return code
    new = f"import {module}"
    own = [each for each in whole if _root(_module(each)) in sys.stdlib_module_names]
    for later in own:
        if _module(later) > module:
            return _insert(code, later.lineno - 1, [new])
    if own:
        return _insert(code, _end(own[-1]), [new])
    return _insert(code, _after_docstring(code), ["", new])


def add_statement(code: str, function: str, statement: str) -> str:
    """Return code with a statement at the end of a function.

    Raises:
        NoPlaceError: There is no such function at the top of the module, or all of it stands on
            one line.
    """
    for each in _parse(code).body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == function:
            return _append(code, each, statement)
    raise NoPlaceError(f"there is no function {function} at the top level")


def add_after(code: str, anchor: str, statement: str) -> str:
    """Return code with a statement behind another at the top of the module.

    Raises:
        NoPlaceError: The other one is not there.
    """
    wanted, new = (ast.unparse(ast.parse(each)) for each in (anchor, statement))
    body = _parse(code).body
    if any(ast.unparse(each) == new for each in body):
        return code
    for each in body:
        if ast.unparse(each) == wanted:
            return _insert(code, _end(each), [statement])
    raise NoPlaceError(f"there is no {anchor}")


def add_field(code: str, owner: str, field: str) -> str:
    """Return code with an annotated field behind the last one of a class.

    Raises:
        NoPlaceError: There is no such class at the top of the module, or it has no such field.
    """
    name = field.partition(":")[0]
    for each in _parse(code).body:
        if isinstance(each, ast.ClassDef) and each.name == owner:
            fields = [line for line in each.body if isinstance(line, ast.AnnAssign)]
            if any(isinstance(line.target, ast.Name) and line.target.id == name for line in fields):
                return code
            if fields:
                return _insert(code, _end(fields[-1]), [f"{_indent(code, fields[-1])}{field}"])
            raise NoPlaceError(f"the class {owner} has no field yet")
    raise NoPlaceError(f"there is no class {owner} at the top level")


def _append(code: str, function: ast.FunctionDef | ast.AsyncFunctionDef, statement: str) -> str:
    new = ast.unparse(ast.parse(statement))
    if any(ast.unparse(each) == new for each in ast.walk(function) if isinstance(each, ast.stmt)):
        return code
    last = function.body[-1]
    if function.body[0].lineno == function.lineno:
        raise NoPlaceError(f"all of the function {function.name} is on one line")
    indent = _indent(code, function.body[0])
    lines = [f"{indent}{line}" if line else "" for line in statement.splitlines()]
    return _insert(code, last.lineno - 1 if isinstance(last, ast.Return) else _end(last), lines)


def _parse(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except SyntaxError as error:
        raise NoPlaceError(f"it has a syntax error in line {error.lineno}") from None


def _lines(code: str) -> list[str]:
    """Return the lines with their ends; only the ends that Python knows count."""
    return code.replace("\r\n", "\n").split("\n")


def _insert(code: str, at: int, new: list[str], skipped: int = 0) -> str:
    """Return code with further lines, in place of as many as are skipped."""
    lines = _lines(code)
    lines[at : at + skipped] = new
    return ("\r\n" if "\r\n" in code else "\n").join(lines)


def _replace(code: str, node: ast.stmt, new: list[str]) -> str:
    return _insert(code, node.lineno - 1, new, _end(node) - node.lineno + 1)


def _indent(code: str, node: ast.stmt) -> str:
    line = _lines(code)[node.lineno - 1]
    return line[: len(line) - len(line.lstrip())]


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _after_docstring(code: str) -> int:
    body = _parse(code).body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return _end(body[0])
    return 0


def _module(node: ast.Import | ast.ImportFrom) -> str:
    if isinstance(node, ast.ImportFrom):
        return node.module or ""
    return node.names[0].name


def _root(module: str) -> str:
    return module.partition(".")[0]


def _import(module: str, names: list[str]) -> list[str]:
    """Return the lines of an import, with its names in the order of linters."""
    names = sorted(set(names), key=lambda name: (not name.isupper(), name[0].islower(), name))
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _WIDTH:
        return [line]
    return [f"from {module} import (", *(f"    {name}," for name in names), ")"]
