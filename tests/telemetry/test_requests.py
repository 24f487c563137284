"""Spans and measurements of HTTP requests."""

from __future__ import annotations

import asyncio
import logging

import pytest
from opentelemetry import trace
from tests.express.asgi_client import Receiver, Sender, call, scope_of
from tests.telemetry.recording import PARENT, TRACE

from alula import App
from alula.errors import NotFound
from alula.express import access_log, error_handler, express, rest
from alula.logs import RequestFields
from alula.telemetry import telemetry, trace_requests

REQUESTS = "http.server.request.duration"
ACTIVE = "http.server.active_requests"
GET = {"http.request.method": "GET", "url.scheme": "http"}


class Messages:
    async def find(self, params):
        return []

    async def get(self, id, params):
        if id == "broken":
            raise KeyError(id)
        if id == "lost":
            raise NotFound(id)
        return {"id": id}


def app_with(recording, *more):
    app = express(App())
    app.use([trace_requests(**recording.providers), *more])
    app.configure(telemetry(**recording.providers))
    app.configure(rest())
    app.use("rooms/:room/messages", Messages())
    app.get("/plain", lambda req, res: res.json(1))
    app.use(error_handler(logger=False))
    return app


@pytest.mark.parametrize(
    ("url", "route", "status", "failed"),
    [
        ("/rooms/7/messages", "/rooms/:room/messages", 200, False),
        ("/rooms/7/messages/3", "/rooms/:room/messages/:id", 200, False),
        ("/rooms/7/messages/lost", "/rooms/:room/messages/:id", 404, False),
        ("/rooms/7/messages/broken", "/rooms/:room/messages/:id", 500, True),
    ],
)
async def test_a_request_is_a_span_around_the_call_and_named_by_its_route(
    recording, url, route, status, failed
):
    assert (await call(app_with(recording), url=url)).status == status
    inner, span = recording.spans
    assert inner.parent.span_id == span.context.span_id
    assert (span.name, span.kind) == (f"GET {route}", trace.SpanKind.SERVER)
    expected = {**GET, "http.route": route, "http.response.status_code": status}
    expected |= {"error.type": "500"} if failed else {}
    assert dict(span.attributes) == expected
    assert (span.status.status_code is trace.StatusCode.ERROR) is failed
    (point,) = recording.points(REQUESTS)
    assert dict(point.attributes) == expected
    assert point.explicit_bounds[0] == 0.005
    assert [point.value for point in recording.points(ACTIVE)] == [0]


async def test_a_request_that_calls_no_service_is_named_by_its_verb(recording):
    app = app_with(recording)
    await call(app, url="/plain")
    await call(app, "BREW", "/plain")
    assert [span.name for span in recording.spans] == ["GET", "_OTHER"]
    assert "http.route" not in recording.spans[0].attributes


async def test_ids_queries_headers_and_addresses_are_not_recorded(recording):
    headers = {"authorization": "Bearer secret"}
    await call(app_with(recording), url="/rooms/1/messages/secret?a=secret", headers=headers)
    told = recording.everything()
    assert "secret" not in told
    assert "192.0.2.7" not in told


async def test_it_continues_the_trace_of_its_caller(recording):
    await call(app_with(recording), url="/plain", headers={"traceparent": PARENT})
    (span,) = recording.spans
    assert f"{span.context.trace_id:032x}" == TRACE
    assert span.parent.is_remote


async def test_lines_of_the_access_log_name_the_span(recording, caplog):
    app = app_with(recording, access_log())
    caplog.handler.addFilter(stamped := RequestFields())
    try:
        with caplog.at_level(logging.INFO, "alula.access"):
            await call(app, url="/plain")
    finally:
        caplog.handler.removeFilter(stamped)
    assert caplog.records[0].trace_id == f"{recording.spans[0].context.trace_id:032x}"
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_request_that_is_cut_off_ends_its_span(recording):
    began = asyncio.Event()

    async def hang(req, res):
        began.set()
        await asyncio.sleep(60)

    app = app_with(recording)
    app.get("/hang", hang)
    task = asyncio.ensure_future(app(scope_of("GET", "/hang"), Sender(), Receiver()))
    await began.wait()
    assert [point.value for point in recording.points(ACTIVE)] == [1]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (span,) = recording.spans
    assert span.attributes["error.type"] == "asyncio.exceptions.CancelledError"
    assert [point.value for point in recording.points(ACTIVE)] == [0]


async def test_a_response_that_breaks_off_is_reported(recording):
    async def stream():
        yield "a"
        raise OSError("secret")

    app = app_with(recording)
    app.get("/stream", lambda req, res: res.send(stream()))
    with pytest.raises(RuntimeError):
        await call(app, url="/stream")
    (span,) = recording.spans
    assert span.attributes["error.type"] == "RuntimeError"
    assert "secret" not in recording.everything()
