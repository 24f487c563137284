"""Every error as an answer: JSON, or a page for people who look with a browser."""

from __future__ import annotations

import html as html_text
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio.to_thread
from starlette.exceptions import HTTPException

from alula.errors import FrameworkError, GeneralError, error_for_status
from alula.express.request import Request
from alula.express.response import Response

__all__ = ["HtmlOption", "error_handler"]

HtmlOption: TypeAlias = Callable[..., Any] | Mapping[Any, Any] | Literal[False] | None
"""What ``error_handler(html=...)`` takes."""

_log = logging.getLogger("alula.express")

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{code} {name}</title>
<style>
body {{ font: 1.1rem/1.5 system-ui, sans-serif; margin: 15vh auto; max-width: 34rem }}
h1 {{ font-size: 4rem; margin: 0 }}
</style>
<h1>{code}</h1>
<p>{message}</p>
</html>
"""


def error_handler(*, html: HtmlOption = None, logger: Any = None) -> Any:
    """Return the error middleware that answers every error; it goes after all others.

    HTML goes out only where Accept or Content-Type names ``text/html`` and neither names JSON.

    Args:
        html: None for the built-in page; a function ``(error, req, res, next)`` that answers
            itself; a mapping of a status (or ``"default"``) to the path of a page or to such a
            function; False for JSON always.
        logger: An object whose ``error(error)`` gets each error, or such a function; False for
            silence. None logs to ``alula.express``: server errors in full, others in a line.

    Raises:
        FileNotFoundError: A page does not exist.
    """
    pages: Iterable[Any] = html.values() if isinstance(html, Mapping) else ()
    for path in pages:
        if not callable(path) and not Path(path).is_file():
            raise FileNotFoundError(f"error_handler(html=...): there is no page {str(path)!r}")
    report = _reporter(logger)

    async def handler(error: Exception, req: Request, res: Response, next: Any) -> None:
        report(error, req)
        if res.headers_sent:
            # It was answered before this went wrong, but nothing was sent: the error goes out.
            res.reset()
        shown = _for_client(error, debug=req.app.debug)
        res.status(shown.code).remove("content-type")
        for name, value in (shown.headers or {}).items():
            res.set(name, value)
        page: Any = False
        if html is not False and _wants_html(req):
            page = _page_for(html, shown.code)
        if page is False:
            _send_json(shown, res)
        elif callable(page):
            result: Any = page(shown, req, res, next)
            if hasattr(result, "__await__"):
                await result
        elif page is None:
            res.send(_built_in(shown))
        else:
            res.type("html").send(await anyio.to_thread.run_sync(Path(page).read_bytes))

    return handler


def _page_for(html: HtmlOption, code: int) -> Any:
    if not isinstance(html, Mapping):
        return html
    return html.get(code, html.get(str(code), html.get("default")))


def _wants_html(req: Request) -> bool:
    named = f"{req.headers.get('accept', '')} {req.headers.get('content-type', '')}".lower()
    return "text/html" in named and "json" not in named


def _for_client(error: Exception, *, debug: bool) -> FrameworkError:
    """Return what a client may see of an error; of unexpected ones that is next to nothing."""
    if isinstance(error, FrameworkError):
        return error
    if isinstance(error, HTTPException):
        known = error_for_status(error.status_code)(error.detail, code=error.status_code)
        known.headers = getattr(error, "headers", None)
        return known
    return GeneralError(str(error) if debug else "The server failed; its log says why")


def _send_json(error: FrameworkError, res: Response) -> None:
    try:
        res.json(error.to_dict())
    except TypeError:
        _log.exception("the data of an error has no JSON form; it was left out")
        res.json({**error.to_dict(), "data": None, "errors": None})


def _built_in(error: FrameworkError) -> str:
    return _PAGE.format(
        code=error.code,
        name=html_text.escape(error.name),
        message=html_text.escape(error.message),
    )


def _reporter(logger: Any) -> Callable[[Exception, Request], None]:
    if logger is None:
        return _log_error
    log = logger.error if hasattr(logger, "error") else logger
    if logger is not False and not callable(log):
        raise TypeError(f"error_handler(logger={logger!r}): it has no method error(error)")

    def report(error: Exception, _: Request) -> None:
        if log is not False:
            log(error)

    return report


def _log_error(error: Exception, req: Request) -> None:
    # The path alone: a query string may hold a token.
    where = f"{req.method} {req.base_url}{req.path}"
    if getattr(error, "code", getattr(error, "status_code", 500)) in range(500):
        _log.info("%s: %s: %s", where, type(error).__name__, error)
    else:
        _log.error("%s failed", where, exc_info=error)
