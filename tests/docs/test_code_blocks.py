"""Every Python block of the README and of the documentation runs, in the order of its page."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.requirements import require_mongod

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# A block of text directly below a block of code is what the code prints.
OUTPUT = re.compile(r"\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
# On these pages each block runs on its own: people copy them one at a time.
COMPLETE = {
    "admin.md",
    "common-hooks.md",
    "endpoints.md",
    "errors.md",
    "from-django.md",
    "from-pocketbase.md",
    "from-sqlalchemy.md",
    "from-supabase.md",
    "hooks.md",
    "index.md",
    "middleware.md",
    "recipes.md",
    "resolvers.md",
    "schemas.md",
    "services.md",
    "web.md",
}
# A block below a line with the name of a file is that file, and not run by itself.
FILE = re.compile(r"^`([\w/]+\.py)`:\n\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# `test_tutorial` runs the files of the tutorial.
PROJECTS = [
    page for page in PAGES if FILE.search(page.read_text()) and not page.name.startswith("tutorial")
]


class Block(NamedTuple):
    """A block of code of a page."""

    line: int  # the line before it
    code: str
    output: str | None  # what it prints, if the page shows that


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of code that are not files."""
    files = {block.start(2) for block in FILE.finditer(text)}
    blocks = [block for block in BLOCK.finditer(text) if block.start(1) not in files]
    shown = [OUTPUT.match(text, block.end()) for block in blocks]
    return [
        Block(text.count("\n", 0, block.start(1)), block[1], output and output[1])
        for block, output in zip(blocks, shown, strict=True)
    ]


def write_files(text: str, folder: Path) -> list[Path]:
    """Write the files of a page, in their places, and return their paths."""
    paths = []
    for name, code in FILE.findall(text):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
        paths.append(path)
    return paths


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page, monkeypatch, tmp_path):
    if "LocalServer" in page.read_text():
        require_mongod()
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "documentation"}
    for block in blocks_of(page.read_text()):
        if page.name in COMPLETE:
            namespace = {"__name__": "documentation"}
        # Blank lines in front give errors the line of the page.
        program = compile("\n" * block.line + block.code, str(page), "exec")
        if block.output is None:
            exec(program, namespace)
            continue
        with redirect_stdout(StringIO()) as printed:
            exec(program, namespace)
        assert printed.getvalue() == block.output


def test_blocks_are_read_with_their_lines():
    text = "# Title\n\n```python\nx = 1\n```\n\n```console\n$ ls\n```\n```python\ny = 2\n```\n"
    assert blocks_of(text) == [(3, "x = 1\n", None), (10, "y = 2\n", None)]


def test_files_are_written_and_not_run(tmp_path):
    text = "`a/b.py`:\n\n```python\n1 / 0\n```\n\n```python\ny = 2\n```\n"
    assert blocks_of(text) == [(7, "y = 2\n", None)]
    (path,) = write_files(text, tmp_path)
    assert (path, path.read_text()) == (tmp_path / "a" / "b.py", "1 / 0\n")


def test_a_failing_block_fails_its_page(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nassert 1 == 2\n```\n")
    with pytest.raises(AssertionError):
        test_the_code_of_a_page_runs(page, monkeypatch, tmp_path)


def test_a_page_that_shows_other_output_fails(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```text\n1\n```\n")
    test_the_code_of_a_page_runs(page, monkeypatch, tmp_path)
    page.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    with pytest.raises(AssertionError):
        test_the_code_of_a_page_runs(page, monkeypatch, tmp_path)


def test_blocks_of_some_pages_run_on_their_own(monkeypatch, tmp_path):
    text = "```python\nx = 1\n```\n\n```python\nx\n```\n"
    page, complete = tmp_path / "page.md", tmp_path / "recipes.md"
    page.write_text(text)
    complete.write_text(text)
    test_the_code_of_a_page_runs(page, monkeypatch, tmp_path)
    with pytest.raises(NameError):
        test_the_code_of_a_page_runs(complete, monkeypatch, tmp_path)
