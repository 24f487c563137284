"""Every Python block of the README and of the documentation runs, in the order of its page."""

import re
from pathlib import Path

import pytest
from tests.requirements import require_mongod

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# A block below a line with the name of a file is that file, and not run by itself.
FILE = re.compile(r"^`([\w/]+\.py)`:\n\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROJECTS = [page for page in PAGES if FILE.search(page.read_text())]


def blocks_of(text: str) -> list[tuple[int, str]]:
    """Return the line before each block, and its code."""
    files = {block.start(2) for block in FILE.finditer(text)}
    return [
        (text.count("\n", 0, block.start(1)), block[1])
        for block in BLOCK.finditer(text)
        if block.start(1) not in files
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
    for line, code in blocks_of(page.read_text()):
        # Blank lines in front give errors the line of the page.
        exec(compile("\n" * line + code, str(page), "exec"), namespace)


def test_blocks_are_read_with_their_lines():
    text = "# Title\n\n```python\nx = 1\n```\n\n```console\n$ ls\n```\n```python\ny = 2\n```\n"
    assert blocks_of(text) == [(3, "x = 1\n"), (10, "y = 2\n")]


def test_files_are_written_and_not_run(tmp_path):
    text = "`a/b.py`:\n\n```python\n1 / 0\n```\n\n```python\ny = 2\n```\n"
    assert blocks_of(text) == [(7, "y = 2\n")]
    (path,) = write_files(text, tmp_path)
    assert (path, path.read_text()) == (tmp_path / "a" / "b.py", "1 / 0\n")


def test_a_failing_block_fails_its_page(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nassert 1 == 2\n```\n")
    with pytest.raises(AssertionError):
        test_the_code_of_a_page_runs(page, monkeypatch, tmp_path)
