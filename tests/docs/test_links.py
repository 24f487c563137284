"""Every link, anchor and picture of the built pages and of the files at the root leads somewhere.

External addresses are only parsed; no request is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown.extensions.toc import slugify
from tests.docs.test_code_blocks import FILE

ROOT = Path(__file__).parents[2]
FILES = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
OUR_FILE = re.compile(r"`((?:tests|docs|src|examples|benchmarks|scripts|requirements)/[\w/.-]+)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


class Page(HTMLParser):
    """What a page links to, and what in it can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if attributes.get("id"):
            self.anchors.add(attributes["id"])
        for name in ("href", "src"):
            if name in attributes:
                self.links.append(attributes[name] or "")


def is_external_address(link: str) -> bool:
    """Tell whether an external address is valid."""
    parts = urlsplit(link)
    return parts.scheme in {"http", "https"} and "." in parts.netloc and " " not in link


def broken_links(site: Path) -> Iterator[str]:
    """Yield a line for each link of a site that leads nowhere."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for link in sorted(set(page.links)):
            if path.name != "404.html" and not leads_somewhere(link, path, pages):
                yield f"{path.relative_to(site)}: {link}"


def leads_somewhere(link: str, path: Path, pages: dict[Path, Page]) -> bool:
    """Tell whether a link of a page leads to a file, and to an anchor that is there."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return is_external_address(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target.suffix != ".html" or anchor in pages[target].anchors


def broken_in(file: Path) -> Iterator[str]:
    """Yield each link of a Markdown file that leads nowhere."""
    for match in LINK.finditer(FENCE.sub("", file.read_text(encoding="utf-8"))):
        link = match[1] or match[2]
        parts = urlsplit(link)
        target = file.parent / parts.path if parts.path else file
        if parts.scheme:
            if not is_external_address(link):
                yield link
        elif not target.exists() or (parts.fragment and parts.fragment not in anchors_of(target)):
            yield link


def anchors_of(file: Path) -> set[str]:
    """Return the anchors that the headings of a Markdown file get."""
    headings = HEADING.findall(FENCE.sub("", file.read_text(encoding="utf-8")))
    return {slugify(re.sub(r"[`*]", "", heading), "-") for heading in headings}


def test_every_link_of_the_pages_leads_somewhere(site):
    assert list(broken_links(site.resolve())) == []


def test_all_pages_are_built(site):
    sources = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert {path.stem for path in site.glob("*.html")} == sources | {"404"}


def test_the_pages_load_nothing_from_elsewhere(site):
    loaded = {
        link
        for path in site.rglob("*.html")
        for link in re.findall(
            r'<(?:script|img|iframe|link)[^>]* (?:src|href)="([^"]*)"', path.read_text()
        )
    }
    assert [link for link in loaded if urlsplit(link).netloc] == []


@pytest.mark.parametrize("name", FILES)
def test_every_link_of_a_file_leads_somewhere(name):
    assert list(broken_in(ROOT / name)) == []


@pytest.mark.parametrize(
    "page", [*FILES, *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))]
)
def test_every_file_that_a_page_names_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    written_here = {match[0] for match in FILE.findall(text)}  # files of the page itself
    named = set(OUR_FILE.findall(text)) - written_here
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_a_broken_link_is_noticed(tmp_path):
    (tmp_path / "other.html").write_text('<p id="there"></p>')
    (tmp_path / "index.html").write_text(
        '<a href="other.html#there"></a><a href="other.html#nowhere"></a><img src="lost.png">'
        '<a href="#gone"></a><a href="https://host.example/x"></a><a href="http:/slip"></a>'
        '<a href="."></a>'
    )
    broken = {line.partition(": ")[2] for line in broken_links(tmp_path.resolve())}
    assert broken == {"other.html#nowhere", "lost.png", "#gone", "http:/slip"}


def test_a_broken_link_of_a_file_is_noticed(tmp_path):
    (tmp_path / "other.md").write_text("# The `one` heading\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#the-one-heading) [b](other.md#another) [c](lost.md) [d](#here)\n\n# Here\n"
        "```text\n[e](lost.md)\n```\n[f]: https://host.example\n"
    )
    assert list(broken_in(page)) == ["other.md#another", "lost.md"]
