"""`FakeProvider`: an OpenID provider for tests, in the same process, over HTTP."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypedDict
from urllib.parse import parse_qs, urlencode, urlsplit

from alula.errors import BadRequest
from alula.express import Request, Response, Server, api, urlencoded

try:
    from joserfc import jwt
    from joserfc.jwk import ECKey
except ImportError as error:
    raise ImportError(
        "alula.testing.FakeProvider needs joserfc, which is not installed;"
        " install it with: pip install 'alula[server,oauth]'",
        name="joserfc",
    ) from error

__all__ = ["FakeProvider"]

_ALGORITHM: Final = "ES256"
_NEEDED: Final = ("redirect_uri", "state", "nonce", "code_challenge")
_EXPIRES_SECONDS: Final = 600


class _Grant(NamedTuple):
    """What the provider remembers for a code."""

    user: Mapping[str, Any]
    request: Mapping[str, str]


class _Credentials(TypedDict):
    """The credentials, as arguments of `alula.accounts.openid`."""

    client_id: str
    client_secret: str


class FakeProvider:
    """An OpenID provider for tests of a sign-in with others.

    Within ``async with``, it listens on a free port of this machine. It has one application, and
    signs people in at once, without showing a page.

    Attributes:
        issuer: The issuer, for `alula.accounts.openid`.
        client_id: The id of the application.
        client_secret: Its secret.
        user: The claims of the person who signs in next; ``sub`` is the id.
        denies: Whether the next person refuses to sign in.
        changes: Claims that differ in ID tokens, such as ``{"nonce": "wrong"}``; None removes one.
        token_requests: The forms that the token endpoint has received.

    Examples:
        >>> import asyncio
        >>> from alula.accounts import openid
        >>> from alula.testing import FakeProvider
        >>> async def sign_in():
        ...     async with FakeProvider() as fake:
        ...         fake.user = {"sub": "1", "name": "Ada"}
        ...         provider = openid("fake", issuer=fake.issuer, **fake.credentials)
        ...         sent = {"redirect_uri": "https://app.example/callback", "verifier": "v" * 43}
        ...         url = await provider.authorization_url(
        ...             **sent, state="state", nonce="nonce", passed_on={}
        ...         )
        ...         code = fake.sign_in(url)["code"]
        ...         claims = await provider.claims(**sent, code=code, nonce="nonce")
        ...         await provider.close()
        ...         return claims.subject, claims.name
        >>> asyncio.run(sign_in())
        ('1', 'Ada')
    """

    def __init__(self) -> None:
        self.client_id = "app"
        self.client_secret = "secret-of-app"  # noqa: S105  # of tests
        self.user: dict[str, Any] = {
            "sub": "ada",
            "email": "ada@example.com",
            "email_verified": True,
            "name": "Ada",
        }
        self.denies = False
        self.changes: dict[str, Any] = {}
        self.token_requests: list[dict[str, str]] = []
        self._key = ECKey.generate_key("P-256", {"kid": secrets.token_hex(8), "use": "sig"})
        self._grants: dict[str, _Grant] = {}
        self._users: dict[str, Mapping[str, Any]] = {}
        self._server: Server | None = None

    async def __aenter__(self) -> Self:
        app = api()
        app.use(urlencoded())
        app.get("/.well-known/openid-configuration", lambda _, res: res.json(self.metadata()))
        app.get("/keys", lambda _, res: res.json(self.keys()))
        app.get("/authorize", self._authorize)
        app.post("/token", self._token)
        app.get("/userinfo", self._userinfo)
        self._server = await app.listen(0)
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            await self._server.close()

    @property
    def issuer(self) -> str:
        """The issuer, which is also where the provider listens.

        Raises:
            RuntimeError: The provider is used outside of ``async with``.
        """
        if self._server is None:
            raise RuntimeError(
                "the provider listens only within `async with FakeProvider() as provider:`"
            )
        return self._server.url

    @property
    def credentials(self) -> _Credentials:
        """``client_id`` and ``client_secret``, for `alula.accounts.openid`."""
        return {"client_id": self.client_id, "client_secret": self.client_secret}

    def metadata(self) -> dict[str, Any]:
        """Return the discovery document."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [_ALGORITHM],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    def keys(self) -> dict[str, Any]:
        """Return the keys with which ID tokens are verified."""
        return {"keys": [self._key.as_dict(private=False)]}

    def id_token(self, claims: dict[str, Any]) -> str:
        """Return a signed ID token; a test may replace this method."""
        return jwt.encode({"alg": _ALGORITHM, "kid": self._key.kid}, claims, self._key)

    def sign_in(self, url: str) -> dict[str, str]:
        """Sign `user` in, as a browser at the URL would.

        Args:
            url: Where the application has sent the browser.

        Returns:
            The parameters with which the browser returns: ``code`` or ``error``, ``state``,
            ``iss``.

        Raises:
            BadRequest: The URL lacks what a sign-in needs.
        """
        request = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        fixed = {
            "client_id": self.client_id,
            "response_type": "code",
            "code_challenge_method": "S256",
        }
        wrong = [name for name, value in fixed.items() if request.get(name) != value]
        wrong += [name for name in _NEEDED if not request.get(name)]
        if "openid" not in request.get("scope", "").split():
            wrong.append("scope")
        if wrong:
            raise BadRequest(f"The sign-in has a wrong {', '.join(wrong)}")
        response = {"state": request["state"], "iss": self.issuer}
        if self.denies:
            return {"error": "access_denied", **response}
        code = secrets.token_urlsafe(16)
        self._grants[code] = _Grant(dict(self.user), request)
        return {"code": code, **response}

    def _authorize(self, req: Request, res: Response) -> None:
        response = self.sign_in(req.original_url)
        redirect_uri = parse_qs(urlsplit(req.original_url).query)["redirect_uri"][0]
        joint = "&" if "?" in redirect_uri else "?"
        res.redirect(f"{redirect_uri}{joint}{urlencode(response)}", 303)

    def _token(self, req: Request, res: Response) -> None:
        form: dict[str, str] = dict(req.body)
        self.token_requests.append(form)
        if {name: form.get(name) for name in self.credentials} != self.credentials:
            res.status(401).json({"error": "invalid_client"})
            return
        grant = self._grants.pop(form.get("code", ""), None)
        if grant is None or not _fits(grant.request, form):
            res.status(400).json({"error": "invalid_grant"})
            return
        access_token = secrets.token_urlsafe(16)
        self._users[access_token] = grant.user
        now = int(time.time())
        claims = {
            **grant.user,
            "iss": self.issuer,
            "aud": self.client_id,
            "iat": now,
            "exp": now + _EXPIRES_SECONDS,
            "nonce": grant.request["nonce"],
            "at_hash": _base64(hashlib.sha256(access_token.encode()).digest()[:16]),
            **self.changes,
        }
        res.set("Cache-Control", "no-store").json(
            {
                "access_token": access_token,
                "token_type": "Bearer",
                "expires_in": _EXPIRES_SECONDS,
                "id_token": self.id_token({k: v for k, v in claims.items() if v is not None}),
            }
        )

    def _userinfo(self, req: Request, res: Response) -> None:
        user = self._users.get((req.get("Authorization") or "").removeprefix("Bearer "))
        if user is None:
            res.status(401).json({"error": "invalid_token"})
        else:
            res.json(user)


def _fits(request: Mapping[str, str], form: Mapping[str, str]) -> bool:
    """Tell whether a token request matches the request that started the sign-in."""
    challenge = _base64(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
    return hmac.compare_digest(challenge, request["code_challenge"]) and form.get(
        "redirect_uri"
    ) == request.get("redirect_uri")


def _base64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
