"""Who is calling: `parse_authentication` reads credentials, `authenticate` checks them.

The authentication service is known by its methods ``parse`` and ``authenticate`` alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, TypeAlias

from alula._context import Params
from alula._identity import (
    authentication_at,
    check_scope,
    find_authentication,
    identify,
    scope_option,
    strategies_of,
)
from alula.express._chain import Middleware, NextFunction, goes_on
from alula.express._request import Request
from alula.express._response import Response

__all__ = ["authenticate", "parse_authentication", "read_credentials"]

Credentials: TypeAlias = Mapping[str, Any]
"""What a strategy gets: its name under ``strategy``, and what it needs, such as a token."""


def authenticate(
    *names: str,
    service: str | None = None,
    strategies: Iterable[str] | None = None,
    optional: bool = False,
    scope: str | None = None,
) -> Middleware:
    """Return middleware that only passes requests with valid credentials.

    It sets ``req.user``, ``req.authentication`` and the same in ``req.framework``. The credentials
    are ``req.authentication``, which middleware before it may set too.

    Args:
        names: Names of the strategies that are allowed: ``authenticate("jwt")``.
        service: The path of the authentication service; None for the default one.
        strategies: The names, for use with ``service``.
        optional: Whether requests without credentials pass too, without ``req.user``. Wrong
            credentials are refused all the same.
        scope: The scope that an API key needs: ``"export:read"``. Without one, keys are refused: a
            route has no service that would name it.

    Raises:
        TypeError: No strategy is named, or the scope is not one.
        NotAuthenticated: By the middleware, for a request without valid credentials.
        Forbidden: By the middleware: an API key lacks the scope, or its strategy is not named.
    """
    allowed = strategies_of("authenticate", names, strategies)
    scope_option("authenticate", scope)

    async def middleware(req: Request, res: Response, next: NextFunction) -> None:
        authentication, credentials = authentication_at(req.app, service), req.authentication
        if credentials is None or credentials.get("strategy") not in allowed:
            parsed = authentication.parse(req, res, *allowed)
            parsed = await parsed if hasattr(parsed, "__await__") else parsed
            credentials = credentials if parsed is None else parsed
        req.authentication = credentials
        params = Params(req.framework, query=req.query)
        await identify(authentication, params, allowed, optional=optional)
        check_scope(authentication, params, scope)
        # Strategies may read the query. It must not stay in req.framework, whose properties take
        # precedence over req.query when a service is called.
        verified = {name: value for name, value in params.__dict__.items() if name != "query"}
        framework = req.framework.__dict__
        for name in framework.keys() - params.__dict__.keys():  # the user of another service
            del framework[name]
        framework.update(verified)
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

    @goes_on
    def middleware(req: Request, res: Response) -> Awaitable[None] | None:
        return read_credentials(find_authentication(req.app, service), req, res, *names)

    return middleware


def read_credentials(
    service: Any, req: Request, res: Response, *names: str
) -> Awaitable[None] | None:
    """Set the credentials of a request, if the service finds some."""
    parse = getattr(service, "parse", None)
    parsed = None if parse is None else parse(req, res, *names)
    if parsed is None:
        return None
    if type(parsed) is not dict and hasattr(parsed, "__await__"):
        return _set_later(req, parsed)
    req.authentication = parsed
    return None


async def _set_later(req: Request, parsing: Awaitable[Credentials | None]) -> None:
    req.authentication = await parsing or req.authentication
