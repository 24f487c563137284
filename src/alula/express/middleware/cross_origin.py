"""CORS: which pages of other origins may call this server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response as StarletteResponse

from alula.express.request import Request
from alula.express.response import ASGIApp, Response

__all__ = ["cors"]

METHODS = ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE")


def cors(
    *,
    origins: Sequence[str] = ("*",),
    origin_regex: str | None = None,
    methods: Sequence[str] = METHODS,
    headers: Sequence[str] = ("*",),
    expose: Sequence[str] = (),
    credentials: bool = False,
    max_age: int = 600,
) -> Any:
    """Return middleware that answers preflight requests and adds CORS headers to all answers.

    Args:
        origins: Origins that may call, ``"*"`` for all.
        origin_regex: Origins that may call, as a regular expression of the whole.
        methods: HTTP methods they may use.
        headers: Request headers they may send, ``"*"`` for all.
        expose: Response headers that their scripts may read.
        credentials: Whether browsers send cookies along; the origin is then named, never ``*``.
        max_age: Seconds for which browsers keep the answer to a preflight request.
    """
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

    def middleware(req: Request, res: Response, next: Any) -> Any:
        sent = Headers(raw=req.scope["headers"])
        if "origin" not in sent:
            return next()
        if req.method == "OPTIONS" and "access-control-request-method" in sent:
            return _preflight(policy.preflight_response(sent), res)

        def with_headers(answer: ASGIApp) -> ASGIApp:
            def run(scope: Any, receive: Any, send: Any) -> Any:
                return answer(scope, receive, partial(policy.send, send=send, request_headers=sent))

            return run

        res.wrap(with_headers)
        return next()

    return middleware


def _preflight(response: StarletteResponse, res: Response) -> None:
    for name, value in response.headers.items():
        if name not in {"content-length", "content-type"}:
            res.set(name, value)
    if response.status_code == 200:
        res.status(204).end()
    else:
        res.status(response.status_code).type("text").end(bytes(response.body))


async def _nowhere(scope: Any, receive: Any, send: Any) -> None:
    """Stand in for the application that Starlette's middleware wants; it is never called."""
