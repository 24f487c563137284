"""The error middleware: every error as a response, JSON or a page, and what the log gets of it.

What a client may know of an error: `alula._public_error`. What the log gets: `reporter`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from alula._public_error import debug_text, error_json, log_text, public_error
from alula._repeats import RepeatLimit
from alula._routes import decode_segment
from alula.errors import FrameworkError
from alula.express._chain import NextFunction, Phase, in_phase
from alula.express._request import Request
from alula.express._response import Response
from alula.outgoing._text import escape_html, short_line

__all__ = [
    "ERROR_HEADERS",
    "HtmlOption",
    "error_handler",
    "read_error_headers",
    "reporter",
    "status_of",
]

HtmlOption: TypeAlias = Callable[..., object] | Mapping[Any, Any] | Literal[False] | None
"""What ``error_handler(html=...)`` takes."""

ErrorHandler: TypeAlias = Callable[
    [Exception, Request, Response, NextFunction | None], Awaitable[None]
]
"""Error middleware that always responds, so that nothing need follow it."""

Report: TypeAlias = Callable[[Exception, int, Request], Awaitable[None] | None]
"""Gets an error, the status of its response, and the request; returns what must be awaited."""

_Page: TypeAlias = Path | Callable[..., object] | None

_log: Final = logging.getLogger("alula.express")

ERROR_HEADERS: Final = frozenset(
    {
        "accept-encoding",
        "allow",
        "content-range",
        "retry-after",
        "www-authenticate",
    }
)
"""The headers that an error may set, in lower case; `error_handler` can allow more.

An error may come from anywhere, also from the response of another server, so only allowed headers
are sent.
"""

_NEVER: Final = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "server",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""The headers of one connection or one body, which an error knows nothing of."""

_STATUSES: Final = range(300, 600)


def error_handler(
    *, html: HtmlOption = None, logger: object = None, headers: Iterable[str] = ()
) -> ErrorHandler:
    """Return the error middleware that responds to every error; it goes after all others.

    HTML is sent only if Accept or Content-Type names ``text/html`` and neither names JSON.

    Examples:
        >>> from alula.express import error_handler, express, not_found
        >>> web = express().use(not_found(), error_handler(html=False))

    Args:
        html: None for the built-in page; a function ``(error, req, res, next)`` that responds
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

    async def handler(
        error: Exception, req: Request, res: Response, next: NextFunction | None
    ) -> None:
        if isinstance(error, FrameworkError):
            shown = error
        else:
            shown = public_error(error, debug=req.app.debug)
        status = status_of(shown)
        hook = res.hook
        if isinstance(report, _ErrorLog) and (hook is None or hook.service.secret_ids):
            # Reading it stores it, also where this log is off: the access log of an outer
            # application cannot look it up.
            _ = req.hides_id
        if (reporting := report(error, status, req)) is not None:
            await reporting
        # An earlier response was not sent yet: the error takes its place. Mostly there is none.
        if res.headers_sent or res._headers:  # noqa: SLF001  # the fact has no other name
            res.reset()
        res.status_code = status
        if shown.headers:
            _set_headers(shown.headers, allowed, res)
        if page_for is None:
            _send_json(shown, res.json)
            return
        named = (req.headers.get("accept") or "").lower()
        if "json" not in named:  # most programs ask for it, which settles the matter
            named += f" {req.headers.get('content-type')}".lower()
        if "text/html" not in named or "json" in named:
            _send_json(shown, res.send_result)
            return
        res.vary("Accept")
        page = page_for(status)
        if callable(page):
            result: Any = page(shown, req, res, next)
            if hasattr(result, "__await__"):
                await result
        else:
            message = _message_of_page(error, shown, debug=req.app.debug)
            res.type("html").send(await _page_text(page, shown, message))

    return in_phase(Phase.ERROR_HANDLER, handler)


# -- statuses and headers --------------------------------------------------------------------------


def status_of(error: FrameworkError) -> int:
    """Return the status of an error's response; 500 if its code is not one."""
    return error.code if isinstance(error.code, int) and error.code in _STATUSES else 500


def read_error_headers(names: Iterable[str]) -> frozenset[str]:
    """Return the names of all headers that errors may set, in lower case.

    Args:
        names: Those to allow beside `ERROR_HEADERS`.

    Raises:
        TypeError: It is one string, or has something other than strings.
        ValueError: A header describes the connection or the body.
    """
    if isinstance(names, str):
        raise TypeError(f"error_handler(headers={names!r}): give a list: [{names!r}]")
    given = [*names]
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"error_handler(headers=...): {name!r} is not the name of a header")
        if name.lower() in _NEVER:
            raise ValueError(
                f"error_handler(headers=...): errors cannot set {name!r}, since it belongs to the"
                " connection or describes the body"
            )
    return ERROR_HEADERS.union(name.lower() for name in given)


def _set_headers(headers: Mapping[str, str], allowed: frozenset[str], res: Response) -> None:
    for name, value in headers.items():
        if str(name).lower() not in allowed:
            _log.warning(
                "an error may not set the header %s, so it was left out;"
                " error_handler(headers=[...]) allows more",
                short_line(str(name)),
            )
            continue
        try:
            res.set(name, value)
        except (TypeError, ValueError):
            _log.exception("a header of an error cannot be sent; it was left out")


def _send_json(error: FrameworkError, send: Callable[[object], None]) -> None:
    body = error_json(error)
    try:
        send(body)
    # Values may fail in any way while they are turned into JSON.
    except Exception:  # noqa: BLE001  # it is logged
        _log.exception("the data of an error has no JSON form; it was left out")
        send({name: body[name] for name in ("name", "message", "code", "className")})


# -- pages -----------------------------------------------------------------------------------------

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


def _pages(html: HtmlOption) -> Callable[[int], _Page] | None:
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
    pages: dict[str, _Page] = {}
    for key, page in html.items():
        name = str(key)
        if name != "default" and not (name.isdecimal() and len(name) == 3):
            raise TypeError(f"error_handler(html=...): {key!r} is neither a status nor 'default'")
        # Absolute, because the program may change its working directory.
        pages[name] = path = page if callable(page) else Path(page).absolute()
        if isinstance(path, Path) and not path.is_file():
            raise FileNotFoundError(f"error_handler(html=...): there is no page {str(path)!r}")
    default = pages.get("default")
    return lambda code: pages.get(str(code), default)


def _message_of_page(error: Exception, shown: FrameworkError, *, debug: bool) -> str:
    """Return what the built-in page says of an error; debug mode shows what developers need."""
    if not debug:
        return shown.message
    is_unexpected = not isinstance(error, FrameworkError) and shown.code == 500
    return debug_text(error) if is_unexpected else log_text(shown)


async def _page_text(page: Path | None, error: FrameworkError, text: str) -> bytes:
    if page is not None:
        try:
            return await asyncio.to_thread(page.read_bytes)
        except OSError:
            _log.exception("the error page %s cannot be read; the built-in one was sent", page)
    message = escape_html(text)
    # Several lines are a stack: of an unexpected error, or of an application that does not start.
    tag = "pre" if "\n" in message else "p"
    text = _BUILT_IN.format(
        code=error.code,
        name=escape_html(error.name),
        message=f"<{tag}>{message}</{tag}>",
    )
    # A lone surrogate in a message must not turn the error page into another error.
    return text.encode("utf-8", "replace")


# -- the log: no query strings, which may hold tokens ----------------------------------------------


def reporter(logger: Any) -> Report:
    """Return the function that reports errors to a logger.

    Args:
        logger: As in `error_handler`.

    Raises:
        TypeError: Errors cannot be reported to it.
    """
    if logger is None:
        return _ErrorLog()
    if logger is False:

        def silence(error: Exception, status: int, req: Request) -> None:
            """Report nothing."""

        return silence
    log_error = getattr(logger, "error", logger)
    if not callable(log_error):
        raise TypeError(f"error_handler(logger={logger!r}): it has no method error(error)")
    with_stack = isinstance(logger, logging.Logger | logging.LoggerAdapter)

    async def report(error: Exception, status: int, _: Request) -> None:
        try:
            options = {"exc_info": error} if with_stack and _needs_stack(error, status) else {}
            result: Any = log_error(error, **options)
            if hasattr(result, "__await__"):
                await result
        # Whatever a logger does, the client gets its response.
        except Exception:  # noqa: BLE001  # it is logged
            _log.exception("the logger of error_handler failed")

    return report


class _ErrorLog:
    """Writes errors to the log of `alula.express`.

    An outage fails every request in the same way, so its line is written once in some seconds. The
    access log has a line for each request.
    """

    def __init__(self) -> None:
        self._repeats = RepeatLimit()

    def __call__(self, error: Exception, status: int, req: Request) -> None:
        level = logging.ERROR if status >= 500 else logging.INFO
        if not _log.isEnabledFor(level):  # its text takes as long as half a response
            return
        where = short_line(f"{req.method} {req.shown_path}")
        if _needs_stack(error, status):
            _log.error("%s failed", where, exc_info=error)
            return
        text = _without_secrets(log_text(error), req)
        name = type(error).__name__
        suffix: str | None = ""
        if status >= 500:
            # Only the class of the cause: messages of drivers may hold secrets.
            if error.__cause__ is not None:
                name += f" from {type(error.__cause__).__name__}"
            suffix = self._repeats.suffix(f"{name}: {text}")
        if suffix is not None:
            _log.log(level, "%s: %s: %s%s", where, name, short_line(text), suffix)


def _without_secrets(text: str, req: Request) -> str:
    """Return the text of an error without the query string and the id of a request, if secret."""
    if req.scope["query_string"]:
        for url in (req.url, req.shown_url):
            text = text.replace(url, req.path)
    if req.hides_id:
        segment = req.path.rstrip("/").rpartition("/")[2]
        for secret in filter(None, (segment, decode_segment(segment))):
            text = text.replace(secret, "...")
    return text


def _needs_stack(error: Exception, status: int) -> bool:
    """Tell whether the log gets the stack: of unexpected errors, not of every 503 of a storm."""
    if status < 500:
        return False
    is_expected = isinstance(error, FrameworkError) and error.code == status > 500
    return not is_expected or _log.isEnabledFor(logging.DEBUG)
