"""404 for requests that nothing responded to, with a page and hints in debug mode."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, Final

from alula._service import ServiceHandle
from alula.errors import NotFound
from alula.express._chain import Middleware, NextFunction, Phase, ignores_body, in_phase, singleton
from alula.express._middleware._debug_page import send_debug_page
from alula.express._middleware._live_page import live_page
from alula.express._middleware._start_page import open_services, other_pages, start_page
from alula.express._request import SENT_PATH, Request
from alula.express._response import Response

__all__ = ["not_found", "page_not_found"]

# Comparing paths takes time that grows with the square of their length.
_MAX_COMPARED_CHARACTERS: Final = 200

_SIMILAR_RATIO: Final = 0.7


def not_found(*, verbose: bool = False, hints: bool = True) -> Middleware:
    """Return middleware that raises `NotFound`; it goes last, before the error handler.

    The error has the URL without tokens and codes (`Request.shown_url`), since loggers get it
    unchanged. In debug mode, the message suggests a similar path, and ``/`` is a page that lists
    the services.

    Args:
        verbose: Name the URL in the message.
        hints: Show the page and the suggestions in debug mode.
    """

    @ignores_body
    def middleware(req: Request, res: Response, next: NextFunction) -> Awaitable[None] | None:
        error = page_not_found(req, res, verbose=verbose, hints=hints)
        return None if error is None else next(error)

    return singleton("not_found", in_phase(Phase.NOT_FOUND, middleware))


def page_not_found(
    req: Request, res: Response, *, verbose: bool = False, hints: bool = True
) -> NotFound | None:
    """Return the error for a request that nothing has responded to.

    Args:
        req: The request.
        res: Gets the page of debug mode.
        verbose: As in `not_found`.
        hints: As in `not_found`.

    Returns:
        None if that page is the response.
    """
    # `shown_url` removes secrets, and only query strings contain them.
    url, hint = req.shown_url if req.scope["query_string"] else req.path, ""
    if SENT_PATH in req.scope and not req.base_url:
        url = req.scope[SENT_PATH] + url.removeprefix(req.path)
    if hints and req.app.debug:
        is_root = req.path in {"", "/"} and not req.base_url and req.method in {"GET", "HEAD"}
        # Programs ask for JSON, and get the error.
        if is_root and "json" not in (req.headers.get("accept") or ""):
            handle = _watched_service(req)
            if handle is None:
                send_debug_page(res, start_page(req))
            else:
                send_debug_page(res, live_page(handle, has_streams=_has_streams(req.app)))
            return None
        hint = _hint_for(req)
    message = f"Page not found: {url}" if verbose else "Page not found"
    return NotFound(f"{message}{hint}", {"url": url})


def _watched_service(req: Request) -> ServiceHandle | None:
    """Return the service whose records the page is to show: ``/?live=todos``."""
    path = req.query.get("live")
    return next((each for each in open_services(req.app) if _is_watched(each, path)), None)


def _is_watched(handle: ServiceHandle, path: object) -> bool:
    return handle.path == path and "find" in handle.methods and ":" not in handle.path


def _has_streams(app: Any) -> bool:
    servers = app.channel_registry.servers
    return any(server.title.startswith("server-sent events") for server in servers)


def _hint_for(req: Request) -> str:
    """Return what to add to the message of a 404: a similar path, or all at the root."""
    if len(req.path) > _MAX_COMPARED_CHARACTERS:
        return ""
    places = [*(handle.path for handle in open_services(req.app)), *other_pages(req.app)]
    if req.path in {"", "/"}:
        paths = ", ".join(f"/{place.strip('/')}" for place in places)
        return f"; there are {paths}" if paths and not req.base_url else ""
    segments = req.path.strip("/").split("/")
    guesses = [guess for place in places for guess in _guesses(segments, place.strip("/"))]
    ratio, path = max(guesses, default=(0.0, ""))
    return "" if ratio < _SIMILAR_RATIO or path == req.path else f"; did you mean {path}?"


def _guesses(segments: Sequence[str], place: str) -> Iterator[tuple[float, str]]:
    """Yield the paths that a client may have meant with a place, and how similar they are."""
    from difflib import SequenceMatcher  # noqa: PLC0415  # production never loads it

    parts = place.split("/")
    for begin in range(len(segments)):
        end = begin + len(parts)
        given = segments[begin:end]
        if len(given) < len(parts):
            return
        meant = [
            segment if part.startswith(":") else part
            for part, segment in zip(parts, given, strict=True)
        ]
        path = f"/{'/'.join([*meant, *segments[end:]])}"
        if begin == 0:
            texts = "/".join(given).lower(), "/".join(meant).lower()
            yield SequenceMatcher(None, *texts).ratio(), path
        elif given == meant:  # behind a prefix that does not exist, such as /api
            yield _SIMILAR_RATIO, path
