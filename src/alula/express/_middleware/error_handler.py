"""Every error as an answer: JSON, or a page for people who look with a browser."""

from __future__ import annotations

import html as html_text
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import anyio.to_thread

from alula.errors import FrameworkError
from alula.express._error_log import log, reporter
from alula.express._public_error import public_error, read_error_headers, status_of
from alula.express._request import Request
from alula.express._response import Response
from alula.logs._formatters import short_line

__all__ = ["HtmlOption", "error_handler"]

HtmlOption: TypeAlias = Callable[..., Any] | Mapping[Any, Any] | Literal[False] | None
"""What ``error_handler(html=...)`` takes."""

_Page: TypeAlias = Path | Callable[..., Any] | None

_BUILT_IN: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{code} {name}</title>
<style>
:root {{ color-scheme: light dark }}
body {{
  font: 1.1rem/1.5 system-ui, sans-serif; margin: 12vh auto; max-width: 46rem; padding: 0 1rem;
}}
h1 {{ font-size: 4rem; margin: 0 }}
p {{ overflow-wrap: anywhere }}
pre {{
  font: .9rem/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere;
  padding: 1rem; border: 1px solid color-mix(in srgb, currentColor 25%, transparent);
  border-radius: .5rem;
}}
</style>
<h1>{code}</h1>
{message}
</html>
"""


def error_handler(
    *, html: HtmlOption = None, logger: Any = None, headers: Iterable[str] = ()
) -> Any:
    """Return the error middleware that answers every error; it goes after all others.

    HTML goes out only where Accept or Content-Type names ``text/html`` and neither names JSON.

    Args:
        html: None for the built-in page; a function ``(error, req, res, next)`` that answers
            itself; a mapping of a status (or ``"default"``) to the path of a page or to such a
            function; False for JSON always. The error that a function gets is what the client
            may know; the exception behind it is its ``__cause__``.
        logger: An object whose ``error(error)`` gets each error, or such a function, plain or
            asynchronous; False for silence. None logs to ``alula.express``: server errors in
            full, others in a line.
        headers: Names of headers that ``error.headers`` may set, beside ``Allow``,
            ``Retry-After``, ``WWW-Authenticate``, ``Accept-Encoding`` and ``Content-Range``. All
            others are left out, and a line in the log names them.

    Raises:
        FileNotFoundError: A page does not exist.
        TypeError: ``html``, ``logger`` or ``headers`` is none of these.
        ValueError: ``headers`` names a header of the connection or of the body.
    """
    page_for, allowed = _pages(html), read_error_headers(headers)
    report = reporter(logger)

    async def handler(error: Exception, req: Request, res: Response, next: Any) -> None:
        shown = public_error(error, debug=req.app.debug)
        status = status_of(shown)
        await report(error, status, req)
        # Where it was answered before this went wrong, nothing was sent yet: the error goes out.
        res.reset().status(status)
        _set_headers(shown, res, allowed)
        if page_for is not None:
            res.vary("Accept")
        if page_for is None or not _wants_html(req):
            _send_json(shown, res)
            return
        page = page_for(status)
        if callable(page):
            result = page(shown, req, res, next)
            if hasattr(result, "__await__"):
                await result
        else:
            res.type("html").send(await _page_text(page, shown))

    return handler


def _pages(html: Any) -> Callable[[int], _Page] | None:
    """Return the function that gives the page for a status, None for no pages at all."""
    if html is False:
        return None
    if html is None or callable(html):
        return lambda _: html
    if not isinstance(html, Mapping):
        raise TypeError(
            f"error_handler(html={html!r}): it takes a function (error, req, res, next), a mapping"
            " of statuses to pages, or False"
        )
    pages = {_page_key(key): _page_value(page) for key, page in html.items()}
    default = pages.get("default")
    return lambda code: pages.get(str(code), default)


def _page_key(key: Any) -> str:
    name = str(key)
    if name != "default" and not (name.isdecimal() and len(name) == 3):
        raise TypeError(f"error_handler(html=...): {key!r} is neither a status nor 'default'")
    return name


def _page_value(page: Any) -> _Page:
    if callable(page):
        found: Callable[..., Any] = page
        return found
    path = Path(page).absolute()
    if not path.is_file():
        raise FileNotFoundError(f"error_handler(html=...): there is no page {str(path)!r}")
    return path


def _wants_html(req: Request) -> bool:
    headers = req.headers
    named = f"{headers.get('accept')} {headers.get('content-type')}".lower()
    return "text/html" in named and "json" not in named


def _set_headers(error: FrameworkError, res: Response, allowed: frozenset[str]) -> None:
    for name, value in (error.headers or {}).items():
        if str(name).lower() not in allowed:
            log.warning(
                "an error may not set the header %s, so it was left out;"
                " error_handler(headers=[...]) allows more",
                short_line(str(name)),
            )
            continue
        try:
            res.set(name, value)
        except (TypeError, ValueError):
            log.exception("a header of an error can not be sent; it was left out")


def _send_json(error: FrameworkError, res: Response) -> None:
    body = error.to_dict()
    try:
        res.json(body)
    except Exception:  # noqa: BLE001  # values may fail in any way while they are turned into JSON
        log.exception("the data of an error has no JSON form; it was left out")
        res.json({name: body[name] for name in ("name", "message", "code", "className")})


async def _page_text(page: Path | None, error: FrameworkError) -> bytes:
    if page is not None:
        try:
            return await anyio.to_thread.run_sync(page.read_bytes)
        except OSError:
            log.exception("the error page %s can not be read; the built-in one was sent", page)
    message = html_text.escape(error.message)
    has_lines = "\n" in message  # such as the stack of an application that does not start
    text = _BUILT_IN.format(
        code=error.code,
        name=html_text.escape(error.name),
        message=f"<pre>{message}</pre>" if has_lines else f"<p>{message}</p>",
    )
    return text.encode("utf-8", "replace")
