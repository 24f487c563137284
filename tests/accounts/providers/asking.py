"""What tests of providers share: how somebody signs in, and a web that a test writes down."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx2
from joserfc import jwt

from alula.accounts import Claims, Provider, ProviderError
from alula.testing import FakeProvider

VERIFIER = "verifier-" * 6
SENT = {"redirect_uri": "https://app.example/oauth/fake/callback", "verifier": VERIFIER}
STARTED = {**SENT, "state": "state-1", "nonce": "nonce-1"}


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


async def start(provider: Provider, **passed_on: str) -> str:
    """Return where a browser is sent to."""
    return await provider.authorization_url(**STARTED, passed_on=passed_on)


async def sign_in(provider: Provider, fake: FakeProvider) -> Claims:
    """Sign the user of a fake provider in."""
    code = fake.sign_in(await start(provider))["code"]
    return await provider.claims(**SENT, code=code, nonce="nonce-1")


async def claims_of(provider: Provider, **changes: str) -> Claims:
    """Return what a provider answers to a code."""
    return await provider.claims(**{**SENT, "code": "code-1", "nonce": "nonce-1", **changes})


async def refusal(provider: Provider, fake: FakeProvider | None = None) -> ProviderError:
    """Return the error of a sign-in."""
    try:
        claims = await (sign_in(provider, fake) if fake else claims_of(provider))
    except ProviderError as error:
        return error
    raise AssertionError(f"nothing was wrong: {claims}")


class Web:
    """Answers requests as a test wrote down, by URL without the query; all else is a 404."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[httpx2.Request] = []

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        await asyncio.sleep(0)  # others go on meanwhile, as with a network
        answer = self.answers.get(str(request.url.copy_with(query=None)))
        if isinstance(answer, Callable):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx2.Response):
            return answer
        return httpx2.Response(404) if answer is None else httpx2.Response(200, json=answer)

    def form(self) -> Mapping[str, str]:
        """Return the form of the last token request."""
        posts = [request for request in self.requests if request.method == "POST"]
        return dict(httpx2.QueryParams(posts[-1].content.decode()))


def publish(
    web: Web, key: Any, issuer: str, claims: Mapping[str, Any], *, at: str | None = None
) -> dict[str, Any]:
    """Write an OpenID provider down, whose ID tokens have these claims; return its metadata."""
    base = at or issuer
    metadata = {
        "issuer": issuer,
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "jwks_uri": f"{base}/keys",
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
    }

    def token(request: httpx2.Request) -> dict[str, Any]:
        now = int(time.time())
        standard = {"iss": issuer, "aud": "app", "iat": now, "exp": now + 60, "nonce": "nonce-1"}
        all_claims = {**standard, **claims}
        id_token = jwt.encode({"alg": "RS256", "kid": key.kid}, all_claims, key)
        return {"access_token": "access-1", "token_type": "Bearer", "id_token": id_token}

    web.answers[f"{base}/.well-known/openid-configuration"] = metadata
    web.answers[f"{base}/keys"] = {"keys": [key.as_dict(private=False)]}
    web.answers[f"{base}/token"] = token
    return metadata
