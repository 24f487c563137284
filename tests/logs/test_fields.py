"""The request id on every record, and what others add."""

from __future__ import annotations

import logging
import logging.handlers
import queue

import pytest

from alula.logs import JsonFormatter, RequestFields, add_log_fields, request_scope
from alula.logs import _fields as fields
from alula.logs._fields import add_request_fields, extra_fields


def record(**extra):
    made = logging.makeLogRecord({"msg": "paid", "name": "shop", "levelname": "INFO"})
    made.__dict__.update(extra)
    return made


@pytest.fixture(autouse=True)
def no_others(monkeypatch):
    monkeypatch.setattr(fields, "_providers", {})


def test_a_record_gets_the_id_of_its_request():
    with request_scope("r-1"):
        made = record()
        assert RequestFields().filter(made)
        assert made.request_id == "r-1"


def test_outside_of_requests_it_is_none_so_that_formats_can_name_it():
    made = record()
    RequestFields().filter(made)
    assert logging.Formatter("%(request_id)s %(message)s").format(made) == "None paid"


def test_the_first_stamp_counts():
    made = record()
    with request_scope("r-1"):
        add_request_fields(made)
    with request_scope("r-2"):
        add_request_fields(made)
    assert made.request_id == "r-1"


def test_records_that_a_queue_carries_to_another_thread_keep_it():
    carried = queue.SimpleQueue()
    handler = logging.handlers.QueueHandler(carried)
    handler.addFilter(RequestFields())
    with request_scope("r-1"):
        handler.handle(record())
    assert '"request_id":"r-1"' in JsonFormatter().format(carried.get())


def test_others_add_fields_once_and_never_in_place_of_what_was_logged():
    calls = []

    def tenant():
        calls.append(1)
        return {"tenant": "acme", "order": 0}

    add_log_fields(tenant)
    add_log_fields(tenant)
    made = record(order=7)
    add_request_fields(made)
    assert (made.tenant, made.order, calls) == ("acme", 7, [1])


def test_fields_that_fail_cost_neither_the_record_nor_the_caller():
    def broken():
        raise LookupError("secret")

    add_log_fields(broken)
    add_log_fields(lambda: {"tenant": "acme"})
    made = record()
    add_request_fields(made)
    assert made.tenant == "acme"
    assert made.log_fields_error.startswith("LookupError in ")
    assert "broken" in made.log_fields_error
    assert "secret" not in made.log_fields_error


def test_extras_are_what_was_added():
    made = record(order=7, nothing=None)
    add_request_fields(made)
    assert extra_fields(made) == {"order": 7}
    with request_scope("r-1"):
        made = record()
        add_request_fields(made)
    assert extra_fields(made) == {"request_id": "r-1"}
