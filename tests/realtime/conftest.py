"""A Redis for the tests of this room, and both ways by which servers pass messages."""

from __future__ import annotations

import os
import secrets

import pytest
from tests.realtime.asgi_peer import Peer
from tests.realtime.processes import Redis


@pytest.fixture(params=[False, True], ids=["ASGI alone", "extension"])
def has_extension(request, monkeypatch):
    """Whether the clients of a test are those of a server with the `MessagesExtension`."""
    monkeypatch.setattr(Peer, "has_extension", request.param)


@pytest.fixture(scope="module")
async def redis(tmp_path_factory):
    """A Redis of its own for each module, which tests may kill and stall."""
    redis = Redis(tmp_path_factory.mktemp("redis"))
    await redis.start()
    yield redis
    redis.kill()


@pytest.fixture
async def running_redis(redis):
    """That Redis, running whatever the last test did, with a stream of its own."""
    redis.stream = f"test:{secrets.token_hex(4)}"
    if redis.is_dead:
        await redis.start()
    return redis


@pytest.fixture
def redis_url(request):
    """The URL of a Redis; ALULA_REDIS_URL takes the place of the one that is started here."""
    return os.environ.get("ALULA_REDIS_URL") or request.getfixturevalue("redis").url
