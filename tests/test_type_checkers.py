"""Every mistake in `tests/typing` is found, and nothing else is complained about.

The code of the pages has none. In `tests/typing`, a `type: ignore` marks a mistake. mypy tells of
those that it does not find; the other checkers do not, so they read the files without these
comments.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from tests.docs.test_code_blocks import COMPLETE, PAGES, blocks_of
from tests.requirements import absent

pytestmark = [pytest.mark.slow, pytest.mark.untraced]

# `make test` runs one type checker.
of_a_release = pytest.mark.release

FOLDER = Path(__file__).parent / "typing"
MISTAKE = re.compile(r"\s*# type: ignore\[.*$")
# ty does not look at the keywords of `**given: Unpack[GivenParams]` yet.
UNSEEN_BY_TY = "# a keyword"
# Rules of strict checkers that do not hold for pages; all others do, for each function and class.
NOT_OF_PAGES = [
    # Pages read results that are there, as their examples have just made them.
    "reportOptionalMemberAccess",
    "reportOptionalSubscript",
    # The blocks of a page use names like `main` again.
    "reportRedeclaration",
    # The arguments of a lambda have no types, nor has what is made of them.
    "reportUnknownArgumentType",
    "reportUnknownVariableType",
    "reportUnknownLambdaType",
    "reportUnknownMemberType",
]
NOT_OF_PAGES_BY_MYPY = [
    "union-attr",
    "index",  # what pyright calls reportOptionalSubscript
    "no-redef",  # as above
    "return",  # pyright sees that the other ways out of a function end by an exception
    # What a service without types returns is `Any`; the function says what the reader may expect.
    "no-any-return",
]
OPTIONAL_OF_TY = ["missing-union-attribute", "not-subscriptable"]

Place = tuple[str, int]


def mistakes(*, without: str | None = None) -> set[Place]:
    """Return the file and the line of each mistake, without those that have a certain comment."""
    return {
        (path.name, number)
        for path in FOLDER.glob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if MISTAKE.search(line) and not (without and line.endswith(without))
    }


@pytest.fixture
def unmarked(tmp_path) -> Path:
    """A folder with the files, in which no comment marks the mistakes."""
    for path in FOLDER.glob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        (tmp_path / path.name).write_text("\n".join(MISTAKE.sub("", line) for line in lines))
    return tmp_path


def run(folder: Path, name: str, *arguments: str) -> str:
    program = Path(sys.executable).with_name(name)
    if not program.exists():
        absent(f"no {name}: its view of the types is not looked at")
    return subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, check=False
    ).stdout


def found_by_pyright(folder: Path, mode: str, without: Collection[str] = ()) -> Iterator[Place]:
    settings = {"typeCheckingMode": mode, "pythonVersion": "3.11"}
    settings |= dict.fromkeys(without, "none")
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    report = json.loads(run(folder, "pyright", "--pythonpath", sys.executable, "--outputjson"))
    for diagnostic in report["generalDiagnostics"]:
        if diagnostic["severity"] == "error":
            yield Path(diagnostic["file"]).name, diagnostic["range"]["start"]["line"] + 1


# `make lint` has strict pyright read the same files, without their mistakes.
@pytest.mark.parametrize("mode", ["standard", pytest.param("strict", marks=of_a_release)])
def test_pyright_finds_the_mistakes(unmarked, mode):
    assert set(found_by_pyright(unmarked, mode)) == mistakes()


def found_by_ty(folder: Path, *arguments: str) -> Iterator[Place]:
    output = run(
        folder,
        "ty",
        "check",
        "--python",
        sys.prefix,
        "--python-version",
        "3.11",
        "--output-format",
        "concise",
        *arguments,
        ".",
    )
    for name, line in re.findall(r"^([\w-]+\.py):(\d+):\d+: error", output, re.MULTILINE):
        yield name, int(line)


@of_a_release
def test_ty_finds_the_mistakes(unmarked):
    assert set(found_by_ty(unmarked)) == mistakes(without=UNSEEN_BY_TY)


@pytest.fixture
def pages(tmp_path) -> Path:
    """A folder with a file for each page, whose code has the lines of the page."""
    for page in PAGES:
        lines: list[str] = []
        # Without the first part, `types.py` would be the module of Python.
        name = f"page_{page.stem.replace('-', '_')}"
        for before, code, _ in blocks_of(page.read_text(encoding="utf-8")):
            if page.name in COMPLETE:
                lines, name = [], f"page_{page.stem}_{before}"
            lines += [""] * (before - len(lines)) + code.splitlines()
            (tmp_path / f"{name}.py").write_text("\n".join(lines))
    (tmp_path / "wrong.py").write_text(
        "import alula\n\nalula.App().servce(1)\n\n\ndef slack(value): return value\n"
    )
    return tmp_path


def test_pyright_accepts_the_code_of_the_pages(pages):
    places = set(found_by_pyright(pages, "strict", NOT_OF_PAGES))
    assert places == {("wrong.py", 3), ("wrong.py", 6)}


@of_a_release
def test_mypy_accepts_the_code_of_the_pages(pages):
    rules = [
        argument for rule in NOT_OF_PAGES_BY_MYPY for argument in ("--disable-error-code", rule)
    ]
    cache = ("--cache-dir", str(pages.parent / "mypy"))
    output = run(
        pages, "mypy", "--strict", "--config-file=", "--no-error-summary", *cache, *rules, "."
    )
    places = {
        (name, int(line))
        for name, line in re.findall(r"^([\w]+\.py):(\d+): error", output, re.MULTILINE)
    }
    assert places == {("wrong.py", 3), ("wrong.py", 6)}, output


@of_a_release
def test_ty_accepts_the_code_of_the_pages(pages):
    ignored = [argument for rule in OPTIONAL_OF_TY for argument in ("--ignore", rule)]
    assert set(found_by_ty(pages, *ignored)) == {("wrong.py", 3)}


def test_there_are_as_many_mistakes_as_right_uses():
    uses = sum(
        path.read_text(encoding="utf-8").count("assert_type(") for path in FOLDER.glob("*.py")
    )
    assert uses + len(mistakes()) >= 300
    assert len(mistakes()) >= 130
