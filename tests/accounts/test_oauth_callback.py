"""The way back from a provider: what is checked, and what the page gets."""

from __future__ import annotations

import asyncio
import logging
import time
from urllib.parse import urlsplit

import pytest
from tests.accounts.providing import (
    PAGE,
    Browser,
    error_of,
    fragment_of,
    started_site,
)

from alula.authentication import Extension, TokenCookie
from alula.errors import Forbidden, NotAuthenticated


@pytest.fixture
async def site():
    site = await started_site()
    yield site
    await site.world.app.teardown()


async def test_the_page_gets_a_token_of_this_server(site):
    answer = await site.come_in(query="?redirect=notes?a=b")
    assert (answer.status, answer.body) == (303, b"")
    assert answer.get("referrer-policy") == "no-referrer"
    assert answer.get("cache-control") == "no-store"
    location = urlsplit(answer.get("location"))
    assert f"{location.scheme}://{location.netloc}{location.path}" == f"{PAGE}notes"
    assert location.query == "a=b"
    values = fragment_of(answer)
    assert set(values) == {"access_token"}
    payload = site.world.authentication.verify_access_token(values["access_token"])
    assert (payload["sub"], payload["amr"]) == ("1", ["fed"])
    user = await site.user_of(values["access_token"])
    assert user == {"id": 1, "email": "ada@example.com", "name": "Ada", "isVerified": True}


async def test_hooks_see_a_sign_in_like_any_other(site):
    seen = []
    site.world.app.on("login", lambda result, params, context: seen.append((result, params)))

    async def look(context):
        seen.append(context.params.accounts)

    site.world.app.service("users").hooks(before={"create": [look]})
    await site.come_in()
    accounts, (result, params) = seen
    assert accounts == {"action": "create", "provider": "idp"}
    assert result["authentication"]["strategy"] == "idp"
    assert (params.provider, params.query) == ("rest", {})


async def test_clients_cannot_sign_in_by_the_name_of_a_provider(site):
    await site.come_in()
    data = {"strategy": "idp", "profile": {"sub": "1001"}, "email": "ada@example.com"}
    answer = await site.browser().request("POST", "/authentication", data)
    assert answer.status == 401


# -- the state -------------------------------------------------------------------------------------


async def test_a_callback_counts_once(site):
    browser = site.browser()
    values = site.idp.sign_in(await browser.start())
    kept = dict(browser.cookies)
    assert "access_token" in fragment_of(await browser.finish(values))
    assert browser.cookies == {}
    assert error_of(await browser.finish(values)) == "expired"
    # A thief may have the cookie and the URL. Another code does not help either.
    for again in (values, {**values, "code": "another"}):
        assert error_of(await Browser(site.web, dict(kept)).finish(again)) == "expired"
    assert len(site.idp.requests) == 1


async def test_of_many_callbacks_at_once_one_counts(site):
    browser = site.browser()
    values = site.idp.sign_in(await browser.start())
    browsers = [Browser(site.web, dict(browser.cookies)) for _ in range(50)]
    answers = await asyncio.gather(*[one.finish(values) for one in browsers])
    assert sum("access_token" in fragment_of(answer) for answer in answers) == 1
    assert len(site.idp.requests) == 1
    assert len(await site.world.app.service("sessions").find()) == 1


async def test_another_browser_cannot_finish(site):
    values = site.idp.sign_in(await site.browser().start())
    other = site.browser()
    assert error_of(await other.finish(values)) == "expired"
    mine = await other.start()  # a code of somebody else, with the state of this browser
    values = {**values, "state": site.idp.sign_in(mine)["state"]}
    assert error_of(await other.finish(values)) == "invalid"


@pytest.mark.parametrize(
    "query",
    ["", "code=x", "code=x&state=", "code=x&state=a&state=b", "state[]=a", "state=" + "a" * 43],
)
async def test_no_state_of_this_browser(site, query):
    answer = await site.browser().request("GET", f"/oauth/idp/callback?{query}")
    assert error_of(answer) == "expired"
    assert answer.get("location").startswith(f"{PAGE}#error=Sign-in%20took")


async def test_a_state_is_for_ten_minutes(site, monkeypatch):
    browser = site.browser()
    values = site.idp.sign_in(await browser.start())
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 601)
    assert error_of(await browser.finish(values)) == "expired"


async def test_cookies_that_were_changed_do_not_count(site):
    browser = site.browser()
    values = site.idp.sign_in(await browser.start())
    ((name, value),) = browser.cookies.items()
    other_state = "A" * 43
    other_name = f"__Host-oauth-{other_state[:16]}"
    tampered = value[:-4] + ("AAAA" if value[-4:] != "AAAA" else "BBBB")
    for cookie in ("", "x", "\u00e4", tampered, value[:20]):
        browser.cookies = {name: cookie.encode().decode("latin-1")}
        assert error_of(await browser.finish(values)) == "expired"
    browser.cookies = {other_name: value}  # the value of one cookie under the name of another
    assert error_of(await browser.finish({**values, "state": other_state})) == "expired"
    browser.cookies = {name: value}
    similar = values["state"][:16] + "A" * 27
    assert error_of(await browser.finish({**values, "state": similar})) == "expired"
    assert "access_token" in fragment_of(await browser.finish(values))


async def test_two_tabs_do_not_disturb_each_other(site):
    browser = site.browser()
    first, second = await browser.start(), await browser.start("", provider="other")
    assert "access_token" in fragment_of(await browser.finish(site.idp.sign_in(first)))
    other = site.providers["other"].sign_in(second, email=None)
    assert "access_token" in fragment_of(await browser.finish(other, provider="other"))


# -- what the provider says ------------------------------------------------------------------------


async def test_the_code_of_one_provider_does_not_reach_another(site):
    browser = site.browser()
    values = site.idp.sign_in(await browser.start())
    assert error_of(await browser.finish(values, provider="other")) == "invalid"
    assert site.providers["other"].requests == []
    assert error_of(await browser.finish(values)) == "expired"  # used up
    location = await browser.start()
    site.idp.url = "https://other.example"  # the settings have changed meanwhile
    assert error_of(await browser.finish(site.idp.sign_in(location))) == "invalid"
    assert site.idp.requests == []


async def test_the_issuer_is_compared_before_the_code_is_sent(site):
    browser = site.browser()
    for iss, expected in (("https://evil.example", "invalid"), ("https://idp.example", None)):
        values = {**site.idp.sign_in(await browser.start()), "iss": iss}
        assert fragment_of(await browser.finish(values)).get("error_code") == expected
        assert len(site.idp.requests) == (expected is None)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("access_denied", "access_denied"),
        ("login_required", "access_denied"),
        ("temporarily_unavailable", "unavailable"),
        ("<script>alert(1)</script>", "invalid"),
        ("", "invalid"),
    ],
)
async def test_errors_of_the_provider_become_ours(site, error, code, caplog):
    caplog.set_level(logging.INFO, "alula.accounts")
    browser = site.browser()
    state = site.idp.sign_in(await browser.start("?redirect=notes"))["state"]
    said = {"error": error, "error_description": "<script>", "state": state, "code": "x"}
    answer = await browser.finish(said)
    assert error_of(answer) == code
    assert "script" not in answer.get("location")
    assert answer.get("location").startswith(f"{PAGE}notes#error=")
    assert repr(error) in caplog.text
    assert browser.cookies == {}


@pytest.mark.parametrize("query", ["code=a&code=b", "code[]=a", "code=a&iss=a&iss=b", "error[]=x"])
async def test_parameters_come_once(site, query):
    browser = site.browser()
    state = site.idp.sign_in(await browser.start())["state"]
    answer = await browser.request("GET", f"/oauth/idp/callback?state={state}&{query}")
    assert error_of(answer) == "invalid"
    assert site.idp.requests == []


async def test_no_code_and_a_wrong_one(site, caplog):
    browser = site.browser()
    for code in ("", "wrong"):
        state = site.idp.sign_in(await browser.start())["state"]
        assert error_of(await browser.finish({"state": state, "code": code})) == "invalid"
    assert "a sign-in with 'idp' failed: invalid: not a code of this start" in caplog.text
    site.idp.fails = "claims"
    answer = await browser.finish(site.idp.sign_in(await browser.start()))
    assert error_of(answer) == "unavailable"


async def test_a_provider_may_answer_by_a_form(site):
    browser = site.browser()
    values = site.idp.sign_in(await browser.start())
    form = "&".join(f"{name}={value}" for name, value in values.items())
    answer = await browser.request("POST", "/oauth/idp/callback", form)
    assert "access_token" in fragment_of(answer)
    answer = await browser.request("POST", "/oauth/idp/callback", ["a"])
    assert error_of(answer) == "expired"


async def test_callbacks_have_a_budget():
    site = await started_site(throttle=True)
    browser = site.browser()
    for _ in range(120):
        assert error_of(await browser.finish({"state": "x"})) == "expired"
    assert (await browser.request("GET", "/oauth/idp/callback")).status == 429


# -- the answer ------------------------------------------------------------------------------------


async def test_without_pages_the_answer_is_json():
    site = await started_site(pages=[])
    answer = await site.come_in()
    assert (answer.status, answer.get("location")) == (200, None)
    assert {"accessToken", "refreshToken", "user"} <= set(answer.json)
    assert answer.json["authentication"]["strategy"] == "idp"
    browser = site.browser()
    assert (await browser.request("GET", "/oauth/idp?redirect=notes")).status == 400
    answer = await browser.request("GET", "/oauth/idp/callback?code=x")
    assert (answer.status, answer.json["name"]) == (401, "NotAuthenticated")
    assert answer.json["data"] == {"code": "expired"}
    site.idp.fails = "claims"
    answer = await site.come_in()
    assert (answer.status, answer.json["data"]) == (503, {"code": "unavailable"})


ORIGIN = {"origin": "https://api.example", "host": "api.example"}


async def test_cookies_instead_of_a_token_in_the_url():
    options = {"cookie": TokenCookie(tokens_in_body=False)}
    site = await started_site(authentication=options, pages=[PAGE, "https://api.example/in"])
    browser = site.browser()
    values = site.idp.sign_in(await browser.start())
    answer = await browser.finish(values, sec_fetch_site="cross-site")
    assert answer.get("location") == PAGE
    assert set(browser.cookies) == {"__Host-token", "__Host-csrf", "__Secure-refresh"}
    csrf = {"x_csrf_token": browser.cookies["__Host-csrf"]}
    # These cookies are as good as those of any other sign-in.
    renewal = {"strategy": "refresh"}
    assert (await browser.request("POST", "/authentication", renewal, **ORIGIN)).status == 403
    answer = await browser.request("POST", "/authentication", renewal, **ORIGIN, **csrf)
    assert answer.status == 201
    assert (await browser.request("GET", "/users/1", sec_fetch_site="same-origin")).status == 200


async def test_a_provider_on_our_own_host_changes_nothing():
    site = await started_site(authentication={"cookie": TokenCookie(tokens_in_body=False)})
    browser = site.browser()
    values = site.idp.sign_in(await browser.start())
    await browser.finish(values, sec_fetch_site="same-origin")
    assert set(browser.cookies) == {"__Host-token", "__Host-csrf", "__Secure-refresh"}


async def test_cookies_and_json():
    options = {"cookie": TokenCookie(tokens_in_body=False)}
    site = await started_site(authentication=options, pages=[])
    browser = site.browser()
    answer = await browser.finish(site.idp.sign_in(await browser.start()))
    assert "accessToken" not in answer.json
    assert "__Host-token" in browser.cookies


async def test_the_fragment_can_come_with_cookies():
    site = await started_site(authentication={"cookie": TokenCookie()})
    browser = site.browser()
    answer = await browser.finish(site.idp.sign_in(await browser.start()))
    assert fragment_of(answer)["access_token"] == browser.cookies["__Host-token"]
    assert "__Secure-refresh" in browser.cookies


# -- who refuses -----------------------------------------------------------------------------------


class SecondFactor(Extension):
    data: object = None

    async def second_step(self, attempt):
        raise NotAuthenticated("One more step", data=self.data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {"code": "second_factor", "ticket": "abc"},
            {"error": "One more step", "error_code": "second_factor", "ticket": "abc"},
        ),
        (
            {"code": "second_factor", "ticket": 5},
            {"error": "One more step", "error_code": "second_factor"},
        ),
        (None, {"error": "Sign-in was cancelled", "error_code": "access_denied"}),
    ],
)
async def test_a_second_step_is_asked_here_too(data, expected):
    extension = SecondFactor()
    extension.data = data
    site = await started_site(authentication={"extensions": [extension]})
    assert fragment_of(await site.come_in()) == expected
    assert await site.world.app.service("sessions").find() == []
    other = await started_site(authentication={"extensions": [extension]}, pages=[])
    answer = await other.come_in()
    assert answer.status == 401
    assert answer.json["data"].get("ticket") == expected.get("ticket")


async def test_an_address_that_has_to_be_proved_is_not_enough():
    site = await started_site(verify_email="required")
    answer = await site.come_in(is_verified=False)
    assert fragment_of(answer)["error_code"] == "not_verified"
    assert {mail.kind for mail in await site.world.mails()} == {"verify"}


async def test_hooks_may_refuse_people():
    async def closed(context):
        raise Forbidden("Only for members")

    site = await started_site(hooks={"before": {"create": [closed]}})
    assert error_of(await site.come_in()) == "access_denied"
    site = await started_site()
    site.world.app.service("authentication").hooks(before={"create": [closed]})
    assert error_of(await site.come_in()) == "access_denied"
