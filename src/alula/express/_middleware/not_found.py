"""404 for what nobody answered."""

from __future__ import annotations

from typing import Any

from alula.errors import NotFound
from alula.express._chain import ignores_body
from alula.express._request import Request
from alula.express._response import Response

__all__ = ["not_found", "nothing_here"]

# The page of debug mode has no scripts, and loads nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"


def not_found(*, verbose: bool = False, hints: bool = True) -> Any:
    """Return middleware that raises `NotFound`; it goes last, before the error handler.

    An ``access_token`` in the URL is left out of the error, which loggers get as it is. In debug
    mode, the message says what the address may have meant, and ``/`` is a page that lists what
    there is.

    Args:
        verbose: Name the URL in the message.
        hints: Show the page and what the address may have meant, where debug mode is on.
    """

    @ignores_body
    def middleware(req: Request, res: Response, next: Any) -> Any:
        error = nothing_here(req, res, verbose=verbose, hints=hints)
        return None if error is None else next(error)

    return middleware


def nothing_here(
    req: Request, res: Response, *, verbose: bool = False, hints: bool = True
) -> NotFound | None:
    """Return the error for a request that nothing has answered.

    Args:
        req: The request.
        res: Gets the page of debug mode.
        verbose: As in `not_found`.
        hints: As in `not_found`.

    Returns:
        None where it is answered by that page.
    """
    url, hint = req.shown_url, ""
    if hints and req.app.debug:
        # Only debug mode pays what it loads.
        from alula.express._debug_page import hint_for, overview_page, wants_overview  # noqa: PLC0415

        if wants_overview(req):
            res.set("Content-Security-Policy", _POLICY).set("Cache-Control", "no-store")
            res.type("html").send(overview_page(req))
            return None
        hint = hint_for(req)
    message = f"Page not found: {url}" if verbose else "Page not found"
    return NotFound(f"{message}{hint}", {"url": url})
