"""One request to one service: what it calls, with what, and the middleware around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from alula.compose import name_of
from alula.context import HookContext, Params
from alula.errors import UnsupportedMediaType
from alula.express.chain import Out, Step, run_steps
from alula.express.request import Request
from alula.express.response import Response
from alula.express.routing import step_of
from alula.http import METHOD_HEADER, answer_for, method_for, not_allowed
from alula.routes import Match
from alula.service import ServiceHandle
from alula.types import ID_METHODS, STANDARD_METHODS, UNSET

__all__ = ["Formatter", "ServiceRoute", "call_service", "send_json", "send_result"]

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
        match: Match[ServiceHandle],
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


async def call_service(match: Match[ServiceHandle], req: Request, res: Response) -> None:
    """Call the method that a request asks for; status, headers and ``res.data`` are set then.

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
    data = None if method in _WITHOUT_DATA else await _data(req)
    target = record_id if method in ID_METHODS else None
    context = HookContext(handle.app, handle, method, _params(req, route), target, data)
    res.hook = context
    await handle.run(context)
    res.status_code, headers, res.data = answer_for(context)
    for name, value in headers.items():
        res.set(name, value)


def send_json(res: Response) -> None:
    """Answer ``res.data`` as JSON, with no body where the status says that there is none."""
    if res.vary("Accept").status_code == 204:
        res.end()
    else:
        res.remove("content-type").json(res.data)


async def send_result(formatter: Formatter | None, req: Request, res: Response) -> None:
    """Give ``res.data`` to the formatter, as JSON where there is none.

    Raises:
        RuntimeError: The formatter answered nothing.
        Exception: Whatever it raises.
    """
    if formatter is None:
        send_json(res)
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


def _params(req: Request, route: dict[str, str]) -> Params:
    values: dict[str, Any] = {
        "query": dict(req.query),
        "provider": "rest",
        "headers": req.headers,
        "route": route,
    }
    by_middleware = req._framework  # noqa: SLF001  # the property would make one for every call
    if by_middleware is None:
        return Params.adopt(values)
    return Params(values, **by_middleware.__dict__)


async def _data(req: Request) -> Any:
    if req.body is not UNSET:
        return req.body
    if req.has_body and await req.has_content():
        kind = req.get("content-type") or "none"
        known = kind.startswith("application/json")
        raise UnsupportedMediaType(
            f"No parser takes a body of the content type {kind};"
            f" {'register json() before rest()' if known else 'send application/json'}"
        )
    return {}
