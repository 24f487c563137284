"""Files of a folder, and never of any other place."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import anyio.to_thread
from starlette.responses import Response as StarletteResponse
from starlette.staticfiles import StaticFiles

from alula.express.request import Request
from alula.express.response import Response
from alula.routes import decode_segment

__all__ = ["serve_static"]


def serve_static(
    folder: str | os.PathLike[str], *, index: str | None = "index.html", max_age: int = 0
) -> Any:
    """Return middleware that answers GET and HEAD with the files of a folder.

    What is no file there goes on to the next middleware. Dot files, and links that lead out of
    the folder, count as absent.

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

    def find(path: str) -> tuple[str, os.stat_result] | None:
        try:
            full, found = files.lookup_path(path)
            if found is not None and stat.S_ISDIR(found.st_mode) and index is not None:
                full, found = files.lookup_path(str(Path(path) / index))
        except (OSError, ValueError):  # a name too long, a NUL byte
            return None
        return (full, found) if found is not None and stat.S_ISREG(found.st_mode) else None

    async def serve(req: Request, res: Response, next: Any) -> None:
        segments = [decode_segment(part) for part in req.path.split("/") if part]
        hidden = any(part.startswith(".") or "/" in part or "\\" in part for part in segments)
        path = "/".join(segments)
        found = None if hidden else await anyio.to_thread.run_sync(find, path)
        if found is None:
            await next()
            return
        response = _with_slash(req, found[0], path) or files.file_response(*found, req.scope)
        response.headers["cache-control"] = f"public, max-age={max_age}"
        res.delegate(response)

    def middleware(req: Request, res: Response, next: Any) -> Any:
        return serve(req, res, next) if req.method in {"GET", "HEAD"} else next()

    return middleware


def _with_slash(req: Request, full: str, path: str) -> StarletteResponse | None:
    """Return a redirect where the index of a folder was asked for without a slash at its end.

    Relative links in that page would lead elsewhere.
    """
    is_index = path and Path(full).name != Path(path).name
    if not is_index or req.path.endswith("/"):
        return None
    return StarletteResponse(status_code=301, headers={"location": req.base_url + req.path + "/"})
