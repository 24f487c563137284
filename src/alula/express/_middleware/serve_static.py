"""Files of a folder, and never of any other place."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio.to_thread
from starlette.staticfiles import StaticFiles

from alula._routes import decode_segment
from alula.express._chain import ignores_body
from alula.express._file_answer import file_answer
from alula.express._request import Request
from alula.express._response import Response

__all__ = ["serve_static"]


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
