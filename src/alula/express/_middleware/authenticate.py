"""Who is calling: `parse_authentication` reads credentials, `authenticate` checks them.

The authentication service is known by its methods ``parse`` and ``authenticate`` alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, TypeAlias

from alula._app import App
from alula._context import Params
from alula._identity import authentication_at, find_authentication, identify, strategies_of
from alula.express._chain import GO_ON, Middleware, NextFunction, Step, ignores_body, never
from alula.express._request import Request
from alula.express._response import Response

__all__ = ["authenticate", "credentials_step", "parse_authentication"]

Credentials: TypeAlias = Mapping[str, Any]
"""What a strategy gets: its name under ``strategy``, and what it needs, such as a token."""


def authenticate(
    *names: str, service: str | None = None, strategies: Iterable[str] | None = None
) -> Middleware:
    """Return middleware that only passes requests with valid credentials.

    It sets ``req.user``, ``req.authentication`` and the same in ``req.framework``. The credentials
    are ``req.authentication``, which middleware before it may set too.

    Args:
        names: Names of the strategies that are allowed: ``authenticate("jwt")``.
        service: The path of the authentication service; None for the default one.
        strategies: The names, for use with ``service``.

    Raises:
        TypeError: No strategy is named.
        NotAuthenticated: By the middleware, for a request without valid credentials.
    """
    allowed = strategies_of("authenticate", names, strategies)

    async def middleware(req: Request, res: Response, next: NextFunction) -> None:
        authentication, credentials = authentication_at(req.app, service), req.authentication
        if credentials is None or credentials.get("strategy") not in allowed:
            parsed = authentication.parse(req, res, *allowed)
            parsed = await parsed if hasattr(parsed, "__await__") else parsed
            credentials = credentials if parsed is None else parsed
        req.authentication = credentials
        params = Params(req.framework, query=req.query)
        await identify(req.app, params, service, allowed)
        # Strategies may read the query. It must not stay in req.framework, whose properties take
        # precedence over req.query when a service is called.
        verified = {name: value for name, value in params.__dict__.items() if name != "query"}
        req.framework.__dict__.update(verified)
        req.user = req.framework.get(authentication.entity or "user")
        await next()

    return middleware


def parse_authentication(
    *, service: str | None = None, strategies: Iterable[str] | None = None
) -> Middleware:
    """Return middleware that reads the credentials of a request: its ``Authorization`` header.

    It sets ``req.authentication`` and ``req.framework.authentication``, and checks nothing.
    `rest` registers it for the default authentication service.

    Args:
        service: The path of the authentication service; None for the default one.
        strategies: Names of the strategies that read requests; None for those of the service.
    """
    names = () if strategies is None else strategies_of("parse_authentication", (), strategies)

    @ignores_body
    def middleware(req: Request, res: Response, next: NextFunction) -> Awaitable[None]:
        parsing = _parse_credentials(find_authentication(req.app, service), req, res, names)
        return next() if parsing is None else set_later(req, parsing, next)

    async def set_later(
        req: Request, parsing: Awaitable[Credentials | None], next: NextFunction
    ) -> None:
        req.authentication = await parsing or req.authentication
        await next()

    return middleware


def credentials_step(app: App) -> Step:
    """Return the step by which `rest` reads credentials for the default authentication service.

    It is an endpoint, which costs least per request: it goes on without a coroutine unless a
    strategy has to be awaited.

    Args:
        app: The application that holds the services.
    """
    services, settings = app.services, app.settings

    def read(req: Request, res: Response) -> Awaitable[object] | None:
        if (settings.get("authentication") or "authentication") not in services:
            return None  # an application without sign-in pays for one look-up only
        parsing = _parse_credentials(find_authentication(app), req, res)
        return None if parsing is None else set_later(req, parsing)

    async def set_later(req: Request, parsing: Awaitable[Credentials | None]) -> object:
        req.authentication = await parsing or req.authentication
        return GO_ON

    return Step(read, is_endpoint=True, may_read_body=never)


def _parse_credentials(
    service: Any, req: Request, res: Response, names: tuple[str, ...] = ()
) -> Awaitable[Credentials | None] | None:
    """Set ``req.authentication`` if a strategy finds some; return what has to be awaited first."""
    parse = getattr(service, "parse", None)
    parsed = None if parse is None else parse(req, res, *names)
    if parsed is None:
        return None
    if hasattr(parsed, "__await__"):
        pending: Awaitable[Credentials | None] = parsed
        return pending
    req.authentication = parsed
    return None
