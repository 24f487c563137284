"""Every error as an answer."""

from __future__ import annotations

import gc
import html
import logging
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException
from tests.express.asgi_client import call

from alula import App
from alula import errors as alula_errors
from alula.adapters.memory import MemoryService
from alula.errors import (
    BadRequest,
    Conflict,
    FrameworkError,
    GeneralError,
    MethodNotAllowed,
    NotFound,
    TooManyRequests,
)
from alula.express import error_handler, express, json, not_found, rest

HTML = {"accept": "text/html"}
PAGE = "text/html; charset=utf-8"
HIDDEN = "The server failed; its log says why"


def raising(error, app=None, **options):
    """Return an application whose every request fails."""

    def fail(req, res):
        raise error

    app = app or express()
    app.use(fail)
    app.use(error_handler(**{"logger": False, **options}))
    return app


async def get(app, headers=(), url="/", method="GET", body=None):
    return await call(app, method, url, body, headers)


async def test_an_error_is_freed_with_its_request():
    freed = []

    class Mine(NotFound):
        def __init__(self, path):
            super().__init__("gone")
            weakref.finalize(self, freed.append, path)

    def fail(req, res):
        raise Mine(req.path)

    handled = express().use(fail).use(error_handler(logger=False))
    unhandled = express().use(fail)
    gc.disable()
    try:
        for app in (handled, unhandled):
            assert (await get(app, url=f"/{len(freed)}")).status == 404
    finally:
        gc.enable()
    assert freed == ["/0", "/1"]


# -- JSON -----------------------------------------------------------------------------------------

CLASSES = [
    getattr(alula_errors, name)
    for name in alula_errors.__all__
    if isinstance(getattr(alula_errors, name), type)
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
async def test_every_error_of_the_interface(kind):
    error = kind("Own text", {"reason": "because", "errors": {"field": "is bad"}})
    answer = await get(raising(error))
    assert answer.status == kind.code
    assert answer.get("content-type") == "application/json; charset=utf-8"
    assert answer.json == {
        "name": kind.name,
        "message": "Own text",
        "code": kind.code,
        "className": kind.class_name,
        "data": {"reason": "because"},
        "errors": {"field": "is bad"},
    }


async def test_what_is_not_there_is_left_out():
    answer = await get(raising(NotFound("No")))
    assert answer.json == {
        "name": "NotFound",
        "message": "No",
        "code": 404,
        "className": "not-found",
    }


async def test_an_error_of_ones_own():
    error = FrameworkError("Short", {"a": 1}, name="Teapot", code=418, class_name="teapot")
    answer = await get(raising(error))
    assert (answer.status, answer.json["name"], answer.json["data"]) == (418, "Teapot", {"a": 1})


@pytest.mark.parametrize("code", [200, 99, 11000, -1, "x"])
async def test_a_code_that_is_no_status_of_an_error_becomes_500(code):
    answer = await get(raising(FrameworkError("odd", code=code)))
    assert (answer.status, answer.json["message"]) == (500, "odd")


@pytest.mark.parametrize("error", [ValueError("secret"), KeyError("secret"), Exception("secret")])
async def test_of_an_unexpected_error_clients_see_next_to_nothing(error):
    for headers in ({}, HTML):
        answer = await get(raising(error), headers)
        assert answer.status == 500
        assert HIDDEN in answer.text
        assert "secret" not in answer.text


async def test_debug_shows_programs_the_message_with_the_type_and_no_stack():
    app = raising(KeyError("nothing"), express(App(debug=True)))
    answer = await get(app)
    assert (answer.status, answer.json["message"]) == (500, "KeyError: 'nothing'")
    for trace in ("Traceback", "test_error_handler", "line "):
        assert trace not in answer.text


async def test_debug_shows_people_where_an_error_was_raised():
    app = express(App(debug=True)).configure(rest())
    app.use("notes", MemoryService())

    async def look_up(context):
        return {}["<nothing>"]

    app.service("notes").before("find")(look_up)
    app.use(error_handler(logger=False))
    page = (await call(app, "GET", "/notes", headers=HTML)).text
    assert "<nothing>" not in page
    text = html.unescape(page)
    assert "KeyError: '<nothing>'\nin before hook " in text
    assert "look_up of " in text
    assert "test_error_handler.py" in text  # own frames
    assert "_chain.py" not in text  # and no others
    app.debug = False
    assert "KeyError" not in (await call(app, "GET", "/notes", headers=HTML)).text


async def test_debug_names_the_type_where_there_is_no_message():
    app = raising(AssertionError(), express(App(debug=True)))
    assert (await get(app)).json["message"] == "AssertionError"


async def test_an_exception_that_has_a_code_is_unexpected_all_the_same():
    error = type("Coded", (Exception,), {"code": 418, "status_code": 418})("secret")
    assert (await get(raising(error))).status == 500


async def test_errors_of_starlette():
    error = HTTPException(401, "Who are you?", headers={"WWW-Authenticate": "Basic"})
    answer = await get(raising(error))
    assert answer.status == 401
    assert answer.get("www-authenticate") == "Basic"
    assert answer.json == {
        "name": "NotAuthenticated",
        "message": "Who are you?",
        "code": 401,
        "className": "not-authenticated",
    }


# -- headers --------------------------------------------------------------------------------------


async def test_headers_of_an_error_are_sent():
    error = MethodNotAllowed("No")
    error.headers = {"Allow": "GET, POST"}
    for headers in ({}, HTML):
        assert (await get(raising(error), headers)).get("allow") == "GET, POST"
    error = TooManyRequests("Slow down")
    error.headers = {"Retry-After": 30}
    assert (await get(raising(error))).get("retry-after") == "30"


@pytest.mark.parametrize("bad", ["a\r\nx-evil: 1", "Ω", None, object()])
async def test_a_header_that_cannot_be_sent_is_left_out(bad, caplog):
    error = NotFound("No")
    error.headers = {"X-Bad": bad, "X-Good": "1"}
    answer = await get(raising(error, headers=["X-Bad", "x-good"]))
    assert (answer.status, answer.get("x-good"), answer.get("x-bad")) == (404, "1", None)
    assert answer.get("x-evil") is None
    assert "a header of an error cannot be sent" in caplog.text


UPSTREAM = {
    "Set-Cookie": "session=theirs",
    "Access-Control-Allow-Origin": "*",
    "Content-Type": "text/html",
    "Transfer-Encoding": "chunked",
    "Content-Length": "1",
    "Connection": "close",
    "Location": "https://evil.example",
    "X-Powered-By": "somebody",
}


@pytest.mark.parametrize("name", UPSTREAM)
async def test_a_header_that_nobody_allowed_is_left_out(name, caplog):
    error = NotFound("No")
    error.headers = {name: UPSTREAM[name], name.lower(): UPSTREAM[name], "retry-after": "1"}
    plain, answer = await get(raising(NotFound("No"))), await get(raising(error))
    assert answer.get("retry-after") == "1"
    assert {name: value for name, value in answer.headers if name != "retry-after"} == dict(
        plain.headers
    )
    assert f"an error may not set the header {name}" in caplog.text


async def test_headers_that_are_allowed():
    error = NotFound("No")
    error.headers = {"set-cookie": "seen=1", "Location": "/new"}
    answer = await get(raising(error, headers=["Set-Cookie", "location"]))
    assert (answer.get("set-cookie"), answer.get("location")) == ("seen=1", "/new")


@pytest.mark.parametrize("name", ["Transfer-Encoding", "content-length", "Connection", "TE"])
def test_headers_that_cannot_be_allowed(name):
    with pytest.raises(ValueError, match=f"errors cannot set '{name}'"):
        error_handler(headers=["X-Good", name])


@pytest.mark.parametrize("names", ["X-Good", [1]])
def test_names_of_headers_are_strings_in_a_list(names):
    with pytest.raises(TypeError, match=r"error_handler\(headers="):
        error_handler(headers=names)


async def test_headers_of_the_answer_that_failed_do_not_describe_the_error():
    def fail(req, res):
        res.status(206).type("csv").set("content-length", 5).set("content-encoding", "br")
        res.set("etag", '"1"').set("x-request-id", "7")
        raise NotFound("No")

    app = express()
    app.use(fail)
    app.use(error_handler(logger=False))
    answer = await get(app)
    assert answer.status == 404
    assert dict(answer.headers) == {
        "x-request-id": "7",
        "vary": "Accept",
        "content-type": "application/json; charset=utf-8",
        "content-length": "69",
    }


async def test_head_has_the_headers_and_no_body():
    for headers in ({}, HTML):
        plain = await get(raising(NotFound("No")), headers)
        head = await get(raising(NotFound("No")), headers, method="HEAD")
        assert (head.status, head.headers, head.body) == (404, plain.headers, b"")


# -- JSON or HTML ---------------------------------------------------------------------------------

ACCEPTED = {
    "html": ({"accept": "text/html"}, True),
    "as browsers send it": (
        {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
        True,
    ),
    "html in upper case": ({"accept": "Text/HTML"}, True),
    "html and JSON": ({"accept": "text/html,application/json"}, False),
    "html and a kind of JSON": ({"accept": "text/html,application/problem+json"}, False),
    "anything": ({"accept": "*/*"}, False),
    "nothing said": ({}, False),
    "text": ({"accept": "text/plain"}, False),
    "html sent": ({"content-type": "text/html"}, True),
    "html wanted, JSON sent": ({"accept": "text/html", "content-type": "application/json"}, False),
    "html sent, JSON wanted": ({"accept": "application/json", "content-type": "text/html"}, False),
    "html wanted, form sent": (
        {"accept": "text/html", "content-type": "application/x-www-form-urlencoded"},
        True,
    ),
}


@pytest.mark.parametrize(("headers", "page"), ACCEPTED.values(), ids=ACCEPTED)
async def test_a_page_for_people_and_json_for_programs(headers, page):
    answer = await get(raising(NotFound("No")), headers)
    assert answer.status == 404
    assert answer.vary == {"Accept"}
    if page:
        assert answer.get("content-type") == PAGE
        assert "<title>404 NotFound</title>" in answer.text
    else:
        assert answer.json["name"] == "NotFound"


@pytest.mark.parametrize(("headers", "page"), ACCEPTED.values(), ids=ACCEPTED)
async def test_html_false_is_json_always(headers, page):
    answer = await get(raising(NotFound("No"), html=False), headers)
    assert answer.json["name"] == "NotFound"
    assert answer.vary == set()


async def test_the_built_in_page_shows_what_happened_and_runs_nothing():
    error = FrameworkError("<script>alert(1)</script> {0} %s", name="<b>", code=418)
    answer = await get(raising(error), HTML)
    assert "<h1>418</h1>" in answer.text
    assert "<p>&lt;script&gt;alert(1)&lt;/script&gt; {0} %s</p>" in answer.text
    assert "418 &lt;b&gt;" in answer.text


async def test_the_built_in_page_keeps_the_lines_of_a_message():
    stack = 'Traceback:\n  File "app.py", line 1\n    <b>1 / 0</b>'
    answer = await get(raising(NotFound(stack)), HTML)
    assert (
        "<pre>Traceback:\n  File &quot;app.py&quot;, line 1\n    &lt;b&gt;1 / 0&lt;/b&gt;</pre>"
        in answer.text
    )


async def test_the_built_in_page_takes_any_text():
    answer = await get(raising(NotFound("a\ud800b")), HTML)
    assert (answer.status, "a?b" in answer.text) == (404, True)
    assert (await get(raising(NotFound("a\ud800b")))).json["message"] == "a\ud800b"


# -- pages of one's own ---------------------------------------------------------------------------


@pytest.fixture
def pages(tmp_path):
    (tmp_path / "404.html").write_text("<h1>Lost ü</h1>", encoding="utf-8")
    (tmp_path / "error.html").write_text("<h1>Sorry</h1>")
    return tmp_path


async def test_a_page_per_status(pages):
    html = {404: pages / "404.html", "500": str(pages / "error.html")}
    answer = await get(raising(NotFound("No"), html=html), HTML)
    assert (answer.status, answer.text, answer.get("content-type")) == (
        404,
        "<h1>Lost ü</h1>",
        PAGE,
    )
    answer = await get(raising(ValueError(), html=html), HTML)
    assert (answer.status, answer.text) == (500, "<h1>Sorry</h1>")
    answer = await get(raising(Conflict("Taken"), html=html), HTML)
    assert (answer.status, "<h1>409</h1>" in answer.text) == (409, True)


async def test_a_default_page(pages):
    html = {404: pages / "404.html", "default": pages / "error.html"}
    assert (await get(raising(NotFound("No"), html=html), HTML)).text == "<h1>Lost ü</h1>"
    answer = await get(raising(Conflict("Taken"), html=html), HTML)
    assert (answer.status, answer.text) == (409, "<h1>Sorry</h1>")


async def test_programs_get_json_beside_pages(pages):
    assert (await get(raising(NotFound("No"), html={404: pages / "404.html"}))).json["code"] == 404


async def test_a_page_is_read_when_it_is_needed(pages):
    app = raising(NotFound("No"), html={404: pages / "404.html"})
    (pages / "404.html").write_text("changed")
    assert (await get(app, HTML)).text == "changed"


async def test_a_relative_page_stays_where_it_was(pages, monkeypatch):
    monkeypatch.chdir(pages)
    app = raising(NotFound("No"), html={404: "404.html"})
    monkeypatch.chdir("/")
    assert (await get(app, HTML)).text == "<h1>Lost ü</h1>"


async def test_a_page_that_went_away_is_replaced_by_the_built_in_one(pages, caplog):
    app = raising(NotFound("No"), html={404: pages / "404.html"})
    (pages / "404.html").unlink()
    answer = await get(app, HTML)
    assert (answer.status, "<h1>404</h1>" in answer.text) == (404, True)
    assert "404.html cannot be read; the built-in one was sent" in caplog.text


async def test_a_function_per_status(pages):
    html = {
        404: lambda error, req, res, go_on: res.send(f"lost {req.path}"),
        "default": pages / "error.html",
    }
    assert (await get(raising(NotFound("No"), html=html), HTML, "/a")).text == "lost /a"
    assert (await get(raising(Conflict("No"), html=html), HTML)).text == "<h1>Sorry</h1>"


def test_a_page_that_is_none_is_refused_when_it_is_registered(pages):
    for path in (pages / "nope.html", "nope.html", pages):
        with pytest.raises(
            FileNotFoundError, match=r"error_handler\(html=\.\.\.\): there is no page"
        ):
            error_handler(html={404: path})


@pytest.mark.parametrize("key", ["40x", 4040, 4, None, "Default", ""])
def test_a_status_that_is_none_is_refused_when_it_is_registered(pages, key):
    with pytest.raises(TypeError, match="is neither a status nor 'default'"):
        error_handler(html={key: pages / "404.html"})


@pytest.mark.parametrize("html", [True, "error.html", 404, ["404.html"]])
def test_what_makes_no_pages_is_refused_when_it_is_registered(html):
    with pytest.raises(TypeError, match="it takes a function"):
        error_handler(html=html)


# -- a function of one's own ----------------------------------------------------------------------


async def test_a_function_makes_the_page():
    def page(error, req, res, next):
        res.send(f"<h1>{error.code} {error.message} at {req.path}</h1>")

    answer = await get(raising(Conflict("Taken"), html=page), HTML, "/a")
    assert (answer.status, answer.get("content-type")) == (409, PAGE)
    assert answer.text == "<h1>409 Taken at /a</h1>"


async def test_programs_get_json_beside_a_function():
    app = raising(Conflict("Taken"), html=lambda error, req, res, go_on: res.send("page"))
    assert (await get(app)).json["code"] == 409


async def test_a_function_may_be_asynchronous_and_change_everything():
    async def page(error, req, res, next):
        res.status(200).type("text").set("x-a", "1").send("fine")

    answer = await get(raising(Conflict("Taken"), html=page), HTML)
    assert (answer.status, answer.text, answer.get("x-a")) == (200, "fine", "1")


async def test_a_function_gets_what_the_client_may_know_and_the_cause():
    def page(error, req, res, next):
        seen.append(error)
        res.send(error.message)

    seen, error = [], ValueError("secret")
    answer = await get(raising(error, html=page), HTML)
    assert (answer.status, answer.text) == (500, HIDDEN)
    assert isinstance(seen[0], GeneralError)
    assert seen[0].__cause__ is error


@pytest.mark.parametrize("call_next", [True, False])
async def test_a_function_may_go_on(call_next):
    async def further(error, req, res, next):
        res.status(error.code).send(f"further: {error.message}")

    async def page(error, req, res, next):
        await next(error)

    app = raising(Conflict("Taken"), html=page if call_next else lambda e, q, s, go_on: go_on(e))
    app.use(further)
    answer = await get(app, HTML)
    assert (answer.status, answer.text) == (409, "further: Taken")


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_a_function_that_fails_is_an_error_of_the_server(asynchronous, caplog):
    async def later(error, req, res, next):
        raise KeyError("no template")

    def at_once(error, req, res, next):
        raise KeyError("no template")

    answer = await get(raising(Conflict("Taken"), html=later if asynchronous else at_once), HTML)
    assert answer.status == 500
    assert "no template" not in answer.text
    assert "no template" in caplog.text


async def test_a_function_that_fails_after_its_answer_is_an_error_of_the_server():
    def page(error, req, res, next):
        res.send("half")
        raise KeyError("no template")

    answer = await get(raising(Conflict("Taken"), html=page), HTML)
    assert (answer.status, "half" in answer.text) == (500, False)


async def test_a_function_without_a_response_is_an_error(caplog):
    answer = await get(raising(Conflict("Taken"), html=lambda error, req, res, go_on: None), HTML)
    assert answer.status == 500
    assert "nothing responded to <Request GET /" in caplog.text


# -- data that has no JSON form -------------------------------------------------------------------


class Hostile:
    """Fails in another way than by a `TypeError`."""

    def model_dump(self, mode):
        raise ZeroDivisionError


CIRCLE = {}
CIRCLE["self"] = CIRCLE


@pytest.mark.parametrize("value", [object(), {1, object()}, CIRCLE, Hostile(), {(1, 2): 3}])
@pytest.mark.parametrize("where", ["data", "errors"])
async def test_data_without_a_json_form_is_left_out_and_the_rest_is_sent(value, where, caplog):
    error = BadRequest("Bad")
    setattr(error, where, {"value": value})
    answer = await get(raising(error))
    assert answer.status == 400
    assert answer.json == {
        "name": "BadRequest",
        "message": "Bad",
        "code": 400,
        "className": "bad-request",
    }
    assert "the data of an error has no JSON form; it was left out" in caplog.text


async def test_data_of_many_types_is_sent():
    answer = await get(raising(BadRequest("Bad", {"set": {1}, "big": 2**70, 3: None})))
    assert answer.json["data"] == {"set": [1], "big": 2**70, "3": None}


# -- logging --------------------------------------------------------------------------------------


class Logger:
    def __init__(self):
        self.errors = []

    def error(self, error):
        self.errors.append(error)


@pytest.mark.parametrize("error", [NotFound("No"), ValueError("secret")])
async def test_each_error_is_logged_as_it_was_raised(error):
    logger = Logger()
    await get(raising(error, logger=logger))
    assert logger.errors == [error]
    functions = []
    await get(raising(error, logger=functions.append), HTML)
    assert functions == [error]


async def test_the_log_gets_all_by_default(caplog):
    caplog.set_level(logging.INFO)
    await get(raising(ValueError("secret"), logger=None), url="/a?token=xyz")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("alula.express", "ERROR")
    assert record.getMessage() == "GET /a failed"
    assert "ValueError: secret" in caplog.text
    assert "xyz" not in caplog.text


async def test_errors_of_clients_are_a_line_without_the_query_string(caplog):
    caplog.set_level(logging.INFO)
    app = express()
    app.use(not_found(verbose=True))
    app.use(error_handler())
    answer = await get(app, url="/a?access_token=xyz")
    assert answer.json["message"] == "Page not found: /a?access_token=..."
    assert [record.getMessage() for record in caplog.records] == [
        "GET /a: NotFound: Page not found: /a"
    ]


async def test_false_logs_nothing(caplog):
    caplog.set_level(logging.DEBUG)
    await get(raising(ValueError("secret"), logger=False))
    assert caplog.records == []


async def test_a_logger_that_fails_does_not_keep_the_client_waiting():
    def broken(error):
        raise OSError("disk full")

    assert (await get(raising(NotFound("No"), logger=broken))).status == 404


@pytest.mark.parametrize("logger", [True, "stdout", object()])
def test_what_can_log_nothing_is_refused(logger):
    with pytest.raises(TypeError, match="it has no method error"):
        error_handler(logger=logger)


# -- in the chain ---------------------------------------------------------------------------------


async def test_an_error_after_an_answer_takes_its_place():
    async def later(req, res, next):
        await next()
        raise Conflict("too late, but nothing was sent")

    app = express()
    app.use(later)
    app.get("/", lambda req, res: res.type("csv").send("fine"))
    app.use(error_handler(logger=False))
    answer = await get(app)
    assert (answer.status, answer.json["name"]) == (409, "Conflict")


async def test_an_error_after_another_applications_answer_takes_its_place():
    async def theirs(scope, receive, send):
        raise AssertionError("it was called")

    async def later(req, res, next):
        await next()
        raise Conflict("no")

    app = express()
    app.use([later, theirs])
    app.use(error_handler(logger=False))
    assert (await get(app)).status == 409


async def test_two_answers_are_reported_and_not_hidden(caplog):
    async def both(req, res, next):
        res.json({"first": True})
        await next()

    app = express()
    app.use(both)
    app.get("/", lambda req, res: res.json({"second": True}))
    app.use(error_handler())
    answer = await get(app)
    assert (answer.status, answer.json["message"]) == (500, HIDDEN)
    assert "has a response already; middleware that responds must not call next()" in caplog.text


async def test_errors_from_everywhere(caplog):
    class Broken:
        async def get(self, id, params):
            raise FrameworkError("in the service", code=418)

        async def create(self, data, params):
            return data

    def deny(context):
        raise Conflict("in a hook")

    def stop(req, res, next):
        return next("in a plain string")

    app = express(App(debug=True))
    app.use(json())
    app.configure(rest())
    app.use("broken", Broken())
    app.service("broken").hooks(before={"create": [deny]})
    app.use("/stop", stop)
    app.use(not_found())
    app.use(error_handler(logger=False))
    found = {
        url: (await get(app, url=url)).json["message"] for url in ("/broken/1", "/stop", "/nope")
    }
    assert found == {
        "/broken/1": "in the service",
        "/stop": "in a plain string",
        "/nope": "Page not found",
    }
    kind = {"content-type": "application/json"}
    assert (await get(app, kind, "/broken", "POST", b"{}")).json["message"] == "in a hook"
    assert (await get(app, kind, "/broken", "POST", b"{")).status == 400
    answer = await get(app, url="/broken", method="DELETE")
    assert (answer.status, answer.get("allow")) == (405, "POST")


async def test_the_first_of_two_error_handlers_answers():
    app = raising(NotFound("No"), html=lambda error, req, res, go_on: res.send("first"))
    app.use(error_handler(html=lambda error, req, res, go_on: res.send("second")))
    assert (await get(app, HTML)).text == "first"


async def test_a_sub_application_shows_messages_by_its_own_debug_mode():
    def fail(req, res):
        raise ValueError("secret")

    inner = express(App(debug=True))
    inner.use(fail)
    inner.use(error_handler(logger=False))
    outer = express(App(debug=False))
    outer.use("/inner", inner)
    outer.use(fail)
    outer.use(error_handler(logger=False))
    assert (await get(outer, url="/inner")).json["message"] == "ValueError: secret"
    assert (await get(outer, url="/other")).json["message"] == HIDDEN


@given(st.text(), st.sampled_from([HTML, {}]))
async def test_any_message_can_be_sent(message, headers):
    answer = await get(raising(NotFound(message)), headers)
    assert answer.status == 404
    if not headers:
        assert answer.json["message"] == message
