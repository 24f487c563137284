"""The names of OpenTelemetry's semantic conventions that are used here, and their buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.trace import Span, Status, StatusCode

from alula.errors import FrameworkError

__all__ = [
    "ERROR_TYPE",
    "error_type_of",
    "histogram",
    "mark_failed",
    "remote_parent",
    "status_of",
    "trace_fields",
]

ERROR_TYPE: Final = "error.type"

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


def histogram(meter: Meter, name: str, description: str) -> Histogram:
    """Return a histogram of seconds, with the buckets of the conventions."""
    return meter.create_histogram(
        name, "s", description, explicit_bucket_boundaries_advisory=_BUCKETS
    )


def error_type_of(error: BaseException) -> str:
    """Return what to call an error: its name in the interface, or its class."""
    if isinstance(error, FrameworkError):
        return error.name
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else _full_name(kind)


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def status_of(error: BaseException) -> int | None:
    """Return the status that an error is answered with, None for a call that was cancelled."""
    if isinstance(error, FrameworkError):
        return error.code if isinstance(error.code, int) else 500
    return 500 if isinstance(error, Exception) else None


def mark_failed(span: Span, status: int | None) -> None:
    """Mark a span as failed where the server is to blame; errors of clients are none of it."""
    if status is not None and status >= 500:
        span.set_status(Status(StatusCode.ERROR))


def remote_parent(headers: Mapping[str, str]) -> Context | None:
    """Return the context that a caller sent along, None where a span is open here already."""
    if trace.get_current_span().get_span_context().is_valid:
        return None
    return propagate.extract(headers)


def trace_fields() -> Mapping[str, Any]:
    """Return ``trace_id`` and ``span_id`` of the open span, for logs."""
    known = trace.get_current_span().get_span_context()
    if not known.is_valid:
        return {}
    return {
        "trace_id": trace.format_trace_id(known.trace_id),
        "span_id": trace.format_span_id(known.span_id),
    }
