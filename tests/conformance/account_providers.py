"""Stand-ins of the providers with which people of the recorded accounts sign in.

``python -m tests.conformance.account_providers --port N`` serves an OpenID provider on N, and
GitHub's form of OAuth 2 on N+1. ``POST /__control`` says who signs in next, and ``POST /__reset``
begins anew; ``GET /__requests`` of GitHub lists what its token endpoint has received.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import secrets
import signal
import time
from base64 import urlsafe_b64encode
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlencode

from joserfc import jwt
from joserfc.jwk import ECKey

from alula.express import Request, Response, api, json, urlencoded

ADDRESS = {"email": "ada@example.com", "email_verified": True}
PEOPLE: dict[str, dict[str, Any]] = {
    "ada": {"sub": "oidc-ada", **ADDRESS, "name": "Ada"},
    "unverified": {"sub": "oidc-mallory", **ADDRESS, "email_verified": False, "name": "Mallory"},
    "other": {"sub": "oidc-other", **ADDRESS, "name": "Ada"},
    "noemail": {"sub": "oidc-noemail", "name": "No address"},
    "upper": {"sub": "oidc-upper", **ADDRESS, "email": "ADA@Example.com", "name": "Ada"},
    "eve": {"sub": "oidc-eve", **ADDRESS, "email": "eve@example.com", "name": "Eve"},
}


class StandIn:
    """What both have in common: who signs in next, and the codes.

    Args:
        client_id: The id of the application.
        client_secret: Its secret.
    """

    def __init__(self, client_id: str, client_secret: str) -> None:
        self.client = {"client_id": client_id, "client_secret": client_secret}
        self.state: dict[str, Any] = {}
        self.codes: dict[str, tuple[str, dict[str, Any]]] = {}
        self.tokens: dict[str, str] = {}
        self.requests: list[Any] = []
        self.url = ""

    def application(self) -> Any:
        app = api()
        app.use(json())
        app.use(urlencoded())
        app.post("/__control", self.control)
        app.post("/__reset", self.reset)
        app.get("/__requests", lambda _, res: res.json(self.requests))
        return app

    def control(self, req: Request, res: Response) -> None:
        self.state.update(req.body)
        res.json(self.state)

    def reset(self, req: Request, res: Response) -> None:
        self.state, self.requests = {}, []
        res.json({})

    def authorize(self, req: Request, res: Response) -> None:
        sent = dict(req.query)
        answer = {"state": sent["state"]}
        if self.state.get("deny"):
            answer |= {"error": "access_denied", "error_description": "The person said no"}
        else:
            code = answer["code"] = secrets.token_hex(10)
            self.codes[code] = (self.state.get("user", "ada"), sent)
        res.redirect(f"{sent['redirect_uri']}?{urlencode(answer)}", 302)

    def redeem(self, form: dict[str, str]) -> tuple[str, str, dict[str, Any]] | None:
        """Return a new access token, the person and the request of a code, None if it is wrong."""
        self.requests.append(form)
        known = self.codes.pop(form.get("code", ""), None)
        if known is None or {name: form.get(name) for name in self.client} != self.client:
            return None
        person, request = known
        challenge = base64(hashlib.sha256(form["code_verifier"].encode()).digest())
        if (
            request["code_challenge"] != challenge
            or request["redirect_uri"] != form["redirect_uri"]
        ):
            return None
        token = secrets.token_urlsafe(16)
        self.tokens[token] = person
        return token, person, request


class OpenID(StandIn):
    """An OpenID provider."""

    def __init__(self) -> None:
        super().__init__("app", "secret-of-app")
        self.key = ECKey.generate_key("P-256", {"kid": "1", "use": "sig"})

    def application(self) -> Any:
        app = super().application()
        app.get("/.well-known/openid-configuration", self.discover)
        app.get("/jwks", lambda _, res: res.json({"keys": [self.key.as_dict(private=False)]}))
        app.get("/auth", self.authorize)
        app.post("/token", self.token)
        return app

    def discover(self, req: Request, res: Response) -> None:
        res.json(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/auth",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/jwks",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
            }
        )

    def token(self, req: Request, res: Response) -> None:
        granted = self.redeem(dict(req.body))
        if granted is None:
            res.status(400).json({"error": "invalid_grant"})
            return
        token, person, request = granted
        now = int(time.time())
        about = {"iss": self.url, "aud": self.client["client_id"], "nonce": request["nonce"]}
        times = {"iat": now, "exp": now + 600}
        claims = {**PEOPLE[person], **about, **times, **self.state.get("claims", {})}
        signed = jwt.encode({"alg": "ES256", "kid": "1"}, claims, self.key)
        res.json({"access_token": token, "token_type": "Bearer", "id_token": signed})


class GitHub(StandIn):
    """GitHub: errors have the status 200, and addresses a path of their own."""

    def __init__(self) -> None:
        super().__init__("github-app", "secret-of-github")

    def application(self) -> Any:
        app = super().application()
        app.get("/login/oauth/authorize", self.authorize)
        app.post("/login/oauth/access_token", self.token)
        app.get("/user", self.user)
        app.get("/user/emails", self.emails)
        return app

    def token(self, req: Request, res: Response) -> None:
        granted = self.redeem(dict(req.body))
        if granted is None:
            res.json({"error": "bad_verification_code"})
        else:
            res.json({"access_token": granted[0], "token_type": "bearer", "scope": "user:email"})

    def user(self, req: Request, res: Response) -> None:
        name = self.person_of(req)
        number = 1001 + list(PEOPLE).index(name)
        res.json({"id": number, "login": name, "name": PEOPLE[name]["name"], "email": None})

    def emails(self, req: Request, res: Response) -> None:
        person = PEOPLE[self.person_of(req)]
        old = {"email": "old@example.com", "primary": False, "verified": True}
        if "email" in person:
            verified = person["email_verified"]
            res.json([old, {"email": person["email"], "primary": True, "verified": verified}])
        else:
            res.json([])

    def person_of(self, req: Request) -> str:
        return self.tokens[(req.get("authorization") or "").removeprefix("Bearer ")]


def base64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


async def serve(port: int) -> None:
    """Serve both until a signal."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with AsyncExitStack() as stack:
        for place, provider in enumerate((OpenID(), GitHub())):
            server = await stack.enter_async_context(
                await provider.application().listen(port + place)
            )
            provider.url = server.url
        print(f"serving on {port} and {port + 1}", flush=True)
        await ended.wait()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="Providers of the recorded accounts.")
    parser.add_argument("--port", type=int, required=True, help="GitHub has the next one")
    asyncio.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
