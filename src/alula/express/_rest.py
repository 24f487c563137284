"""The REST transport: which service method a request calls, and how its result is sent.

A request whose path leads to a service gets its response here, or an error: 405 if the service does
not offer the method, 415 if no parser took the body.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeAlias

from alula._app import App
from alula._context import HookContext, Params, RequestParams
from alula._http import METHOD_HEADER, METHOD_OF_VERB, allowed_verbs, not_allowed, response_for
from alula._identity import find_authentication
from alula._item_stream import is_stream
from alula._routes import PlainMatch
from alula._service import ServiceHandle, owning_handle
from alula._stream_limits import NO_LIMITS, StreamLimits, run_in_time
from alula._user_code import describe_frames, explain_twin, name_of
from alula.errors import BadRequest, MethodNotAllowed, UnsupportedMediaType
from alula.express._application import ExpressApplication, ServiceMiddleware
from alula.express._chain import Middleware, NextFunction, Phase, Step, goes_on, run_steps
from alula.express._connected import run_while_connected
from alula.express._headers import best_match
from alula.express._item_responses import ItemSender, items_sender
from alula.express._middleware.authenticate import read_credentials
from alula.express._request import SENT_PATH, Request
from alula.express._response import Response
from alula.express._routing import step_of
from alula.outgoing import public_part, public_result
from alula.types import (
    METHODS_WITHOUT_DATA,
    STANDARD_METHODS,
    UNSET,
)

__all__ = ["Formatter", "rest"]

_log: Final = logging.getLogger("alula")

Formatter: TypeAlias = Callable[[Request, Response], object]
"""``(req, res)``, plain or asynchronous: sends ``res.data``."""

_Send: TypeAlias = Callable[[Request, Response], Awaitable[None] | None]
"""As a `Formatter`, and sure to send something."""


class _Sending(NamedTuple):
    """What sends the results of calls.

    Attributes:
        result: Sends ``res.data``.
        items: Sends ``res.data`` that is a stream.
        limits: Those of a stream.
    """

    result: _Send
    items: ItemSender
    limits: StreamLimits


_JSON: Final = frozenset(
    {"*/*", "application/json", "application/json, text/event-stream;q=0.9"}  # Alula's own clients
)
"""Headers Accept, whole, for which no other form of a result is looked for."""


def rest(
    formatter: Formatter | None = None,
    *,
    cancel_on_disconnect: bool = False,
    stream_heartbeat: float | None = 15.0,
    stream_timeout: float | None = 300.0,
    stream_duration: float | None = None,
) -> Callable[[ExpressApplication], None]:
    """Return the plugin that registers the REST transport: ``app.configure(rest())``.

    Services are reached from where it is configured, also those that are registered later. Body
    parsers, and middleware that sets params, come before it.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.express import express, json, rest
        >>> web = express(App()).use(json()).configure(rest()).use("messages", MemoryService())

    Args:
        formatter: ``(req, res)``, plain or asynchronous; sends ``res.data``, for example by
            ``res.format``. None sends JSON. Streams are sent without it.
        cancel_on_disconnect: Whether a call is cancelled when its client goes away. Its hooks and
            its method get an ``asyncio.CancelledError`` then, wherever they wait: what they have
            written so far stays. Otherwise a call runs to its end, and its result is dropped. A
            method that streams always ends with its client.
        stream_heartbeat: Seconds of silence after which a stream of events gets a comment, so that
            proxies keep the connection. None for never.
        stream_timeout: Seconds that the next item of a stream may take, the first one included.
            None for any time.
        stream_duration: Seconds that a whole stream may take. None for any time.

    Raises:
        TypeError: ``formatter`` is not such a function; or, by the plugin, the application is not
            made by ``express(App())``.
        ValueError: A number of seconds is not above 0.
        RuntimeError: By the plugin: the application has one already.
    """
    if isinstance(formatter, ExpressApplication):
        raise TypeError("write app.configure(rest()), with brackets")
    if formatter is not None:
        if not callable(formatter):
            raise TypeError(f"rest({formatter!r}): a formatter is a function of (req, res)")
        signature = inspect.signature(formatter)
        try:
            signature.bind("req", "res")
        except TypeError:
            raise TypeError(
                f"the formatter {name_of(formatter)} takes {signature}; expected (req, res)"
            ) from None

    limits = StreamLimits(stream_heartbeat, stream_timeout, stream_duration)
    limits.check("rest")
    sending = _Sending(_sender(formatter), items_sender(limits), limits)

    def configure(app: ExpressApplication) -> None:
        if not isinstance(app, ExpressApplication):
            raise TypeError(
                f"rest() configures what express(App()) returns, not {app!r};"
                f" {explain_twin('alula.express.rest')}"
            )
        if "rest" not in app.transports:
            app.transports.append("rest")
        elif Phase.SERVICES not in app.steps.replaceable:  # it would never be reached
            raise RuntimeError("rest() is configured already; one carries all services")
        if app.has("not_found") and not app.steps.has_phases:
            _log.warning(
                "rest() is configured behind not_found(), which responds to every request before"
                " it, so that no service is reached; register not_found() behind rest()"
            )
        app.add(step_of(_credentials_reader(app)), phase=Phase.CREDENTIALS)
        if cancel_on_disconnect:

            def cancel_calls(req: Request, _: Response) -> None:
                req.cancels_calls = True

            app.add(step_of(goes_on(cancel_calls)), phase=Phase.SERVICES)
        app.add(_services_step(app, sending), phase=Phase.SERVICES)

    return configure


def _credentials_reader(app: App) -> Middleware:
    """Return what reads the credentials of requests for the default authentication service."""

    @goes_on
    def read(req: Request, res: Response) -> Awaitable[None] | None:
        service = find_authentication(app)
        return None if service is None else read_credentials(service, req, res)

    return read


def _services_step(app: ExpressApplication, sending: _Sending) -> Step:
    """Return the step that calls services."""
    lookup, surrounded = app.routes.find, app.service_middleware
    turns = app.turns

    def services(req: Request, res: Response, next: NextFunction) -> Awaitable[None]:
        match = lookup(req.path)
        # FeathersJS has no record at /messages//1.
        if match is None or SENT_PATH in req.scope:
            return next()
        surroundings = surrounded.get(match[0])
        if surroundings is None:
            call = call_service(match, req, res, sending)
        else:
            call = _call_surrounded(match, sending, surroundings, req, res, next)
        return turns.take(req.ip, call)

    def may_read_body(req: Request) -> bool:
        """Tell whether middleware of a service may read it, or a service offers the method."""
        match = None if SENT_PATH in req.scope else lookup(req.path)
        return match is not None and (
            match[0] in surrounded or _offered_method(match, req)[0] is not None
        )

    return Step(services, may_read_body=may_read_body)


async def _call_surrounded(
    match: PlainMatch[ServiceHandle],
    sending: _Sending,
    surroundings: ServiceMiddleware,
    req: Request,
    res: Response,
    next: NextFunction,
) -> None:
    """Run before..., the service, after..., the formatter; errors go on to ``next``."""

    async def call(error: Exception | None = None) -> None:
        if error is None:
            try:
                await call_service(match, req, res, limits=sending.limits)
                # Middleware may write it in a form of its own, so hide hidden fields now.
                res.data = public_part(res.data)
            except Exception as raised:  # noqa: BLE001  # next() of a middleware never raises
                error = raised
        await run_steps(surroundings.after, req, res, finish, error)

    async def finish(error: Exception | None = None) -> None:
        if error is None and not res.headers_sent:
            try:
                send = sending.items if is_stream(res.data) else sending.result
                if (waiting := send(req, res)) is not None:
                    await waiting
            except Exception as raised:  # noqa: BLE001  # as above
                error = raised
        if error is not None:
            await next(error)

    req.match = match
    await run_steps(surroundings.before, req, res, call)


def _offered_method(
    match: PlainMatch[ServiceHandle], req: Request
) -> tuple[str | None, str | None]:
    """Return the method that a request asks for if the service offers it, and its name anyway."""
    handle, record_id, _ = match
    name = METHOD_OF_VERB[record_id is not None].get(req.method)
    if req.method == "POST":
        if custom := req.headers.get(METHOD_HEADER):
            return (
                None if custom in STANDARD_METHODS or custom not in handle.methods else custom
            ), custom
        # The address of a custom method. Any other id is ignored, as FeathersJS does.
        if record_id in handle.methods and record_id not in STANDARD_METHODS:
            return record_id, record_id
    return (name if name in handle.methods else None), name


async def call_service(
    match: PlainMatch[ServiceHandle],
    req: Request,
    res: Response,
    sending: _Sending | None = None,
    *,
    limits: StreamLimits = NO_LIMITS,
) -> None:
    """Call the method that a request asks for, and set status, headers and ``res.data``.

    Args:
        match: Where the path leads.
        req: The request.
        res: The response.
        sending: What sends ``res.data``; None leaves that to the caller.
        limits: Those of a stream, where the caller sends it.

    Raises:
        BadRequest: The method is one of live lists, which need a connection.
        MethodNotAllowed: The service does not offer the method to clients.
        UnsupportedMediaType: There is a body that no registered parser took.
        RuntimeError: The representation that the client prefers sent nothing.
        Exception: What the call raises.
    """
    handle, record_id, route = match
    method, name = _offered_method(match, req)
    if method is None:
        if name in {"live", "unlive"} and handle.live_options is not None:
            raise BadRequest("a live list needs a connection: socket.io, or an event stream")
        raise not_allowed(name, req.method, handle.methods, record_id is not None)
    is_list = method == "find" and req.method == "GET"
    if is_list and handle.app.representations and await _represent(match, req, res):
        return
    data = None
    if method not in METHODS_WITHOUT_DATA and (data := req.body) is UNSET:
        data = await _data_without_parser(req, handle)
    target = None if req.method == "POST" else record_id
    params = _params_of(req, route)
    context = res.hook = HookContext(handle.app, handle, method, params, target, data)
    streams = method in handle.streaming
    try:
        if streams:
            await _open_stream(context, req, res, limits if sending is None else sending.limits)
        else:
            call = handle.run(context)
            await (run_while_connected(call, req) if req.cancels_calls else call)
    except MethodNotAllowed as error:
        if error.headers is None:  # by the service itself, such as for many records at once
            verbs = allowed_verbs(handle.methods, record_id is not None)
            # One record may be created where several may not.
            allowed = [verb for verb in verbs if verb != req.method or verb == "POST"]
            error.headers = {"Allow": ", ".join(allowed)}
        raise
    res.status_code, by_hooks, res.data = response_for(context)
    for name, value in by_hooks.items():
        # Cookies of middleware stay; any other header of a hook replaces that of middleware.
        (res.append if name.lower() == "set-cookie" else res.set)(name, value)
    if streams:
        res.data = public_result(context)
    if sending is not None:
        send = sending.items if streams else sending.result
        if (waiting := send(req, res)) is not None:
            await waiting


async def _open_stream(
    context: HookContext, req: Request, res: Response, limits: StreamLimits
) -> None:
    """Run a call that streams, which ends with the first item.

    Raises:
        BadRequest: The client has left.
        Unavailable: The first item took too long.
        Exception: What the call raises.
    """

    def close(_: BaseException | None) -> None:
        for stream in context.streams:
            stream.close()

    # Whatever becomes of the response. A stream that was sent is closed before.
    res.on_end(close)
    context.wants_items = req.method != "HEAD"
    await run_in_time(run_while_connected(context.service.run(context), req), limits)


def _params_of(req: Request, route: dict[str, str]) -> Params:
    """Return the params of a call: those of the request, and what middleware has set."""
    params: Params = RequestParams({**req.query}, "rest", req.headers, route, req.ip)
    by_middleware = req._framework  # noqa: SLF001  # the property would make one for every call
    if by_middleware is not None:
        params.__dict__.update(by_middleware.__dict__)
        return Params(params)  # checks and copies what middleware may have set as the query
    if req.authentication is not None:
        params.authentication = req.authentication
    return params


describe_frames(call_service, lambda names: f"`{names['method']}` of {names['handle']!r}")


async def _represent(match: PlainMatch[ServiceHandle], req: Request, res: Response) -> bool:
    """Respond in another form than JSON, if the client prefers it; tell whether that was done."""
    handle, _, route = match
    representations = handle.app.representations
    accept = req.headers.get("accept")
    if accept is None or accept in _JSON:  # nearly always
        return False
    if "find" in handle.streaming:  # its own stream comes first
        return False
    offered = ("application/json", *representations)
    respond = representations.get(best_match(accept, offered))
    if respond is not None:
        await respond(handle, route, req, res)
        _check_sent("representation", respond, req, res)
    return respond is not None


async def _data_without_parser(req: Request, handle: ServiceHandle) -> dict[str, Any]:
    """Return the data of a request whose body no parser took."""
    if req.has_body and await req.has_content():
        content_type = req.get("content-type") or "none"
        advice = "send application/json"
        if content_type.startswith("application/json"):
            advice = "register json() before rest()"
        elif getattr(owning_handle(handle).service, "takes_uploads", False) is True:
            is_form = content_type.startswith("multipart/form-data")
            advice = "register multipart() before rest()" if is_form else "send multipart/form-data"
        raise UnsupportedMediaType(
            f"No parser takes a body of the content type {content_type}; {advice}"
        )
    return {}


def _sender(formatter: Formatter | None) -> _Send:
    """Return what sends ``res.data``: as JSON, or by a formatter.

    A redirect without a result has an empty body, whatever the formatter.

    Raises:
        RuntimeError: By the function: the formatter sent nothing.
        Exception: By the function: what the formatter raises.
    """

    def send(req: Request, res: Response) -> Awaitable[None] | None:
        if res.data is None and 300 <= res.status_code < 400:
            res.vary("Accept")
            res.end()
        elif formatter is None:
            res.send_result(res.data)
        else:
            return _format(formatter, req, res)
        return None

    return send


async def _format(formatter: Formatter, req: Request, res: Response) -> None:
    res.vary("Accept")
    res.data = public_part(res.data)  # the formatter may write it in a form of its own
    result: Any = formatter(req, res)
    if hasattr(result, "__await__"):
        await result
    _check_sent("formatter", formatter, req, res)


def _check_sent(kind: str, function: object, req: Request, res: Response) -> None:
    """Report a formatter or a representation that has not responded.

    Raises:
        RuntimeError: It sent nothing.
    """
    if not res.headers_sent:
        raise RuntimeError(
            f"the {kind} {name_of(function)} sent nothing for {req!r}; call res.json,"
            " res.send or res.end in it"
        )
