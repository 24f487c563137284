"""Two measures of the code that people can agree on: short functions, and a reason for exceptions.

How long a file is, how many files there are and how many comments they have is for a reader to
judge: limits on these once wrote the code. `tests/test_floors.py` holds that imports point to lower
floors and never go in a circle.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source_code import parse

# The sources are the same with all versions of packages.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]

LONGEST_FUNCTION = 60

EXCEPTION = re.compile(r"(noqa|type: ignore|pyright: ignore)\b")


def python_files(folder: Path) -> list[Path]:
    """Find the Python files below `folder`; node_modules are not ours."""
    return sorted(path for path in folder.rglob("*.py") if "node_modules" not in path.parts)


def lines_of_functions(source: str) -> Iterator[tuple[str, int]]:
    """Yield the name of each function and the lines of its body without the docstring.

    The signature does not count: an option per line is how the formatter writes many options.
    """
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            start = first.lineno if ast.get_docstring(node) is None else first.end_lineno + 1
            yield node.name, node.end_lineno - start + 1


def without_a_reason(source: str) -> list[int]:
    """Return the lines that turn a checker off and do not say why in a comment behind it."""
    if not EXCEPTION.search(source):  # most files; splitting all into tokens takes seconds
        return []
    return [
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
        and EXCEPTION.match(token.string.rpartition("#")[2].strip())
    ]


def test_functions_are_short():
    too_long = {
        f"{path.relative_to(ROOT)}: {name}": lines
        for path in python_files(ROOT / "src")
        for name, lines in lines_of_functions(path.read_text(encoding="utf-8"))
        if lines > LONGEST_FUNCTION
    }
    assert too_long == {}


def test_exceptions_from_rules_have_a_reason():
    # in tests/typing they are the mistakes that a type checker must find
    unexplained = {
        str(path.relative_to(ROOT)): without_a_reason(path.read_text(encoding="utf-8"))
        for folder in ("src", "tests", "benchmarks", "examples")
        for path in python_files(ROOT / folder)
        if ROOT / "tests" / "typing" not in path.parents
    }
    assert {name: lines for name, lines in unexplained.items() if lines} == {}


def test_finds_exceptions_without_a_reason():
    source = """
import one  # noqa: F401
import two  # noqa: F401  # for those who import it from here
import three  # type: ignore[import-untyped]  # noqa: F401
text = "# noqa: F401"
"""
    assert without_a_reason(source) == [2, 4]


def test_counts_a_function_without_signature_and_docstring():
    source = '''
@decorated
def documented(
    value: int,
) -> int:
    """Return it.

    Really.
    """
    return value


class Room:
    async def outer(self):
        def inner():
            "one line"

        return inner

    def short(self): return "no docstring"
'''
    assert list(lines_of_functions(source)) == [
        ("documented", 1),
        ("outer", 4),
        ("short", 1),
        ("inner", 0),
    ]


def test_finds_python_files_of_our_own(tmp_path):
    (tmp_path / "node_modules").mkdir()
    for name in ("ours.py", "node_modules/foreign.py", "text.md"):
        (tmp_path / name).write_text("")
    assert python_files(tmp_path) == [tmp_path / "ours.py"]
