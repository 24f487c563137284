"""`FakeProvider`: an application can be tested with it as with a real one."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from alula.accounts import openid
from alula.errors import BadRequest
from alula.testing import FakeProvider

SENT = {"redirect_uri": "https://app.example/callback?x=1", "verifier": "v" * 43}
STARTED = {**SENT, "state": "state", "nonce": "nonce", "passed_on": {}}


@pytest.fixture
async def fake():
    async with FakeProvider() as provider:
        yield provider


async def start(fake):
    provider = openid("fake", issuer=fake.issuer, **fake.credentials)
    url = await provider.authorization_url(**STARTED)
    await provider.close()
    return url


async def test_a_browser_returns_with_a_code(fake):
    async with httpx2.AsyncClient() as browser:
        response = await browser.get(await start(fake))
    assert response.status_code == 303
    location = response.headers["location"]
    assert location.startswith("https://app.example/callback?x=1&code=")
    answer = parse_qs(urlsplit(location).query)
    assert (answer["state"], answer["iss"]) == (["state"], [fake.issuer])


async def test_somebody_says_no(fake):
    fake.denies = True
    answer = fake.sign_in(await start(fake))
    assert answer == {"error": "access_denied", "state": "state", "iss": fake.issuer}


async def test_a_start_that_lacks_something_is_refused(fake):
    url = await start(fake)
    for part in ("code_challenge_method=S256", "client_id=app", "state=state", "openid"):
        with pytest.raises(BadRequest, match="The sign-in has a wrong"):
            fake.sign_in(url.replace(part, ""))
    async with httpx2.AsyncClient() as browser:
        response = await browser.get(f"{fake.issuer}/authorize")
    assert response.status_code == 400
    assert "code_challenge" in response.json()["message"]


async def test_only_a_token_shows_a_user(fake):
    async with httpx2.AsyncClient() as client:
        url = f"{fake.issuer}/userinfo"
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            response = await client.get(url, headers=headers)
            assert (response.status_code, response.json()) == (401, {"error": "invalid_token"})


async def test_it_listens_during_a_block():
    fake = FakeProvider()
    with pytest.raises(RuntimeError, match="async with FakeProvider"):
        _ = fake.issuer
    await fake.__aexit__(None, None, None)
