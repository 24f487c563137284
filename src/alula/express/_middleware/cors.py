"""CORS: which pages of other origins may call this server."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from alula.errors import BadRequest
from alula.express._chain import Middleware, NextFunction, ignores_body
from alula.express._request import Request
from alula.express._response import Response

__all__ = ["cors"]

METHODS: Final = ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE")

_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s]+|null|\*")
_ANYONE: Final = {
    "*": "with all origins",
    "null": "with the origin 'null', which any page has in a sandboxed frame,",
}
# The response has no body, and `vary` is merged with that of other middleware.
_NOT_COPIED: Final = frozenset({"content-length", "content-type", "vary"})


def cors(
    *,
    origins: str | Sequence[str] = ("*",),
    origin_regex: str | None = None,
    methods: str | Sequence[str] = METHODS,
    headers: str | Sequence[str] = ("*",),
    expose: str | Sequence[str] = (),
    credentials: bool = False,
    max_age: int = 600,
) -> Middleware:
    """Return middleware that responds to preflight requests and adds CORS headers to responses.

    Examples:
        >>> from alula.express import cors, express
        >>> web = express().use(cors(origins=["https://app.example"], credentials=True))

    Args:
        origins: Origins that may call, ``"*"`` for all.
        origin_regex: Further origins that may call, as a regular expression of the whole.
        methods: HTTP methods they may use.
        headers: Request headers they may send, ``"*"`` for all.
        expose: Response headers that their scripts may read.
        credentials: Whether browsers send cookies along. That needs origins by name.
        max_age: Seconds for which browsers keep the response to a preflight request.

    Raises:
        ValueError: An origin can never match, or all of them would get ``credentials`` (by
            ``"*"``, or by ``"null"``, which any page can have).
        BadRequest: By the middleware, for a preflight request that asks for too much.
    """
    # A string is searched for substrings, so a part of an origin would pass for the whole.
    origins, methods, headers, expose = (
        (names,) if isinstance(names, str) else tuple(names)
        for names in (origins, methods, headers, expose)
    )
    _check_origins(origins, credentials=credentials)

    async def unused(scope: Scope, receive: Receive, send: Send) -> None:
        """Take the place of the application that Starlette's class wants; it is never called."""

    policy = CORSMiddleware(
        unused,
        allow_origins=origins,
        allow_origin_regex=origin_regex,
        allow_methods=methods,
        allow_headers=headers,
        allow_credentials=credentials,
        expose_headers=expose,
        max_age=max_age,
    )

    @ignores_body
    def middleware(req: Request, res: Response, next: NextFunction) -> Awaitable[None] | None:
        sent = Headers(raw=req.scope["headers"])
        if req.method == "OPTIONS" and "origin" in sent and "access-control-request-method" in sent:
            return _preflight(policy, sent, res, next)

        def with_headers(response: ASGIApp) -> ASGIApp:
            def run(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
                simple_send = partial(policy.send, send=send, request_headers=sent)
                return response(scope, receive, simple_send)

            return run

        res.wrap(with_headers)
        return next()

    return middleware


def _check_origins(origins: Sequence[str], *, credentials: bool) -> None:
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise ValueError(
                f"cors(origins=...): {origin!r} is not an origin as browsers send it; write scheme,"
                " host and port in lower case, such as 'https://app.example:8443', without a path"
            )
    for anyone, why in _ANYONE.items():
        if credentials and anyone in origins:
            raise ValueError(
                f"cors(credentials=True) {why} would let every page on the web act for your users;"
                " name the origins: cors(origins=['https://app.example'], credentials=True)"
            )


def _preflight(
    policy: CORSMiddleware, sent: Headers, res: Response, next: NextFunction
) -> Awaitable[None] | None:
    response = policy.preflight_response(sent)
    try:
        for name, value in response.headers.items():
            if name not in _NOT_COPIED:
                res.set(name, value)
    # Starlette repeats the headers that the client asked for, which may hold anything.
    except ValueError as error:
        return next(BadRequest(f"Invalid preflight request: {error}"))
    for name in response.headers["vary"].split(", "):
        res.vary(name)
    if response.status_code == 200:
        res.status(204).end()
        return None
    return next(BadRequest(bytes(response.body).decode()))
