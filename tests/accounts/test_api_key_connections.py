"""Real-time connections that a key has opened: when they end, in all processes."""

from __future__ import annotations

import time

import pytest
from tests.accounts.building import Stores
from tests.accounts.key_building import new_key, started_with_keys, world_with_keys
from tests.authentication.connecting import (
    call,
    is_closed,
    is_signed_out,
    link_of,
    open_connection,
    settle,
)

from alula._identity import identify_connection
from alula.authentication import _connections
from alula.errors import NotAuthenticated


@pytest.fixture(autouse=True)
def _closes_soon(monkeypatch):
    monkeypatch.setattr(_connections, "_CLOSE_DELAY_SECONDS", 0.02)


@pytest.fixture
async def world():
    world = await started_with_keys()
    yield world
    await world.app.teardown()


async def connected(world, key, app=None):
    app = app or world.app
    headers = {"authorization": f"ApiKey {key}"}
    connection = open_connection(app, added=False, headers=headers)
    await identify_connection(app, connection)
    app.add_connection(connection)
    return connection


async def test_a_wrong_key_refuses(world):
    with pytest.raises(NotAuthenticated, match="Invalid API key"):
        await connected(world, "alu_x")


@pytest.mark.parametrize("how", ["by the owner", "by the store", "with the user", "all"])
async def test_a_key_that_ends_closes_its_connections(world, how):
    key, other = await new_key(world), await new_key(world, user_id=2)
    connection, bobs = await connected(world, key["key"]), await connected(world, other["key"])
    await world.accounts.idle()
    if how == "by the owner":
        await world.accounts.api_keys.remove(key["id"])
    elif how == "by the store":
        await world.app.service("credentials").remove(f"key:{key['id']}")
    elif how == "with the user":
        await world.app.service("users").remove(1)
    else:
        await world.accounts.api_keys.forget(1)
    assert is_signed_out(connection)
    assert await is_closed(connection)
    assert bobs.user["email"] == "bob@example.com"
    assert bobs.is_open


async def test_in_another_process_too():
    """Two applications on the same stores, which tell each other by a bus."""
    here = await started_with_keys()
    there = world_with_keys(stores_of(here))
    await there.app.setup()
    here.app.channel_registry.forward = there.app.channel_registry.receive
    key = await new_key(here)
    connection = await connected(there, key["key"])
    await there.accounts.idle()
    await here.accounts.api_keys.remove(key["id"])
    assert is_signed_out(connection)
    assert await is_closed(connection)
    for world in (here, there):
        await world.app.teardown()


async def test_without_a_bus_the_next_call_notices():
    here = await started_with_keys()
    there = world_with_keys(stores_of(here))
    await there.app.setup()
    key = await new_key(here)
    connection = await connected(there, key["key"])
    await here.accounts.api_keys.remove(key["id"])
    assert connection.user is not None
    with pytest.raises(NotAuthenticated, match="Invalid API key"):
        await call(connection, there.app, "notes", "find")
    assert is_signed_out(connection)
    for world in (here, there):
        await world.app.teardown()


def stores_of(world):
    """Return the stores of an application, for another one."""
    paths = ("users", "sessions", "credentials")
    return Stores(*(world.app.service(path).service for path in paths), None)


async def test_a_key_that_expires_closes_its_connection(world, monkeypatch):
    key = await new_key(world, expires_in="1h")
    connection = await connected(world, key["key"])
    assert connection.sign_in.expires == key["expiresAt"] / 1000
    await world.accounts.idle()
    # The timer is late, and the client calls.
    monkeypatch.setattr(_connections.time, "time", lambda: key["expiresAt"] / 1000)
    with pytest.raises(NotAuthenticated, match="The key has expired"):
        await call(connection, world.app, "notes", "find")
    await settle()
    assert (connection.is_open, link_of(connection).reason) == (False, "expired")


async def test_a_key_without_an_end_keeps_its_connection(world):
    connection = await connected(world, (await new_key(world, expires_in=None))["key"])
    assert connection.sign_in.expires == float("inf")
    assert connection.sign_in.timer is None


async def test_the_connections_of_a_rotated_key_end_with_the_old_secret(world):
    key = await new_key(world)
    connection = await connected(world, key["key"])
    before = connection.sign_in.timer
    new = await world.accounts.api_keys.rotate(key["id"], overlap="1h")
    await settle()
    assert connection.user["id"] == 1
    assert abs(connection.sign_in.expires - time.time() - 3600) < 60
    assert before.cancelled()
    assert not connection.sign_in.timer.cancelled()
    assert (await connected(world, new["key"])).sign_in.expires == new["expiresAt"] / 1000
    await world.accounts.api_keys.rotate(key["id"], overlap=0)
    await settle()
    assert is_signed_out(connection)


async def test_only_what_is_a_key_is_told(world):
    told = []
    world.authentication.connections.announce = lambda kind, ids: told.append((kind, ids))
    key = await new_key(world)
    await world.mails()
    await world.app.service("credentials").remove(None, query={}, adapter={"multi": ["remove"]})
    assert [each for each in told if each[1]] == [("apiKey", [key["id"]])]
