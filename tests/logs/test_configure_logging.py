"""One call configures what a process logs."""

from __future__ import annotations

import io
import json
import logging

import httpx2
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.express.asgi_client import call

from alula import App
from alula.express import error_handler, express
from alula.files import multipart
from alula.logs import configure_logging, request_scope
from alula.telemetry import trace_requests


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """Leave the loggers of this process as they were."""
    monkeypatch.delenv("ALULA_LOG_LEVEL", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    libraries = (
        "pymongo",
        "botocore",
        "httpx",
        "httpx2",
        "httpcore",
        "httpcore2",
        "opentelemetry.baggage",
        "python_multipart",
    )
    known = [logging.getLogger(name) for name in (None, "shop", "shop.orders", *libraries)]
    before = [(logger, logger.level, list(logger.handlers)) for logger in known]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture
def out():
    return io.StringIO()


def entries(out):
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_records_of_all_loggers_come_as_json_lines_with_their_request(out):
    configure_logging(stream=out)
    with request_scope("r-1"):
        logging.getLogger("shop.orders").info("paid", extra={"order": 7})
    logging.getLogger("shop").debug("not told")
    (entry,) = entries(out)
    assert (entry["message"], entry["order"], entry["request_id"]) == ("paid", 7, "r-1")


def test_on_a_terminal_they_are_for_people_in_colours(monkeypatch):
    terminal = Terminal()
    configure_logging(stream=terminal)
    logging.getLogger("shop").warning("low")
    assert "\x1b[33mWARNING\x1b[0m shop: low" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    configure_logging(stream=terminal)
    logging.getLogger("shop").warning("lower")
    assert "WARNING shop: lower" in terminal.getvalue()


def test_the_form_is_a_choice(out):
    configure_logging(stream=out, json=False)
    logging.getLogger("shop").warning("low")
    assert out.getvalue().endswith("WARNING shop: low\n")
    assert "\x1b" not in out.getvalue()
    terminal = Terminal()
    configure_logging(stream=terminal, json=True)
    logging.getLogger("shop").warning("low")
    assert entries(terminal)[0]["message"] == "low"


def test_standard_error_is_the_usual_place(capsys):
    configure_logging(json=True)
    logging.getLogger("shop").warning("low")
    assert json.loads(capsys.readouterr().err)["message"] == "low"


def test_called_again_it_replaces_its_own_and_leaves_those_of_others(out):
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    configure_logging(stream=io.StringIO())
    configure_logging(stream=out)
    logging.getLogger("shop").warning("once")
    assert len(entries(out)) == 1
    assert other in logging.getLogger().handlers


@pytest.mark.parametrize("level", ["debug", " DEBUG ", logging.DEBUG])
def test_the_level_is_a_name_or_a_number(out, level):
    configure_logging(stream=out, level=level)
    logging.getLogger("shop").debug("told")
    assert entries(out)[0]["level"] == "DEBUG"


def test_the_environment_names_the_level_where_nothing_else_does(out, monkeypatch):
    monkeypatch.setenv("ALULA_LOG_LEVEL", "error")
    configure_logging(stream=out)
    logging.getLogger("shop").warning("not told")
    configure_logging(stream=out, level="WARNING")
    logging.getLogger("shop").warning("told")
    assert [entry["message"] for entry in entries(out)] == ["told"]


def test_single_loggers_have_levels_of_their_own(out):
    configure_logging(stream=out, levels={"shop.orders": "DEBUG", "shop": "ERROR"})
    logging.getLogger("shop.orders").debug("told")
    logging.getLogger("shop").warning("not told")
    assert [entry["message"] for entry in entries(out)] == ["told"]


def test_the_documents_that_the_driver_logs_have_to_be_asked_for(out):
    command = logging.getLogger("pymongo.command")
    configure_logging(stream=out, level="DEBUG")
    command.debug("{'password': '$argon2id$...'}")
    assert out.getvalue() == ""
    configure_logging(stream=out, levels={"pymongo": "DEBUG"})
    command.debug("{'insert': ...}")
    assert len(entries(out)) == 1
    configure_logging(stream=out, level="ERROR")
    command.warning("slow")
    assert len(entries(out)) == 1


async def test_no_client_can_fill_the_log(out):
    app = express(App()).use(trace_requests(), multipart())
    app.post("/", lambda req, res: anext(aiter(req.body["upload"])))
    app.use(error_handler(logger=False))
    configure_logging(stream=out, level="WARNING")
    form = "multipart/form-data; boundary=x"
    headers = {"baggage": "a," * 180, "content-type": form}
    assert (await call(app, "POST", "/", b"no form", headers)).status == 400
    assert out.getvalue() == ""


def test_the_credentials_of_a_store_have_to_be_asked_for(out):
    def sign():
        keys = Credentials("id", "key", "s3cret")
        SigV4Auth(keys, "s3", "eu-central-1").add_auth(AWSRequest("GET", "http://there/"))

    configure_logging(stream=out, level="DEBUG")
    sign()
    assert out.getvalue() == ""
    configure_logging(stream=out, levels={"botocore.auth": "DEBUG"})
    sign()
    assert "s3cret" in out.getvalue()


def test_the_queries_that_go_to_other_servers_have_to_be_asked_for(out):
    def ask():
        answer = httpx2.Response(200, headers={"set-cookie": "s3cret"})
        transport = httpx2.MockTransport(lambda _: answer)
        with httpx2.Client(transport=transport) as client:
            client.get("http://there/?token=s3cret")

    configure_logging(stream=out, level="DEBUG")
    ask()
    assert "s3cret" not in out.getvalue()
    configure_logging(stream=out, levels={"httpx2": "INFO"})
    ask()
    assert "token=s3cret" in out.getvalue()


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"level": "LOUD"}, "level"),
        ({"levels": {"shop": "LOUD"}}, r"levels\['shop'\]"),
        ({}, "ALULA_LOG_LEVEL"),
    ],
)
def test_a_level_that_does_not_exist_is_refused_before_anything_changes(
    out, options, where, monkeypatch
):
    monkeypatch.setenv("ALULA_LOG_LEVEL", "LOUD")
    before = list(logging.getLogger().handlers)
    with pytest.raises(ValueError, match=f"^{where}: unknown log level 'LOUD'; .*WARNING"):
        configure_logging(stream=out, **{"level": None if where[0] == "A" else "INFO", **options})
    assert logging.getLogger().handlers == before
