"""What the log gets to know of errors."""

from __future__ import annotations

import logging

import pytest
from tests.express.asgi_client import call, request

from alula.errors import BadGateway, GeneralError, NotFound, Unavailable
from alula.express import error_handler, express
from alula.express._middleware.error_handler import reporter

LOG = "alula.express"


@pytest.fixture
def records(caplog):
    """All that is logged, as a list that grows."""
    found = []
    handler = logging.Handler()
    handler.emit = found.append
    with caplog.at_level(logging.DEBUG):
        logging.getLogger().addHandler(handler)
        yield found
        logging.getLogger().removeHandler(handler)


async def report(logger, error, status, url="/a"):
    waits = reporter(logger)(error, status, request("GET", url))
    if waits is not None:
        await waits


async def test_errors_of_clients_are_a_line(records):
    await report(None, NotFound("No record found for id '7'"), 404, "/messages/7")
    (record,) = records
    assert (record.name, record.levelname, record.exc_info) == (LOG, "INFO", None)
    assert record.getMessage() == "GET /messages/7: NotFound: No record found for id '7'"


async def test_errors_of_the_server_are_logged_in_full(records):
    error = KeyError("name")
    await report(None, error, 500)
    (record,) = records
    assert (record.levelname, record.exc_info[1]) == ("ERROR", error)
    assert record.getMessage() == "GET /a failed"


def unavailable():
    error = Unavailable("The database cannot be reached")
    error.__cause__ = ConnectionError("mongodb://user:secret@db")
    return error


@pytest.mark.parametrize("error", [unavailable(), Unavailable("Too busy"), BadGateway("No")])
async def test_errors_that_say_all_are_a_line_however_many_there_are(caplog, error):
    caplog.set_level(logging.INFO, "alula.express")
    await report(None, error, error.code)
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("ERROR", None)
    cause = " from ConnectionError" if error.__cause__ else ""
    assert record.getMessage() == f"GET /a: {type(error).__name__}{cause}: {error.message}"


async def test_an_outage_does_not_fill_the_log(caplog, monkeypatch):
    seconds = [100.0]
    monkeypatch.setattr("alula._repeats.monotonic", lambda: seconds[0])
    caplog.set_level(logging.INFO, "alula.express")
    report = reporter(None)
    for path in ("/a", "/b", "/c"):
        error = unavailable()
        error.add_note("PostgreSQL at db:5432: Connection refused")
        report(error, 503, request("GET", path))
    report(Unavailable("Too busy"), 503, request("GET", "/d"))
    seconds[0] += 10
    report(error, 503, request("GET", "/e"))
    text = "Unavailable from ConnectionError: The database cannot be reached"
    note = "(PostgreSQL at db:5432: Connection refused)"
    assert [record.getMessage() for record in caplog.records] == [
        f"GET /a: {text} {note}",
        "GET /d: Unavailable: Too busy",
        f"GET /e: {text} {note} (2 more of these since the last line)",
    ]


async def test_errors_of_clients_are_never_left_out(caplog):
    caplog.set_level(logging.INFO, "alula.express")
    report = reporter(None)
    for _ in range(3):
        report(NotFound("No"), 404, request("GET", "/a"))
    assert len(caplog.records) == 3


async def test_their_stack_is_logged_by_option(records):
    await report(None, unavailable(), 503)
    assert records[0].exc_info


async def test_a_logger_of_the_users_own_gets_no_stack_of_them_either(caplog):
    caplog.set_level(logging.INFO, "alula.express")
    await report(logging.getLogger("mine"), unavailable(), 503)
    assert not caplog.records[0].exc_info


async def test_it_is_the_status_of_the_answer_that_counts(records):
    error = type("DriverError", (Exception,), {"code": 404, "status_code": 404})("lost")
    await report(None, error, 500)
    assert records[0].levelname == "ERROR"


async def test_the_path_is_named_with_its_mount(records):
    req = request("GET", "/b")
    req.base_url = "/a"
    reporter(None)(NotFound("No"), 404, req)
    assert records[0].getMessage().startswith("GET /a/b: ")


@pytest.mark.parametrize("status", [404, 500])
async def test_query_strings_are_never_logged(records, status):
    url = "/a?access_token=s%20cret&b=1"
    await report(None, NotFound(f"Page not found: {url}"), status, url)
    if status == 404:
        assert records[0].getMessage() == "GET /a: NotFound: Page not found: /a"
    else:
        assert "cret" not in records[0].getMessage()


@pytest.mark.parametrize("char", ["\n", "\r", "\x1b", "\x00", "\x85", "\u2028"])
async def test_what_a_client_sent_makes_no_line_of_its_own(records, char):
    await report(None, NotFound(f"a{char}ERROR forged"), 404)
    message = records[0].getMessage()
    assert char not in message
    assert message.endswith(f"a\\x{ord(char):02x}ERROR forged")


@pytest.mark.parametrize("status", [404, 500])
async def test_a_path_makes_no_line_of_its_own(records, status):
    req = request("GET", "/a")
    req.path = "/a\nERROR forged"
    reporter(None)(NotFound("No"), status, req)
    assert "\n" not in records[0].getMessage()


@pytest.mark.parametrize("error", [NotFound("No"), GeneralError("Broken"), ValueError("x")])
async def test_false_is_silence(records, error):
    await report(False, error, 500)
    assert records == []


class Logger:
    def __init__(self):
        self.errors = []

    def error(self, error):
        self.errors.append(error)


class AsyncLogger(Logger):
    async def error(self, error):
        self.errors.append(error)


@pytest.mark.parametrize("status", [404, 500])
@pytest.mark.parametrize("kind", [Logger, AsyncLogger])
async def test_an_object_gets_each_error(records, kind, status):
    logger, error = kind(), NotFound("No")
    await report(logger, error, status)
    assert logger.errors == [error]
    assert records == []


async def test_a_function_gets_each_error(records):
    errors = []
    await report(errors.append, NotFound("No"), 404)
    assert len(errors) == 1
    assert records == []


async def test_an_asynchronous_function_is_awaited():
    async def tell(error):
        errors.append(error)

    errors = []
    await report(tell, NotFound("No"), 404)
    assert len(errors) == 1


@pytest.mark.parametrize(
    "wrap", [lambda logger: logger, lambda logger: logging.LoggerAdapter(logger, {})]
)
async def test_loggers_of_the_standard_library_get_the_stack_of_server_errors(records, wrap):
    logger, error = wrap(logging.getLogger("mine")), ValueError("x")
    await report(logger, error, 500)
    await report(logger, NotFound("No"), 404)
    assert [(r.name, r.levelname, r.getMessage()) for r in records] == [
        ("mine", "ERROR", "x"),
        ("mine", "ERROR", "No"),
    ]
    assert records[0].exc_info[1] is error
    assert not records[1].exc_info


async def test_a_logger_that_fails_is_logged_itself(records):
    def broken(error):
        raise OSError("disk full")

    await report(broken, NotFound("No"), 404)
    (record,) = records
    assert (record.name, record.getMessage()) == (LOG, "the logger of error_handler failed")
    assert str(record.exc_info[1]) == "disk full"


@pytest.mark.parametrize("logger", [True, "log", 1, object()])
def test_what_can_log_nothing_is_refused(logger):
    with pytest.raises(TypeError, match=r"error_handler\(logger=.*\): it has no method error"):
        reporter(logger)


async def test_an_error_that_nobody_logs_is_not_written_out(caplog):
    written = []

    class Long(NotFound):
        def __str__(self):
            written.append(self)
            return "long"

    def fail(req, res):
        raise Long

    app = express().use(fail).use(error_handler())
    for level, count in ((logging.WARNING, 0), (logging.INFO, 1)):
        caplog.set_level(level, logger="alula.express")
        assert (await call(app, "GET", "/?a=b")).status == 404
        assert len(written) == len(caplog.records) == count
