"""Who is calling, for middleware: `parse_authentication` reads proofs, `authenticate` checks them.

The authentication service is known by its methods ``parse`` and ``authenticate`` alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from alula._context import Params
from alula._identity import authentication_at, find_authentication, identify, strategies_of
from alula.express._chain import GO_ON, ignores_body
from alula.express._request import Request
from alula.express._response import Response

__all__ = ["authenticate", "parse_authentication", "proof_reader"]


def parse_authentication(
    *, service: str | None = None, strategies: Iterable[str] | None = None
) -> Any:
    """Return middleware that reads the proof of a request: its ``Authorization`` header.

    It sets ``req.authentication`` and ``req.framework.authentication``, and checks nothing.
    `rest` registers it for the default authentication service.

    Args:
        service: The path of the authentication service; None for the default one.
        strategies: Names of the strategies that look for a proof; None for those of the service.
    """
    names = () if strategies is None else strategies_of("parse_authentication", (), strategies)

    @ignores_body
    def middleware(req: Request, res: Response, next: Any) -> Any:
        found = _find_proof(find_authentication(req.app, service), req, res, names)
        return next() if found is None else _take_later(req, found, next)

    return middleware


def proof_reader(app: Any) -> Callable[[Request, Response], Awaitable[object] | None]:
    """Return the step by which `rest` reads proofs for the default authentication service.

    It is a step that claims, since these cost least: it claims nothing, unless there is a strategy
    that has to be waited for.

    Args:
        app: The application that holds the services.
    """
    services, settings = app.services, app.settings

    def read(req: Request, res: Response) -> Awaitable[object] | None:
        if (settings.get("authentication") or "authentication") not in services:
            return None  # the usual way of an application without sign-in, in one look
        found = _find_proof(find_authentication(app), req, res)
        return None if found is None else _take_and_go_on(req, found)

    return read


def _find_proof(
    service: Any, req: Request, res: Response, names: tuple[str, ...] = ()
) -> Awaitable[Any] | None:
    """Take a proof if there is one; return what has to be waited for, None for nothing."""
    parse = getattr(service, "parse", None)
    found = None if parse is None else parse(req, res, *names)
    if found is None:
        return None
    if hasattr(found, "__await__"):
        awaited: Awaitable[Any] = found
        return awaited
    req.authentication = found
    return None


def authenticate(
    *names: str, service: str | None = None, strategies: Iterable[str] | None = None
) -> Any:
    """Return middleware that lets only those pass who prove who they are.

    It sets ``req.user``, ``req.authentication`` and the same in ``req.framework``. The proof is
    ``req.authentication``, which middleware before it may set too.

    Args:
        names: Names of the strategies that are allowed: ``authenticate("jwt")``.
        service: The path of the authentication service; None for the default one.
        strategies: The names, for use with ``service``.

    Raises:
        TypeError: No strategy is named.
        NotAuthenticated: By the middleware, for whoever proves nothing.
    """
    allowed = strategies_of("authenticate", names, strategies)

    async def middleware(req: Request, res: Response, next: Any) -> None:
        known, proof = authentication_at(req.app, service), req.authentication
        if proof is None or proof.get("strategy") not in allowed:
            found = known.parse(req, res, *allowed)
            found = await found if hasattr(found, "__await__") else found
            proof = proof if found is None else found
        req.authentication = proof
        await _identify(req, service, allowed)
        req.user = req.framework.get(known.entity or "user")
        await next()

    return middleware


async def _identify(req: Request, service: str | None, allowed: tuple[str, ...]) -> None:
    """Let ``req.framework`` say who is calling.

    Strategies may ask for the query, which must not stay there: it would take the place of the one
    that ``req.query`` has when a service is called.
    """
    params = Params(req.framework, query=req.query)
    await identify(req.app, params, service, allowed)
    proved = {name: value for name, value in params.__dict__.items() if name != "query"}
    req.framework.__dict__.update(proved)


async def _take_and_go_on(req: Request, found: Awaitable[Any]) -> object:
    req.authentication = await found or req.authentication
    return GO_ON


async def _take_later(req: Request, found: Awaitable[Any], next: Any) -> None:
    req.authentication = await found or req.authentication
    await next()
