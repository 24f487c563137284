"""`llms.txt` tells assistants of every page, and leads to each as Markdown."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
# The overview of the reference leads to its pages, and part 1 to the other parts.
LED_TO = re.compile(r"index|reference-.*|tutorial-.*")


def test_every_page_is_listed_once():
    listed = re.findall(r"^- \[.+\]\((.+)\.md\)", (DOCS / "llms.txt").read_text(), re.MULTILINE)
    assert len(listed) == len(set(listed))
    pages = {page.stem for page in DOCS.glob("*.md")}
    assert set(listed) <= pages
    assert {page for page in pages - set(listed) if not LED_TO.fullmatch(page)} == set()
