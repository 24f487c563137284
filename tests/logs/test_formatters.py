"""Records as JSON lines and as lines for people."""

from __future__ import annotations

import datetime
import importlib.util
import json
import logging
import re
import sys

import pytest

from alula.logs import ConsoleFormatter, JsonFormatter, _formatters, request_scope


def record(message="paid %s", *args, level=logging.INFO, exc_info=None, **extra):
    logger = logging.getLogger("shop.orders")
    return logger.makeRecord(
        logger.name, level, __file__, 1, message, args or ("now",), exc_info, extra=extra
    )


def failed(message="no such table\nERROR forged"):
    try:
        raise LookupError(message)
    except LookupError:
        return sys.exc_info()


def as_json(made):
    line = JsonFormatter().format(made)
    assert line.isascii()
    assert "\n" not in line
    return json.loads(line)


class Shy:
    def __str__(self):
        raise RuntimeError("no")


# -- JSON ------------------------------------------------------------------------------------------


def test_a_record_is_an_object():
    made = record()
    told = as_json(made)
    time = datetime.datetime.fromisoformat(told.pop("time"))
    assert abs(time.timestamp() - made.created) < 0.002
    assert told == {"level": "INFO", "logger": "shop.orders", "message": "paid now"}


def test_the_time_is_utc_in_milliseconds():
    made = record()
    for created, time in [
        (0.0625, "1970-01-01T00:00:00.062Z"),
        (0.5, "1970-01-01T00:00:00.500Z"),
        (1.0, "1970-01-01T00:00:01.000Z"),
        (1795304871.25, "2026-11-21T23:47:51.250Z"),
        (0.0, "1970-01-01T00:00:00.000Z"),
    ]:
        made.created = created
        assert as_json(made)["time"] == time


def test_it_has_the_request_id_and_what_was_added():
    with request_scope("r-1"):
        told = as_json(record(order=7, items=["a"], level=logging.WARNING))
    assert told["request_id"] == "r-1"
    assert (told["order"], told["items"], told["level"]) == (7, ["a"], "WARNING")


def test_what_is_added_never_takes_the_place_of_what_is_there():
    told = as_json(record(level_=3, time="noon", logger="mine"))
    assert (told["time_"], told["logger_"], told["logger"]) == ("noon", "mine", "shop.orders")


def test_an_error_comes_with_its_stack():
    told = as_json(record(exc_info=failed()))["exception"]
    assert (told["type"], told["message"]) == ("LookupError", "no such table\nERROR forged")
    assert told["stack"].startswith("Traceback (most recent call last):\n")
    assert "exception" not in as_json(record(exc_info=(None, None, None)))


def test_an_error_that_cannot_be_shown_costs_no_line():
    assert as_json(record(exc_info=failed(Shy())))["exception"]["message"] == "<LookupError>"


def test_a_stack_that_was_asked_for_is_there():
    made = record()
    made.stack_info = "Stack (most recent call last):\n  File ..."
    assert as_json(made)["stack"].startswith("Stack")


LOOP: list = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (datetime.date(2026, 11, 21), "2026-11-21"),
        (float("nan"), "nan"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (LOOP, "[[...]]"),
        (Shy(), "<Shy>"),
        ("\ud800 ü\u2028", "\ud800 ü\u2028"),
    ],
    ids=["date", "nan", "keys", "loop", "shy", "text"],
)
def test_what_json_has_no_form_for_is_text_and_the_rest_stays(value, told):
    entry = as_json(record(odd=value, order=7))
    assert (entry["odd"], entry["order"]) == (told, 7)


@pytest.mark.parametrize("value", [10**20, "\ud800", float("inf"), "ü", None, [1], True])
def test_a_line_is_the_same_with_and_without_orjson(value, monkeypatch):
    made = record(odd=value, order=7)
    line = JsonFormatter().format(made)
    monkeypatch.setattr(_formatters, "_quick_dumps", None)
    assert JsonFormatter().format(made) == line
    assert line.isascii()


def test_logs_work_without_orjson(monkeypatch):
    monkeypatch.setitem(sys.modules, "orjson", None)
    spec = importlib.util.spec_from_file_location("formatters_alone", _formatters.__file__)
    alone = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(alone)
    told = json.loads(alone.JsonFormatter().format(record(order=7)))
    assert (told["message"], told["order"]) == ("paid now", 7)


# -- for people ------------------------------------------------------------------------------------


def line_of(made, **options):
    return re.sub(r"^\d\d:\d\d:\d\d\.\d{3}", "TIME", ConsoleFormatter(**options).format(made))


def test_a_line_has_time_level_logger_and_message():
    assert line_of(record()) == "TIME INFO    shop.orders: paid now"


def test_a_line_ends_with_what_was_added():
    with request_scope("r-1"):
        line = line_of(record(order=7, note="two words", empty=""))
    assert line == (
        'TIME INFO    shop.orders: paid now order=7 note="two words" empty="" request_id=r-1'
    )


def test_fields_that_the_message_contains_are_not_repeated():
    order = "order-7"
    assert line_of(record("paid %s", order, order=order, count=2)).endswith("paid order-7 count=2")


def test_a_mapping_of_arguments_is_a_message_like_any_other():
    made = record("paid %(order)s", {"order": 7})
    assert line_of(made).endswith("shop.orders: paid 7")


@pytest.mark.parametrize("where", ["message", "extra"])
def test_what_was_sent_makes_no_line_of_its_own(where):
    forged = "a\n12:00:00 ERROR forged\x1b[31m"
    made = record("%s", forged) if where == "message" else record(name_=forged)
    line = line_of(made)
    assert "\n" not in line
    assert "\x1b" not in line
    assert "\\x0a12:00:00 ERROR forged" in line.replace("\\\\", "\\")


def test_stacks_are_indented_so_that_they_make_no_line_of_their_own():
    made = record(exc_info=failed("lost\nTIME ERROR   forged"))
    made.stack_info = "Stack (most recent call last):\n  File ..."
    first, *more = line_of(made).split("\n")
    assert first == "TIME INFO    shop.orders: paid now"
    assert all(line.startswith("    ") for line in more)
    assert "    LookupError: lost" in more
    assert more[-1] == "      File ..."
    assert line_of(record(exc_info=(None, None, None))) == first


def test_a_stack_shows_the_frames_of_the_user_first(tmp_path):
    def code(name, text, **names):
        exec(compile(text, str(tmp_path / name), "exec"), names)
        return names["run"]

    deep = code("site-packages/driver.py", "def run(): raise LookupError('no')")
    user = code("app.py", "def run(): deep()", deep=deep)
    frame = code("site-packages/web.py", "def run(): user()", user=user)
    try:
        frame()
    except LookupError as error:
        found = error.with_traceback(error.__traceback__.tb_next)  # without this function
    lines = line_of(record(exc_info=(LookupError, found, found.__traceback__))).splitlines()
    assert [line.strip() for line in lines[1:]] == [
        "Traceback (most recent call last):",
        f'File "{tmp_path}/app.py", line 1, in run',
        f'File "{tmp_path}/site-packages/driver.py", line 1, in run',
        "LookupError: no",
        "(left out: 1 frames of packages)",
    ]
    stack = as_json(record(exc_info=(LookupError, found, found.__traceback__)))["exception"]
    assert "web.py" in stack["stack"]  # programs get all of it


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        (logging.WARNING, "\x1b[33mWARNING\x1b[0m"),
        (logging.ERROR, "\x1b[31mERROR  \x1b[0m"),
        (logging.INFO, "INFO   "),
    ],
)
def test_levels_have_colours_where_they_are_wanted(level, shown):
    assert line_of(record(level=level), colours=True) == f"TIME {shown} shop.orders: paid now"
