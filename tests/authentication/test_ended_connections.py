"""Connections whose session ends, here or in another process, and what is left of them."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from tests.authentication.building import add_user, login, make_app
from tests.authentication.connecting import (
    call,
    is_closed,
    is_signed_out,
    make_live_app,
    open_connection,
    session_of,
    settle,
    sign_in,
    sign_in_by_token,
    sign_out,
)

from alula._channels import Event
from alula.adapters.memory import MemoryService
from alula.errors import Conflict, NotAuthenticated

pytestmark = pytest.mark.usefixtures("closes_soon")


@pytest.fixture
async def app():
    return await make_live_app(sessions="sessions")


@pytest.fixture
async def ada(app, told):
    connection = open_connection(app)
    await sign_in(connection, app)
    told.clear()
    return connection


@pytest.fixture
def signals(app):
    heard = []
    app.channel_registry.forward = heard.append
    return heard


class TestSessions:
    async def test_a_session_that_is_revoked_signs_out(self, app, ada, told):
        other = open_connection(app)
        await sign_in(other, app)
        told.clear()
        await app.service("sessions").remove(session_of(ada))
        assert is_signed_out(ada)
        assert told == [("logout", "ada@example.com", None)]
        assert await is_closed(ada)
        assert other.user["id"] == 1

    async def test_a_new_password_ends_all_connections_of_the_user(self, app, ada):
        other, bob = open_connection(app), open_connection(app)
        await sign_in(other, app)
        await sign_in(bob, app, "bob@example.com")
        await app.service("users").patch(1, {"password": "new"})
        assert is_signed_out(ada)
        assert is_signed_out(other)
        assert bob.user["id"] == 2

    async def test_a_refresh_token_that_is_used_twice_ends_its_connections(self, app, told):
        connection = open_connection(app)
        result = await sign_in(connection, app)
        data = {"strategy": "refresh", "refreshToken": result["refreshToken"]}
        await app.service("authentication").create(data, provider="rest")
        assert connection.user["id"] == 1
        with pytest.raises(NotAuthenticated):
            await app.service("authentication").create(data, provider="rest")
        assert is_signed_out(connection)

    async def test_a_refresh_over_the_connection_moves_its_expiry(self, app, told):
        connection = open_connection(app)
        result = await sign_in(connection, app)
        app.channel("rooms/a").join(connection)
        first = connection.sign_in
        first.expires -= 60
        data = {"strategy": "refresh", "refreshToken": result["refreshToken"]}
        again = await call(connection, app, "authentication", "create", None, data)
        assert connection.authentication["accessToken"] == again["accessToken"]
        assert connection.sign_in.expires > first.expires
        assert first.timer.cancelled()
        assert "rooms/a" in connection.channels

    async def test_signing_out_closes_the_other_connections_of_the_session(self, app, ada, told):
        other = open_connection(app)
        await sign_in_by_token(other, app, ada.authentication["accessToken"])
        told.clear()
        await sign_out(ada, app)
        assert told == [("logout", "ada@example.com", None)] * 2  # each is told once
        assert is_signed_out(other)
        assert await is_closed(other)
        assert ada.is_open

    async def test_signing_out_everywhere(self, app, ada, told):
        other = open_connection(app)
        await sign_in(other, app)
        handle = app.service("authentication")
        await handle.remove(
            None, authentication=ada.authentication, provider="rest", query={"everywhere": "true"}
        )
        assert is_signed_out(ada)
        assert is_signed_out(other)

    async def test_signing_out_over_rest_closes_the_connection(self, app, ada):
        authentication = ada.authentication
        await app.service("authentication").remove(
            None, provider="rest", authentication=authentication
        )
        assert is_signed_out(ada)
        assert await is_closed(ada)

    async def test_a_sign_out_that_fails_after_the_session_has_ended(self, app, ada, told):
        async def fail(context):
            raise Conflict("too late")

        app.service("authentication").hooks(after={"remove": [fail]})
        with pytest.raises(Conflict):
            await sign_out(ada, app)
        assert is_signed_out(ada)
        assert told == [("logout", "ada@example.com", None)]

    @pytest.mark.parametrize("fails", [True, False])
    async def test_a_sign_out_that_another_sign_in_overtakes(self, app, ada, fails):
        async def sign_bob_in(context):
            await sign_in(ada, app, "bob@example.com")
            if fails:
                raise Conflict("too late")

        app.service("authentication").hooks(after={"remove": [sign_bob_in]})
        if fails:
            with pytest.raises(Conflict):
                await sign_out(ada, app)
        else:
            await sign_out(ada, app)
        assert ada.user["id"] == 2

    async def test_a_session_that_vanished_is_noticed_by_a_call(self, app, ada, told, signals):
        """As where another process has revoked it, and there is no bus."""
        store = app.service("sessions").service
        await store.remove(session_of(ada), {"query": {}})
        assert ada.user["id"] == 1
        with pytest.raises(NotAuthenticated, match="session has ended"):
            await call(ada, app, "private", "find")
        assert is_signed_out(ada)
        assert told == [("logout", "ada@example.com", None)]

    async def test_a_sweep_of_old_sessions_tells_nobody(self, app, ada, signals):
        changes = {"expiresAt": 1}
        await app.service("sessions").patch(session_of(ada), changes)
        await app.service("sessions").remove(None, adapter={"multi": True})
        assert [signal.data for signal in signals] == []
        assert ada.user["id"] == 1

    async def test_a_second_setup_follows_them_once(self, app, ada, signals):
        await app.teardown()
        await app.setup()
        await app.service("sessions").remove(session_of(ada))
        assert len(signals) == 1


class TestSeveralProcesses:
    @pytest.fixture
    async def processes(self):
        """Return two applications with the same users and sessions, joined by a bus."""
        users, sessions = MemoryService(start_id=1), MemoryService()
        apps = []
        for _ in range(2):
            app = make_app(users, sessions="sessions")
            apps.append(app.use("sessions", sessions, methods=[]))
            await app.setup()
        await add_user(apps[0])
        registries = [app.channel_registry for app in apps]
        self.carried = []

        def forward(publication):
            self.carried.append(publication)
            for registry in registries:
                registry.receive(publication)

        for registry in registries:
            registry.forward = forward
        return apps

    async def test_changes_and_ends_reach_the_connections_of_others(self, processes):
        here, there = processes
        first, second, third = [open_connection(there) for _ in range(3)]
        for connection in (first, second, third):
            await sign_in(connection, there)
        await here.service("users").patch(1, {"role": "admin"})
        await settle()
        assert first.user == {"id": 1, "email": "ada@example.com", "role": "admin"}
        await here.service("sessions").remove(session_of(second))
        assert is_signed_out(second)
        assert third.user["id"] == 1
        await here.service("users").remove(1)
        assert is_signed_out(first)
        assert is_signed_out(third)

    async def test_what_travels_are_ids(self, processes):
        here, there = processes
        connection = open_connection(there)
        token = (await sign_in(connection, there))["accessToken"]
        hashed = (await here.service("users").get(1))["password"]
        await here.service("users").patch(1, {"role": "admin"})
        await here.service("users").remove(1)
        await settle()
        names = {(each.path, each.name) for each in self.carried}
        assert names == {("", "accounts/authentication")}
        assert ["changed", ["1"]] in [each.data for each in self.carried]
        text = repr(self.carried)
        assert hashed not in text
        assert token not in text

    async def test_after_a_gap_all_are_checked_again(self, processes):
        here, there = processes
        gone, stays = [open_connection(there) for _ in range(2)]
        for connection in (gone, stays):
            await sign_in(connection, there)
        here.channel_registry.forward = None  # the bus loses what comes now
        await here.service("sessions").remove(session_of(gone))
        await here.service("users").patch(1, {"role": "admin"})
        await settle()
        assert gone.user == stays.user == {"id": 1, "email": "ada@example.com"}
        there.channel_registry.report_gap()
        await settle()
        assert is_signed_out(gone)
        assert stays.user["role"] == "admin"

    async def test_many_ids_are_told_in_parts(self, app, ada, signals):
        app.service("authentication").service.connections.announce("changed", range(2500))
        assert [len(signal.data[1]) for signal in signals] == [1000, 1000, 500]

    async def test_signals_that_nobody_listens_to(self, app):
        signal = Event("", "other", 1, 1, origin="elsewhere", sequence=1)
        app.channel_registry.receive(signal)


class TestMemory:
    async def test_nothing_is_left_of_closed_connections(self, app, told):
        connections = [open_connection(app) for _ in range(20)]
        for connection in connections:
            token = (await app.service("authentication").create(login()))["accessToken"]
            await sign_in_by_token(connection, app, token)
        kept = [weakref.ref(connection) for connection in connections]
        for connection in connections:
            await connection.close()
        service = app.service("authentication").service
        assert (service.connections._sign_ins, service.connections._stale) == ({}, {})
        del connections, connection
        await asyncio.sleep(0)  # the event loop lets go of what it runs
        gc.collect()
        assert [ref() for ref in kept] == [None] * 20
