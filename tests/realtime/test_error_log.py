"""What the log gets of calls that fail over socket.io."""

from __future__ import annotations

import logging

import pytest

from alula._repeats import RepeatLimit
from alula.errors import BadRequest, NotFound, Unavailable
from alula.realtime._calls import _encode_error, log_error
from alula.realtime._limits import LOG_LINES, LogLimit


def messages_of(caplog, *errors):
    with caplog.at_level(logging.INFO, "alula.realtime"):
        for error in errors:
            log_error(error, "find notes", LogLimit(), None)
    return [record.getMessage() for record in caplog.records]


def test_an_outage_does_not_fill_the_log(caplog, monkeypatch):
    monkeypatch.setattr("alula.realtime._calls._repeats", RepeatLimit())
    away = Unavailable("The database cannot be reached")
    away.add_note("MongoDB: db:27017: refused")
    assert messages_of(caplog, away, away, Unavailable("Too busy")) == [
        "find notes over socket.io: Unavailable: The database cannot be reached"
        " (MongoDB: db:27017: refused)",
        "find notes over socket.io: Unavailable: Too busy",
    ]


def test_errors_of_clients_are_never_left_out(caplog):
    assert len(messages_of(caplog, NotFound("No"), NotFound("No"))) == 2


def test_unexpected_errors_of_one_client_do_not_fill_the_log(caplog):
    limit = LogLimit()
    for _ in range(LOG_LINES + 5):
        log_error(RuntimeError("a bug"), "find notes", limit, "192.0.2.1")
    assert len(caplog.records) == LOG_LINES


@pytest.mark.parametrize("given", ["0", "1"])
def test_a_client_gets_the_notes_only_under_alula_dev(given, monkeypatch):
    monkeypatch.setenv("ALULA_HINTS", given)
    error = BadRequest("Invalid query parameter $gtt")
    error.add_note("did you mean '$gt'?")
    (frame,) = _encode_error(1, error)
    assert ('"hint":"did you mean \'$gt\'?"' in frame) is (given == "1")
