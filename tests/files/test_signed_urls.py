"""A signed URL opens one resource, by one method, for some time."""

from __future__ import annotations

import time
from urllib.parse import parse_qsl

import pytest

from alula.errors import Forbidden
from alula.files import UrlSigner

SECRET = "thirty-two random bytes at least"
SIGNER = UrlSigner(SECRET)


def signed(path="/uploads/7/content", **options):
    """Return the query of a signed URL."""
    url = SIGNER.sign(path, **options)
    assert url.startswith(f"{path}?")
    return dict(parse_qsl(url.partition("?")[2]))


@pytest.mark.parametrize("method", ["GET", "HEAD", "get"])
def test_what_was_signed_is_valid(method):
    SIGNER.check(method, "/uploads/7/content", signed())


@pytest.mark.parametrize(
    "path", ["//uploads/7/content/", "/uploads/%37/content", "/uploads//7/content"]
)
def test_another_spelling_of_the_path_is_the_same_resource(path):
    SIGNER.check("GET", path, signed())


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/uploads/8/content"),
        ("GET", "/uploads/7"),
        ("GET", "/uploads%2F7/content"),
        ("GET", "/uploads/7%2Fcontent"),
        ("GET", "/Uploads/7/content"),
        ("DELETE", "/uploads/7/content"),
    ],
)
def test_nothing_else_is(method, path):
    with pytest.raises(Forbidden, match="signature of this URL is not valid"):
        SIGNER.check(method, path, signed())


@pytest.mark.parametrize(
    "change",
    [
        {"expires": "99999999999"},
        {"expires": "1e9"},
        {"expires": "٣"},
        {"expires": ["1"]},
        {"expires": None},
        {"signature": ""},
        {"signature": "ä"},
        {"signature": "\ud800"},
        {"signature": ["a"]},
    ],
)
def test_a_changed_query_is_refused(change):
    with pytest.raises(Forbidden, match="signature"):
        SIGNER.check("GET", "/uploads/7/content", {**signed(), **change})


def test_it_expires(monkeypatch):
    query, now = signed(expires_in=60), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 59)
    SIGNER.check("GET", "/uploads/7/content", query)
    monkeypatch.setattr(time, "time", lambda: now + 62)
    with pytest.raises(Forbidden, match="has expired"):
        SIGNER.check("GET", "/uploads/7/content", query)


def test_the_time_of_the_signer():
    url = UrlSigner(SECRET.encode(), expires_in=10).sign("/a")
    expires = int(dict(parse_qsl(url.partition("?")[2]))["expires"])
    assert 9 <= expires - time.time() <= 11


def test_methods_have_signatures_of_their_own():
    assert signed(method="DELETE")["signature"] != signed()["signature"]


def test_another_secret_signs_differently():
    with pytest.raises(Forbidden):
        UrlSigner("another secret of thirty-two bytes").check("GET", "/a", signed("/a"))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"secret": "short"}, ValueError, "5 bytes; give at least 32"),
        ({"secret": None}, TypeError, "not of type NoneType"),
        ({"secret": SECRET, "expires_in": 0}, ValueError, "expires_in is 0"),
        ({"secret": SECRET, "expires_in": True}, ValueError, "expires_in is True"),
        ({"secret": SECRET, "expires_in": float("nan")}, ValueError, "expires_in is nan"),
    ],
)
def test_arguments_that_are_not_valid(options, error, message):
    with pytest.raises(error, match=message):
        UrlSigner(**options)


@pytest.mark.parametrize("path", ["uploads/7", "/a?b", "/a#b", "https://host.example/a"])
def test_what_is_not_a_path_is_not_signed(path):
    with pytest.raises(ValueError, match="is not a path"):
        SIGNER.sign(path)


def test_its_repr_has_no_secret():
    assert repr(SIGNER) == "UrlSigner(...)"
