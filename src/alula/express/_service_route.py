"""One request to one service: what it calls, with what, and the middleware around it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from alula._context import HookContext, Params, RequestParams
from alula._http import METHOD_HEADER, method_for, not_allowed, response_for
from alula._routes import Found
from alula._service import ServiceHandle
from alula._user_code import name_of
from alula.errors import BadRequest, UnsupportedMediaType
from alula.express._chain import Out, Step, run_steps
from alula.express._request import Request
from alula.express._response import Response
from alula.express._routing import step_of
from alula.outgoing import public_part
from alula.types import ID_METHODS, STANDARD_METHODS, UNSET

__all__ = ["Formatter", "ServiceRoute", "call_service", "is_offered", "send_result"]

Formatter = Callable[[Request, Response], Any]

_WITHOUT_DATA = frozenset({"find", "get", "remove"})


class ServiceRoute:
    """A service with middleware of its own: before..., the service, after..., the formatter.

    Args:
        before: Runs before the service; it can set params.
        after: Sees ``res.data`` and ``res.hook``. Where it answers and does not go on, the rest
            is skipped, the formatter included.

    Raises:
        TypeError: Something is no middleware.
    """

    def __init__(self, before: Sequence[Any], after: Sequence[Any]) -> None:
        steps = [*map(step_of, before), Step(_call), *map(step_of, after)]
        self._steps: Sequence[Step] = steps

    async def handle(
        self,
        match: Found[ServiceHandle],
        formatter: Formatter | None,
        req: Request,
        res: Response,
        next: Out,
    ) -> None:
        """Answer a request that leads to this service; errors go on to ``next``."""

        async def finish(error: Exception | None = None) -> None:
            if error is None and not res.headers_sent:
                try:
                    await send_result(formatter, req, res)
                except Exception as raised:  # noqa: BLE001  # next() of a middleware never raises
                    error = raised
            if error is not None:
                await next(error)

        req.match = match
        await run_steps(self._steps, req, res, finish)


async def _call(req: Request, res: Response, next: Out) -> None:
    await call_service(req.match, req, res)
    await next()


def is_offered(match: Found[ServiceHandle], req: Request) -> bool:
    """Tell whether a service offers the method that a request asks for: not a 405."""
    handle, record_id, _ = match
    custom = req.headers.get(METHOD_HEADER) if req.method == "POST" else None
    method = method_for(req.method, record_id is not None, custom)
    return method in handle.methods and not (custom and method in STANDARD_METHODS)


async def call_service(
    match: Found[ServiceHandle],
    req: Request,
    res: Response,
    *,
    answers: bool = False,
) -> None:
    """Call the method that a request asks for; status, headers and ``res.data`` are set then.

    Args:
        match: Where the path leads.
        req: The request.
        res: The response.
        answers: Whether to answer ``res.data`` as JSON at once, since nobody wants to see it.

    Raises:
        MethodNotAllowed: The service does not offer the method to the outside.
        UnsupportedMediaType: There is a body that no registered parser took.
        Exception: Whatever the call raises.
    """
    handle, record_id, route = match
    verb = req.method
    custom = req.headers.get(METHOD_HEADER) if verb == "POST" else None
    method = method_for(verb, record_id is not None, custom)
    if method not in handle.methods or (custom and method in STANDARD_METHODS):
        raise not_allowed(method, verb, handle.methods, record_id is not None)
    data = None if method in _WITHOUT_DATA else req.body
    if data is UNSET:
        data = await _data(req)
    target = record_id if method in ID_METHODS else None
    query = req.query
    params: Params = RequestParams({**query} if query else {}, "rest", req.headers, route, req.ip)
    by_middleware = req._framework  # noqa: SLF001  # the property would make one for every call
    if by_middleware is not None:
        params = Params(Params.adopt({**params.__dict__, **by_middleware.__dict__}))
    context = HookContext(handle.app, handle, method, params, target, data)
    res.hook = context
    if req.cancels_calls:
        await _run_while_connected(handle.run(context), req)
    else:
        await handle.run(context)
    res.status_code, headers, res.data = response_for(context)
    if headers:
        for name, value in headers.items():
            res.set(name, value)
    if answers:
        res.send_result(res.data)
    else:
        res.data = public_part(res.data)  # whoever sees it may write it in a form of its own


async def _run_while_connected(call: Awaitable[None], req: Request) -> None:
    """Run a call, and cancel it when the client goes away.

    Raises:
        BadRequest: It did, and the call has ended by that.
    """
    task: Any = asyncio.current_task()
    is_running = True

    def cancel(gone: asyncio.Task[None]) -> None:
        if is_running and not gone.cancelled():
            task.cancel()

    gone = asyncio.create_task(_disconnected(req.receive))
    gone.add_done_callback(cancel)
    try:
        await call
    except asyncio.CancelledError:
        if not gone.done() or task.uncancel():  # somebody else cancels the request
            raise
        raise BadRequest("The client closed the connection; its call was cancelled") from None
    finally:
        is_running = False
        gone.cancel()


async def _disconnected(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_result(formatter: Formatter | None, req: Request, res: Response) -> None:
    """Give ``res.data`` to the formatter, as JSON where there is none.

    Raises:
        RuntimeError: The formatter answered nothing.
        Exception: Whatever it raises.
    """
    if formatter is None:
        res.send_result(res.data)
        return
    res.vary("Accept")
    result = formatter(req, res)
    if hasattr(result, "__await__"):
        await result
    if not res.headers_sent:
        raise RuntimeError(
            f"the formatter {name_of(formatter)} answered nothing for {req!r}; call res.json,"
            " res.send or res.end in it"
        )


async def _data(req: Request) -> Any:
    """Return the data of a request whose body nobody has parsed."""
    if req.has_body and await req.has_content():
        kind = req.get("content-type") or "none"
        known = kind.startswith("application/json")
        raise UnsupportedMediaType(
            f"No parser takes a body of the content type {kind};"
            f" {'register json() before rest()' if known else 'send application/json'}"
        )
    return {}
