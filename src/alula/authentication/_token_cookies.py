"""Tokens in cookies, for pages in browsers, and what keeps other sites from using them (CSRF).

What holds in this file:

- A browser adds cookies by itself, whoever has made the request. A cookie alone proves nothing.
- A request that may change something needs two more: it comes from a page of ours, as its headers
  ``Origin`` and ``Sec-Fetch-Site`` tell, and has the CSRF token, which no other page can read.
- Other credentials take precedence. With an ``Authorization`` header the cookie is not looked at.
- If one of these is in doubt, the cookie does not count.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Protocol

from alula._context import HookContext, Params
from alula._cookies import SameSite, format_cookie, parse_cookies
from alula._identity import AmbientCredentials, SentRequest, services_of_host
from alula.authentication._sealed import Seal
from alula.errors import Forbidden, FrameworkError, NotAuthenticated
from alula.hooks import Next
from alula.outgoing import public_result
from alula.types import is_mapping

__all__ = ["TokenCookie", "TokenCookies"]

_TOKENS: Final = ("accessToken", "refreshToken")
_CSRF_HEADER: Final = "x-csrf-token"
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@*,]+")
# Browsers send secure cookies over plain HTTP to this machine alone.
_THIS_MACHINE: Final = re.compile(r"(localhost|[\w.-]+\.localhost|127(\.\d+){3}|\[::1\])(:\d+)?")


@dataclass(frozen=True, kw_only=True)
class TokenCookie:
    """Options of tokens in cookies, for ``AuthenticationService(..., cookie=TokenCookie())``.

    All cookies are for this host alone and over HTTPS; Chromium and Firefox also send them to
    ``http://localhost``. Scripts of a page can read the CSRF token, and nothing else.

    Args:
        name: The cookie of the access token.
        refresh_name: The cookie of the refresh token, with sessions.
        csrf_name: The cookie of the CSRF token, which pages send back as ``X-CSRF-Token``.
        refresh_path: The path of the refresh token; None for that of the authentication service.
            Give it if browsers see another path, as below a proxy or a mount.
        same_site: With which requests of other sites browsers send the cookies.
        origins: Origins of pages that may use the cookies, such as ``"https://app.example"``,
            besides those of the host that the request was sent to.
        tokens_in_body: Whether responses over REST have the tokens, too. FeathersJS' clients need
            that; without them, keep the tokens away from all scripts.

    Raises:
        TypeError: ``origins`` is one text.
        ValueError: A name or an origin is not valid, or two cookies have one name.

    Examples:
        >>> from alula.authentication import TokenCookie
        >>> cookie = TokenCookie(same_site="strict", tokens_in_body=False)
    """

    name: str = "__Host-token"
    refresh_name: str = "__Secure-refresh"
    csrf_name: str = "__Host-csrf"
    refresh_path: str | None = None
    same_site: SameSite = "lax"
    origins: Collection[str] = ()
    tokens_in_body: bool = True

    def __post_init__(self) -> None:
        names = (self.name, self.refresh_name, self.csrf_name)
        if len(self.lower_names) < len(names):
            raise ValueError(f"TokenCookie: each cookie needs a name of its own, not {names}")
        if isinstance(self.origins, str):
            raise TypeError(f"TokenCookie: origins is a list of texts: [{self.origins!r}]")
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"TokenCookie: {origin!r} is not an origin; write it as browsers send it, such"
                    ' as "https://app.example"'
                )
        for name in names:
            self.line(name, "", 0)  # what browsers would drop is an error now

    @property
    def lower_names(self) -> frozenset[str]:
        """The names of all cookies in lower case: names of prefixes have no case in browsers."""
        return frozenset(map(str.lower, (self.name, self.refresh_name, self.csrf_name)))

    def line(self, name: str, value: str, max_age: int) -> str:
        """Return the header ``Set-Cookie`` of one of the cookies."""
        return format_cookie(
            name,
            value,
            max_age=max_age,
            path=(name == self.refresh_name and self.refresh_path) or "/",
            http_only=name != self.csrf_name,
            same_site=self.same_site,
        )


class CookieRequest(SentRequest, Protocol):
    """The part of a request that a cookie is judged by; also of a real-time handshake."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, names in lower case."""
        ...


class CachedResponse(Protocol):
    """The part of a response that says how caches treat it."""

    def get(self, name: str) -> object:
        """Return a header that was set, None where it was not."""
        ...

    def set(self, name: str, value: str) -> object:
        """Set a header."""
        ...

    def vary(self, name: str) -> object:
        """Add a name to the header ``Vary``."""
        ...


class TokenCookies:
    """Sets the cookies at a sign-in over REST, reads them, and removes them at a sign-out.

    Args:
        authentication: The authentication service.
        options: Names, and the pages that may use them.

    Raises:
        TypeError: ``options`` is something else.
    """

    def __init__(self, authentication: Any, options: TokenCookie) -> None:
        if not isinstance(options, TokenCookie):
            raise TypeError(f"cookie is {options!r}; write cookie=TokenCookie()")
        self._authentication = authentication
        self._options = options
        self._origins = frozenset(origin.lower() for origin in options.origins)
        self._handle: object = None

    def setup(self, app: Any, path: str) -> None:
        """Begin to follow sign-ins and sign-outs.

        Args:
            app: The application.
            path: Where the authentication service is registered.

        Raises:
            ValueError: No strategy checks access tokens, or another authentication service has a
                cookie of the same name, in this application or beside it on the same host.
        """
        if self._authentication.token_strategy is None:
            raise ValueError("cookie=TokenCookie(...) needs access tokens: register a JWTStrategy")
        for other_path, service in services_of_host(app):
            other = getattr(service, "token_cookies", None)
            if not isinstance(other, TokenCookies) or other is self:
                continue
            # A sign-in at one service would replace the cookies of the other one.
            shared = self._options.lower_names & other._options.lower_names  # noqa: SLF001  # same class
            if shared:
                raise ValueError(
                    f"the authentication services {path!r} and {other_path!r} have the same"
                    f" cookies, {', '.join(sorted(shared))}; give one of them other names, such as"
                    ' TokenCookie(name="__Host-admin", refresh_name="__Secure-admin-refresh",'
                    ' csrf_name="__Host-admin-csrf")'
                )
        if self._options.refresh_path is None:
            self._options = replace(self._options, refresh_path=f"/{path}")
        handle = app.service(path)
        if self._handle is not handle:  # a second setup must not register this twice
            self._handle = handle
            # Outermost: a call that hooks let fail sets no cookie.
            handle.hook_table.add_outermost(self.sign_in, ("create",))
            handle.hook_table.add_outermost(self.sign_out, ("remove",))
            handle.compose_hooks()

    @property
    def options(self) -> TokenCookie:
        """The options; after the setup, with the path of the refresh token."""
        return self._options

    # -- the access token of a request ---------------------------------------------------------

    def parse(self, req: CookieRequest, res: CachedResponse | None) -> AmbientCredentials | None:
        """Return the access token in the cookie of a request, None if there is none that counts.

        Args:
            req: The request, or the handshake of a real-time connection.
            res: The response, None for a handshake. Shared caches must not store it.

        Returns:
            Credentials. If other sites may have made the request, they have no token, and say why.
        """
        if res is not None:
            res.vary("Cookie")  # also without one: the same URL has other content with it
        if b"cookie" not in req.sent_headers:
            return None
        headers = req.headers
        token = self._value(headers, self._options.name)
        if token is None:
            return None
        is_own, refusal = self._is_own_page(headers), None
        if req.scope["method"] not in _SAFE_METHODS:
            refusal = self._refusal(headers, token)
        elif "origin" in headers and not is_own:
            return None  # a page of another origin, which could read the response or open a stream
        if res is not None and res.get("cache-control") is None:
            res.set("Cache-Control", "private")
        credentials = {
            "strategy": self._authentication.token_strategy.name,
            "accessToken": None if refusal else token,
        }
        return AmbientCredentials(credentials, is_of_own_page=is_own, refusal=refusal)

    def _value(self, headers: Mapping[str, str], name: str) -> str | None:
        """Return the value of a cookie, None if it is empty or other credentials come with it."""
        if "authorization" in headers or self._authentication.token_strategy.header in headers:
            return None
        return parse_cookies(headers.get("cookie"), only=name).get(name) or None

    # -- other sites ---------------------------------------------------------------------------

    def _is_own_page(self, headers: Mapping[str, str]) -> bool:
        """Tell whether a request certainly comes from a page that may use the cookies."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is None:  # browsers leave it out of a GET of the same origin, and say so here
            return site == "same-origin"
        origin = origin.lower()
        if origin in self._origins:
            return True
        scheme, _, host = origin.partition("://")
        return (
            site in {None, "same-origin"}
            and bool(host)
            and host == headers.get("host", "").lower()
            and (scheme == "https" or bool(_THIS_MACHINE.fullmatch(host)))
        )

    def _refusal(self, headers: Mapping[str, str], token: str) -> FrameworkError | None:
        """Return why the access token of a cookie does not count, None if it does."""
        try:
            self._check_page(headers, self._csrf_token(token))
        except (Forbidden, NotAuthenticated) as error:
            return error
        return None

    def _check_page(self, headers: Mapping[str, str], csrf_token: str) -> None:
        """Check that a request with a cookie is not the work of another site.

        Args:
            headers: Its headers.
            csrf_token: The CSRF token that it needs.

        Raises:
            Forbidden: It may be; the message says what is missing.
        """
        if not self._is_own_page(headers):
            raise Forbidden(
                "This page may not use the cookies of this server: the header Origin is missing or"
                " has another origin"
            )
        given = headers.get(_CSRF_HEADER, "").encode("utf-8", "replace")
        # `==` would tell by its time how much of a guessed token is right.
        if not hmac.compare_digest(given, csrf_token.encode()):
            raise Forbidden(
                "The header X-CSRF-Token is missing or not valid; send the value of the cookie"
                f" {self._options.csrf_name}"
            )

    def _csrf_token(self, token: str) -> str:
        """Return the CSRF token of an access token: that of its session, if it has one.

        Raises:
            NotAuthenticated: The access token is not valid.
        """
        session_id = self._authentication.verify_access_token(token).get("sid")
        is_of_session = isinstance(session_id, str)
        return self._csrf.tag(f"session:{session_id}" if is_of_session else f"token:{token}")

    @cached_property
    def _csrf(self) -> Seal:
        """Makes the CSRF tokens."""
        return Seal(self._authentication.derived_key(b"csrf token"))

    # -- sign-in and sign-out ------------------------------------------------------------------

    async def sign_in(self, context: HookContext, next: Next) -> None:
        """Take a token that the data lacks from its cookie, and set the cookies of new tokens.

        Raises:
            Forbidden: The token is that of a cookie, and another site may have made the request.
        """
        params, data = context.params, context.data
        if params.provider != "rest":
            await next()
            return
        if is_mapping(data) and not any(data.get(name) for name in _TOKENS):
            strategy = data.get("strategy")
            if strategy == "refresh":
                context.data = self._refresh_credentials(params) or data
            elif strategy == self._authentication.token_strategy.name:
                is_of_cookie = isinstance(params.authentication, AmbientCredentials)
                context.data = params.authentication if is_of_cookie else data
        await next()
        result = context.result
        token = result.get("accessToken") if is_mapping(result) else None
        # A page of another site must not sign its visitors in as somebody else.
        if isinstance(token, str) and self._is_own_page(params.headers):
            self._respond(context, self.lines_for(result), {"csrfToken": self._csrf_token(token)})

    def lines_for(self, result: Mapping[str, Any]) -> list[str]:
        """Return the headers ``Set-Cookie`` for the tokens of a sign-in.

        It does not check where the request comes from. Call it only for a browser that has proved
        in another way that its user wants to sign in, such as by the state of an OAuth flow, which
        ends with a navigation from another site.

        Args:
            result: What `AuthenticationService.sign_in` has returned.

        Returns:
            One header for each cookie, none if the result has no token.
        """
        token = result.get("accessToken")
        if not isinstance(token, str):
            return []
        options, sessions = self._options, self._authentication.sessions
        payload = self._authentication.verify_access_token(token)
        age = max(int(payload["exp"] - time.time()), 0)
        refresh_age = age if sessions is None else sessions.lifetime // 1000
        lines = [
            options.line(options.name, token, age),
            options.line(options.csrf_name, self._csrf_token(token), refresh_age),
        ]
        if isinstance(refresh_token := result.get("refreshToken"), str):
            lines.append(options.line(options.refresh_name, refresh_token, refresh_age))
        return lines

    async def sign_out(self, context: HookContext, next: Next) -> None:
        """Sign out by the refresh token if there is nothing else, and remove the cookies.

        Raises:
            Forbidden: As `sign_in`.
        """
        params = context.params
        if params.provider == "rest" and params.authentication is None:
            params.authentication = self._refresh_credentials(params)
        await next()
        if params.provider == "rest" and self._is_own_page(params.headers):
            options = self._options
            names = (options.name, options.csrf_name, options.refresh_name)
            self._respond(context, [options.line(name, "", 0) for name in names], {})

    def _refresh_credentials(self, params: Params) -> dict[str, Any] | None:
        """Return the refresh token in the cookie of a call, None if there is none.

        Raises:
            Forbidden: Another site may have made the request.
        """
        authentication = self._authentication
        token = self._value(params.headers, self._options.refresh_name)
        if token is None or authentication.refresh_tokens is None:
            return None
        session_id, _ = authentication.refresh_tokens.read(token)
        self._check_page(params.headers, self._csrf.tag(f"session:{session_id}"))
        return {"strategy": "refresh", "refreshToken": token}

    def _respond(
        self, context: HookContext, lines: Iterable[str], added: Mapping[str, str]
    ) -> None:
        """Add cookies to the response of a call, and take the tokens from its body if wanted."""
        headers: dict[str, Any] = context.http.get("headers") or {}
        given = headers.get("Set-Cookie", [])
        context.http["headers"] = {
            **headers,
            "Set-Cookie": [*([given] if isinstance(given, str) else given), *lines],
            "Cache-Control": "no-store",
        }
        body = public_result(context)
        if is_mapping(body):
            context.dispatch = self.body_for({**body, **added})

    def body_for(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of a response for the tokens of a sign-in: without them, if so wanted."""
        body = dict(result)
        if not self._options.tokens_in_body:
            for name in _TOKENS:
                body.pop(name, None)
            if is_mapping(authentication := body.get("authentication")):
                body["authentication"] = {
                    name: value for name, value in authentication.items() if name not in _TOKENS
                }
        return body
