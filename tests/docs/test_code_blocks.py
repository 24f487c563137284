"""Every Python block of the README and of the documentation runs, in the order of its page."""

import re
from pathlib import Path

import pytest
from tests.requirements import require_mongod

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks_of(text: str) -> list[tuple[int, str]]:
    """Return the line before each block, and its code."""
    return [(text.count("\n", 0, found.start(1)), found[1]) for found in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page, monkeypatch, tmp_path):
    if "LocalServer" in page.read_text():
        require_mongod()
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "documentation"}
    for line, code in blocks_of(page.read_text()):
        # Blank lines in front give errors the line of the page.
        exec(compile("\n" * line + code, str(page), "exec"), namespace)


def test_blocks_are_found_with_their_lines():
    text = "# Title\n\n```python\nx = 1\n```\n\n```console\n$ ls\n```\n```python\ny = 2\n```\n"
    assert blocks_of(text) == [(3, "x = 1\n"), (10, "y = 2\n")]


def test_a_failing_block_fails_its_page(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nassert 1 == 2\n```\n")
    with pytest.raises(AssertionError):
        test_the_code_of_a_page_runs(page, monkeypatch, tmp_path)


def test_links_between_pages_lead_somewhere():
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []
