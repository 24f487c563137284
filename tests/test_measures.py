"""The measures of the house: no file or function too long to read, more tests than code.

They follow from good rooms. Where one fails, look for the room that does two jobs; never cut or
glue for the figure. There is no median: a median pulls every file down, and files that are always
read together are one file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import quantiles

import pytest

ROOT = Path(__file__).parents[1]

LONGEST_FILE = 450
P90_FUNCTION = 25
LONGEST_FUNCTION = 60
TESTS_TO_CODE = 1.5


def lines_of_files(folder: Path) -> dict[str, int]:
    """Count the lines of each Python file below `folder`; node_modules are not ours."""
    return {
        str(path.relative_to(folder)): len(path.read_text(encoding="utf-8").splitlines())
        for path in sorted(folder.rglob("*.py"))
        if "node_modules" not in path.parts
    }


def lines_of_functions(source: str) -> Iterator[tuple[str, int]]:
    """Yield the name of each function and its lines without the docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            docstring = ast.get_docstring(node) is not None
            spared = first.end_lineno - first.lineno + 1 if docstring else 0
            yield node.name, node.end_lineno - node.lineno + 1 - spared


def over(limit: int, lines: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in lines.items() if count > limit}


@pytest.fixture(scope="module")
def files() -> dict[str, int]:
    return lines_of_files(ROOT / "src")


@pytest.fixture(scope="module")
def functions(files) -> dict[str, int]:
    return {
        f"{name}:{function} #{number}": lines
        for name in files
        for number, (function, lines) in enumerate(
            lines_of_functions((ROOT / "src" / name).read_text(encoding="utf-8"))
        )
    }


def test_files_are_short(files):
    assert over(LONGEST_FILE, files) == {}


def test_functions_are_short(functions):
    p90 = quantiles(functions.values(), n=10, method="inclusive")[-1]
    assert over(LONGEST_FUNCTION, functions) == {}
    assert p90 <= P90_FUNCTION


def test_there_are_more_tests_than_code(files):
    code, tests = (sum(lines_of_files(ROOT / folder).values()) for folder in ("src", "tests"))
    assert tests >= TESTS_TO_CODE * code


def test_counts_a_function_without_its_docstring():
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
        ("documented", 4),
        ("outer", 5),
        ("short", 1),
        ("inner", 1),
    ]


def test_counts_the_lines_of_python_files_of_our_own(tmp_path):
    (tmp_path / "node_modules").mkdir()
    for name in ("long.py", "node_modules/foreign.py", "text.md"):
        (tmp_path / name).write_text("line\n" * 451)
    (tmp_path / "short.py").write_text("line\n" * 450)
    lines = lines_of_files(tmp_path)
    assert lines == {"long.py": 451, "short.py": 450}
    assert over(LONGEST_FILE, lines) == {"long.py": 451}
