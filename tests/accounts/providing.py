"""A provider in the memory of the tests, and a browser that goes there and comes back."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.accounts.building import World, make_world
from tests.express.asgi_client import call

from alula.accounts.providers._provider import Claims, Provider, ProviderError
from alula.express import express, json, rest, urlencoded

BASE = "https://api.example"
PAGE = "https://app.example/app/"
ADA = Claims("idp", "https://idp.example", "1001", "ada@example.com", True, "Ada", {})


class MemoryProvider(Provider):
    """Knows people by the codes that it has given for them.

    Args:
        name: Its name.
        issuer: Its issuer.
    """

    start_parameters = frozenset({"login_hint"})

    def __init__(self, name: str = "idp", issuer: str = "https://idp.example") -> None:
        super().__init__(name)
        self.url = issuer
        self.person = ADA
        self.form_post = False
        self.fails: str | None = None
        self.codes: dict[str, tuple[str, str, Claims]] = {}
        self.requests: list[str] = []
        self.is_closed = False

    def configure(self, app: Any) -> None:
        self.app = app

    async def issuer(self) -> str:
        return self.url

    async def authorization_url(self, *, redirect_uri, state, nonce, verifier, passed_on) -> str:
        if self.fails == "start":
            raise ProviderError("unavailable", "no connection")
        sent = {"redirect_uri": redirect_uri, "state": state, "nonce": nonce, **passed_on}
        return f"{self.url}/auth?{urlencode({**sent, 'code_challenge': challenge_of(verifier)})}"

    async def claims(self, *, redirect_uri: str, code: str, nonce: str, verifier: str) -> Claims:
        self.requests.append(code)
        if self.fails == "claims":
            raise ProviderError("unavailable", "no connection")
        # As providers do, it accepts a code as often as it comes: the state has to prevent that.
        expected = (redirect_uri, nonce, challenge_of(verifier))
        known, person = self.codes.get(code, (None, ADA))
        if known != expected:
            raise ProviderError("invalid", "not a code of this start")
        return replace(person, provider=self.name, issuer=self.url)

    async def close(self) -> None:
        self.is_closed = True

    def sign_in(self, location: str, **changes: Any) -> dict[str, str]:
        """Sign the person in at the page of the provider; return the query of the callback."""
        sent = {name: value[0] for name, value in parse_qs(urlsplit(location).query).items()}
        code = f"code-{len(self.codes)}"
        known = (sent["redirect_uri"], sent["nonce"], sent["code_challenge"])
        self.codes[code] = (known, replace(self.person, **changes))
        return {"code": code, "state": sent["state"]}


def challenge_of(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


@dataclass
class Browser:
    """Keeps cookies, and follows links to the server.

    Args:
        web: The web application.
    """

    web: Any
    cookies: dict[str, str] = field(default_factory=dict)

    async def request(self, method: str, url: str, data: Any = None, **headers: str) -> Any:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={text}" for name, text in self.cookies.items())
        body = b""
        if isinstance(data, str):
            body, sent["content-type"] = data.encode(), "application/x-www-form-urlencoded"
        elif data is not None:
            import json as text

            body, sent["content-type"] = text.dumps(data).encode(), "application/json"
        answer = await call(self.web, method, url, headers=sent, body=body)
        for line in answer.all("set-cookie"):
            pair, *attributes = line.split("; ")
            name, _, value = pair.partition("=")
            self.cookies.pop(name, None)
            if "Max-Age=0" not in attributes:
                self.cookies[name] = value
        return answer

    async def start(self, query: str = "", provider: str = "idp", **headers: str) -> str:
        """Follow a link to a provider, and return where it leads."""
        answer = await self.request("GET", f"/oauth/{provider}{query}", **headers)
        assert answer.status == 303, answer.body
        return answer.get("location")

    async def finish(self, values: dict[str, str], provider: str = "idp", **headers: str) -> Any:
        """Come back from a provider."""
        url = f"/oauth/{provider}/callback?{urlencode(values)}"
        return await self.request("GET", url, **headers)


@dataclass
class Site:
    """An application that people sign in to with others."""

    world: World
    web: Any
    providers: dict[str, MemoryProvider]

    @property
    def idp(self) -> MemoryProvider:
        return self.providers["idp"]

    def browser(self) -> Browser:
        return Browser(self.web)

    async def come_in(self, browser: Browser | None = None, query: str = "", **person: Any) -> Any:
        """Sign a person in from the link to the page, and return the last response."""
        browser = browser or self.browser()
        return await browser.finish(self.idp.sign_in(await browser.start(query), **person))

    async def token(self, *arguments: Any, **person: Any) -> str:
        """Sign a person in, and return the access token."""
        answer = await self.come_in(*arguments, **person)
        return fragment_of(answer)["access_token"]

    async def user_of(self, token: str) -> Any:
        """Return the user of an access token."""
        bearer = {"authentication": {"strategy": "jwt", "accessToken": token}}
        result = await self.world.app.service("authentication").create(
            bearer["authentication"], provider="rest"
        )
        return result["user"]

    async def identities(self) -> list[Any]:
        return await self.world.app.service("credentials").find({"query": {"kind": "identity"}})


def fragment_of(answer: Any) -> dict[str, str]:
    """Return the values in the fragment of a redirect."""
    assert answer.status == 303, answer.body
    _, _, fragment = answer.get("location").partition("#")
    return {name: value[0] for name, value in parse_qs(fragment).items()}


def error_of(answer: Any) -> str:
    """Return the code of a sign-in that has failed."""
    return fragment_of(answer)["error_code"]


def make_site(*arguments: Any, providers: Any = None, **options: Any) -> Site:
    """Return an application that is not set up."""
    providers = providers or [MemoryProvider(), MemoryProvider("other", "https://other.example")]
    named = {"base_url": BASE, "pages": [PAGE, "http://localhost:3000"], **options}
    world = make_world(*arguments, sign_in=providers, **named)
    web = express(world.app).use(json()).use(urlencoded()).configure(rest())
    return Site(world, web, {provider.name: provider for provider in providers})


async def started_site(*arguments: Any, **options: Any) -> Site:
    """Return an application that is set up."""
    site = make_site(*arguments, **options)
    await site.world.app.setup()
    return site
