"""The way to a provider: where the browser may return to, what is remembered, who may link."""

from __future__ import annotations

import importlib
import re
import sys
import time
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from tests.accounts.building import make_world
from tests.accounts.providing import BASE, PAGE, MemoryProvider, error_of, make_site, started_site

from alula.accounts._oauth._pages import Pages
from alula.accounts._oauth._starts import Start
from alula.authentication import TokenCookie
from alula.errors import BadRequest, MethodNotAllowed

HERE = {"referer": "https://app.example/app/login"}


@pytest.fixture
async def site():
    site = await started_site()
    yield site
    await site.world.app.teardown()


# -- the redirect ----------------------------------------------------------------------------------

BELOW = {
    "notes/1": "https://app.example/app/notes/1",
    "?a=b": "https://app.example/app/?a=b",
    "welcome?a=b&c=//d": "https://app.example/app/welcome?a=b&c=//d",
    "@evil.example": "https://app.example/app/@evil.example",
    ".evil.example": "https://app.example/app/.evil.example",
    "/app/notes": "https://app.example/app/notes",
    "a b": "https://app.example/app/a%20b",
    "\u00e4": "https://app.example/app/%C3%A4",
    "100%": "https://app.example/app/100%",
    "": PAGE,
    None: PAGE,
}


@pytest.mark.parametrize("redirect", BELOW)
def test_places_below_the_page(redirect):
    assert Pages([PAGE], BASE).resolve(redirect, None) == BELOW[redirect]


ELSEWHERE = [
    "https://evil.example/",
    "https:evil.example",
    "HTTPS://evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    "//evil.example",
    "///evil.example",
    "\\\\evil.example",
    "/\\evil.example",
    "/%5Cevil.example",
    "%2F%2Fevil.example",
    "%252F%252Fevil.example",
    "/%09/evil.example",
    "/\t/evil.example",
    "\n//evil.example",
    " //evil.example",
    "notes ",
    "\u00a0notes",
    "a\u0000b",
    "a%00b",
    "a\u2028b",
    "a//evil.example",
    "..",
    "../admin",
    "../../admin",
    "./notes",
    "notes/../../admin",
    "%2e%2e/admin",
    "%2E%2E/%2e%2e/admin",
    ".%2e/admin",
    "%252e%252e/admin",
    "..%2fadmin",
    "%25252e%25252e/admin",
    "/admin",
    "/",
    "/application",
    "#/route",
    "notes#x",
    "\ud800",
    "a" * 501,
    "\u00e4" * 100,
]


@pytest.mark.parametrize("redirect", ELSEWHERE, ids=ascii)
def test_other_places_are_refused(redirect):
    with pytest.raises(BadRequest, match="redirect"):
        Pages([PAGE], BASE).resolve(redirect, None)


@pytest.mark.parametrize("redirect", [["a"], ["a", "b"], {"a": "b"}, 5, True])
def test_a_redirect_is_one_text(redirect):
    with pytest.raises(BadRequest, match="one text"):
        Pages([PAGE], BASE).resolve(redirect, None)


def test_a_page_without_a_slash():
    pages = Pages(["https://app.example", "http://localhost:3000/in"], BASE)
    assert pages.resolve(None, None) == "https://app.example/"
    assert pages.resolve("welcome", None) == "https://app.example/welcome"
    assert pages.resolve("?a=b", "http://localhost:3000") == "http://localhost:3000/in?a=b"
    assert pages.resolve("out", "http://localhost:3000") == "http://localhost:3000/out"


async def test_a_wrong_redirect_is_refused_before_anything_else(site):
    asked = []
    site.idp.issuer = lambda: asked.append(1)
    for query in ("?redirect=//evil.example", "?redirect[]=a", "?redirect=a&redirect=b"):
        answer = await site.browser().request("GET", f"/oauth/idp{query}&feathers_token=x")
        assert (answer.status, answer.get("location")) == (400, None)
        assert answer.all("set-cookie") == []
    answer = await site.browser().request("POST", "/oauth/idp", {"redirect": ["a"]})
    assert answer.status == 400
    assert asked == []


@pytest.mark.parametrize(
    ("referer", "page"),
    [
        (None, PAGE),
        ("http://localhost:3000/login", "http://localhost:3000/"),
        ("http://localhost:9999/", PAGE),
        ("https://app.example:443/x", PAGE),
        ("https://app.example.evil.example/", PAGE),
        ("http://localhost:3000@evil.example/", PAGE),
        ("nonsense", PAGE),
        ("http://localhost:99999/", PAGE),
        ("http://[::1/", PAGE),
        ("http://[::1]:3000/", PAGE),
    ],
)
async def test_the_page_that_began_gets_the_browser_back(site, referer, page):
    browser = site.browser()
    location = await browser.start("", **({} if referer is None else {"referer": referer}))
    answer = await browser.finish(site.idp.sign_in(location))
    assert answer.get("location").partition("#")[0] == page


# -- what the provider and the browser get ---------------------------------------------------------


async def test_the_provider_gets_our_settings_and_nothing_of_the_client(site):
    query = "?redirect_uri=https://evil.example&state=x&scope=admin&login_hint=ada&prompt=none"
    answer = await site.browser().request("GET", f"/oauth/idp{query}", host="evil.example")
    location = urlsplit(answer.get("location"))
    sent = {name: value[0] for name, value in parse_qs(location.query).items()}
    assert location.netloc == "idp.example"
    assert sent["redirect_uri"] == f"{BASE}/oauth/idp/callback"
    assert sent["login_hint"] == "ada"
    assert set(sent) == {"redirect_uri", "state", "nonce", "login_hint", "code_challenge"}
    assert len(sent["state"]) == len(sent["nonce"]) == 43
    assert (answer.status, answer.body) == (303, b"")
    assert answer.get("referrer-policy") == "no-referrer"
    assert answer.get("cache-control") == "no-store"
    (cookie,) = answer.all("set-cookie")
    assert re.fullmatch(
        rf"__Host-oauth-{re.escape(sent['state'][:16])}=[\w-]+; Path=/; Max-Age=600; Secure;"
        r" HttpOnly; SameSite=Lax",
        cookie,
    )
    assert sent["nonce"] not in cookie


async def test_a_provider_that_answers_by_a_form_needs_another_cookie(site):
    site.idp.form_post = True
    (cookie,) = (await site.browser().request("GET", "/oauth/idp")).all("set-cookie")
    assert "SameSite=None" in cookie


async def test_a_browser_has_five_starts_and_gives_up_the_oldest(site, monkeypatch):
    browser, now, locations = site.browser(), time.time(), []
    browser.cookies = {"theme": "dark", "__Host-oauth-nonsense": "x"}
    for number in range(6):
        monkeypatch.setattr(time, "time", lambda at=now + number: at)
        locations.append(await browser.start())
    states = [site.idp.sign_in(location) for location in locations]
    names = {name for name in browser.cookies if re.fullmatch("__Host-oauth-.{16}", name)}
    assert names == {f"__Host-oauth-{values['state'][:16]}" for values in states[1:]}
    assert "theme" in browser.cookies
    browser.cookies["__Host-oauth-0123456789abcdef"] = "not ours"
    await browser.start()
    assert "__Host-oauth-0123456789abcdef" not in browser.cookies
    assert error_of(await browser.finish(states[0])) == "expired"
    assert "access_token" in (await browser.finish(states[5])).get("location")


@pytest.mark.parametrize("name", ["unknown", "__proto__", "local", "%2e%2e", "IDP", "idp%00"])
async def test_unknown_providers(site, name):
    for path in (f"/oauth/{name}", f"/oauth/{name}/callback?code=x&state=y"):
        answer = await site.browser().request("GET", path)
        assert (answer.status, answer.get("location")) == (404, None)


async def test_a_navigation_over_http_is_needed(site):
    for path in ("oauth/:provider", "oauth/:provider/callback"):
        for provider in ("socketio", None):
            with pytest.raises(MethodNotAllowed):
                await site.world.app.service(path).find(provider=provider)
    for method in ("PUT", "PATCH", "DELETE"):
        assert (await site.browser().request(method, "/oauth/idp", {})).status == 405


async def test_a_provider_that_is_down(site):
    site.idp.fails = "start"
    answer = await site.browser().request("GET", "/oauth/idp?redirect=notes")
    assert error_of(answer) == "unavailable"
    assert answer.get("location").startswith(f"{PAGE}notes#error=The%20provider")
    assert answer.all("set-cookie") == []


async def test_starts_have_a_budget():
    site = await started_site(throttle=True)
    browser = site.browser()
    for _ in range(120):
        await browser.start()
    answer = await browser.request("GET", "/oauth/idp")
    assert answer.status == 429
    assert int(answer.get("retry-after")) > 0


async def test_a_form_gets_a_redirect_and_a_script_the_url(site):
    browser = site.browser()
    answer = await browser.request("POST", "/oauth/idp", f"redirect={quote('notes/1')}")
    assert answer.status == 303
    answer = await browser.request("POST", "/oauth/idp", {}, accept="text/html,application/json")
    assert answer.status == 303
    answer = await browser.request(
        "POST", "/oauth/idp", {"redirect": "notes"}, accept="application/json"
    )
    assert answer.status == 201
    finished = await browser.finish(site.idp.sign_in(answer.json["location"]))
    assert finished.get("location").startswith(f"{PAGE}notes#access_token=")
    site.idp.fails = "start"
    answer = await browser.request("POST", "/oauth/idp", {}, accept="application/json")
    assert (answer.status, answer.json["location"].partition("=")[0]) == (201, f"{PAGE}#error")


# -- who may link ----------------------------------------------------------------------------------


async def signed_in(site):
    await site.world.sign_up(email="bob@example.com")
    return (await site.world.sign_in(email="bob@example.com"))["accessToken"]


async def test_a_token_in_the_url_counts_on_our_pages_only(site):
    token = await signed_in(site)
    browser, query = site.browser(), f"/oauth/idp?feathers_token={token}"
    for referer in ("https://evil.example/", "nonsense", "null"):
        answer = await browser.request("GET", query, referer=referer)
        assert (answer.status, answer.get("location")) == (400, None)
    answer = await browser.request("GET", query)
    assert answer.status == 400
    assert "POST" in answer.json["message"]
    for referer in (PAGE, f"{BASE}/x"):
        location = await browser.start(f"?feathers_token={token}", referer=referer)
        assert token not in location
    answer = await browser.request("GET", f"/oauth/idp?feathers_token[]={token}", **HERE)
    assert answer.status == 400
    answer = await browser.request("GET", "/oauth/idp?feathers_token=abc", **HERE)
    assert answer.status == 401
    assert await site.token(query="?feathers_token=abc")  # nobody's token: an ordinary sign-in


async def test_credentials_that_are_wrong_are_not_an_ordinary_sign_in(site):
    answer = await site.browser().request("POST", "/oauth/idp", {}, authorization="Bearer abc")
    assert (answer.status, answer.get("location")) == (401, None)


async def test_only_who_has_signed_in_just_now_links(site, monkeypatch):
    token, now = await signed_in(site), time.time()
    monkeypatch.setattr("alula.accounts._guards.time.time", lambda: now + 301)
    browser = site.browser()
    for answer in (
        await browser.request("POST", "/oauth/idp", {}, authorization=f"Bearer {token}"),
        await browser.request("GET", f"/oauth/idp?feathers_token={token}", **HERE),
    ):
        assert (answer.status, answer.json["data"]["code"]) == (401, "not_recent")
    assert browser.cookies == {}
    assert (await browser.request("GET", f"/oauth/idp?feathers_token={token}")).status == 400


async def test_tokens_without_a_session_cannot_link():
    site = await started_site(
        authentication={"sessions": {"service": "sessions", "foreign_tokens": True}}
    )
    await site.world.sign_up()
    token = site.world.authentication.create_access_token({}, "1")
    answer = await site.browser().request("POST", "/oauth/idp", {}, authorization=f"Bearer {token}")
    assert answer.status == 401


async def test_cookies_link_with_the_csrf_token_only():
    site = await started_site(authentication={"cookie": TokenCookie()})
    await site.world.sign_up()
    browser, page = site.browser(), {"origin": "https://api.example", "host": "api.example"}
    credentials = {"strategy": "local", "email": "ada@example.com", "password": "correct horse"}
    answer = await browser.request("POST", "/authentication", credentials, **page)
    assert answer.status == 201
    assert (await browser.request("POST", "/oauth/idp", {}, **page)).status == 403
    csrf = {"x_csrf_token": answer.json["csrfToken"]}
    answer = await browser.request("POST", "/oauth/idp", {}, **page, **csrf)
    assert answer.status == 303
    await browser.finish(site.idp.sign_in(answer.get("location")))
    (identity,) = await site.identities()
    assert identity["userId"] == "1"


# -- the cookie ------------------------------------------------------------------------------------


def test_starts_keep_their_secrets():
    start = Start(provider="idp", issuer="https://idp.example", target=PAGE)
    assert start.verifier not in repr(start)


# -- the options -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"base_url": None}, "base_url is None"),
        ({"base_url": "http://api.example"}, "base_url is"),
        ({"base_url": "https://api.example/?x"}, "base_url is"),
        ({"pages": ["/app"]}, "whole https URLs"),
        ({"pages": ["http://app.example"]}, "whole https URLs"),
        ({"pages": ["https://app.example/#x"]}, "whole https URLs"),
        ({"pages": ["https://app.example/\n"]}, "whole https URLs"),
        ({"pages": ["https://ada@app.example/"]}, "whole https URLs"),
        ({"pages": ["https://app.example/a", "https://APP.example/b"]}, "two pages"),
        ({"link_by_email": "always"}, "link_by_email is 'always'"),
        ({"answer": "query"}, "answer is 'query'"),
        ({"answer": "fragment", "pages": []}, "answer needs pages"),
        ({"answer": "cookie"}, "with cookies"),
        ({"providers": [MemoryProvider(), MemoryProvider()]}, "two providers with the name 'idp'"),
        ({"providers": [MemoryProvider("jwt")]}, "a strategy of the authentication service"),
    ],
)
def test_wrong_options(options, text):
    with pytest.raises(ValueError, match=text):
        make_site(**options)


def test_to_ask_needs_mails():
    with pytest.raises(ValueError, match="link_by_email='ask' has no effect without mailer"):
        make_site(has_mails=False, link_by_email="ask")


def test_pages_are_a_list():
    with pytest.raises(TypeError, match="list"):
        make_site(pages=PAGE)


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": BASE},
        {"pages": [PAGE]},
        {"link_by_email": "never"},
        {"answer": "fragment"},
    ],
)
def test_options_without_effect(options):
    with pytest.raises(ValueError, match="without sign_in"):
        make_world(**options)


def test_tokens_that_are_hidden_from_scripts_do_not_come_in_a_fragment():
    cookie = {"cookie": TokenCookie(tokens_in_body=False)}
    with pytest.raises(ValueError, match="tokens_in_body=False"):
        make_site(authentication=cookie, answer="fragment")


async def test_providers_are_configured_and_closed():
    site = make_site()
    assert site.idp.app is site.world.app
    await site.world.app.setup()
    await site.world.app.setup()
    await site.world.app.teardown()
    assert site.idp.is_closed


def test_without_the_library_the_start_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    monkeypatch.delitem(sys.modules, "alula.accounts._oauth._starts")
    with pytest.raises(ImportError, match=r"pip install 'alula\[oauth\]'"):
        importlib.import_module("alula.accounts._oauth._starts")
