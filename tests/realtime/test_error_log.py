"""What the log gets of calls that fail over socket.io."""

from __future__ import annotations

import logging

from alula._repeats import RepeatLimit
from alula.errors import NotFound, Unavailable
from alula.realtime._calls import log_error
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
