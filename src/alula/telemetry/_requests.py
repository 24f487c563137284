"""A span and measurements for each HTTP request, as middleware.

The paths of requests hold ids, so a request is named by its route: that of the service it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind

from alula.logs import add_log_fields
from alula.telemetry._conventions import (
    ERROR_TYPE,
    error_type_of,
    histogram,
    mark_failed,
    remote_parent,
    trace_fields,
)

__all__ = ["trace_requests"]

_SCOPE: Final = "alula"
_KNOWN: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def trace_requests(*, tracer_provider: Any = None, meter_provider: Any = None) -> Any:
    """Return middleware that traces and measures every request; register it first.

    A request is a span ``GET /messages/:id`` of the kind server, a child of the ``traceparent``
    that came with it; calls of services are its children where `telemetry` is configured. Its
    duration is recorded in ``http.server.request.duration``. It does not tell path, query,
    headers, nor address of the client. OpenTelemetry's own instrumentation of ASGI does the same
    with more detail; use one of both.

    Args:
        tracer_provider: Of OpenTelemetry's SDK; None for the global one.
        meter_provider: The same for metrics.
    """
    tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
    meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)
    duration = histogram(meter, "http.server.request.duration", "Duration of HTTP requests.")
    active = meter.create_up_down_counter(
        "http.server.active_requests", "{request}", "HTTP requests that are under way."
    )
    add_log_fields(trace_fields)

    async def middleware(req: Any, res: Any, next: Any) -> None:
        method = req.method if req.method in _KNOWN else "_OTHER"
        about = {"http.request.method": method, "url.scheme": req.protocol}
        parent, began = remote_parent(req.headers), perf_counter()
        active.add(1, about)
        span = tracer.start_span(method, parent, SpanKind.SERVER, about)
        token = contexts.attach(trace.set_span_in_context(span))

        def end(more: dict[str, Any]) -> None:
            route = _route_of(res.hook)
            if route is not None:
                more["http.route"] = route
                span.update_name(f"{method} {route}")
            span.set_attributes(more)
            duration.record(perf_counter() - began, {**about, **more})
            active.add(-1, about)
            contexts.detach(token)
            span.end()

        res.wrap(partial(_watched, span, end))
        try:
            await next()
        except BaseException as error:
            end({ERROR_TYPE: error_type_of(error)})
            raise

    return middleware


def _watched(span: trace.Span, end: Callable[[dict[str, Any]], None], answer: Any) -> Any:
    """Return an answer that ends its span once it is sent."""

    async def run(scope: Any, receive: Any, send: Any) -> None:
        outcome: dict[str, Any] = {}

        async def note(message: Any) -> None:
            if message["type"] == "http.response.start":
                status = outcome["http.response.status_code"] = message["status"]
                mark_failed(span, status)
                if status >= 500:
                    outcome[ERROR_TYPE] = str(status)
            await send(message)

        try:
            await answer(scope, receive, note)
        except BaseException as error:
            outcome[ERROR_TYPE] = error_type_of(error)
            raise
        finally:
            end(outcome)

    return run


def _route_of(call: Any) -> str | None:
    """Return the route of the service that was called, None for requests that called none."""
    if call is None:
        return None
    return f"/{call.path}" if call.id is None else f"/{call.path}/:id"
