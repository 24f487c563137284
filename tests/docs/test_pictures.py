"""The pictures of the guides are current, shown, and readable."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from scripts import pictures
from tests.docs.test_code_blocks import ROOT

DOCS = ROOT / "docs"
SVG = "{http://www.w3.org/2000/svg}"

every_picture = pytest.mark.parametrize("picture", pictures.PICTURES, ids=lambda each: each.name)


def ends_of(text: ET.Element) -> tuple[float, float]:
    """Return where a line of words begins and ends, at most."""
    kinds = text.get("class").split()
    letter = pictures.TITLE_LETTER if "title" in kinds else pictures.LETTER
    width, x = len(text.text) * letter, int(text.get("x"))
    return (x, x + width) if "start" in kinds else (x - width / 2, x + width / 2)


@every_picture
def test_the_file_is_what_the_script_draws(picture):
    hint = f"draw docs/images/{picture.file.name} anew: python -m scripts.pictures"
    assert picture.file.read_text(encoding="utf-8") == picture.svg(), hint


@every_picture
def test_the_guide_shows_the_picture(picture):
    assert f"](images/{picture.file.name})" in (DOCS / picture.page).read_text(encoding="utf-8")


@every_picture
def test_all_words_are_in_the_picture_and_in_their_box(picture):
    drawn = ET.fromstring(picture.svg())
    boxes = [shape for shape in picture.shapes if isinstance(shape, pictures.Box)]
    texts = list(drawn.iter(f"{SVG}text"))
    assert len(texts) >= len(boxes)
    for text in texts:
        start, end = ends_of(text)
        assert start >= 0, text.text
        assert end <= pictures.WIDTH, text.text
        assert int(text.get("y")) < picture.height, text.text
    for box in boxes:
        for number, line in enumerate((box.title, *box.words)):
            letter = pictures.LETTER if number else pictures.TITLE_LETTER
            assert len(line) * letter <= box.width, line


@every_picture
def test_it_has_colours_for_light_and_dark(picture):
    light, dark = picture.svg().split("@media (prefers-color-scheme: dark)")
    assert ".ground { fill: #ffffff; }" in light
    assert ".ground { fill: #17202a; }" in dark


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", DOCS / "index.md"], ids=lambda page: page.name
)
def test_the_first_pages_show_the_demo(page):
    """`scripts/demo_picture.mjs` takes the picture."""
    (shown,) = re.findall(r"\]\((\S+/demo\.png)\)", page.read_text(encoding="utf-8"))
    png = (page.parent / shown).read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(png) < 200_000
