"""The open span goes along to the servers that are asked."""

from __future__ import annotations

from tests.client.faking import faked

from alula.telemetry import forward_trace


def headers_of(fetch):
    return {name.lower(): value for name, value in fetch.calls[-1][1]["headers"].items()}


async def test_the_open_span_is_sent(recording):
    client, fetch = faked()
    client.hooks(before=[forward_trace])
    with recording.tracers.get_tracer("t").start_as_current_span("s") as span:
        await client.service("messages").find(headers={"X-Tenant": "acme"})
    known = span.get_span_context()
    sent = headers_of(fetch)["traceparent"]
    assert sent.startswith(f"00-{known.trace_id:032x}-{known.span_id:016x}-")
    assert headers_of(fetch)["x-tenant"] == "acme"


async def test_without_one_nothing_is_sent(recording):
    client, fetch = faked()
    client.hooks(before=[forward_trace])
    await client.service("messages").find()
    assert "traceparent" not in headers_of(fetch)
