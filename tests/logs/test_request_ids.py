"""Ids of requests: which are taken, and where they are known."""

from __future__ import annotations

import asyncio
import re

import pytest

from alula.logs._request_ids import (
    begin_request,
    current_request_id,
    end_request,
    new_request_id,
    request_scope,
    trace_id_of,
    valid_request_id,
)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_new_ids_are_32_digits_and_never_the_same():
    ids = {new_request_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)


@pytest.mark.parametrize(
    "text", ["7", "a" * 128, "Root=1-5e6722a7-cc2c", "b7f1/2.3:4@host+x_y", TRACE]
)
def test_what_others_use_for_ids_is_taken(text):
    assert valid_request_id(text) == text


@pytest.mark.parametrize(
    "text",
    [None, "", "a" * 129, "a b", "a\nERROR forged", "a\n", "\x1b[31m", "é", '"', "a,b", "${jndi}"],
)
def test_what_could_harm_a_log_is_not(text):
    assert valid_request_id(text) is None


@pytest.mark.parametrize(
    "header", [f"00-{TRACE}-00f067aa0ba902b7-01", f"cc-{TRACE}-00f067aa0ba902b7-00-more"]
)
def test_the_trace_of_a_traceparent(header):
    assert trace_id_of(header) == TRACE


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        TRACE,
        f"00-{TRACE}",
        f"ff-{TRACE}-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE.upper()}-00f067aa0ba902b7-01",
        f"00-{TRACE}-00f067aa0ba902b7-01\n",
    ],
)
def test_what_is_no_traceparent_names_no_trace(header):
    assert trace_id_of(header) is None


def test_there_is_none_outside_of_requests():
    assert current_request_id() is None
    token = begin_request("a")
    assert current_request_id() == "a"
    end_request(token)
    assert current_request_id() is None


def test_a_job_gets_one_for_as_long_as_it_runs():
    with request_scope("job-7") as known:
        assert known == current_request_id() == "job-7"
        with request_scope() as inner:
            assert inner == current_request_id() != "job-7"
        assert current_request_id() == "job-7"
    assert current_request_id() is None


def test_a_job_that_fails_leaves_none_behind():
    with pytest.raises(ZeroDivisionError), request_scope():
        raise ZeroDivisionError
    assert current_request_id() is None


def test_a_job_has_no_id_that_harms_a_log():
    with (
        pytest.raises(ValueError, match=r"'a b' is not .*up to 128"),
        request_scope("a b"),
    ):
        pass


async def test_requests_at_the_same_time_have_their_own_and_their_tasks_inherit_it():
    seen = {}

    async def work(name):
        with request_scope(name):
            await asyncio.sleep(0)
            seen[name] = await asyncio.create_task(ask())

    async def ask():
        return current_request_id()

    await asyncio.gather(work("a"), work("b"))
    assert seen == {"a": "a", "b": "b"}
