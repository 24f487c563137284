"""Inserts code and lines into files that the user may have changed.

Python code is edited where its syntax tree says, other files line by line. Everything else stays
as it is, comments included. What is already there is not added again.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Sequence
from typing import Final

__all__ = [
    "NoPlaceError",
    "add_after",
    "add_argument",
    "add_extra",
    "add_field",
    "add_import",
    "add_line",
    "add_literal",
    "add_statement",
    "add_whole_import",
    "append_lines",
    "import_lines",
    "literal_alias",
    "replace_line",
]

_LINE_LENGTH: Final = 100


class NoPlaceError(Exception):
    """The file has no place for what is to be added; the message says what is missing."""


# -- Python code -----------------------------------------------------------------------------------


def add_import(code: str, module: str, name: str, own: Collection[str] = ()) -> str:
    """Return code with ``from module import name``, in the order that linters ask for.

    Args:
        code: The code of a module.
        module: The module to import from.
        name: The name to import.
        own: The top-level modules of the application, whose imports come last.

    Raises:
        NoPlaceError: The code has a syntax error.
    """
    imports = [node for node in _parse(code).body if isinstance(node, ast.Import | ast.ImportFrom)]
    same = [node for node in imports if isinstance(node, ast.ImportFrom) and node.module == module]
    if any(alias.name == name and not alias.asname for node in same for alias in node.names):
        return code
    for node in same:
        # Unparsing an import drops its comments, so a commented one is left alone.
        if not node.level and "#" not in "".join(_lines(code)[node.lineno - 1 : node.end_lineno]):
            names = [ast.unparse(alias) for alias in node.names]
            lines = import_lines(module, [*names, name])
            return _insert(code, node.lineno - 1, lines, _end(node) - node.lineno + 1)
    lines = import_lines(module, [name])
    # The imports of one package stand together, and so do those of the application and of the
    # standard library.
    roots: Collection[str] = {_root(module), *(own if _root(module) in own else ())}
    if _root(module) in sys.stdlib_module_names:
        roots = sys.stdlib_module_names
    together = [node for node in imports if _root(_module(node)) in roots]
    for later in together:
        # In the standard library, `import sys` comes before `from os import path`.
        if _module(later) > module and (
            isinstance(later, ast.ImportFrom) or roots is not sys.stdlib_module_names
        ):
            return _insert(code, later.lineno - 1, lines)
    if together:
        return _insert(code, _end(together[-1]), lines)
    if imports:
        return _insert(code, _end(imports[-1]), ["", *lines])
    return _insert(code, _docstring_end(code), ["", *lines])


def add_whole_import(code: str, module: str) -> str:
    """Return code with ``import module``, for a module of the standard library.

    Raises:
        NoPlaceError: The code has a syntax error.
    """
    imports = [node for node in _parse(code).body if isinstance(node, ast.Import)]
    if any(alias.name == module and not alias.asname for node in imports for alias in node.names):
        return code
    line = f"import {module}"
    standard = [node for node in imports if _root(_module(node)) in sys.stdlib_module_names]
    for node in standard:
        if _module(node) > module:
            return _insert(code, node.lineno - 1, [line])
    if standard:
        return _insert(code, _end(standard[-1]), [line])
    return _insert(code, _docstring_end(code), ["", line])


def import_lines(module: str, names: list[str]) -> list[str]:
    """Return the lines of an import, with its names in the order of isort."""
    names = sorted(set(names), key=lambda name: (not name.isupper(), name[0].islower(), name))
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _LINE_LENGTH:
        return [line]
    return [f"from {module} import (", *(f"    {name}," for name in names), ")"]


def add_statement(code: str, function: str, statement: str) -> str:
    """Return code with a statement at the end of a top-level function, before its last return.

    Raises:
        NoPlaceError: The function does not exist, or is written on one line.
    """
    for node in _parse(code).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function:
            # Unparsed code compares without formatting and comments.
            new = ast.unparse(ast.parse(statement))
            statements = (inner for inner in ast.walk(node) if isinstance(inner, ast.stmt))
            if any(ast.unparse(inner) == new for inner in statements):
                return code
            if node.body[0].lineno == node.lineno:
                raise NoPlaceError(f"all of the function {function} is on one line")
            indent = _indent(code, node.body[0])
            lines = [f"{indent}{line}" if line else "" for line in statement.splitlines()]
            last = node.body[-1]
            at = last.lineno - 1 if isinstance(last, ast.Return) else _end(last)
            return _insert(code, at, lines)
    raise NoPlaceError(f"it has no function {function} at the top level")


def add_after(code: str, anchor: str, new: str) -> str:
    """Return code with statements after another one, at the top level or in a function.

    The code does not change if it already has the last of the new statements.

    Raises:
        NoPlaceError: The other statement is not there.
    """
    wanted, last = (ast.unparse(ast.parse(text).body[-1]) for text in (anchor, new))
    statements = [node for node in ast.walk(_parse(code)) if isinstance(node, ast.stmt)]
    if any(ast.unparse(node) == last for node in statements):
        return code
    for node in statements:
        if ast.unparse(node) == wanted:
            indent = _indent(code, node)
            return _insert(code, _end(node), [f"{indent}{line}" for line in new.splitlines()])
    raise NoPlaceError(f"it does not contain {anchor}")


def add_field(code: str, owner: str, field: str) -> str:
    """Return code with an annotated field after the last one of a top-level class.

    Raises:
        NoPlaceError: The class does not exist, or has no annotated field.
    """
    name = field.partition(":")[0]
    for node in _parse(code).body:
        if isinstance(node, ast.ClassDef) and node.name == owner:
            fields = [line for line in node.body if isinstance(line, ast.AnnAssign)]
            if any(isinstance(line.target, ast.Name) and line.target.id == name for line in fields):
                return code
            if fields:
                return _insert(code, _end(fields[-1]), [f"{_indent(code, fields[-1])}{field}"])
            raise NoPlaceError(f"the class {owner} has no field yet")
    raise NoPlaceError(f"it has no class {owner} at the top level")


def add_argument(code: str, variable: str, argument: str) -> str:
    """Return code with an argument at the end of the call that a top-level variable holds.

    Raises:
        NoPlaceError: There is no such variable, or its value is not a call with a line for each
            argument.
    """
    for node in _parse(code).body:
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Call() as call) if name == variable:
                pass
            case _:
                continue
        wanted = ast.unparse(ast.parse(argument, mode="eval"))
        if any(ast.unparse(each) == wanted for each in call.args):
            return code
        lines = _lines(code)
        last = lines[_end(node) - 2]
        if lines[_end(node) - 1].strip() != ")" or not last.endswith(","):
            raise NoPlaceError(f"{variable} is not a call with a line for each argument")
        indent = last[: len(last) - len(last.lstrip())]
        return _insert(code, _end(node) - 1, [f"{indent}{argument},"])
    raise NoPlaceError(f"it has no call {variable} = ...(...) at the top level")


def add_literal(code: str, alias: str, value: str) -> str:
    """Return code in which a top-level alias of ``Literal[...]``, or of ``str``, has a text more.

    Raises:
        NoPlaceError: There is no such alias, or it is something else, or has a comment inside.
    """
    for node in _parse(code).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == alias:
            match node.value:
                case ast.Name("str"):
                    elements: list[ast.expr] = []
                case ast.Subscript(ast.Name("Literal"), slice=ast.Tuple(several)):
                    elements = several
                case ast.Subscript(ast.Name("Literal"), slice=only):
                    elements = [only]
                case _:
                    raise NoPlaceError(f"{alias} is not Literal[...]")
            if not all(isinstance(element, ast.Constant) for element in elements):
                raise NoPlaceError(f"{alias} is not Literal[...] of texts")
            values = [ast.literal_eval(element) for element in elements]
            if value in values:
                return code
            if "#" in "".join(_lines(code)[node.lineno - 1 : node.end_lineno]):
                raise NoPlaceError(f"{alias} has a comment inside, which would be lost")
            lines = literal_alias(alias, [*values, value]).split("\n")
            code = _insert(code, node.lineno - 1, lines, _end(node) - node.lineno + 1)
            return add_import(code, "typing", "Literal")
    raise NoPlaceError(f"it has no {alias} at the top level")


def literal_alias(alias: str, values: Sequence[str]) -> str:
    """Return the lines of an alias of ``Literal``, of ``str`` if there are no values."""
    if not values:
        return f"{alias}: TypeAlias = str"
    # A line each: a change that adds one touches no other.
    if len(values) == 1:  # as ruff writes it
        return f'{alias}: TypeAlias = Literal["{values[0]}"]'
    return "\n".join([f"{alias}: TypeAlias = Literal[", *(f'    "{v}",' for v in values), "]"])


# -- other text ------------------------------------------------------------------------------------


def append_lines(text: str, *, lines: Sequence[str], unless: str = "") -> str:
    """Return text with lines at its end, unless a line starts with ``unless`` or the last of them.

    Args:
        text: The content of a file.
        lines: The lines to add.
        unless: The start of a line, the last of ``lines`` if it is empty.
    """
    if any(line.startswith(unless or lines[-1]) for line in text.splitlines()):
        return text
    if text:
        text = f"{text}{'' if text.endswith(chr(10)) else chr(10)}\n"
    return "\n".join([f"{text}{lines[0]}", *lines[1:], ""])


def add_line(text: str, *, behind: re.Pattern[str], new: str) -> str:
    """Return text with a line after another one, indented like it.

    Raises:
        NoPlaceError: No line matches ``behind``.
    """
    lines = text.splitlines()
    if any(line.strip() == new for line in lines):
        return text
    for number, line in enumerate(lines):
        if behind.fullmatch(line.strip()):
            indent = line[: len(line) - len(line.lstrip())]
            return "\n".join([*lines[: number + 1], f"{indent}{new}", *lines[number + 1 :], ""])
    raise NoPlaceError(f"no line is {behind.pattern!r}")


def replace_line(text: str, *, line: re.Pattern[str], new: str) -> str:
    """Return text with the first line that matches replaced by others, indented like it.

    The text does not change if none matches, but it has the last of the new lines.

    Raises:
        NoPlaceError: It has neither.
    """
    wanted, lines = new.split("\n"), _lines(text)
    for number, old in enumerate(lines):
        if line.fullmatch(old.strip()):
            indent = old[: len(old) - len(old.lstrip())]
            return _insert(text, number, [f"{indent}{each}" for each in wanted], 1)
    if any(old.strip() == wanted[-1] for old in lines):
        return text
    raise NoPlaceError(f"no line is {line.pattern!r}")


def add_extra(text: str, *, extra: str) -> str:
    """Return a ``pyproject.toml`` whose first requirement of Alula has a further extra.

    Raises:
        NoPlaceError: It does not require Alula.
    """
    # The name alone: in quotes, and not the start of another one such as alula-more.
    match = re.search(r"""(?<=["'])alula(?:\[([^\]]*)\])?(?=[^\w-])""", text)
    if match is None:
        raise NoPlaceError("it does not require alula")
    extras = [name.strip() for name in (match[1] or "").split(",") if name.strip()]
    if extra in extras or "all" in extras:
        return text
    return f"{text[: match.start()]}alula[{','.join([*extras, extra])}]{text[match.end() :]}"


# -- syntax trees and lines ------------------------------------------------------------------------


def _parse(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except SyntaxError as error:
        raise NoPlaceError(f"it has a syntax error in line {error.lineno}") from None


def _lines(code: str) -> list[str]:
    # Not `splitlines`: it also splits at form feeds, which are not line ends for `ast`.
    return code.replace("\r\n", "\n").split("\n")


def _insert(code: str, at: int, new: list[str], replaced: int = 0) -> str:
    """Return code in which new lines replace a number of lines."""
    lines = _lines(code)
    lines[at : at + replaced] = new
    return ("\r\n" if "\r\n" in code else "\n").join(lines)


def _indent(code: str, node: ast.stmt) -> str:
    line = _lines(code)[node.lineno - 1]
    return line[: len(line) - len(line.lstrip())]


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _docstring_end(code: str) -> int:
    body = _parse(code).body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return _end(body[0])
    return 0


def _module(node: ast.Import | ast.ImportFrom) -> str:
    if isinstance(node, ast.Import):
        return node.names[0].name
    return "." * node.level + (node.module or "")


def _root(module: str) -> str:
    return module.partition(".")[0]
