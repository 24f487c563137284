"""Strategies that only say who somebody is, such as API keys: over REST and on connections."""

from __future__ import annotations

import pytest
from tests.authentication.building import SECRET, add_authentication, login
from tests.authentication.connecting import (
    call,
    follow_the_book,
    is_closed,
    is_signed_out,
    make_live_app,
    open_connection,
    settle,
    sign_in,
    token_for,
)
from tests.express.asgi_client import call as request
from tests.express.asgi_client import post_json
from tests.realtime.asgi_peer import Peer

from alula import App
from alula._identity import identify_connection
from alula.adapters.memory import MemoryService
from alula.authentication import (
    AuthenticationService,
    AuthenticationStrategy,
    JWTStrategy,
    authenticate,
)
from alula.errors import NotAuthenticated
from alula.express import express, json, rest
from alula.realtime import socketio

pytestmark = pytest.mark.usefixtures("closes_soon")


class Keys(AuthenticationStrategy):
    """Keys of users by their text; each has an id, by which it can be revoked."""

    def __init__(self, **users):
        self.users = users

    def parse(self, req, res):
        key = req.headers.get("x-api-key")
        return None if key is None else {"strategy": self.name, "apiKey": key}

    async def authenticate(self, authentication, params):
        key = authentication.get("apiKey")
        if key not in self.users:
            raise NotAuthenticated("Invalid API key")
        details = {"strategy": self.name, "id": f"id of {key}", "scopes": ["notes:read"]}
        user = await self.app.service("users").get(self.users[key])
        return {"authentication": details, "user": user}


@pytest.fixture
async def keys():
    return Keys(k1=1, k2=2)


@pytest.fixture
async def app(keys):
    app = await make_live_app(sessions="sessions")
    app.service("authentication").service.offer("apiKey", keys)
    app.use("keyed", app.service("notes").service)
    app.service("keyed").hooks(around=[authenticate("jwt", "apiKey")])
    return app


def handshake(app, key="k1", **headers):
    return open_connection(app, added=False, headers={"x-api-key": key, **headers})


async def connected(app, key="k1"):
    connection = handshake(app, key)
    await identify_connection(app, connection)
    app.add_connection(connection)
    return connection


class TestOffer:
    def test_it_parses_unless_told_otherwise_and_signs_nobody_in(self):
        service = AuthenticationService(App(), secret=SECRET)
        service.offer("apiKey", Keys())
        assert service.strategies == ("jwt", "local")
        assert service.parse_strategies == ("jwt", "local", "apiKey")

    @pytest.mark.parametrize("parses", [False, True])
    @pytest.mark.parametrize("signs_in", [False, True])
    def test_it_says_all_that_a_strategy_is_for(self, parses, signs_in):
        service = AuthenticationService(App(), secret=SECRET, strategies=["jwt", "pin"])
        service.offer("pin", Keys(), parses=parses, signs_in=signs_in)
        assert service.strategies == ("jwt", "pin")[: 1 + signs_in]
        assert service.parse_strategies == ("jwt", "pin")[: 1 + parses]

    def test_something_else_is_an_error(self):
        service = AuthenticationService(App(), secret=SECRET)
        with pytest.raises(TypeError, match="an instance of a class that derives"):
            service.offer("apiKey", Keys)
        assert service.parse_strategies == ("jwt", "local")

    def test_the_names_are_changed_by_offer_alone(self):
        service = AuthenticationService(App(), secret=SECRET)
        with pytest.raises(AttributeError):
            service.strategies += ("apiKey",)


class TestRest:
    @pytest.fixture
    async def app(self, keys):
        app = express(App()).use(json()).configure(rest())
        app.use("users", MemoryService([{"id": 1, "email": "ada@example.com"}]))
        app.use("notes", MemoryService([{"id": 1}]))
        app.service("notes").hooks(around=[authenticate("jwt", "apiKey")])
        add_authentication(app).offer("apiKey", keys)
        await app.setup()
        return app

    async def test_a_key_identifies_the_caller(self, app):
        seen = []
        app.service("notes").hooks(before=[lambda context: seen.append(context.params)])
        answer = await request(app, url="/notes", headers=[("x-api-key", "k1")])
        assert answer.status == 200
        assert seen[0].user["email"] == "ada@example.com"
        details = {"strategy": "apiKey", "id": "id of k1", "scopes": ["notes:read"]}
        assert seen[0].authentication == details

    async def test_a_wrong_key_is_refused(self, app):
        answer = await request(app, url="/notes", headers=[("x-api-key", "x")])
        assert (answer.status, answer.json["message"]) == (401, "Invalid API key")

    async def test_nobody_signs_in_with_it(self, app):
        data = {"strategy": "apiKey", "apiKey": "k1"}
        answer = await post_json(app, data, "/authentication")
        assert (answer.status, "not allowed" in answer.json["message"]) == (401, True)


async def test_a_key_in_the_handshake_of_a_socket(keys):
    app = express(App()).configure(socketio())
    app.use("users", MemoryService([{"id": 1, "email": "ada@example.com"}]))
    app.use("notes", MemoryService([{"id": 1, "text": "a"}]))
    app.service("notes").hooks(around=[authenticate("apiKey")])
    service = add_authentication(app)
    service.offer("apiKey", keys)
    await app.setup()
    peer = Peer(app, headers={"x-api-key": "k1"})
    await peer.join()
    assert await peer.call("get", "notes", 1) == [None, {"id": 1, "text": "a"}]
    (connection,) = app.channel_registry.connections.values()
    assert connection.user["email"] == "ada@example.com"
    service.connections.announce("apiKey", ["id of k1"])
    assert is_signed_out(connection)
    await peer.wait_closed()
    await app.teardown()


class TestConnections:
    async def test_a_key_identifies_the_connection_without_a_session(self, app):
        told = follow_the_book(app)
        connection = await connected(app)
        assert connection.user == {"id": 1, "email": "ada@example.com"}
        assert connection.authentication["scopes"] == ["notes:read"]
        assert told == [("login", "ada@example.com", "ada@example.com")]
        assert connection.channels == ["signed in", "users/1", "everyone"]
        assert await app.service("sessions").find() == []
        for _ in range(2):
            caller = await call(connection, app, "keyed", "find")
            assert caller == {"user": "ada@example.com", "authenticated": True}

    async def test_only_where_the_strategy_is_named(self, app):
        with pytest.raises(NotAuthenticated, match="strategy not allowed"):
            await call(await connected(app), app, "private", "find")

    async def test_a_wrong_key_refuses(self, app):
        connection = handshake(app, "x")
        with pytest.raises(NotAuthenticated, match="Invalid API key"):
            await identify_connection(app, connection)
        assert connection.user is None

    async def test_it_needs_no_access_tokens(self, keys):
        app = App().use("users", MemoryService([{"id": 1}]))
        add_authentication(app, strategies=[]).offer("apiKey", keys)
        await app.setup()
        connection = await connected(app)
        assert connection.user == {"id": 1}
        app.service("authentication").service.connections.announce("apiKey", ["id of k1"])
        assert is_signed_out(connection)

    async def test_a_revoked_key_ends_it(self, app):
        told = follow_the_book(app)
        ada, bob = await connected(app), await connected(app, "k2")
        app.service("authentication").service.connections.announce("apiKey", ["id of k1"])
        assert is_signed_out(ada)
        assert told[2:] == [("logout", "ada@example.com", None)]
        assert bob.user["id"] == 2
        assert await is_closed(ada)

    async def test_a_revocation_is_told_to_other_processes(self, app, keys):
        there = await make_live_app()
        there.service("authentication").service.offer("apiKey", Keys(k1=1))
        app.channel_registry.forward = there.channel_registry.receive
        connection = await connected(there)
        app.service("authentication").service.connections.announce("apiKey", ["id of k1"])
        assert is_signed_out(connection)

    async def test_a_key_that_is_refused_in_a_call_ends_it(self, app, keys):
        connection = await connected(app)
        del keys.users["k1"]
        with pytest.raises(NotAuthenticated, match="Invalid API key"):
            await call(connection, app, "keyed", "find")
        assert is_signed_out(connection)

    async def test_another_key_that_is_refused_does_not(self, app):
        connection = await connected(app)
        credentials = {"strategy": "apiKey", "apiKey": "x"}
        params = {"provider": "socketio", "connection": connection}
        with pytest.raises(NotAuthenticated):
            await app.service("keyed").find(authentication=credentials, **params)
        assert connection.user["id"] == 1

    async def test_a_key_that_is_revoked_during_the_handshake_refuses(self, app, keys):
        authenticated = []

        async def revoke(context):
            authenticated.append(True)
            if len(authenticated) == 2:
                service = app.service("authentication").service
                service.connections.announce("apiKey", ["id of k1"])

        app.service("users").hooks(before={"get": [revoke]})
        connection = handshake(app)
        with pytest.raises(NotAuthenticated, match="session has ended"):
            await identify_connection(app, connection)
        assert connection.user is None

    async def test_it_changes_with_its_user(self, app):
        connection = await connected(app)
        await app.service("users").patch(1, {"name": "Ada"})
        await settle()
        assert connection.user["name"] == "Ada"
        await app.service("users").remove(1)
        assert is_signed_out(connection)

    async def test_it_is_forgotten_when_the_connection_closes(self, app):
        connection = await connected(app)
        app.remove_connection(connection)
        assert app.service("authentication").service.connections._sign_ins == {}

    async def test_a_sign_in_takes_its_place(self, app):
        connection = await connected(app)
        await sign_in(connection, app, "bob@example.com")
        assert connection.user["id"] == 2
        assert connection.authentication["strategy"] == "jwt"

    async def test_tokens_that_are_only_parsed_identify_too(self):
        app = await make_live_app(strategies=["jwt", "local"])
        app.service("authentication").service.offer("jwt", JWTStrategy())
        told = follow_the_book(app)
        headers = {"authorization": f"Bearer {token_for(app)}"}
        connection = open_connection(app, added=False, headers=headers)
        await identify_connection(app, connection)
        assert connection.user["id"] == 1
        assert connection.sign_in.expires < 10**12
        assert told == [("login", "ada@example.com", "ada@example.com")]
        result = await app.service("authentication").create(login(), provider="rest")
        assert result["accessToken"]

    async def test_without_users(self):
        class Machines(AuthenticationStrategy):
            def parse(self, req, res):
                return {"strategy": self.name, "machine": req.headers["x-machine"]}

            async def authenticate(self, authentication, params):
                return {"authentication": {"strategy": self.name}}

        app = App()
        add_authentication(app, entity=None, strategies=["jwt"]).offer("machine", Machines())
        await app.setup()
        connection = open_connection(app, added=False, headers={"x-machine": "m"})
        await identify_connection(app, connection)
        assert connection.authentication == {"strategy": "machine", "machine": "m"}
