"""The measures of the house: deep rooms that a newcomer reads from top to bottom.

They follow from good rooms. If one fails, look for the room that does two jobs, or for the two
rooms that do one; never cut or glue for the figure. There is no median: a median pulls every file
down, and files that are always read together are one file. `tests/test_floors.py` holds that no
imports go in a circle.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import quantiles

import pytest

# The sources are the same with all versions of packages.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]

LONGEST_FILE = 450
P90_FUNCTION = 25
LONGEST_FUNCTION = 60
TESTS_TO_CODE = 1.5
# As many as there are: one more is a subject that a newcomer looks up, and raises this.
MOST_FILES = 348
# Shares of all functions, parameters, returns and lines of code.
PRIVATE_FUNCTIONS_USED_ONCE = 0.08
ANY_AS_PARAMETER = 0.08
ANY_AS_RETURN = 0.04
COMMENT_LINES = 0.03

EXCEPTION = re.compile(r"(noqa|type: ignore|pyright: ignore|ty: ignore)\b")
DIRECTIVE = re.compile(r"#\s*(noqa|type:|pragma|pyright|ty:)")
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


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


def functions_of(tree: ast.Module) -> list[FUNCTIONS]:
    return [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]


def private_functions_used_once(tree: ast.Module) -> list[str]:
    """Return the private functions that their module mentions once: mostly bodies with a name."""
    mentions = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    names = [function.name for function in functions_of(tree)]
    private = [name for name in names if name.startswith("_") and not name.startswith("__")]
    return [name for name in private if mentions[name] == 1]


def annotations_of(tree: ast.Module) -> tuple[list[ast.expr | None], list[ast.expr | None]]:
    """Return the annotations of all parameters but self and cls, and those of all returns."""
    functions = functions_of(tree)
    parameters = [
        parameter.annotation
        for function in functions
        for parameter in ast.walk(function.args)
        if isinstance(parameter, ast.arg) and parameter.arg not in {"self", "cls"}
    ]
    return parameters, [function.returns for function in functions if function.returns]


def share_of_any(annotations: list[ast.expr | None]) -> float:
    return sum(isinstance(each, ast.Name) and each.id == "Any" for each in annotations) / len(
        annotations
    )


def comments_and_code(source: str) -> tuple[int, int]:
    """Count the lines that are a comment alone, and those of code: no blanks, no docstrings."""
    lines = source.splitlines()
    documented = ast.Module | ast.ClassDef | FUNCTIONS
    docstrings = [
        node.body[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, documented) and ast.get_docstring(node) is not None
    ]
    spared = {line for node in docstrings for line in range(node.lineno, node.end_lineno + 1)}
    code = sum(bool(line.strip()) for at, line in enumerate(lines, 1) if at not in spared)
    comments = sum(
        token.type == tokenize.COMMENT
        and token.line.lstrip().startswith("#")
        and not DIRECTIVE.match(token.string)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
    )
    return comments, code


def without_a_reason(source: str) -> list[int]:
    """Return the lines that turn a checker off and do not say why in a comment behind it."""
    return [
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
        and EXCEPTION.match(token.string.rpartition("#")[2].strip())
    ]


def over(limit: int, lines: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in lines.items() if count > limit}


@pytest.fixture(scope="module")
def files() -> dict[str, int]:
    return lines_of_files(ROOT / "src")


@pytest.fixture(scope="module")
def sources(files) -> dict[str, str]:
    return {name: (ROOT / "src" / name).read_text(encoding="utf-8") for name in files}


@pytest.fixture(scope="module")
def trees(sources) -> dict[str, ast.Module]:
    return {name: ast.parse(source) for name, source in sources.items()}


@pytest.fixture(scope="module")
def functions(sources) -> dict[str, int]:
    return {
        f"{name}:{function} #{number}": lines
        for name, source in sources.items()
        for number, (function, lines) in enumerate(lines_of_functions(source))
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


def test_there_are_few_files(files):
    assert len(files) <= MOST_FILES


def test_private_functions_earn_their_name(trees, functions):
    count = sum(len(private_functions_used_once(tree)) for tree in trees.values())
    assert count / len(functions) <= PRIVATE_FUNCTIONS_USED_ONCE


def test_types_say_more_than_any(trees):
    parameters, returns = [], []
    for tree in trees.values():
        of_parameters, of_returns = annotations_of(tree)
        parameters += of_parameters
        returns += of_returns
    assert share_of_any(parameters) <= ANY_AS_PARAMETER
    assert share_of_any(returns) <= ANY_AS_RETURN


def test_comments_say_why(sources):
    comments, code = map(sum, zip(*map(comments_and_code, sources.values()), strict=True))
    assert comments / code >= COMMENT_LINES


def test_exceptions_from_rules_have_a_reason():
    # in tests/typing they are the mistakes that a type checker must find
    unexplained = {
        f"{folder}/{name}": without_a_reason((ROOT / folder / name).read_text(encoding="utf-8"))
        for folder in ("src", "tests", "benchmarks", "examples")
        for name in lines_of_files(ROOT / folder)
        if not (folder == "tests" and name.startswith("typing/"))
    }
    assert {name: lines for name, lines in unexplained.items() if lines} == {}


ROOM = '''
"""A room.

Of two functions.
"""

# Why it is there.
def shown(value: Any, *more: int, key: Any = None) -> Any:
    """Return it."""
    return _twice(_once(value)) or _twice(more)  # beside code


# noqa: E501
def _once(self, cls, value: dict[str, Any]) -> dict[str, Any]:

    return value


def _twice(value: "str") -> None: ...
def __dunder__(): ...
'''


def test_finds_private_functions_that_are_used_once():
    assert private_functions_used_once(ast.parse(ROOM)) == ["_once"]


def test_finds_any():
    parameters, returns = annotations_of(ast.parse(ROOM))
    assert share_of_any(parameters) == 2 / 5
    assert share_of_any(returns) == 1 / 3


def test_finds_exceptions_without_a_reason():
    source = """
import one  # noqa: F401
import two  # noqa: F401  # for those who import it from here
import three  # type: ignore[import-untyped]  # noqa: F401
text = "# noqa: F401"
"""
    assert without_a_reason(source) == [2, 4]


def test_counts_comments_and_code():
    assert comments_and_code(ROOM) == (1, 8)


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
