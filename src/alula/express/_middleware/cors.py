"""CORS: which pages of other origins may call this server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response as StarletteResponse

from alula.errors import BadRequest
from alula.express._chain import ignores_body
from alula.express._request import Request
from alula.express._response import ASGIApp, Response

__all__ = ["cors"]

METHODS: Final = ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE")

_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s]+|null|\*")
_ANYONE: Final = {
    "*": "with all origins",
    "null": "with the origin 'null', which any page has in a sandboxed frame,",
}
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
) -> Any:
    """Return middleware that answers preflight requests and adds CORS headers to all answers.

    Args:
        origins: Origins that may call, ``"*"`` for all.
        origin_regex: Further origins that may call, as a regular expression of the whole.
        methods: HTTP methods they may use.
        headers: Request headers they may send, ``"*"`` for all.
        expose: Response headers that their scripts may read.
        credentials: Whether browsers send cookies along. That needs origins by name.
        max_age: Seconds for which browsers keep the answer to a preflight request.

    Raises:
        ValueError: An origin can never fit, or ``credentials`` would be given to all of them (by
            ``"*"``, or by ``"null"``, which any page can have).
        BadRequest: By the middleware, for a preflight request that asks for too much.
    """
    origins, methods, headers, expose = map(_listed, (origins, methods, headers, expose))
    _check(origins, credentials=credentials)
    policy = CORSMiddleware(
        _nowhere,
        allow_origins=origins,
        allow_origin_regex=origin_regex,
        allow_methods=methods,
        allow_headers=headers,
        allow_credentials=credentials,
        expose_headers=expose,
        max_age=max_age,
    )

    @ignores_body
    def middleware(req: Request, res: Response, next: Any) -> Any:
        sent = Headers(raw=req.scope["headers"])
        if req.method == "OPTIONS" and "origin" in sent and "access-control-request-method" in sent:
            return _preflight(policy.preflight_response(sent), res, next)

        def with_headers(answer: ASGIApp) -> ASGIApp:
            def run(scope: Any, receive: Any, send: Any) -> Any:
                return answer(scope, receive, partial(policy.send, send=send, request_headers=sent))

            return run

        res.wrap(with_headers)
        return next()

    return middleware


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    # Looked up in a string, a part of an origin would pass for the whole.
    return (names,) if isinstance(names, str) else tuple(names)


def _check(origins: Sequence[str], *, credentials: bool) -> None:
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise ValueError(
                f"cors(origins=...): {origin!r} is no origin as browsers send it; write scheme,"
                " host and port in lower case, such as 'https://app.example:8443', without a path"
            )
    for anyone, why in _ANYONE.items():
        if credentials and anyone in origins:
            raise ValueError(
                f"cors(credentials=True) {why} would let every page on the web act for your users;"
                " name the origins: cors(origins=['https://app.example'], credentials=True)"
            )


def _preflight(response: StarletteResponse, res: Response, next: Any) -> Any:
    try:
        for name, value in response.headers.items():
            if name not in _NOT_COPIED:
                res.set(name, value)
    except ValueError as error:  # it repeats what was asked for
        return next(BadRequest(f"This preflight request can not be answered: {error}"))
    for name in response.headers["vary"].split(", "):
        res.vary(name)
    if response.status_code == 200:
        res.status(204).end()
        return None
    return next(BadRequest(bytes(response.body).decode()))


async def _nowhere(scope: Any, receive: Any, send: Any) -> None:
    """Stand in for the application that Starlette's middleware wants; it is never called."""
