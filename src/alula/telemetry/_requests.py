"""`trace_requests`: middleware that makes a span and measurements for each HTTP request.

Request paths hold ids, so a span is named by its route: that of the service which was called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Final, Protocol, TypeAlias

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanKind, TracerProvider

from alula._context import HookContext
from alula.logs import add_log_fields
from alula.telemetry._conventions import (
    ERROR_TYPE,
    SCOPE,
    duration_histogram,
    error_type_of,
    mark_failed,
    remote_parent,
    trace_fields,
)

__all__ = ["trace_requests"]

# Any other method is `_OTHER`: clients could invent methods and flood the metrics with them.
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Request(Protocol):
    """The parts of a request of `alula.express` that are measured."""

    @property
    def method(self) -> str: ...
    @property
    def protocol(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


class Response(Protocol):
    """The parts of a response of `alula.express` that are measured."""

    @property
    def hook(self) -> HookContext | None: ...
    @property
    def sent_status(self) -> int | None: ...
    def on_end(self, function: Callable[[BaseException | None], object]) -> None: ...


Next: TypeAlias = Callable[[], Awaitable[None]]
Middleware: TypeAlias = Callable[[Request, Response, Next], Awaitable[None]]


def trace_requests(
    *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> Middleware:
    """Return middleware that traces and measures every request; register it first.

    Each request is a server span such as ``GET /messages/:id``, a child of the ``traceparent`` of
    the request. Service calls are its children if `telemetry` is configured. Its duration is
    recorded in ``http.server.request.duration``. Path, query, headers and the client's address are
    not recorded. OpenTelemetry's ASGI instrumentation does the same in more detail; use only one.

    Args:
        tracer_provider: A provider of OpenTelemetry's SDK; None for the global one.
        meter_provider: The same for metrics.

    Returns:
        Middleware for ``app.use``.

    Examples:
        >>> from alula import App
        >>> from alula.express import express
        >>> from alula.telemetry import trace_requests
        >>> app = express(App())
        >>> app = app.use(trace_requests())
    """
    tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
    meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
    duration = duration_histogram(
        meter, "http.server.request.duration", "Duration of HTTP requests."
    )
    active = meter.create_up_down_counter(
        "http.server.active_requests", "{request}", "HTTP requests that are running."
    )
    add_log_fields(trace_fields)

    def middleware(req: Request, res: Response, next: Next) -> Awaitable[None]:
        method = req.method if req.method in _METHODS else "_OTHER"
        attributes = {"http.request.method": method, "url.scheme": req.protocol}
        parent, started = remote_parent(req.headers), perf_counter()
        active.add(1, attributes)
        # Not `start_as_current_span`: the span outlives this function, until the response is sent.
        span = tracer.start_span(method, parent, SpanKind.SERVER, attributes)
        token = contexts.attach(trace.set_span_in_context(span))

        def end(error: BaseException | None) -> None:
            outcome: dict[str, str | int] = {}
            status, call = res.sent_status, res.hook
            mark_failed(span, status)
            if status is not None:
                outcome["http.response.status_code"] = status
                if status >= 500:
                    outcome[ERROR_TYPE] = str(status)
            if error is not None:
                outcome[ERROR_TYPE] = error_type_of(error)
            if call is not None:
                route = f"/{call.path}" if call.id is None else f"/{call.path}/:id"
                outcome["http.route"] = route
                span.update_name(f"{method} {route}")
            span.set_attributes(outcome)
            duration.record(perf_counter() - started, {**attributes, **outcome})
            active.add(-1, attributes)
            contexts.detach(token)
            span.end()

        res.on_end(end)
        return next()

    middleware.ignores_body = True  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]  # a mark, as `ignores_body` of alula.express sets one
    return middleware
