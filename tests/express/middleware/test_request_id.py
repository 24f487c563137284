"""The id of a request: taken or made, known everywhere while it is served, and told."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest
from tests.express.asgi_client import call

from alula import App
from alula.errors import Conflict
from alula.express import error_handler, express, request_id, rest
from alula.logs import RequestFields, current_request_id

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
PROXY = ("127.0.0.1", 40000)


def app_with(**options):
    app = express()
    app.use(request_id(**options))
    app.get("/", lambda req, res: res.json(current_request_id()))
    app.use(error_handler(logger=False))
    return app


async def id_of(app, headers=(), client=PROXY):
    answer = await call(app, headers=headers, client=client)
    told = answer.get("x-request-id")
    assert answer.json == told
    return told


# -- which id --------------------------------------------------------------------------------------


async def test_every_request_gets_one_of_its_own():
    app = app_with()
    first, second = await id_of(app), await id_of(app)
    assert re.fullmatch("[0-9a-f]{32}", first)
    assert first != second


async def test_that_of_a_proxy_is_taken():
    assert await id_of(app_with(), {"X-Request-Id": "proxy-7"}) == "proxy-7"


async def test_the_trace_of_a_proxy_is_taken_where_it_says_no_id():
    assert await id_of(app_with(), {"traceparent": PARENT}) == TRACE
    both = {"traceparent": PARENT, "X-Request-Id": "proxy-7"}
    assert await id_of(app_with(), both) == "proxy-7"


@pytest.mark.parametrize(
    "sent", ["a b", "a" * 129, "\x1b[31m", "a,b", ""], ids=["space", "long", "escape", "two", "no"]
)
async def test_what_no_log_can_take_is_replaced(sent):
    assert re.fullmatch("[0-9a-f]{32}", await id_of(app_with(), {"X-Request-Id": sent}))


@pytest.mark.parametrize("header", [{"X-Request-Id": "mine"}, {"traceparent": PARENT}])
@pytest.mark.parametrize("client", [("192.0.2.7", 50000), None, ("not an address", 0)])
async def test_that_of_a_stranger_is_replaced(header, client):
    assert await id_of(app_with(), header, client) not in {"mine", TRACE}


@pytest.mark.parametrize(
    ("trusted", "ip", "is_trusted"),
    [
        (True, "192.0.2.7", True),
        (False, "127.0.0.1", False),
        (["10.0.0.0/8"], "10.2.3.4", True),
        (["10.0.0.0/8"], "::ffff:10.2.3.4", True),
        (["10.0.0.0/8"], "127.0.0.1", False),
        (["10.0.0.0/8"], "::1", False),
        (["2001:db8::/32", "192.0.2.7"], "192.0.2.7", True),
    ],
)
async def test_who_is_trusted_is_a_choice(trusted, ip, is_trusted):
    told = await id_of(app_with(trusted=trusted), {"X-Request-Id": "p-7"}, (ip, 1))
    assert (told == "p-7") is is_trusted


async def test_the_header_is_a_choice():
    answer = await call(
        app_with(header="X-Correlation-Id"), headers={"x-correlation-id": "c-7"}, client=PROXY
    )
    assert answer.get("x-correlation-id") == answer.json == "c-7"
    assert answer.get("x-request-id") is None


@pytest.mark.parametrize(
    ("trusted", "kind", "message"),
    [(["proxy"], ValueError, "'proxy'"), ("10.0.0.1", TypeError, r"give a list: \['10.0.0.1'\]")],
)
def test_trusted_are_addresses(trusted, kind, message):
    with pytest.raises(kind, match=message):
        request_id(trusted=trusted)


# -- where it is known -----------------------------------------------------------------------------


async def test_hooks_services_what_they_call_and_listeners_know_it():
    seen = []

    class Audit:
        async def create(self, data, params):
            seen.append(("audit", current_request_id()))
            return {}

    class Messages:
        async def find(self, params):
            seen.append(("service", current_request_id()))
            await app.service("audit").create({})
            return []

    async def listen(data, context):
        await asyncio.sleep(0)
        seen.append(("listener", current_request_id()))

    def hook(context):
        seen.append(("hook", current_request_id()))

    app = express(App())
    app.use(request_id())
    app.configure(rest())
    app.use("messages", Messages()).use("audit", Audit())
    app.service("messages").hooks(before=[hook])
    app.service("audit").on("created", listen)
    answer = await call(app, url="/messages", headers={"X-Request-Id": "r-1"}, client=PROXY)
    assert answer.get("x-request-id") == "r-1"
    await app.teardown()
    assert seen == [(name, "r-1") for name in ("hook", "service", "audit", "listener")]


async def test_requests_at_the_same_time_keep_theirs():
    met = asyncio.Barrier(2)

    async def meet(req, res):
        await met.wait()
        res.json([current_request_id(), req.request_id])

    app = express()
    app.use(request_id())
    app.get("/", meet)
    answers = await asyncio.gather(
        *(call(app, headers={"X-Request-Id": name}, client=PROXY) for name in "ab")
    )
    assert [answer.json for answer in answers] == [["a", "a"], ["b", "b"]]


async def test_a_stream_knows_it_to_its_end_and_it_ends_with_the_request():
    async def stream():
        yield f"{current_request_id()} "
        await asyncio.sleep(0)
        yield str(current_request_id())

    app = express()
    app.use(request_id())
    app.get("/", lambda req, res: res.send(stream()))
    answer = await call(app, headers={"X-Request-Id": "s-1"}, client=PROXY)
    assert answer.text == "s-1 s-1"
    assert current_request_id() is None


async def test_a_request_without_the_middleware_has_none():
    app = express()
    app.get("/", lambda req, res: res.json([req.request_id, current_request_id()]))
    assert (await call(app)).json == [None, None]


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "status"), [(Conflict("taken"), 409), (KeyError("x"), 500)])
async def test_errors_carry_it_in_the_header_and_in_the_log_but_not_in_the_body(
    error, status, caplog
):
    def fail(req, res):
        raise error

    app = express()
    app.use(request_id())
    app.get("/", fail)
    app.use(error_handler())
    caplog.handler.addFilter(stamped := RequestFields())
    try:
        with caplog.at_level(logging.INFO, "alula.express"):
            answer = await call(app, headers={"X-Request-Id": "e-1"}, client=PROXY)
    finally:
        caplog.handler.removeFilter(stamped)
    assert (answer.status, answer.get("x-request-id")) == (status, "e-1")
    assert b"e-1" not in answer.body
    assert [record.request_id for record in caplog.records] == ["e-1"]


async def test_requests_of_one_connection_have_their_own_even_where_they_come_at_once():
    asked = b"GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: %s\r\n%s\r\n"
    async with await app_with().listen(0) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(asked % (b"a", b"") + asked % (b"b", b"Connection: close\r\n"))
        answers = (await asyncio.wait_for(reader.read(), 20)).decode()
        writer.close()
        await writer.wait_closed()
    assert re.findall('^"(.*?)"', answers, re.MULTILINE) == ["a", "b"]
    assert re.findall(r"x-request-id: (\w+)", answers.lower()) == ["a", "b"]
