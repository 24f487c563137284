"""Spans and measurements of service calls."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from opentelemetry import trace
from tests.express.asgi_client import call, post_json
from tests.telemetry.recording import PARENT, TRACE

from alula import App
from alula.errors import Conflict, NotFound, Unavailable
from alula.express import error_handler, express, rest
from alula.express import json as json_body
from alula.logs import JsonFormatter
from alula.telemetry import telemetry

CALLS = "rpc.server.call.duration"
ACTIVE = "alula.service.active_calls"
OF_FIND = {"rpc.system.name": "alula", "rpc.method": "messages/find", "alula.provider": "server"}


class Messages:
    def __init__(self, error=None):
        self.error = error

    async def find(self, params):
        if self.error:
            raise self.error
        return []

    async def get(self, id, params):
        return {"id": id}

    async def create(self, data, params):
        return data

    async def archive(self, data, params):
        return {}


def app_with(recording, error=None):
    app = App().configure(telemetry(**recording.providers))
    return app.use("messages", Messages(error), methods=["find", "get", "create", "archive"])


def web_with(recording, error=None):
    web = express(App())
    web.configure(telemetry(**recording.providers))
    web.use(json_body())
    web.configure(rest())
    web.use("messages", Messages(error))
    web.use(error_handler(logger=False))
    return web


async def test_a_call_is_a_span_and_a_measurement(recording):
    await app_with(recording).service("messages").find()
    (span,) = recording.spans
    assert (span.name, span.kind) == ("messages find", trace.SpanKind.INTERNAL)
    assert dict(span.attributes) == OF_FIND
    assert span.status.status_code is trace.StatusCode.UNSET
    (point,) = recording.points(CALLS)
    assert dict(point.attributes) == OF_FIND
    assert point.count == 1
    assert point.explicit_bounds[:3] == (0.005, 0.01, 0.025)
    assert point.explicit_bounds[-1] == 10


async def test_every_method_has_spans_of_its_own_custom_ones_too(recording):
    messages = app_with(recording).service("messages")
    await messages.get(1)
    await messages.get(2)
    await messages.archive({})
    names = [span.name for span in recording.spans]
    assert names == ["messages get", "messages get", "messages archive"]
    counts = {point.attributes["rpc.method"]: point.count for point in recording.points(CALLS)}
    assert counts == {"messages/get": 2, "messages/archive": 1}


async def test_calls_that_a_call_makes_are_its_children(recording):
    class Rooms:
        async def find(self, params):
            return await app.service("messages").find()

    app = app_with(recording).use("rooms", Rooms())
    await app.service("rooms").find()
    inner, outer = recording.spans
    assert (inner.name, outer.name) == ("messages find", "rooms find")
    assert inner.parent.span_id == outer.context.span_id
    assert outer.parent is None


async def test_calls_at_the_same_time_are_siblings(recording):
    app = app_with(recording)
    tracer = recording.tracers.get_tracer("mine")
    with tracer.start_as_current_span("mine") as mine:
        await asyncio.gather(*(app.service("messages").get(number) for number in range(3)))
    *calls, _ = recording.spans
    assert {span.parent.span_id for span in calls} == {mine.get_span_context().span_id}


async def test_the_time_of_hooks_that_come_later_counts(recording):
    seen = []

    async def look(context, next):
        seen.append(trace.get_current_span().get_span_context().span_id)
        await next()

    app = app_with(recording)
    app.hooks(around=[look])
    await app.service("messages").find()
    assert seen == [recording.spans[0].context.span_id]


@pytest.mark.parametrize(
    ("error", "kind", "status", "failed"),
    [
        (NotFound("No record found for id 'secret'"), "NotFound", "404", False),
        (Conflict("secret"), "Conflict", "409", False),
        (Unavailable("secret"), "Unavailable", "503", True),
        (KeyError("secret"), "KeyError", "500", True),
    ],
)
async def test_an_error_is_named_but_its_message_is_not_recorded(
    recording, error, kind, status, failed
):
    with pytest.raises(type(error)):
        await app_with(recording, error).service("messages").find()
    (span,) = recording.spans
    failure = {"error.type": kind, "rpc.response.status_code": status}
    assert dict(span.attributes) == {**OF_FIND, **failure}
    assert (span.status.status_code is trace.StatusCode.ERROR) is failed
    assert dict(recording.points(CALLS)[0].attributes) == {**OF_FIND, **failure}
    assert "secret" not in recording.everything()


async def test_a_call_that_is_cancelled_is_no_failure_and_is_counted_off(recording):
    began = asyncio.Event()

    class Slow:
        async def find(self, params):
            began.set()
            await asyncio.sleep(60)

    app = app_with(recording).use("slow", Slow())
    task = asyncio.ensure_future(app.service("slow").find())
    await began.wait()
    assert [point.value for point in recording.points(ACTIVE)] == [1]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (span,) = recording.spans
    assert span.attributes["error.type"] == "asyncio.exceptions.CancelledError"
    assert "rpc.response.status_code" not in span.attributes
    assert span.status.status_code is trace.StatusCode.UNSET
    assert [point.value for point in recording.points(ACTIVE)] == [0]


async def test_nothing_that_a_client_sends_is_recorded(recording):
    app = web_with(recording)
    headers = {"authorization": "Bearer secret"}
    await call(app, url="/messages/secret?name=secret", headers=headers)
    await post_json(app, {"text": "secret"}, "/messages", headers)
    assert [span.name for span in recording.spans] == ["messages get", "messages create"]
    assert {span.attributes["alula.provider"] for span in recording.spans} == {"rest"}
    assert "secret" not in recording.everything()


async def test_a_request_continues_the_trace_of_its_caller(recording):
    await call(web_with(recording), url="/messages", headers={"traceparent": PARENT})
    (span,) = recording.spans
    assert f"{span.context.trace_id:032x}" == TRACE
    assert span.parent.is_remote


async def test_a_span_that_is_open_counts_more_than_the_header(recording):
    app = web_with(recording)
    with recording.tracers.get_tracer("asgi").start_as_current_span("GET") as server:
        await call(app, url="/messages", headers={"traceparent": PARENT})
    assert recording.spans[0].parent.span_id == server.get_span_context().span_id


async def test_params_that_a_hook_has_replaced_do_no_harm(recording):
    class Outer:
        async def find(self, params):
            return []

    async def replace(context, next):
        context.params = {**context.params}
        await next()

    app = App()
    app.use("outer", Outer())
    app.hooks(around=[replace])
    app.configure(telemetry(**recording.providers))
    assert await app.service("outer").find() == []
    assert [span.name for span in recording.spans] == ["outer find"]


async def test_records_of_logs_name_the_span(recording):
    lines = []
    handler = logging.Handler()
    handler.setFormatter(JsonFormatter())
    handler.emit = lambda record: lines.append(json.loads(handler.format(record)))
    logger = logging.getLogger("tests.telemetry")

    class Told:
        async def find(self, params):
            logger.warning("inside")
            return []

    app = app_with(recording).use("told", Told())
    logger.addHandler(handler)
    try:
        await app.service("told").find()
        logger.warning("outside")
    finally:
        logger.removeHandler(handler)
    inside, outside = lines
    known = recording.spans[0].context
    assert inside["trace_id"] == f"{known.trace_id:032x}"
    assert inside["span_id"] == f"{known.span_id:016x}"
    assert "trace_id" not in outside


async def test_without_an_sdk_calls_work_and_nothing_is_recorded(recording):
    app = App().configure(telemetry()).use("messages", Messages())
    assert await app.service("messages").find() == []
    assert recording.spans == []


def test_what_has_no_hooks_is_refused():
    with pytest.raises(TypeError, match=r"telemetry\(\) configures an application with services"):
        telemetry()(express())


@pytest.mark.parametrize("again", [lambda app: app, express])
def test_twice_would_count_all_twice(recording, again):
    app = app_with(recording)
    with pytest.raises(RuntimeError, match=r"telemetry\(\) is already configured for"):
        again(app).configure(telemetry())


async def test_errors_behind_the_first_item_of_a_stream_are_counted(recording):
    class Words:
        async def ask(self, data, params):
            yield "a"
            raise Conflict("taken")

    app = app_with(recording).use("words", Words(), methods=["ask"])
    stream = await app.service("words").ask({})
    with pytest.raises(Conflict):
        assert [item async for item in stream]
    (point,) = recording.points("alula.service.stream_errors")
    assert point.value == 1
    assert point.attributes["rpc.method"] == "words/ask"
    assert point.attributes["error.type"] == "Conflict"
