from __future__ import annotations

import asyncio

import pytest
from pymongo import _csot

from alula.adapters._database_options import MAX_TIME_MS, in_time, read_max_time
from alula.adapters.mongodb._options import limited
from alula.errors import Timeout


def test_milliseconds_become_seconds():
    assert read_max_time(1500, "max_time_ms") == 1.5
    assert read_max_time(False, "max_time_ms") is None
    assert read_max_time(None, "max_time_ms") == MAX_TIME_MS / 1000 == 10


@pytest.mark.parametrize("value", [0, -1, 1.5, "100", True])
def test_anything_else_is_refused_by_its_name(value):
    with pytest.raises(ValueError, match=r"^max_time_ms is .*; give whole milliseconds"):
        read_max_time(value, "max_time_ms")


def test_the_driver_gets_the_limit_inside_only():
    with limited(1.5):
        assert _csot.get_timeout() == 1.5
    assert _csot.get_timeout() is None


def test_without_a_limit_that_of_the_client_holds():
    with limited(3), limited(None):
        assert _csot.get_timeout() == 3


@pytest.mark.parametrize("seconds", [None, 5])
async def test_what_comes_in_time_is_returned(seconds):
    assert await in_time(asyncio.sleep(0, "found"), seconds, "The collection") == "found"


async def test_what_takes_too_long_is_over_time():
    with pytest.raises(Timeout, match="The collection was not there in time"):
        await in_time(asyncio.Event().wait(), 0.01, "The collection")


async def test_an_error_of_its_own_stays_as_it_is():
    async def fail():
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await in_time(fail(), 5, "The collection")
