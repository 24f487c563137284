"""How a request ends that no middleware, route or service responded to (Express' finalhandler)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from alula._user_code import name_of
from alula.errors import Unavailable
from alula.express._chain import NextFunction, Step, run_steps
from alula.express._middleware.error_handler import error_handler
from alula.express._middleware.not_found import page_not_found
from alula.express._request import Request
from alula.express._response import Response

if TYPE_CHECKING:
    from alula.express._existing_application import ExistingApplication

__all__ = ["final_handler", "refuse_connection", "report_silence"]

_send_error: Final = error_handler()


async def final_handler(
    req: Request,
    res: Response,
    existing: ExistingApplication | None,
    error: Exception | None = None,
) -> None:
    """Respond to errors that no step took, and to requests that no step responded to.

    Args:
        req: The request.
        res: The response; nothing happens if it has begun and there is no error.
        existing: The application that is extended, if there is one: its routing responds in place
            of a 404.
        error: The error.
    """
    if error is None:
        if res.headers_sent:
            return
        if existing is not None:
            res.delegate(existing.routing)
            return
        error = page_not_found(req, res)
        if error is None:
            return
    await _send_error(error, req, res, None)


async def report_silence(
    steps: Sequence[Step], req: Request, res: Response, after_last: NextFunction
) -> None:
    """Give the error middleware an error that names the step that forgot to respond.

    Args:
        steps: All steps of the application; only its error middleware runs.
        req: The request.
        res: The response, which has not begun.
        after_last: Gets the error if no error middleware responds.
    """
    silent = RuntimeError(
        f"nothing responded to {req!r}: {name_of(req.ended_by)} neither sent a response"
        " (res.json, res.send, res.end) nor called `await next()`"
    )
    await run_steps(steps, req, res, after_last, silent)
    if not res.headers_sent:
        await after_last(silent)


async def refuse_connection(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a connection because the application could not be set up."""
    if scope["type"] == "http":
        req = Request(app, scope, receive)
        res = Response(req)
        await final_handler(req, res, None, Unavailable("The server could not start"))
        await res.finish(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": 1013})  # 1013: try again later
