"""Static files of a folder, and never of any other place.

They are sent by Starlette's `FileResponse`, which looks at a file, sends its length, and opens it
by its name. After a deployment, what it opens may be another file. Here the head of the response
waits until the file is open and still is the one that was looked at; else all starts anew. What is
appended later is not sent.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Sequence
from email.utils import parsedate_to_datetime
from mimetypes import guess_type
from pathlib import Path
from typing import Final, NamedTuple

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.responses import Response as StarletteResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alula._json_encoding import dumps
from alula._routes import decode_segment
from alula.errors import FrameworkError, NotFound, Unavailable
from alula.express._chain import Middleware, NextFunction, Phase, ignores_body, in_phase
from alula.express._request import Request
from alula.express._response import Response

__all__ = ["file_response", "serve_static"]

_MAX_ATTEMPTS: Final = 3
_PACKED: Final = {
    "gzip": "application/gzip",
    "bzip2": "application/x-bzip2",
    "xz": "application/x-xz",
}
_UNKNOWN: Final = "application/octet-stream"

# The limit of most systems. Looking for a file takes time for each folder in its path, and a
# client can name 30,000 of them.
_MAX_PATH_CHARACTERS: Final = 4096


def serve_static(
    folder: str | os.PathLike[str], *, index: str | None = "index.html", max_age: int = 0
) -> Middleware:
    """Return middleware that responds to GET and HEAD with the files of a folder.

    If there is no such file, the next middleware runs. Dot files, files in dot folders, and links
    that lead out of the folder or to such files, count as absent. Conditional requests get a 304
    if the browser has the file already, and ``Range`` gets parts of it.

    Args:
        folder: Where the files are.
        index: The file to send for a folder, None for none.
        max_age: Seconds for which browsers may keep a file without asking again.

    Raises:
        FileNotFoundError: There is no such folder.
    """
    root = Path(folder).resolve()
    if not root.is_dir():
        raise FileNotFoundError(f"serve_static({str(folder)!r}): there is no folder {root}")
    files = StaticFiles(directory=root)

    async def serve(req: Request, res: Response, next: NextFunction) -> None:
        names = [decode_segment(part) for part in req.path.split("/") if part]
        file = await anyio.to_thread.run_sync(_find, files, root, names, index)
        as_folder = req.scope["path"].endswith("/")
        if file is None or (as_folder and not file.is_index):
            await next()
            return
        res.set("cache-control", f"public, max-age={max_age}")
        if file.is_index and not as_folder:
            # Relative links in the page would lead elsewhere without the slash at the end. One
            # slash in front: by two, a browser would read what follows as another host.
            path, mark, query = req.original_url.partition("?")
            res.redirect(f"/{path.strip('/')}/{mark}{query}", 301)
        else:
            res.delegate(file_response(files, file.path, file.status))

    @ignores_body
    def middleware(req: Request, res: Response, next: NextFunction) -> Awaitable[None]:
        return serve(req, res, next) if req.method in {"GET", "HEAD"} else next()

    return in_phase(Phase.FALLBACK, middleware)


class _File(NamedTuple):
    """A file, and whether it is the index of the folder that was asked for."""

    path: str
    status: os.stat_result
    is_index: bool


def _find(files: StaticFiles, root: Path, names: Sequence[str], index: str | None) -> _File | None:
    if any(_is_hidden(name) for name in names):
        return None
    path = "/".join(names)
    if len(path) > _MAX_PATH_CHARACTERS:
        return None
    try:
        full, status = files.lookup_path(path)
        is_index = status is not None and stat.S_ISDIR(status.st_mode)
        if is_index and index is not None:
            full, status = files.lookup_path(f"{path}/{index}" if path else index)
    except (OSError, ValueError):  # a name too long, a NUL byte, a folder without permission
        return None
    if status is None or not stat.S_ISREG(status.st_mode) or not os.access(full, os.R_OK):
        return None
    # A link within the folder may lead to a dot file of the folder.
    if any(_is_hidden(name) for name in Path(full).relative_to(root).parts):
        return None
    return _File(full, status, is_index)


def _is_hidden(name: str) -> bool:
    # A segment with an encoded slash (%2F, %5C on Windows) would be several names.
    return name.startswith(".") or "/" in name or "\\" in name


class _Changed(Exception):
    """The file is not the one that was looked at."""


class _InvalidRange(Exception):
    """The header ``Range`` is not valid, so that it has to be ignored (RFC 9110, 14.2)."""


class _UnsatisfiableRange(Exception):
    """The header ``Range`` names no part of the file."""


def file_response(files: StaticFiles, path: str, seen: os.stat_result) -> ASGIApp:
    """Return an ASGI application that responds with a file, or a part of it, or a 304.

    Args:
        files: Handles conditional requests.
        path: Of the file.
        seen: What it looked like.
    """

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        status = seen
        error: FrameworkError = Unavailable("The file is being replaced")
        for _ in range(_MAX_ATTEMPTS):
            held_send = _HeldSend(path, status, send)
            response = files.file_response(path, status, scope)
            if _is_refused(Headers(scope=scope), response):
                error = FrameworkError(
                    "The file is not the one that the request is for",
                    name="PreconditionFailed",
                    code=412,
                    class_name="precondition-failed",
                )
                break
            encoding = guess_type(path)[1]
            if encoding is not None:  # or clients would read x.json.gz as JSON
                response.headers["content-type"] = _PACKED.get(encoding, _UNKNOWN)
            try:
                await response(scope, receive, held_send)
                return
            except _InvalidRange:
                scope = {**scope, "headers": [h for h in scope["headers"] if h[0] != b"range"]}
                continue
            except _UnsatisfiableRange:
                error = FrameworkError(
                    "The header Range names no part of the file",
                    name="RangeNotSatisfiable",
                    code=416,
                    class_name="range-not-satisfiable",
                )
                error.headers = {"Content-Range": f"bytes */{status.st_size}"}
                break
            except (_Changed, FileNotFoundError):
                if held_send.began:
                    raise
            try:
                status = await anyio.to_thread.run_sync(os.stat, path)
            except FileNotFoundError:
                error = NotFound("Page not found")
                break
        # What is set for the file, caches must not keep for an error.
        headers = {**(error.headers or {}), "Cache-Control": "no-store"}
        body = dumps(error.to_dict())
        response = StarletteResponse(body, error.code, headers, "application/json")
        await response(scope, receive, send)

    return run


def _is_refused(sent: Headers, response: StarletteResponse) -> bool:
    """Tell whether a condition of a request does not hold for a file (RFC 9110, 13.1.1, 13.1.4)."""
    etags = sent.get("if-match")
    if etags is not None:
        # A strong comparison: a weak ETag belongs to a compressed form, and matches nothing.
        names = {name.strip() for name in etags.split(",")}
        return names.isdisjoint({"*", response.headers["etag"]})
    try:
        latest = parsedate_to_datetime(sent.get("if-unmodified-since", ""))
        return parsedate_to_datetime(response.headers["last-modified"]) > latest
    except (TypeError, ValueError):  # no date, or one without a time zone
        return False


class _HeldSend:
    """A ``send`` that keeps the head until the body comes, and cuts the body to its length."""

    def __init__(self, path: str, seen: os.stat_result, send: Send) -> None:
        self.began = False
        self._path, self._seen, self._send = path, seen, send
        self._head: Message = {}
        self._remaining = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if message["status"] >= 400:
                raise _UnsatisfiableRange if message["status"] == 416 else _InvalidRange
            self._head = message
            self._remaining = int(dict(message["headers"]).get(b"content-length", 0))
            return
        if not self.began:
            now = await anyio.to_thread.run_sync(os.stat, self._path)
            if _identity(now) != _identity(self._seen):
                raise _Changed
            self.began = True
            await self._send(self._head)
        if message["type"] == "http.response.body":
            body = message["body"][: self._remaining]
            self._remaining -= len(body)
            message = {**message, "body": body}
        await self._send(message)


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns
