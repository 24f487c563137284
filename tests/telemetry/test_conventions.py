"""Names of errors, and which of them are the server's fault."""

from __future__ import annotations

import asyncio
import json

import pytest
from opentelemetry import trace

from alula.errors import FrameworkError, NotFound, Unavailable
from alula.telemetry._conventions import (
    error_type_of,
    mark_failed,
    remote_parent,
    status_of,
    trace_fields,
)


@pytest.mark.parametrize(
    ("error", "name", "status"),
    [
        (NotFound("x"), "NotFound", 404),
        (Unavailable("x"), "Unavailable", 503),
        (FrameworkError("x", name="Odd", code="E7"), "Odd", 500),
        (KeyError("x"), "KeyError", 500),
        (json.JSONDecodeError("x", "y", 0), "json.decoder.JSONDecodeError", 500),
        (asyncio.CancelledError(), "asyncio.exceptions.CancelledError", None),
    ],
)
def test_an_error_has_a_name_and_a_status(error, name, status):
    assert (error_type_of(error), status_of(error)) == (name, status)


@pytest.mark.parametrize(
    ("status", "failed"), [(None, False), (404, False), (499, False), (500, True), (503, True)]
)
def test_only_the_server_s_own_failures_mark_a_span(recording, status, failed):
    with recording.tracers.get_tracer("t").start_as_current_span("s") as span:
        mark_failed(span, status)
    assert (recording.spans[0].status.status_code is trace.StatusCode.ERROR) is failed


def test_what_a_caller_sent_along_counts_where_no_span_is_open(recording):
    assert remote_parent({"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"})
    with recording.tracers.get_tracer("t").start_as_current_span("s"):
        assert remote_parent({}) is None


def test_logs_get_the_open_span(recording):
    assert trace_fields() == {}
    with recording.tracers.get_tracer("t").start_as_current_span("s"):
        told = trace_fields()
    known = recording.spans[0].context
    assert told == {"trace_id": f"{known.trace_id:032x}", "span_id": f"{known.span_id:016x}"}
