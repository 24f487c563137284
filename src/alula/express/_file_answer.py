"""A file as an answer, by Starlette's `FileResponse`, for files that may change meanwhile.

Starlette looks at a file, sends its length, and opens it by its name. What is opened may then be
another file, as deployments replace them. Here the head waits until the file is open and still is
the one that was looked at; else all begins anew. What is appended later is not sent.
"""

from __future__ import annotations

import os
from typing import Any, Final

import anyio.to_thread
from starlette.responses import Response as StarletteResponse
from starlette.staticfiles import StaticFiles

from alula.errors import FrameworkError, NotFound, Unavailable
from alula.express._json_encoding import dumps
from alula.express._response import ASGIApp

__all__ = ["file_answer"]

_TRIES: Final = 3


class _Changed(Exception):
    """The file is another than the one that was looked at."""


class _NoRange(Exception):
    """The header ``Range`` is none, so that it has to be ignored (RFC 9110, 14.2)."""


class _NoSuchPart(Exception):
    """The header ``Range`` names no part of the file."""


def file_answer(files: StaticFiles, path: str, seen: os.stat_result) -> ASGIApp:
    """Return an ASGI application that answers with a file, or a part of it, or a 304.

    Args:
        files: Knows what a conditional request is.
        path: Of the file.
        seen: What it looked like.
    """

    async def run(scope: Any, receive: Any, send: Any) -> None:
        status = seen
        error: FrameworkError = Unavailable("The file is being replaced")
        for _ in range(_TRIES):
            held = _Held(path, status, send)
            try:
                await files.file_response(path, status, scope)(scope, receive, held)
                return
            except _NoRange:
                scope = {**scope, "headers": [h for h in scope["headers"] if h[0] != b"range"]}
                continue
            except _NoSuchPart:
                error = _no_such_part(status.st_size)
                break
            except (_Changed, FileNotFoundError):
                if held.begun:
                    raise
            try:
                status = await anyio.to_thread.run_sync(os.stat, path)
            except FileNotFoundError:
                error = NotFound("Page not found")
                break
        body = dumps(error.to_dict())
        answer = StarletteResponse(body, error.code, error.headers, "application/json")
        await answer(scope, receive, send)

    return run


class _Held:
    """A ``send`` that keeps the head until the body comes, and the body to its length."""

    def __init__(self, path: str, seen: os.stat_result, send: Any) -> None:
        self.begun = False
        self._path, self._seen, self._send = path, seen, send
        self._head: Any = None
        self._left = 0

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            if message["status"] >= 400:
                raise _NoSuchPart if message["status"] == 416 else _NoRange
            self._head = message
            self._left = int(dict(message["headers"]).get(b"content-length", 0))
            return
        if not self.begun:
            now = await anyio.to_thread.run_sync(os.stat, self._path)
            if _identity(now) != _identity(self._seen):
                raise _Changed
            self.begun = True
            await self._send(self._head)
        if message["type"] == "http.response.body":
            body = message["body"][: self._left]
            self._left -= len(body)
            message = {**message, "body": body}
        await self._send(message)


def _no_such_part(size: int) -> FrameworkError:
    error = FrameworkError(
        "The header Range names no part of the file",
        name="RangeNotSatisfiable",
        code=416,
        class_name="range-not-satisfiable",
    )
    error.headers = {"Content-Range": f"bytes */{size}"}
    return error


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns
