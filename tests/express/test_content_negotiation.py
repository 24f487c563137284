"""Accept headers against what an answer can be."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.express._headers import best_match, media_type, quality_of

BEST = {
    "no header takes the first": (None, ["json", "html"], "json"),
    "empty header takes the first": ("", ["html", "json"], "html"),
    "blank header takes the first": ("  ", ["html"], "html"),
    "nothing offered": (None, [], None),
    "nothing offered, something wanted": ("*/*", [], None),
    "exactly": ("text/html", ["json", "html"], "html"),
    "none fits": ("image/png", ["json", "html"], None),
    "anything": ("*/*", ["json", "html"], "json"),
    "family": ("text/*", ["json", "html", "text"], "html"),
    "other family": ("image/*", ["json"], None),
    "quality": ("text/html;q=0.3, application/json;q=0.7", ["html", "json"], "json"),
    "quality with spaces": ("text/html ; q = 0.3,application/json", ["html", "json"], "json"),
    "quality in upper case": ("text/html;Q=0.3,application/json;q=0.2", ["json", "html"], "html"),
    "precision, then": ("*/*, text/html", ["json", "html"], "html"),
    "family before anything": ("*/*, text/*", ["json", "html"], "html"),
    "place in the header, then": ("text/plain, application/json", ["json", "text"], "text"),
    "order of the offer at last": ("text/*", ["text", "html"], "text"),
    "refused": ("application/json;q=0", ["json"], None),
    "all but one": ("*/*, application/json;q=0", ["json", "html"], "html"),
    "all but one, first": ("application/json;q=0, */*", ["json"], None),
    "precise quality counts": ("application/json;q=0.1, */*;q=0.5", ["json", "html"], "html"),
    "as browsers send it": (
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        ["json", "html"],
        "html",
    ),
    "case of names": ("Application/JSON", ["json"], "json"),
    "parameters of the range": ("application/json;charset=utf-8", ["json"], "json"),
    "parameters of the offer": (
        "text/csv",
        ["text/csv; header=present"],
        "text/csv; header=present",
    ),
    "parameters of the offer after a space": ("text/csv", ["text/csv ; a=b"], "text/csv ; a=b"),
    "case of the offer": ("text/csv", ["Text/CSV"], "Text/CSV"),
    "names in full": ("image/png", ["application/json", "image/png"], "image/png"),
    "no quality": ("text/html;q=x, application/json;q=0.1", ["html", "json"], "json"),
    "quality over 1": ("text/html;q=7, application/json", ["json", "html"], "html"),
    "quality below 0": ("text/html;q=-1", ["html"], None),
    "quality NaN": ("text/html;q=nan", ["html"], None),
    "only commas": (",,,", ["json"], None),
    "no slash": ("json", ["json"], None),
}


@pytest.mark.parametrize(("accept", "offered", "best"), BEST.values(), ids=BEST)
def test_best_match(accept, offered, best):
    assert best_match(accept, offered) == best


def test_reads_the_first_hundred_wishes():
    assert best_match("text/html," * 99 + "application/json", ["json"]) == "json"
    assert best_match("text/html," * 100 + "application/json", ["json"]) is None
    assert quality_of("br," * 99 + "gzip", ["gzip"]) == 1
    assert quality_of("br," * 100 + "gzip", ["gzip"]) == 0


@given(st.text(alphabet="aqt*/;=,. 01", max_size=40) | st.text())
def test_takes_any_header(accept):
    assert best_match(accept, ["json", "html"]) in {"json", "html", None}


@given(st.permutations(["text/html;q=0.9", "application/json;q=0.8", "*/*;q=0.1"]))
def test_different_qualities_make_the_order_of_the_header_unimportant(parts):
    assert best_match(",".join(parts), ["xml", "json", "html"]) == "html"


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("json", "application/json"),
        ("html", "text/html"),
        ("text", "text/plain"),
        ("xml", "application/xml"),
        ("csv", "text/csv"),
        ("image/png", "image/png"),
        ("text/html; charset=latin-1", "text/html; charset=latin-1"),
    ],
)
def test_media_type(name, full):
    assert media_type(name) == full


@pytest.mark.parametrize("name", ["png", "", "JSON"])
def test_a_short_name_that_is_not_known_is_an_error(name):
    with pytest.raises(ValueError, match="such as 'image/png', or one of json"):
        media_type(name)
    with pytest.raises(ValueError, match="is not a media type"):
        best_match("*/*", [name])


@pytest.mark.parametrize(
    ("header", "quality"),
    [
        ("gzip", 1),
        ("deflate, GZIP;q=0.5, br", 0.5),
        ("x-gzip", 1),
        ("gzip;q=0", 0),
        ("gzip;q=0.0, *", 0),
        ("br", 0),
        ("", 0),
        ("*", 0),
        ("gzipped", 0),
        ("gzip;q=0, x-gzip;q=0.2", 0.2),
    ],
)
def test_quality(header, quality):
    assert math.isclose(quality_of(header, ("gzip", "x-gzip")), quality)
