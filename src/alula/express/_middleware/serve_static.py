"""Files of a folder, and never of any other place."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio.to_thread
from starlette.responses import Response as StarletteResponse
from starlette.staticfiles import StaticFiles

from alula._routes import decode_segment
from alula.errors import FrameworkError, NotFound, Unavailable
from alula.express._chain import ignores_body
from alula.express._json_encoding import dumps
from alula.express._request import Request
from alula.express._response import ASGIApp, Response

__all__ = ["file_answer", "serve_static"]


class _Found(NamedTuple):
    """A file, and whether it stands for the folder that was asked for."""

    path: str
    status: os.stat_result
    is_index: bool


def serve_static(
    folder: str | os.PathLike[str], *, index: str | None = "index.html", max_age: int = 0
) -> Any:
    """Return middleware that answers GET and HEAD with the files of a folder.

    What is no file there goes on to the next middleware. Dot files, files in dot folders, and
    links that lead out of the folder or to such files, count as absent. Conditional requests get
    a 304 where the browser has the file already, and ``Range`` gets parts of it.

    Args:
        folder: Where the files are.
        index: The file that stands for a folder, None for none.
        max_age: Seconds for which browsers may keep a file without asking again.

    Raises:
        FileNotFoundError: There is no such folder.
    """
    root = Path(folder).resolve()
    if not root.is_dir():
        raise FileNotFoundError(f"serve_static({str(folder)!r}): there is no folder {root}")
    files = StaticFiles(directory=root)

    async def serve(req: Request, res: Response, next: Any) -> None:
        names = [decode_segment(part) for part in req.path.split("/") if part]
        found = await anyio.to_thread.run_sync(_find, files, root, names, index)
        as_folder = req.scope["path"].endswith("/")
        if found is None or (as_folder and not found.is_index):
            await next()
            return
        res.set("cache-control", f"public, max-age={max_age}")
        if found.is_index and not as_folder:
            # Relative links in the page would lead elsewhere.
            res.redirect(_with_slash(req.original_url), 301)
        else:
            res.delegate(file_answer(files, found.path, found.status))

    @ignores_body
    def middleware(req: Request, res: Response, next: Any) -> Any:
        return serve(req, res, next) if req.method in {"GET", "HEAD"} else next()

    return middleware


def _find(files: StaticFiles, root: Path, names: Sequence[str], index: str | None) -> _Found | None:
    if any(_is_hidden(name) for name in names):
        return None
    path = "/".join(names)
    try:
        full, status = files.lookup_path(path)
        is_index = status is not None and stat.S_ISDIR(status.st_mode)
        if is_index and index is not None:
            full, status = files.lookup_path(f"{path}/{index}" if path else index)
    except (OSError, ValueError):  # a name too long, a NUL byte, a folder nobody may enter
        return None
    if status is None or not stat.S_ISREG(status.st_mode) or not os.access(full, os.R_OK):
        return None
    # A link within the folder may lead to a dot file of the folder.
    if any(_is_hidden(name) for name in Path(full).relative_to(root).parts):
        return None
    return _Found(full, status, is_index)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or "/" in name or "\\" in name


def _with_slash(url: str) -> str:
    path, mark, query = url.partition("?")
    # One slash in front: by two, a browser would read what follows as another host.
    return f"/{path.strip('/')}/{mark}{query}"


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
