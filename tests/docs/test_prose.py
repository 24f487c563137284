"""The language of the pages: short sentences, the field's words, and never a wall of text.

Most readers of the pages do not have English as their first language. These tests check what a
program can check of that; CONTRIBUTING.md has the rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

# The text is the same with all versions of packages.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FILES = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in FILES), *sorted((ROOT / "docs").glob("*.md"))]

MAX_WORDS_OF_A_SENTENCE = 25
MAX_WORDS_OF_A_WALL = 150

FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
LINK_TARGET = re.compile(r"\]\([^)]*\)")
BREAK = "@break"  # in place of an example, a table or a picture

FORBIDDEN = re.compile(
    r"\b(?:"
    r"can not|(?:is|are|was|were) no(?! longer)|(?-i:is none)"  # cannot, is not a
    r"|whoever|those who|who(?:se)? it is|of which|so that nobody"  # anyone who
    r"|stands? for|has to do with|have to do with|comes? into being|belongs? into"
    r"|by chance|in order(?! of)|by and by"  # random, valid, step by step
    r"|(?<!alula\.)answers?|answered|proofs?"  # response, credentials
    r")\b",
    re.IGNORECASE,
)


def prose_of(text: str) -> str:
    """Return a page without code and addresses: only words that people read."""
    return LINK_TARGET.sub("]", INLINE_CODE.sub("CODE", FENCE.sub(BREAK, text)))


def paragraphs_of(text: str) -> Iterator[str]:
    """Yield paragraphs, list items, headings and tables of a page, and a mark for each example."""
    for block in re.split(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )|\n(?=[#@])", prose_of(text)):
        if block.strip():
            yield block.strip()


def breaks_a_wall(paragraph: str) -> bool:
    """Tell whether a paragraph is a heading, a table, a picture, cards, an example or reference."""
    return paragraph.startswith(("#", "|", "![", ":::", "<div", "</div", BREAK))


def forbidden_in(text: str) -> list[str]:
    """Return the forbidden phrases of a page, each with the words around it."""
    prose = " ".join(prose_of(text).split())
    return [
        prose[max(0, match.start() - 30) : match.end() + 30] for match in FORBIDDEN.finditer(prose)
    ]


def long_sentences_of(text: str) -> list[str]:
    """Return the sentences of running text that have too many words."""
    sentences = (
        sentence
        for paragraph in paragraphs_of(text)
        if not breaks_a_wall(paragraph)
        for sentence in re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph.split()))
    )
    return [text for text in sentences if len(text.split()) > MAX_WORDS_OF_A_SENTENCE]


def walls_of(text: str) -> list[str]:
    """Return where a page has too much text without an example, a table, a picture or a heading."""
    walls, words = [], 0
    for paragraph in paragraphs_of(text):
        words = 0 if breaks_a_wall(paragraph) else words + len(paragraph.split())
        if words > MAX_WORDS_OF_A_WALL:
            walls.append(f"{words} words until: {paragraph[:60]}")
    return walls


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
class TestPage:
    def test_has_no_forbidden_phrase(self, page):
        assert forbidden_in(page.read_text(encoding="utf-8")) == []

    def test_has_short_sentences(self, page):
        assert long_sentences_of(page.read_text(encoding="utf-8")) == []

    def test_has_no_wall_of_text(self, page):
        assert walls_of(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "phrase",
    [
        "It can not be.",
        "It is no service.",
        "Whoever calls it.",
        "It is in\norder.",
        "| those who |",
    ],
)
def test_a_forbidden_phrase_is_noticed(phrase):
    assert len(forbidden_in(f"Before.\n\n{phrase}\n")) == 1


@pytest.mark.parametrize(
    "text", ["`is no`", "```text\nis no\n```", "It is no longer.", "[x](is-no)"]
)
def test_code_and_other_words_are_not_forbidden(text):
    assert forbidden_in(text) == []


def test_a_long_sentence_is_noticed():
    assert len(long_sentences_of("word " * 26 + ".")) == 1
    assert long_sentences_of("word " * 20 + "end. " + "word " * 20 + "end.") == []


@pytest.mark.parametrize(
    ("between", "count"),
    [("", 1), ("```text\nx\n```", 0), ("| a |\n|---|", 0), ("![a](a.svg)", 0), ("## Heading", 0)],
)
def test_a_wall_is_noticed(between, count):
    text = "word " * 100
    assert len(walls_of(f"{text}\n\n{between}\n\n{text}\n")) == count
