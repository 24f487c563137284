"""OpenTelemetry's semantic conventions: names, histogram buckets, errors, and remote parents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.trace import Span, Status, StatusCode

from alula.errors import FrameworkError

__all__ = [
    "ERROR_TYPE",
    "SCOPE",
    "duration_histogram",
    "error_type_of",
    "mark_failed",
    "remote_parent",
    "status_of",
    "trace_fields",
]

SCOPE: Final = "alula"
"""The instrumentation scope of all spans and measurements."""

ERROR_TYPE: Final = "error.type"

# Seconds, as the conventions for HTTP and RPC advise. The SDK's default buckets suit milliseconds.
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


def duration_histogram(meter: Meter, name: str, description: str) -> Histogram:
    """Return a histogram of seconds, with the buckets of the conventions."""
    return meter.create_histogram(
        name, "s", description, explicit_bucket_boundaries_advisory=_BUCKETS
    )


def error_type_of(error: BaseException) -> str:
    """Return the value of ``error.type``: the name of a `FrameworkError`, or the class."""
    if isinstance(error, FrameworkError):
        return error.name
    name, module = type(error).__qualname__, type(error).__module__
    return name if module == "builtins" else f"{module}.{name}"


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error, None for a call that was cancelled."""
    if isinstance(error, FrameworkError):
        return error.code if isinstance(error.code, int) else 500
    return 500 if isinstance(error, Exception) else None


def mark_failed(span: Span, status: int | None) -> None:
    """Mark a span as failed if the server is to blame, not the client (4xx)."""
    if status is not None and status >= 500:
        span.set_status(Status(StatusCode.ERROR))


def remote_parent(headers: Mapping[str, str]) -> Context | None:
    """Return the trace context of request headers, None if a span is already open here."""
    if trace.get_current_span().get_span_context().is_valid:
        return None
    return propagate.extract(headers)


def trace_fields() -> Mapping[str, str]:
    """Return ``trace_id`` and ``span_id`` of the open span, for log records."""
    span_context = trace.get_current_span().get_span_context()
    if not span_context.is_valid:
        return {}
    return {
        "trace_id": trace.format_trace_id(span_context.trace_id),
        "span_id": trace.format_span_id(span_context.span_id),
    }
