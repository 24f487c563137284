"""Cookies as text: what is read, written and signed."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from http.cookies import SimpleCookie

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula._cookies import CookieSigner, format_cookie, parse_cookies

SECRET = "thirty-two random bytes at least"
OTHER_SECRET = "other thirty-two random bytes..."


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "cookies"),
    [
        (None, {}),
        ("", {}),
        ("a=1; b=2", {"a": "1", "b": "2"}),
        ("a=1;b=2;", {"a": "1", "b": "2"}),
        (" a = 1 ;\tb\t=\t2\t", {"a": "1", "b": "2"}),
        ("a=first; a=second", {"a": "first"}),
        ("a=; b", {"a": ""}),
        ("=nameless; a=1", {"a": "1"}),
        ('a="quoted"; b="; c="', {"a": "quoted", "b": '"', "c": '"'}),
        ('a=""', {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a=Zo%C3%AB%3B", {"a": "Zoë;"}),
        ("a=100%", {"a": "100%"}),
        ("a=%20%zz", {"a": "%20%zz"}),  # decoded as a whole or not at all, as in Express
        ("a=%ff", {"a": "%ff"}),
        ("A=1; a=2", {"A": "1", "a": "2"}),
        ("%61=1", {"%61": "1"}),  # a decoded name could become that of a protected cookie
        ("__proto__=1", {"__proto__": "1"}),
    ],
)
def test_reads_a_header(header, cookies):
    assert parse_cookies(header) == cookies


@pytest.mark.parametrize("space", ["\xa0", "\x85", "\x0b", "\x0c", "\x1f"])
def test_other_spaces_are_part_of_a_name(space):
    # A page of a subdomain may set such a cookie; here it must not stand for the protected one.
    assert "__Host-token" not in parse_cookies(f"{space}__Host-token=evil")


def test_reads_no_more_cookies_than_a_browser_keeps():
    cookies = parse_cookies("; ".join(f"c{n}=1" for n in range(10_000)))
    assert list(cookies) == [f"c{n}" for n in range(500)]


def test_a_value_longer_than_browsers_keep_is_not_decoded():
    assert parse_cookies("a=" + "%61" * 1365) == {"a": "a" * 1365}
    assert parse_cookies("a=" + "%61" * 1366) == {"a": "%61" * 1366}


def test_reads_only_the_cookie_that_is_wanted():
    header = "a=1; b=%32; b=3; c=4"
    assert parse_cookies(header, only="b") == {"b": "2"}
    assert parse_cookies(header, only="d") == {}


@given(st.text(st.characters(max_codepoint=255)))
def test_any_header_is_read(header):
    assert all(name and ";" not in name for name in parse_cookies(header))


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_whatever_is_written_is_read_again(value):
    line = format_cookie("a", value)
    assert line.isascii()
    assert line.isprintable()
    assert parse_cookies(line.partition("; ")[0]) == {"a": value}
    assert [*SimpleCookie(line)] == ["a"]


# -- writing ---------------------------------------------------------------------------------------

SAFE = "; Secure; HttpOnly; SameSite=Lax"
MIDNIGHT = datetime(2027, 1, 1, 0, 0, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, f"a=1; Path=/{SAFE}"),
        ({"max_age": 0}, f"a=1; Path=/; Max-Age=0{SAFE}"),
        ({"max_age": timedelta(minutes=1)}, f"a=1; Path=/; Max-Age=60{SAFE}"),
        ({"expires": MIDNIGHT}, f"a=1; Path=/; Expires=Thu, 31 Dec 2026 23:00:00 GMT{SAFE}"),
        ({"path": "/api/v1"}, f"a=1; Path=/api/v1{SAFE}"),
        ({"domain": "app.example"}, f"a=1; Path=/; Domain=app.example{SAFE}"),
        ({"secure": False}, "a=1; Path=/; HttpOnly; SameSite=Lax"),
        ({"http_only": False}, "a=1; Path=/; Secure; SameSite=Lax"),
        ({"same_site": "strict"}, "a=1; Path=/; Secure; HttpOnly; SameSite=Strict"),
        (
            {"same_site": "none", "partitioned": True},
            "a=1; Path=/; Secure; HttpOnly; SameSite=None; Partitioned",
        ),
    ],
)
def test_writes_a_cookie(options, line):
    assert format_cookie("a", "1", **options) == line


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("__Host-a", {}),
        ("__Secure-a", {"path": "/api", "domain": "app.example"}),
        ("__Http-a", {"path": "/api"}),
        ("__Host-Http-a", {}),
    ],
)
def test_writes_cookies_of_protected_names(name, options):
    assert format_cookie(name, "1", **options).startswith(f"{name}=1; Path=")


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("", {}, "not a name"),
        ("a b", {}, "not a name"),
        ("a=b", {}, "not a name"),
        ("a;b", {}, "not a name"),
        ("a\r\nSet-Cookie: b", {}, "not a name"),
        ("ä", {}, "not a name"),
        ("a", {"path": "api"}, "not a path"),
        ("a", {"path": "/; Domain=example"}, "not a path"),
        ("a", {"path": "/\r\n"}, "not a path"),
        ("a", {"path": "/" + "a" * 1024}, "not a path"),
        ("a", {"domain": "a b"}, "not a domain"),
        ("a", {"domain": "example; HttpOnly"}, "not a domain"),
        ("a", {"domain": "example\n"}, "not a domain"),
        ("a", {"max_age": -1}, "0 or more"),
        ("a", {"expires": datetime(2027, 1, 1)}, "time zone"),  # the mistake
        ("a", {"same_site": "Lax; Domain=example"}, "same_site is"),
        ("a", {"same_site": None}, "same_site is"),
        ("a", {"same_site": "none", "secure": False}, "needs secure=True"),
        ("a", {"partitioned": True, "secure": False}, "needs secure=True"),
        ("__Secure-a", {"secure": False}, "needs secure=True"),
        ("__secure-a", {"secure": False}, "needs secure=True"),
        ("__Host-a", {"secure": False}, "no domain"),
        ("__HOST-a", {"path": "/api"}, "no domain"),
        ("__Host-a", {"domain": "app.example"}, "no domain"),
        ("__Http-a", {"secure": False}, "needs secure=True"),
        ("__Http-a", {"http_only": False}, "http_only=True"),
        ("__Host-Http-a", {"http_only": False}, "http_only=True"),
        ("__Host-Http-a", {"path": "/api"}, "no domain"),
    ],
)
def test_what_a_browser_would_drop_is_refused(name, options, problem):
    with pytest.raises(ValueError, match=problem) as refused:
        format_cookie(name, "1", **options)
    assert repr(name) in str(refused.value)


def test_a_cookie_that_is_too_long_is_refused():
    assert format_cookie("a", "v" * 4094)
    with pytest.raises(ValueError, match="4096 bytes") as refused:
        format_cookie("a", "v" * 4095)
    assert "vvv" not in str(refused.value)  # it may be a secret


def test_a_value_that_is_no_unicode_is_refused():
    with pytest.raises(ValueError, match="surrogates"):
        format_cookie("a", "\ud800")


@pytest.mark.parametrize(
    ("name", "value", "options"),
    [
        ("a", 1, {}),
        ("a", None, {}),
        (b"a", "1", {}),
        ("a", "1", {"max_age": 1.5}),
        ("a", "1", {"max_age": "1d"}),
        ("a", "1", {"max_age": True}),
    ],
)
def test_other_types_are_refused(name, value, options):
    with pytest.raises(TypeError, match="the cookie"):
        format_cookie(name, value, **options)


# -- signing ---------------------------------------------------------------------------------------


@given(st.text())
def test_a_signed_value_is_verified(value):
    signer = CookieSigner(SECRET)
    assert signer.verify("a", signer.sign("a", value)) == value


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("b", lambda signed: signed),  # the value of another cookie
        ("a", lambda signed: signed + "x"),
        ("a", lambda signed: signed[:-1]),
        ("a", lambda signed: "8" + signed[1:]),
        ("a", lambda signed: signed.partition(".")[0]),
        ("a", lambda signed: signed.partition(".")[2]),
        ("a", lambda _: "7."),
        ("a", lambda _: ""),
        ("a", lambda _: "7.ä\ud800"),
    ],
)
def test_a_forged_value_is_refused(name, change):
    signer = CookieSigner(SECRET)
    assert signer.verify(name, change(signer.sign("a", "7"))) is None


def test_another_secret_is_refused():
    signed = CookieSigner(OTHER_SECRET).sign("a", "7")
    assert CookieSigner(SECRET).verify("a", signed) is None


def test_secrets_rotate():
    old, both = CookieSigner(OTHER_SECRET), CookieSigner([SECRET, OTHER_SECRET.encode()])
    assert both.verify("a", old.sign("a", "7")) == "7"
    assert CookieSigner(SECRET).verify("a", both.sign("a", "7")) == "7"


@pytest.mark.parametrize("secrets", ["short", b"short", [], [SECRET, "short"]])
def test_a_short_secret_is_refused(secrets):
    with pytest.raises(ValueError, match="at least 32 bytes") as refused:
        CookieSigner(secrets)
    assert "short" not in str(refused.value)


@pytest.mark.parametrize("secrets", [None, 7, {SECRET}, [SECRET, None]])
def test_a_secret_of_another_type_is_refused(secrets):
    with pytest.raises(TypeError, match="a text or bytes"):
        CookieSigner(secrets)
