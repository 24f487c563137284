"""Real-time connections: how they are signed in and out, and when that ends."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest
from tests.authentication.building import add_authentication, add_user, login
from tests.authentication.connecting import (
    call,
    follow_the_book,
    link_of,
    make_live_app,
    open_connection,
    settle,
    sign_in,
    sign_in_by_token,
    sign_out,
    token_for,
    who,
)
from tests.waiting import eventually

from alula import App, Params
from alula._connection import begin_call
from alula._context import connection_params
from alula._identity import identify_connection
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationStrategy, Extension, JWTStrategy
from alula.authentication import _connections as connections_module
from alula.errors import BadRequest, Conflict, NotAuthenticated, TooManyRequests

NOBODY = {"user": None, "authenticated": False}
ADA = {"user": "ada@example.com", "authenticated": False}


@pytest.fixture
async def app():
    return await make_live_app()


@pytest.fixture
def connection(app, told):
    return open_connection(app)


def connections_of(app, path="authentication"):
    return app.service(path).service.connections


def block(seconds):
    """Hold up the event loop."""
    time.sleep(seconds)


def is_empty(app):
    """Tell whether nothing is kept of any connection."""
    connections = connections_of(app)
    return not (connections._sign_ins or connections._stale)


class TestCallsUnderWay:
    """Calls that go on when the user, or the connection, is gone."""

    @pytest.fixture
    def join_later(self, app, connection):
        go_on = asyncio.Event()

        async def call():
            begin_call(connection)
            await go_on.wait()
            app.channel("room").join(connection)

        def start():
            return asyncio.create_task(call()), go_on

        return start

    async def finish(self, call):
        task, go_on = call
        go_on.set()
        await task

    async def test_join_while_their_user_is_signed_in(self, app, connection, join_later):
        await sign_in(connection, app)
        call = join_later()
        await settle()
        await self.finish(call)
        assert "room" in connection.channels

    async def test_do_not_join_after_a_sign_out(self, app, connection, join_later, caplog):
        await sign_in(connection, app)
        call = join_later()
        await settle()
        await sign_out(connection, app)
        await self.finish(call)
        assert "room" not in connection.channels
        assert "a call began before its user signed out" in caplog.text

    async def test_do_not_join_for_the_next_user(self, app, connection, join_later):
        await sign_in(connection, app)
        call = join_later()
        await settle()
        await add_user(app, email="bob@example.com")
        await sign_in(connection, app, email="bob@example.com")
        await self.finish(call)
        assert "room" not in connection.channels

    async def test_join_after_another_sign_in_of_the_same_user(self, app, connection, join_later):
        await sign_in(connection, app)
        call = join_later()
        await settle()
        await sign_in(connection, app)
        await self.finish(call)
        assert "room" in connection.channels

    async def test_of_nobody_join_whoever_is_signed_in_then(self, app, connection, join_later):
        call = join_later()
        await settle()
        await sign_in(connection, app)
        await self.finish(call)
        assert "room" in connection.channels

    async def test_do_not_join_a_connection_that_is_closed(self, app, connection, join_later):
        call = join_later()
        await settle()
        app.remove_connection(connection)
        await self.finish(call)
        assert app.channels == []

    async def test_that_sign_in_or_out_join_in_their_listeners(self, app, connection):
        other = open_connection(app)

        @app.on("login")
        def join(result, params, context):
            app.channel("users").join(connection)

        @app.on("logout")
        def leave(result, params, context):
            app.channel("guests").join(connection, other)

        begin_call(connection)
        await sign_in(connection, app)
        assert "users" in connection.channels
        begin_call(connection)
        await sign_in(connection, app)
        begin_call(connection)
        await sign_out(connection, app)
        assert connection.channels == ["anonymous", "guests"]
        assert other.channels == ["everyone", "anonymous", "guests"]


class TestSignIn:
    async def test_later_calls_are_of_the_user(self, app, connection):
        assert await call(connection, app, "notes", "find") == NOBODY
        result = await sign_in(connection, app)
        assert result["user"] == {"id": 1, "email": "ada@example.com"}
        assert await call(connection, app, "notes", "find") == ADA
        assert await call(connection, app, "private", "find") == {**ADA, "authenticated": True}

    async def test_the_connection_has_the_token_and_a_user_without_a_hash(self, app, connection):
        result = await sign_in(connection, app)
        assert connection.user == {"id": 1, "email": "ada@example.com"}
        assert connection.authentication == {
            "strategy": "jwt",
            "accessToken": result["accessToken"],
        }
        assert result["accessToken"] not in repr(connection)
        assert result["accessToken"] not in repr(connection_params(connection, {}, {}))

    async def test_is_needed(self, app, connection):
        with pytest.raises(NotAuthenticated, match="Not authenticated"):
            await call(connection, app, "private", "find")

    async def test_login_is_told_when_the_connection_has_its_user(self, app, connection, told):
        await sign_in(connection, app)
        assert told == [("login", "ada@example.com", "ada@example.com")]
        assert connection.channels == ["everyone", "signed in", "users/1"]

    async def test_is_for_one_connection(self, app, connection):
        other = open_connection(app)
        await sign_in(connection, app)
        assert await call(other, app, "notes", "find") == NOBODY

    async def test_over_rest_it_is_told_without_a_connection(self, app, told):
        await app.service("authentication").create(login(), provider="rest")
        assert told == [("login", "ada@example.com", None)]

    async def test_calls_of_the_server_sign_no_connection_in(self, app, connection):
        await app.service("authentication").create(login(), connection=connection)
        assert connection.user is None

    async def test_only_real_connections_are_signed_in(self, app):
        params = Params(provider="rest", connection={"id": 1})
        await app.service("authentication").create(login(), params)

    async def test_what_fails_changes_nothing(self, app, connection, told):
        await sign_in(connection, app)
        before = (dict(connection.__dict__), connection.channels, connection.sign_in)
        for data in (login("bob@example.com", "wrong"), {"strategy": "jwt", "accessToken": "x"}):
            with pytest.raises(NotAuthenticated):
                await call(connection, app, "authentication", "create", None, data)
        assert (dict(connection.__dict__), connection.channels, connection.sign_in) == before
        assert len(told) == 1

    async def test_a_hook_of_the_application_that_fails_signs_nobody_in(self, app, connection):
        async def fail(context):
            raise Conflict("not today")

        app.hooks(after={"create": [fail]})
        with pytest.raises(Conflict):
            await sign_in(connection, app)
        assert (connection.user, connection.sign_in) == (None, None)
        assert is_empty(app)

    async def test_another_user_leaves_the_channels_of_the_first(self, app, connection, told):
        app.channel("rooms/a").join(connection)
        await sign_in(connection, app)
        app.channel("rooms/b").join(connection)
        at_login = []
        app.on("login", lambda *_: at_login.append(connection.channels))
        app._listeners["login"].reverse()  # ahead of the one that joins
        await sign_in(connection, app, "bob@example.com")
        assert at_login == [["everyone", "rooms/a"]]
        assert connection.channels == ["everyone", "rooms/a", "signed in", "users/2"]
        assert connection.user["email"] == "bob@example.com"
        await sign_in(connection, app)
        assert connection.channels == ["everyone", "rooms/a", "signed in", "users/1"]

    async def test_another_user_without_channels_of_the_first(self, app):
        connection = open_connection(app)
        await sign_in(connection, app)
        await sign_in(connection, app, "bob@example.com")
        assert connection.user["email"] == "bob@example.com"

    async def test_the_same_user_again_keeps_the_channels(self, app, connection):
        await sign_in(connection, app)
        app.channel("rooms/b").join(connection)
        await sign_in(connection, app)
        assert "rooms/b" in connection.channels
        assert len(connections_of(app)._sign_ins[("user", "1")]) == 1

    async def test_a_call_under_way_keeps_its_user(self, app, connection):
        await sign_in(connection, app)
        slow = asyncio.create_task(call(connection, app, "private", "create", None, {}))
        await settle()
        await sign_in(connection, app, "bob@example.com")
        app.service("private").service.go_on.set()
        assert (await slow)["user"] == "ada@example.com"
        assert (await call(connection, app, "private", "find"))["user"] == "bob@example.com"

    async def test_a_token_of_somebody_else_signs_in_as_them_alone(self, app, connection):
        """A connection is whom its last token names, whatever the client says beside it."""
        token = token_for(app, 2)
        data = {"strategy": "jwt", "accessToken": token, "user": {"id": 1}, "sub": "1"}
        await call(connection, app, "authentication", "create", None, data)
        assert connection.user["email"] == "bob@example.com"

    async def test_a_connection_that_closed_meanwhile_is_not_signed_in(self, app, connection):
        async def close(context):
            await connection.close()

        app.service("authentication").hooks(after={"create": [close]})
        await sign_in(connection, app)
        assert connection.sign_in is None
        assert is_empty(app)

    async def test_without_tokens_no_connection_is_signed_in(self, app, connection):
        class Pin(AuthenticationStrategy):
            async def authenticate(self, authentication, params):
                user = await self.app.service("users").get(1)
                return {"authentication": {"strategy": "pin"}, "user": user}

        service = add_authentication(app, "pins", strategies=["pin"], audience="pins")
        service.register("pin", Pin())
        await call(connection, app, "pins", "create", None, {"strategy": "pin"})
        assert connection.user is None

    async def test_a_result_without_a_token_signs_nobody_in(self, app, connection):
        async def hide(context):
            context.result = {"accessToken": None}

        app.service("authentication").hooks(after={"create": [hide]})
        await sign_in(connection, app)
        assert connection.user is None
        app.service("authentication").hooks(around={"create": [none]})
        await sign_in(connection, app)
        assert connection.user is None

    async def test_services_without_users(self, app, connection):
        service = add_authentication(
            app, "machines", entity=None, strategies=["jwt"], audience="machines"
        )
        await app.service("machines").wait_for_setup()
        app.channel("rooms/a").join(connection)
        token = service.create_access_token({})
        data = {"strategy": "jwt", "accessToken": token}
        await call(connection, app, "machines", "create", None, data)
        assert connection.authentication == {"strategy": "jwt", "accessToken": token}
        app.channel("rooms/b").join(connection)
        await call(connection, app, "machines", "create", None, data)  # who knows whose it is
        assert connection.channels == ["everyone", "anonymous", "rooms/a"]
        told, params = [], connection_params(connection, {}, {})
        app._listeners.pop("logout")
        app.on("logout", lambda result, *_: told.append(result))
        service.tokens._secret = b"another secret, so that all tokens are refused"
        service.tokens.forget(token)
        with pytest.raises(NotAuthenticated):
            await service.authenticate(data, params, "jwt")
        assert told == [{"authentication": {"strategy": "jwt"}}]

    async def test_another_service_takes_the_place_of_the_first(self, app, connection):
        app.use("staff", MemoryService([{"id": 1, "email": "eve@example.com"}]))
        add_authentication(app, "door", service="staff", entity="member", audience="staff")
        await app.service("door").wait_for_setup()
        await sign_in(connection, app)
        data = {"strategy": "jwt", "accessToken": token_for(app, 1, "door")}
        result = await call(connection, app, "door", "create", None, data)
        assert result["member"]["email"] == "eve@example.com"
        assert connection.member["email"] == "eve@example.com"
        assert connection.user is None
        assert "users/1" not in connection.channels
        assert connections_of(app)._sign_ins == {}
        with pytest.raises(NotAuthenticated):  # it is a token of other users
            await call(connection, app, "private", "find")
        assert connection.member["email"] == "eve@example.com"
        await app.service("users").remove(1)
        assert connection.member["email"] == "eve@example.com"
        await sign_out_of_other(app, connection)
        assert connection.member["email"] == "eve@example.com"

    async def test_sockets_are_throttled_by_their_address(self):
        app = await make_live_app(throttle={"tries": 100, "per_address": 2})
        connections = [open_connection(app) for _ in range(3)]
        for connection, name in zip(connections[:2], ("ada", "bob"), strict=True):
            with pytest.raises(NotAuthenticated):
                data = login(f"{name}@example.com", "wrong")
                await call(connection, app, "authentication", "create", None, data)
        with pytest.raises(TooManyRequests):
            data = login("eve@example.com", "wrong")
            await call(connections[2], app, "authentication", "create", None, data)


async def none(context, next):
    await next()
    context.result = None


async def sign_out_of_other(app, connection):
    """Sign out of the service that the connection is not signed in at."""
    with pytest.raises(NotAuthenticated):
        await sign_out(connection, app)


class TestSignOut:
    async def test_leaves_all_channels_before_logout_is_told(self, app, connection, told):
        result = await sign_in(connection, app)
        assert (await sign_out(connection, app))["accessToken"] == result["accessToken"]
        assert told[1:] == [("logout", "ada@example.com", None)]
        assert connection.channels == ["anonymous"]
        assert "user" not in connection.__dict__
        assert "authentication" not in connection.__dict__
        assert is_empty(app)
        with pytest.raises(NotAuthenticated, match="Not authenticated"):
            await call(connection, app, "private", "find")

    async def test_the_connection_stays_open(self, app, connection):
        await sign_in(connection, app)
        await sign_out(connection, app)
        await settle()
        assert connection.is_open
        await sign_in(connection, app, "bob@example.com")
        assert connection.user["email"] == "bob@example.com"

    async def test_is_for_one_connection(self, app, connection):
        other, token = open_connection(app), token_for(app)
        for each in (connection, other):
            await sign_in_by_token(each, app, token)
        await sign_out(connection, app)
        assert other.user["id"] == 1

    async def test_a_sign_out_that_fails_changes_nothing(self, app, connection):
        await sign_in(connection, app)
        channels = connection.channels
        with pytest.raises(NotAuthenticated, match="Invalid access token"):
            await call(connection, app, "authentication", "remove", "another token")
        assert (connection.user["id"], connection.channels) == (1, channels)

    async def test_without_a_sign_in(self, app, connection):
        with pytest.raises(NotAuthenticated):
            await sign_out(connection, app)

    async def test_another_token_signs_the_connection_not_out(self, app, connection):
        """A hook may sign out with credentials of its own."""
        await sign_in(connection, app)
        other = token_for(app, 2)

        async def with_another_token(context):
            context.params.authentication = {"strategy": "jwt", "accessToken": other}

        app.service("authentication").hooks(before={"remove": [with_another_token]})
        assert (await sign_out(connection, app))["accessToken"] == other
        assert connection.user["id"] == 1

    async def test_a_result_that_is_none(self, app, connection):
        await sign_in(connection, app)
        app.service("authentication").hooks(around={"remove": [none]})
        await sign_out(connection, app)
        assert connection.user["id"] == 1

    async def test_a_second_setup_signs_out_once(self, app, connection, told):
        await app.teardown()
        await app.setup()
        await sign_in(connection, app)
        await sign_out(connection, app)
        assert [name for name, *_ in told] == ["login", "logout"]


class TestDisconnect:
    async def test_tells_the_user_and_keeps_nothing(self, app, connection, told):
        await sign_in(connection, app)
        await connection.close()
        assert told[1:] == [("disconnect", "ada@example.com")]
        assert connection.user["id"] == 1
        assert connection.sign_in is None
        assert is_empty(app)

    async def test_a_refused_connection_leaves_nothing(self, app, told):
        connection = open_connection(app, added=False)
        await sign_in(connection, app)
        app.remove_connection(connection)
        assert is_empty(app)
        assert "disconnect" not in [name for name, *_ in told]


class TestExpiry:
    @pytest.fixture
    def clock(self, monkeypatch):
        class Clock:
            offset = 0.0

            def time(self):
                return time.time() + self.offset

        clock = Clock()
        monkeypatch.setattr(connections_module, "time", clock)
        return clock

    @pytest.fixture
    def token_for_seconds(self, app, clock):
        """Make a token that connections soon take for expired, and that signs in until then."""

        def token_for_seconds(seconds):
            clock.offset = 60 - seconds
            return token_for(app, exp=time.time() + 60)

        return token_for_seconds

    async def test_closes_the_connection(self, app, connection, told, token_for_seconds):
        await sign_in_by_token(connection, app, token_for_seconds(0.05))
        await eventually(lambda: len(told) > 1)
        assert link_of(connection).reason == "expired"
        assert told[1:] == [("disconnect", "ada@example.com")]
        assert is_empty(app)

    async def test_may_sign_out_in_its_place(self, app, connection, told, token_for_seconds):
        service = app.service("authentication").service
        service.register("jwt", JWTStrategy(on_expiry="sign_out"))
        await sign_in_by_token(connection, app, token_for_seconds(0.05))
        await eventually(lambda: len(told) > 1)
        await settle()
        assert told[1:] == [("logout", "ada@example.com", None)]
        assert (connection.is_open, connection.user) == (True, None)
        assert connection.channels == ["anonymous"]
        assert is_empty(app)

    @pytest.fixture
    def quick_timers(self, monkeypatch):
        """Let timers look at the clock every 10 ms."""
        monkeypatch.setattr(connections_module, "_MAX_TIMER_SECONDS", 0.01)

    async def test_a_later_token_keeps_the_connection(self, app, connection, clock, quick_timers):
        await sign_in_by_token(connection, app, token_for(app, exp=time.time() + 60))
        await sign_in_by_token(connection, app, token_for(app, exp=time.time() + 600))
        clock.offset = 61
        await asyncio.sleep(0.05)  # a timer of the first token would end now
        await settle()
        assert connection.is_open

    async def test_after_a_sign_out_the_token_closes_nothing(
        self, app, connection, clock, quick_timers
    ):
        await sign_in_by_token(connection, app, token_for(app, exp=time.time() + 60))
        await sign_out(connection, app)
        clock.offset = 61
        await asyncio.sleep(0.05)  # a timer of the token would end now
        await settle()
        assert connection.is_open

    async def test_an_expired_token_signs_nobody_in(self, app, connection):
        with pytest.raises(NotAuthenticated, match="jwt expired"):
            await sign_in_by_token(connection, app, token_for(app, exp=time.time() - 1))

    async def test_a_token_that_expires_while_it_signs_in(self, app, connection, clock):
        token = token_for(app, exp=time.time() + 60)
        clock.offset = 61
        await sign_in_by_token(connection, app, token)
        await settle()
        assert link_of(connection).reason == "expired"

    @pytest.mark.parametrize("years", [75, 1e300])
    async def test_long_tokens(self, app, connection, years):
        await sign_in_by_token(connection, app, token_for(app, exp=time.time() + years * 31e6))
        assert connection.is_open

    async def test_long_timers_run_in_turns(self, app, connection, clock, quick_timers):
        await sign_in_by_token(connection, app, token_for(app, exp=time.time() + 60))
        await asyncio.sleep(0.05)
        await settle()
        assert connection.is_open
        clock.offset = 61
        await eventually(lambda: not connection.is_open)

    async def test_a_late_timer_lets_no_call_through(self, app, connection, told):
        end = time.time() + 1.5
        await sign_in_by_token(connection, app, token_for(app, exp=end))
        block(max(0, end - time.time()) + 0.01)  # the loop is busy, and the timer late
        for _ in range(2):
            with pytest.raises(NotAuthenticated, match="jwt expired"):
                await call(connection, app, "notes", "find")
        await settle()
        assert link_of(connection).reason == "expired"
        assert told[1:] == [("disconnect", "ada@example.com")]

    async def test_a_late_timer_signs_out(self, app, connection, clock):
        service = app.service("authentication").service
        service.register("jwt", JWTStrategy(on_expiry="sign_out"))
        await sign_in_by_token(connection, app, token_for(app, exp=time.time() + 60))
        clock.offset = 61
        assert await call(connection, app, "notes", "find") == NOBODY
        assert connection.is_open
        await sign_in(connection, app)  # a new sign-in gets through

    async def test_a_call_with_the_current_token_is_in_time(self, app, connection, clock):
        await sign_in_by_token(connection, app, token_for(app, exp=time.time() + 60))
        clock.offset = 59
        assert await call(connection, app, "notes", "find") == ADA

    def test_the_option_is_checked(self):
        with pytest.raises(ValueError, match='write "close" or "sign_out"'):
            JWTStrategy(on_expiry="nothing")

    async def test_a_transport_that_cannot_close_is_logged(
        self, app, connection, caplog, token_for_seconds
    ):
        async def fail(reason, reconnect):
            raise OSError("broken")

        link_of(connection).close = fail
        await sign_in_by_token(connection, app, token_for_seconds(0.02))
        await eventually(lambda: "a connection could not be closed" in caplog.text)
        assert not connection.is_open


class TestRefusedTokens:
    """What ends without an event here ends at the next call that checks the token."""

    async def test_a_token_that_an_extension_refuses_signs_out(self, app, connection, told):
        class Ban(Extension):
            async def check_token(self, payload, entity, params):
                if banned:
                    raise NotAuthenticated("banned")

        banned = []
        app.service("authentication").service.extensions.append(Ban())
        await sign_in(connection, app)
        banned.append(1)
        with pytest.raises(NotAuthenticated, match="banned"):
            await call(connection, app, "private", "find")
        assert connection.user is None
        assert connection.channels == ["anonymous"]
        assert told[1:] == [("logout", "ada@example.com", None)]

    async def test_another_token_that_is_refused_signs_nobody_out(self, app, connection):
        await sign_in(connection, app)
        with pytest.raises(NotAuthenticated):
            await sign_in_by_token(connection, app, "nonsense")
        assert connection.user["id"] == 1


class TestHandshake:
    def open(self, app, token, **headers):
        headers = {"authorization": token, **headers}
        return open_connection(app, added=False, headers=headers)

    async def test_a_token_signs_in_before_the_connection_is_told(self, app, told):
        for text in ("Bearer {}", "bearer {}", "{}"):
            connection = self.open(app, text.format(token_for(app)))
            await identify_connection(app, connection)
            assert connection.user["id"] == 1
            assert told.pop() == ("login", "ada@example.com", "ada@example.com")
            app.add_connection(connection)
            assert connection.channels == ["signed in", "users/1", "everyone"]
            assert (await call(connection, app, "private", "find"))["authenticated"]

    @pytest.mark.parametrize(
        ("token", "message"),
        [("Bearer nonsense", "jwt malformed"), ("Bearer a.b.", "jwt signature is required")],
    )
    async def test_a_token_that_is_not_valid_refuses(self, app, told, token, message):
        connection = self.open(app, token)
        with pytest.raises(NotAuthenticated, match=message) as caught:
            await identify_connection(app, connection)
        assert caught.value.data == {"name": "JsonWebTokenError"}
        assert (connection.user, connection.channels, told) == (None, [], [])
        assert is_empty(app)

    async def test_without_credentials_nothing_happens(self, app, told):
        for headers in ({}, {"authorization": "Basic YTpi"}, {"authorization": ""}):
            connection = open_connection(app, added=False, headers=headers)
            await identify_connection(app, connection)
            assert connection.user is None
        assert told == []

    async def test_without_an_authentication_service_nothing_happens(self):
        app = App()
        await identify_connection(app, open_connection(app, headers={"authorization": "x"}))

    async def test_strategies_see_a_request(self, app):
        seen = []

        class Cookie(AuthenticationStrategy):
            async def parse(self, req, res):
                seen.append((req.method, req.headers["cookie"], req.ip, req.query, res))
                assert req.scope["client"] == ("1.2.3.4", 0)
                return {"strategy": "jwt", "accessToken": token_for(app)}

        service = app.service("authentication").service
        service.offer("cookie", Cookie())
        connection = open_connection(app, headers={"cookie": "a=ü"})
        await identify_connection(app, connection)
        assert seen == [("GET", "a=ü", "1.2.3.4", {}, None)]
        assert connection.user["id"] == 1

    async def test_an_unknown_address(self, app):
        connection = self.open(app, token_for(app))
        connection.ip = None
        await identify_connection(app, connection)
        assert connection.user["id"] == 1

    async def test_hooks_of_the_service_may_refuse(self, app, told):
        async def refuse(context):
            raise BadRequest("closed")

        app.service("authentication").hooks(before={"create": [refuse]})
        with pytest.raises(BadRequest):
            await identify_connection(app, self.open(app, token_for(app)))
        assert told == []

    async def test_another_sign_in_takes_its_place(self, app, told):
        connection = self.open(app, token_for(app))
        await identify_connection(app, connection)
        app.add_connection(connection)
        await sign_in(connection, app, "bob@example.com")
        assert connection.channels == ["signed in", "users/2"]


class TestSecrets:
    """Tokens and hashes stay where they belong."""

    async def test_events_of_sign_ins_reach_nobody(self, app, connection, told):
        heard = []
        app.channel_registry.forward = heard.append
        app.publish(lambda data, context: app.channel("everyone"))
        app.service("authentication").on("created", lambda data, context: heard.append("local"))
        result = await sign_in(connection, app)
        await sign_out(connection, app)
        assert heard == ["local"]
        assert link_of(connection).sent == []
        with pytest.raises(ValueError, match="hold secrets, such as tokens"):
            app.service("authentication").publish(lambda data, context: None)
        assert "accessToken" in result

    async def test_also_where_another_application_mounts_the_service(self):
        inner = await make_live_app(sessions="sessions")
        outer = App().use("api", inner)
        heard = []
        outer.channel_registry.forward = heard.append
        outer.publish(lambda data, context: None)
        await outer.setup()
        await outer.service("api/authentication").create(login(), provider="rest")
        assert heard == []
        await outer.service("api/notes").call("find")
        outer.service("api/users").emit("patched", {"id": 1})
        assert [event.path for event in heard] == ["api/users"]

    async def test_logout_by_the_server_has_no_token(self, app, connection):
        heard = []
        app.on("logout", lambda *values: heard.append(values))
        await sign_in(connection, app)
        await app.service("users").remove(1)
        [(result, params, context)] = heard
        assert result == {
            "authentication": {"strategy": "jwt"},
            "user": {"id": 1, "email": "ada@example.com"},
        }
        assert params.authentication == {"strategy": "jwt"}
        assert (params.connection, params.provider) == (connection, "socketio")
        assert (context.method, context.path, context.result) == (
            "remove",
            "authentication",
            result,
        )

    async def test_logs_have_no_tokens(self, app, connection, caplog):
        caplog.set_level(logging.DEBUG)
        result = await sign_in(connection, app)
        await app.service("users").remove(1)
        token = token_for(app, 2, exp=time.time() + 1.5)
        await sign_in_by_token(connection, app, token)
        await eventually(lambda: not connection.is_open)
        assert token not in caplog.text
        assert result["accessToken"] not in caplog.text


def test_params_of_nobody():
    assert who(Params()) == NOBODY


async def test_an_application_that_another_one_mounts():
    inner = await make_live_app()
    outer = App().use("api", inner)
    await outer.setup()
    told = follow_the_book(inner)
    connection = open_connection(outer)
    outer.channel("everyone").join(connection)
    await call(connection, outer, "api/authentication", "create", None, login())
    assert (await call(connection, outer, "api/private", "find"))["authenticated"]
    assert connection.channels == ["everyone", "signed in", "users/1"]
    await inner.service("users").remove(1)
    assert (outer.channels, inner.channels) == ([], ["anonymous"])
    await connection.close()
    assert inner.channels == []
    assert [name for name, *_ in told] == ["login", "logout"]
    assert is_empty(inner)
