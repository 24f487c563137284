"""HTTP with providers: bounded in time and size, no redirects, no cookies, no secrets in errors."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from tests.accounts.providers.asking import claims_of, publish, refusal, start

from alula.accounts import ProviderError, openid
from alula.accounts.providers import _exchange

ISSUER = "https://id.example"
DOCUMENT = f"{ISSUER}/.well-known/openid-configuration"
TOKEN = f"{ISSUER}/token"
SECRETS = ("secret-of-app", "code-1", "access-1", "nonce-1", "verifier-")


@pytest.fixture
def provider(web, rsa_key):
    publish(web, rsa_key, ISSUER, {"sub": "ada"})
    return openid("work", issuer=ISSUER, client_id="app", client_secret="secret-of-app")


async def failure(provider):
    error = await refusal(provider)
    # A cause may have secrets, and would be logged, too.
    assert error.__suppress_context__ or error.__context__ is None
    assert error.__cause__ is None
    assert not any(secret in str(error) for secret in SECRETS)
    return error.code, str(error)


async def test_redirects_are_not_followed(provider, web):
    for url in (DOCUMENT, TOKEN):
        other = httpx2.Response(307, headers={"location": "https://other.example/"}, json={})
        before, web.answers[url] = web.answers[url], other
        with pytest.raises(ProviderError, match="redirect, which is not followed"):
            await claims_of(provider)
        assert str(web.requests[-1].url) == url
        web.answers[url] = before
        await provider.close()


async def test_a_large_answer_is_cut_off(provider, web):
    sent = []

    async def forever():
        while True:
            sent.append(1)
            yield b" " * 65536

    web.answers[DOCUMENT] = httpx2.Response(200, content=forever())
    with pytest.raises(ProviderError, match=r"id\.example sent more than 1048576 bytes"):
        await start(provider)
    assert len(sent) == 17


async def test_an_answer_that_could_grow_is_refused(provider, web):
    headers = {"content-encoding": "gzip"}
    web.answers[DOCUMENT] = lambda request: httpx2.Response(200, headers=headers, content=b"")
    with pytest.raises(ProviderError, match="compressed response"):
        await start(provider)
    assert web.requests[-1].headers["accept-encoding"] == "identity"


async def test_a_slow_answer_ends(provider, web, monkeypatch):
    async def never():
        yield b"{"
        await asyncio.sleep(60)

    monkeypatch.setattr(_exchange, "SECONDS", 0.01)
    web.answers[TOKEN] = httpx2.Response(200, content=never())
    assert await failure(provider) == (
        "unavailable",
        "id.example did not respond within 0.01 seconds",
    )


FAILURES = {
    "no connection": (
        httpx2.ConnectError("Connection refused"),
        "id.example cannot be reached: Connection refused",
    ),
    "a broken one": (
        httpx2.RemoteProtocolError("access-1"),
        "the connection to id.example failed: RemoteProtocolError",
    ),
    "overload": (httpx2.Response(503, text="access-1"), "id.example responded with 503"),
    "too often": (httpx2.Response(429, text="access-1"), "id.example responded with 429"),
}


@pytest.mark.parametrize("url", [DOCUMENT, TOKEN])
@pytest.mark.parametrize("case", FAILURES)
async def test_a_provider_that_cannot_be_asked_is_unavailable(case, url, provider, web):
    answer, text = FAILURES[case]
    web.answers[url] = answer
    assert await failure(provider) == ("unavailable", text)


REFUSALS = {
    "the person": ({"error": "access_denied"}, "access_denied", "access_denied"),
    "the code": ({"error": "bad_verification_code"}, "invalid", "bad_verification_code"),
    "the provider": ({"error": "server_error"}, "unavailable", "server_error"),
    "a number": ({"error": 5}, "invalid", "unknown error"),
    "a text of strangers": (
        {"error": "code-1 is wrong", "error_description": "secret-of-app"},
        "invalid",
        "unknown error",
    ),
}


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("case", REFUSALS)
async def test_an_error_is_one_whatever_its_status(case, status, provider, web):
    answer, code, text = REFUSALS[case]
    web.answers[TOKEN] = httpx2.Response(status, json=answer)
    assert await failure(provider) == (code, f"id.example gave no token: {text}")


GOOD = {"access_token": "access-1", "token_type": "Bearer"}
NONSENSE = {
    "no JSON": httpx2.Response(200, text="<html>access-1"),
    "a list": [GOOD],
    "no text": httpx2.Response(200, content=b"\xff"),
    "much nesting": httpx2.Response(200, content=b"[" * 100_000),
    "an odd time": {**GOOD, "expires_in": "soon"},
    "a time in a list": {**GOOD, "expires_in": [1]},
    "an endless time": httpx2.Response(200, content=b'{"expires_in": 1e999}'),
    "a page with 400": httpx2.Response(400, text="code-1"),
    "no type": {"access_token": "access-1"},
    "another type": {**GOOD, "token_type": "mac"},
    "a type that is none": {**GOOD, "token_type": 5},
    "no access token": {"token_type": "bearer"},
    "a line break": {**GOOD, "access_token": "access-1\r\nX: y"},
    "an empty access token": {**GOOD, "access_token": ""},
    "no ID token": GOOD,
    "an ID token that is none": {**GOOD, "id_token": 5},
}


@pytest.mark.parametrize("case", NONSENSE)
async def test_an_answer_without_tokens_is_refused(case, provider, web):
    web.answers[TOKEN] = NONSENSE[case]
    code, _ = await failure(provider)
    assert code == "invalid"


@pytest.mark.parametrize("content", [b"<html>", b"[" * 100_000, b"\xff"])
async def test_a_document_that_is_no_json_is_refused(content, provider, web):
    web.answers[DOCUMENT] = httpx2.Response(200, content=content)
    assert await failure(provider) == ("invalid", "id.example sent a response that is not valid")


async def test_cookies_and_tokens_of_one_person_are_not_sent_for_the_next(provider, web):
    honest = web.answers[TOKEN]
    cookie = {"set-cookie": "session=of-ada; Path=/"}
    web.answers[TOKEN] = lambda request: httpx2.Response(200, headers=cookie, json=honest(request))
    await claims_of(provider)
    await claims_of(provider)
    assert len(web.requests) == 4
    for request in web.requests:
        assert "cookie" not in request.headers
        assert "authorization" not in request.headers
