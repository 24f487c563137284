"""Users who change or are removed: what their connections notice."""

from __future__ import annotations

import asyncio

import pytest
from tests.authentication.building import add_authentication
from tests.authentication.connecting import (
    call,
    is_closed,
    is_signed_out,
    link_of,
    make_live_app,
    open_connection,
    settle,
    sign_in,
    sign_in_by_token,
    token_for,
)

from alula import App
from alula._events import HeldEvents
from alula.authentication import JWTStrategy
from alula.authentication import _connections as connections_module
from alula.errors import Conflict, NotAuthenticated, Unavailable

pytestmark = pytest.mark.usefixtures("closes_soon")


@pytest.fixture
async def app():
    return await make_live_app()


@pytest.fixture
async def ada(app, told):
    connection = open_connection(app, name="ada")
    await sign_in(connection, app)
    told.clear()
    return connection


@pytest.fixture
async def bob(app, told):
    connection = open_connection(app, name="bob")
    await sign_in(connection, app, "bob@example.com")
    told.clear()
    return connection


def count_gets(app):
    gets = []
    app.service("users").hooks(after={"get": [lambda context: gets.append(context.id)]})
    return gets


class TestChangedUsers:
    @pytest.mark.parametrize("method", ["patch", "update"])
    async def test_replace_the_user_of_the_connection(self, app, ada, bob, method):
        changes = []
        app.on("user_changed", lambda connection, before: changes.append((connection, before)))
        other = open_connection(app)
        await sign_in(other, app)
        before = dict(ada.user)
        data = {"email": "new@example.com", "role": "admin"}
        await app.service("users").call(method, 1, data)
        await settle()
        assert ada.user == other.user == {"id": 1, **data}
        assert sorted(changes, key=lambda change: change[0] is other) == [
            (ada, before),
            (other, before),
        ]
        assert bob.user["email"] == "bob@example.com"

    async def test_see_what_hooks_of_the_users_add_and_never_the_hash(self, app, ada):
        async def add(context):
            context.result = {**context.result, "rights": ["read"]}

        app.service("users").hooks(after={"get": [add]})
        await app.service("users").patch(1, {"role": "admin"})
        await settle()
        assert ada.user == {
            "id": 1,
            "email": "ada@example.com",
            "role": "admin",
            "rights": ["read"],
        }

    async def test_also_without_an_event_and_with_a_hidden_result(self, app, ada):
        async def hide(context):
            context.event, context.result = None, {"ok": True}

        app.service("users").hooks(after={"patch": [hide]})
        await app.service("users").patch(1, {"role": "admin"})
        await settle()
        assert ada.user["role"] == "admin"

    async def test_also_if_a_later_hook_fails(self, app, ada):
        async def fail(context):
            raise Conflict("too late")

        app.service("users").hooks(after={"patch": [fail]})
        with pytest.raises(Conflict):
            await app.service("users").patch(1, {"role": "admin"})
        await settle()
        assert ada.user["role"] == "admin"

    async def test_many_at_once(self, app, ada, bob):
        await app.service("users").patch(
            None, {"role": "admin"}, adapter={"multi": True}, query={"id": {"$in": [1, 2]}}
        )
        await settle()
        assert (ada.user["role"], bob.user["role"]) == ("admin", "admin")

    async def test_a_patch_of_nobody(self, app, ada):
        gets = count_gets(app)
        await app.service("users").patch(
            None, {"role": "x"}, adapter={"multi": True}, query={"id": 99}
        )
        await settle()
        assert gets == []

    async def test_wait_for_the_end_of_a_transaction(self, app, ada):
        with HeldEvents(lambda context: True) as held:
            await app.service("users").patch(1, {"role": "admin"})
            await settle()
            assert "role" not in ada.user
        held.release()
        await settle()
        assert ada.user["role"] == "admin"

    async def test_events_that_the_application_emits_itself(self, app, ada):
        users, role = app.service("users"), "admin"

        async def add(context):
            context.result = {**context.result, "role": role}

        users.hooks(after={"get": [add]})
        users.emit("patched", {"id": 1})
        await settle()
        assert ada.user["role"] == "admin"
        role = "user"
        users.emit("patched")  # of whom it does not say
        await settle()
        assert ada.user["role"] == "user"
        users.emit("removed", {"id": 1})
        assert is_signed_out(ada)

    async def test_changes_in_a_row_are_loaded_together(self, app, ada):
        gets = count_gets(app)
        for number in range(5):
            await app.service("users").patch(1, {"number": number})
        await settle()
        assert ada.user["number"] == 4
        assert len(gets) < 5

    async def test_a_change_while_the_user_is_loaded_counts(self, app, ada):
        users, once = app.service("users"), []

        async def change_meanwhile(context):
            if not once:
                once.append(1)
                await users.patch(1, {"number": 2})

        users.hooks(after={"get": [change_meanwhile]})
        await users.patch(1, {"number": 1})
        await settle()
        assert ada.user["number"] == 2

    async def test_a_change_while_the_user_signs_in_counts(self, app, told):
        users, gets = app.service("users"), []

        async def change_meanwhile(context):
            gets.append(1)
            if len(gets) == 2:  # the one before shows the user to the client
                await users.patch(1, {"role": "admin"})

        users.hooks(after={"get": [change_meanwhile]})
        connection = open_connection(app)
        await sign_in(connection, app)
        assert connection.user["role"] == "admin"
        assert len(gets) == 3

    async def test_who_cannot_be_loaded_is_signed_out(self, app, ada, caplog):
        async def fail(context):
            raise Unavailable("away")

        app.service("users").hooks(before={"get": [fail]})
        await app.service("users").patch(1, {"role": "banned"})
        await settle()
        assert is_signed_out(ada)
        assert "could not be loaded again" in caplog.text

    async def test_a_write_of_unknown_outcome_has_them_loaded_again(self, app, ada):
        gets = count_gets(app)

        async def fail(context, next):
            await next()
            raise OSError("timeout")

        # Inside of the hook that follows the users: it stands for the database.
        app.service("users").hook_table.add_innermost(fail, ["patch"])
        app.service("users").compose_hooks()
        for user_id in (1, None):
            with pytest.raises(OSError, match="timeout"):
                await app.service("users").patch(
                    user_id, {"role": "admin"}, adapter={"multi": True}
                )
            await settle()
        assert ada.user["role"] == "admin"
        assert len(gets) == 2

    async def test_a_mistake_of_a_client_has_nobody_loaded_again(self, app, ada):
        gets = count_gets(app)
        with pytest.raises(Exception, match="multiple"):
            await app.service("users").patch(None, {"role": "x"}, provider="rest")
        await settle()
        assert gets == []

    async def test_of_a_connection_that_closes_meanwhile(self, app, ada):
        changes = []
        app.on("user_changed", lambda connection, before: changes.append(connection))

        async def close(context):
            await ada.close()

        app.service("users").hooks(after={"get": [close]})
        await app.service("users").patch(1, {"role": "admin"})
        await settle()
        assert changes == []

    async def test_of_a_connection_that_closes_before(self, app, ada):
        gets = count_gets(app)
        await app.service("users").patch(1, {"role": "admin"})
        await ada.close()
        await settle()
        assert gets == []

    async def test_are_not_followed_where_the_option_says_so(self):
        app = await make_live_app(follow_user=False)
        connection = open_connection(app)
        await sign_in(connection, app)
        await app.service("users").patch(1, {"role": "admin"})
        await app.service("users").remove(1)
        await settle()
        assert connection.user == {"id": 1, "email": "ada@example.com"}
        with pytest.raises(NotAuthenticated):
            await call(connection, app, "private", "find")
        assert is_signed_out(connection)  # at the latest then

    async def test_a_second_setup_loads_them_once(self, app, ada):
        await app.teardown()
        await app.setup()
        changes = []
        app.on("user_changed", lambda connection, before: changes.append(connection))
        await app.service("users").patch(1, {"role": "admin"})
        await settle()
        assert len(changes) == 1

    async def test_a_users_service_that_can_only_be_read(self):
        class ReadOnly:
            id = "id"

            async def get(self, id, params):
                return {"id": id}

        app = App().use("people", ReadOnly())
        add_authentication(app, service="people", strategies=["jwt"])
        await app.setup()
        connection = open_connection(app)
        await sign_in_by_token(connection, app, token_for(app, 7))
        assert connection.user == {"id": "7"}


class TestRemovedUsers:
    async def test_are_signed_out_at_once_and_then_closed(self, app, ada, bob, told):
        await app.service("users").remove(1)
        assert is_signed_out(ada)
        assert ada.channels == ["anonymous"]
        assert told == [("logout", "ada@example.com", None)]
        assert ada.is_open  # the answer to a call under way still gets through
        assert await call(ada, app, "notes", "find") == {"user": None, "authenticated": False}
        assert await is_closed(ada)
        assert told[1:] == [("disconnect", None)]
        assert bob.user["id"] == 2

    async def test_may_stay_connected(self, app, told):
        service = app.service("authentication").service
        service.register("jwt", JWTStrategy(on_expiry="sign_out"))
        connection = open_connection(app)
        await sign_in(connection, app)
        await app.service("users").remove(1)
        assert is_signed_out(connection)
        assert not await is_closed(connection)

    async def test_somebody_else_who_signs_in_keeps_the_connection(self, app, ada, monkeypatch):
        monkeypatch.setattr(connections_module, "_CLOSE_DELAY_SECONDS", 2)  # a sign-in takes time
        await app.service("users").remove(1)
        await sign_in(ada, app, "bob@example.com")
        await asyncio.sleep(2)
        assert not await is_closed(ada)
        assert ada.user["id"] == 2

    async def test_a_connection_that_closed_by_itself(self, app, ada):
        await app.service("users").remove(1)
        await ada.close("by itself")
        await asyncio.sleep(0.03)
        assert link_of(ada).reason == "by itself"

    async def test_by_a_call_of_their_own(self, app, ada):
        removed = await call(ada, app, "users", "remove", 1)
        assert removed["id"] == 1
        assert is_signed_out(ada)

    @pytest.mark.parametrize("on_expiry", ["close", "sign_out"])
    async def test_of_a_connection_that_is_asleep(self, app, ada, on_expiry):
        app.service("authentication").service.register("jwt", JWTStrategy(on_expiry=on_expiry))
        ada.is_asleep = True
        await app.service("users").remove(1)
        await settle()
        assert link_of(ada).reason == "signed out"  # it cannot wake up to what it missed

    async def test_a_call_under_way_ends_as_it_began(self, app, ada):
        slow = asyncio.create_task(call(ada, app, "private", "create", None, {}))
        await settle()
        await app.service("users").remove(1)
        app.service("private").service.go_on.set()
        assert (await slow)["user"] == "ada@example.com"
        with pytest.raises(NotAuthenticated):
            await call(ada, app, "private", "find")

    async def test_while_they_sign_in(self, app, told):
        users, gets = app.service("users"), []

        async def remove_meanwhile(context):
            gets.append(1)
            if len(gets) == 2:  # the one before shows the user to the client
                await users.remove(1)

        users.hooks(after={"get": [remove_meanwhile]})
        connection = open_connection(app)
        with pytest.raises(NotAuthenticated):
            await sign_in(connection, app)
        assert is_signed_out(connection)
        assert told == []
        assert len(gets) == 2

    async def test_many_at_once(self, app, ada, bob):
        await app.service("users").remove(None, adapter={"multi": True})
        assert is_signed_out(ada)
        assert is_signed_out(bob)

    async def test_by_a_service_that_does_not_say_whom(self, app, ada, bob):
        users = app.service("users")

        async def remove(context, next):
            await users.service.remove(1, context.params)
            context.result = {"count": 1}

        users.hook_table.add_innermost(remove, ["remove"])
        users.compose_hooks()
        await users.remove(None)
        await settle()
        assert is_signed_out(ada)
        assert bob.user["id"] == 2

    async def test_events_reach_them_no_more(self, app, ada):
        app.service("notes").publish(lambda data, context: app.channel("users/1"))
        app.service("notes").emit("created", {})
        assert len(link_of(ada).sent) == 1
        await app.service("users").remove(1)
        app.service("notes").emit("created", {})
        assert len(link_of(ada).sent) == 1
