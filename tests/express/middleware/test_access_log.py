"""The access log: one line for each request, without what must not be told."""

from __future__ import annotations

import asyncio
import gzip
import logging
import time

import pytest
from tests.express.asgi_client import Receiver, Sender, call, post_json, scope_of

from alula import App
from alula.errors import NotFound
from alula.express import (
    access_log,
    compression,
    error_handler,
    express,
    health,
    json,
    not_found,
    request_id,
    rest,
)
from alula.logs import RequestFields


class Messages:
    async def get(self, id, params):
        return {"id": id}

    async def create(self, data, params):
        return {"id": 1, **data}

    async def archive(self, data, params):
        return {}

    async def remove(self, id, params):
        raise NotFound(f"No record found for id '{id}'")


@pytest.fixture
def lines(caplog):
    """What the access log gets, as a list that grows."""
    found = []
    handler = logging.Handler()
    handler.addFilter(RequestFields())
    handler.emit = found.append
    logger = logging.getLogger("alula.access")
    with caplog.at_level(logging.INFO, logger.name):
        logger.addHandler(handler)
        yield found
        logger.removeHandler(handler)


def app_with(*before, core=False, **options):
    app = express(App()) if core else express()
    app.use([access_log(**options), *before])
    return app


def signed_in(user):
    def middleware(req, res, next):
        req.user = user
        return next()

    return middleware


async def test_a_request_is_a_line_and_a_record(lines):
    app = app_with()
    app.get("/a", lambda req, res: res.json("0123456789"))
    await call(app, url="/a")
    (line,) = lines
    assert (line.name, line.levelname) == ("alula.access", "INFO")
    assert (line.http_method, line.path, line.status, line.bytes) == ("GET", "/a", 200, 12)
    assert 0 <= line.duration_ms < 60_000
    assert line.getMessage() == f"GET /a 200, 12 bytes in {line.duration_ms} ms"
    for absent in ("service", "service_method", "user", "ip", "aborted"):
        assert not hasattr(line, absent)


@pytest.mark.parametrize(
    ("verb", "url", "headers", "expected"),
    [
        ("GET", "/messages/7", {}, ("messages", "get", 200)),
        ("POST", "/messages", {}, ("messages", "create", 201)),
        ("POST", "/messages", {"X-Service-Method": "archive"}, ("messages", "archive", 200)),
        ("DELETE", "/messages/7", {}, ("messages", "remove", 404)),
    ],
)
async def test_a_call_names_service_and_method(lines, verb, url, headers, expected):
    app = app_with(json(), core=True)
    app.configure(rest())
    app.use("messages", Messages(), methods=["get", "create", "archive", "remove"])
    app.use(error_handler(logger=False))
    await call(app, verb, url, headers=headers)
    (line,) = lines
    assert (line.service, line.service_method, line.status) == expected


async def test_a_path_of_any_length_makes_no_long_line(lines):
    app = app_with()
    app.use(not_found(), error_handler(logger=False))
    await call(app, url=f"/{'a' * 50_000}")
    (line,) = lines
    assert line.path == f"/{'a' * 1999}..."
    assert len(line.getMessage()) < 2100


@pytest.mark.parametrize("url", ["/a?access_token=secret&b=1", "/a?password=secret"])
async def test_query_strings_headers_and_bodies_stay_out(lines, url):
    app = app_with(json())
    app.use(not_found(verbose=True), error_handler(logger=False))
    await post_json(app, {"password": "secret"}, url, {"authorization": "Bearer secret"})
    (line,) = lines
    assert line.path == "/a"
    assert "secret" not in str(vars(line))


async def test_below_a_mount_the_path_is_whole(lines):
    inner = express()
    inner.use(access_log())
    inner.get("/b", lambda req, res: res.json(1))
    outer = express()
    outer.use("/a", inner)
    await call(outer, url="/a/b")
    assert lines[0].path == "/a/b"


async def test_a_path_makes_no_line_of_its_own(lines):
    app = app_with()
    path = {"path": "/a\nERROR forged", "raw_path": None}
    await call(app, "GET\x1b", **path)
    assert lines[0].path == "/a%0AERROR%20forged"
    assert lines[0].http_method == "GET\\x1b"
    assert "\n" not in lines[0].getMessage()


async def test_errors_have_the_status_they_were_answered_with(lines):
    app = app_with()
    app.get("/", lambda req, res: 1 / 0)
    app.use(error_handler(logger=False))
    await call(app)
    await call(app, url="/nope")
    assert [line.status for line in lines] == [500, 404]


async def test_bytes_are_those_that_were_sent(lines):
    app = app_with(compression())
    app.get("/", lambda req, res: res.send("a" * 5000))
    answer = await call(app, headers={"accept-encoding": "gzip"})
    assert gzip.decompress(answer.body) == b"a" * 5000
    await call(app, "HEAD")
    assert [line.bytes for line in lines] == [len(answer.body), 0]


async def test_a_stream_is_counted_to_its_end(lines):
    async def stream():
        yield "abc"
        yield "de"

    app = app_with()
    app.get("/", lambda req, res: res.send(stream()))
    await call(app)
    (line,) = lines
    assert line.bytes == 5
    assert not hasattr(line, "aborted")


async def test_a_response_that_breaks_off_is_reported(lines):
    async def stream():
        yield "abc"
        raise OSError("disk")

    app = app_with()
    app.get("/", lambda req, res: res.send(stream()))
    with pytest.raises(RuntimeError, match="the stream of a response failed"):
        await call(app)
    (line,) = lines
    assert (line.status, line.bytes, line.aborted) == (200, 3, True)


async def test_a_whole_response_that_cannot_be_sent_is_reported(lines):
    async def send(message):
        raise OSError("the client has left")

    app = app_with()
    app.get("/", lambda req, res: res.send("abc"))
    with pytest.raises(OSError, match="the client has left"):
        await app(scope_of(), Sender(), send)
    (line,) = lines
    assert (line.status, line.bytes, line.aborted) == (None, 0, True)


async def test_a_request_that_is_cut_off_is_logged(lines):
    began = asyncio.Event()

    async def hang(req, res):
        began.set()
        await asyncio.sleep(60)

    app = app_with()
    app.get("/", hang)
    task = asyncio.ensure_future(app(scope_of(), Sender(), Receiver()))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (line,) = lines
    assert (line.status, line.bytes, line.aborted) == (None, 0, True)


async def test_it_has_the_id_of_the_request(lines):
    app = express()
    app.use([request_id(), access_log()])
    answer = await call(app)
    assert lines[0].request_id == answer.get("x-request-id")


async def test_probes_that_went_well_fill_no_log(caplog):
    app = app_with(core=True)
    app.configure(health())
    with caplog.at_level(logging.DEBUG, "alula.access"):
        await call(app, url="/health/ready")
        await call(app, url="/health/live")
    assert [(line.levelname, line.status) for line in caplog.records] == [
        ("INFO", 503),
        ("DEBUG", 200),
    ]


# -- options ---------------------------------------------------------------------------------------


class User:
    id = 7


@pytest.mark.parametrize(
    ("user", "told"),
    [({"id": 7, "email": "a@b.c"}, "7"), (User(), "7"), ({"id": "a\nb"}, "a\\x0ab"), (None, None)],
)
async def test_the_user_of_a_middleware_is_logged_by_one_property(lines, user, told):
    app = app_with(signed_in(user), user="id")
    await call(app)
    assert lines[0].user == told
    assert "a@b.c" not in str(vars(lines[0]))


@pytest.mark.parametrize("replaced", [False, True])
async def test_the_user_of_a_hook_is_logged(lines, replaced):
    def sign_in(context):
        context.params.user = {"id": 8}
        if replaced:
            context.params = {**context.params}

    app = app_with(core=True, user="id")
    app.configure(rest())
    app.use("messages", Messages())
    app.hooks(before=[sign_in])
    await call(app, url="/messages/1")
    assert lines[0].user == "8"


async def test_the_address_is_logged_where_it_is_enabled(lines):
    await call(app_with(ip=True))
    await call(app_with(ip=True), client=None)
    assert lines[0].ip == "192.0.2.7"
    assert not hasattr(lines[1], "ip")


async def test_a_log_that_nobody_reads_costs_no_wrapper(caplog):
    app = app_with()
    app.get("/", lambda req, res: res.json(len(res._end_functions)))
    with caplog.at_level(logging.WARNING, "alula.access"):
        assert (await call(app)).json == 0
    assert caplog.records == []


# -- the record ------------------------------------------------------------------------------------


async def test_a_record_has_what_those_of_other_loggers_have(lines):
    before = time.time()
    await call(app_with(), url="/a")
    (line,) = lines
    usual = logging.LogRecord("alula.access", logging.INFO, line.pathname, 1, "", (), None)
    assert usual.__dict__.keys() <= line.__dict__.keys()
    for name in ("process", "processName", "thread", "threadName", "filename", "module"):
        assert getattr(line, name) == getattr(usual, name)
    assert before <= line.created <= usual.created
    assert line.msecs == pytest.approx(line.created % 1 * 1000, abs=1)
    assert line.relativeCreated == pytest.approx(usual.relativeCreated, abs=1000)
    assert line.getMessage().startswith("GET /a 404, ")


async def test_records_of_the_application_are_made_as_it_wants_them(lines):
    class Record(logging.LogRecord):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.region = "north"

    usual = logging.getLogRecordFactory()
    logging.setLogRecordFactory(Record)
    try:
        await call(app_with(), url="/a")
    finally:
        logging.setLogRecordFactory(usual)
    (line,) = lines
    assert (line.region, line.path, line.funcName) == ("north", "/a", "write")
    assert line.filename == "access_log.py"
    assert line.getMessage().startswith("GET /a 404, ")


async def test_a_probe_that_went_well_is_no_record_without_debug(lines):
    app = app_with()
    app.configure(health(live="/live"))
    await call(app, url="/live")
    assert lines == []
