"""API keys in requests and handshakes, and the service by which people manage their own."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from tests.accounts.key_building import (
    Notes,
    by_key,
    new_key,
    started_with_keys,
    world_with_keys,
)
from tests.express.asgi_client import call
from tests.realtime.asgi_peer import Peer
from tests.realtime.test_sse import Stream

from alula.adapters.memory import MemoryService
from alula.authentication import authenticate
from alula.express import authenticate as authenticated
from alula.express import error_handler, express, rest
from alula.express import json as json_bodies
from alula.realtime import socketio, sse

KIND = {"content-type": "application/json"}
KEYS = "/account/api-keys"
DAY_MS = 86_400_000


class Web:
    """A web application, and what tests ask of it."""

    def __init__(self, **options):
        self.world = world_with_keys(**options)
        self.app = express(self.world.app).use(json_bodies()).configure(rest())
        self.app.configure(socketio())
        self.headers = {}

    async def start(self):
        await self.app.setup()
        await self.world.sign_up()
        await self.world.sign_up(email="bob@example.com")
        self.headers = bearer((await self.world.sign_in())["accessToken"])
        return self

    async def send(self, method, path, data=None, headers=None):
        body = None if data is None else json.dumps(data).encode()
        return await call(
            self.app, method, path, body, {**KIND, **(self.headers if headers is None else headers)}
        )

    async def status(self, headers, method="GET", path="/notes"):
        data = None if method == "GET" else {}
        return (await self.send(method, path, data, headers)).status


def bearer(text):
    return {"authorization": f"Bearer {text}"}


def key_header(key):
    return {"authorization": f"ApiKey {key}"}


@pytest.fixture
async def web():
    web = await Web().start()
    yield web
    await web.app.teardown()


class TestHeaders:
    async def test_authorization(self, web):
        key = (await new_key(web.world))["key"]
        found = await web.send("GET", "/notes", None, key_header(key))
        assert (found.status, found.json) == (200, ["ada@example.com"])
        for text in (f"apikey  {key} ", f"APIKEY {key}"):
            assert await web.status({"authorization": text}) == 200
        for text in (f"Bearer {key}", key, "ApiKey", f"ApiKey {key[:-1]}", f"Basic {key}"):
            assert await web.status({"authorization": text}) == 401
        assert await web.status({"x-api-key": key}) == 401
        assert await web.status({}, path=f"/notes?apiKey={key}&access_token={key}") == 401

    async def test_a_missing_scope_is_named(self, web):
        key = (await new_key(web.world))["key"]
        answer = await web.send("POST", "/notes", {}, key_header(key))
        assert (answer.status, answer.json["message"]) == (
            403,
            "This key lacks the scope notes:write",
        )
        assert answer.json["data"] == {"code": "scope", "scope": "notes:write"}

    async def test_a_header_of_its_own_and_bearer(self):
        web = await Web(header="X-API-Key", bearer=True).start()
        key = (await new_key(web.world))["key"]
        for headers in (bearer(key), {"x-api-key": f" {key} "}, key_header(key), web.headers):
            assert await web.status(headers) == 200
        assert await web.status({"x-api-key": "alu_x"}) == 401
        assert await web.status(bearer("alu_x")) == 401
        await web.app.teardown()

    @pytest.mark.parametrize("name", ["authorization", "x-api-key"])
    async def test_a_header_that_comes_twice(self, name):
        web = await Web(header="X-API-Key", bearer=True).start()
        key = (await new_key(web.world))["key"]
        text = key if name == "x-api-key" else f"ApiKey {key}"
        twice = [(name, "ApiKey other"), (name, text)]
        assert (await call(web.app, url="/notes", headers=twice)).status == 401
        await web.app.teardown()


class TestRoutes:
    """The middleware `authenticate` has no service that would name a scope."""

    async def test_a_scope(self, web):
        seen = []
        web.app.get("/export", authenticated("jwt", "apiKey", scope="export:read"), seen_by(seen))
        web.app.get("/open", authenticated("jwt", "apiKey"), seen_by(seen))
        web.app.use(error_handler())
        key = (await new_key(web.world, "export:read"))["key"]
        other = (await new_key(web.world, "*:read"))["key"]
        for headers in (key_header(key), web.headers):
            assert await web.status(headers, path="/export") == 200
        assert seen == ["ada@example.com"] * 2
        assert await web.status(key_header(other), path="/export") == 403
        assert await web.status(web.headers, path="/open") == 200

    async def test_without_one_keys_are_refused(self, web, caplog):
        web.app.get("/open", authenticated("jwt", "apiKey"), seen_by([]))
        key = (await new_key(web.world, "*"))["key"]
        answer = await web.send("GET", "/open", None, key_header(key))
        assert (answer.status, answer.json["message"]) == (403, "Keys are not accepted here")
        assert "add authenticate(..., scope=...)" in caplog.text

    async def test_the_scope_of_a_route_is_not_that_of_the_service_behind_it(self, web):
        checks = authenticated("apiKey", scope="notes:read")
        web.app.use("drafts", checks, Notes(), methods=["find"])
        web.app.service("drafts").hooks(before=[authenticate("apiKey")])
        for scopes, status in ((["notes:read"], 403), (["drafts:read"], 403)):
            key = (await new_key(web.world, *scopes))["key"]
            assert await web.status(key_header(key), path="/drafts") == status
        key = (await new_key(web.world, "notes:read", "drafts:read"))["key"]
        assert await web.status(key_header(key), path="/drafts") == 200


def seen_by(seen):
    def handler(req, res):
        seen.append(req.user["email"])
        res.json({})

    return handler


class TestSockets:
    async def test_a_key_in_the_handshake(self, web):
        key = await new_key(web.world)
        peer = Peer(web.app, headers=key_header(key["key"]))
        await peer.join()
        assert await peer.call("find", "notes", {}) == [None, ["ada@example.com"]]
        error, *_ = await peer.call("create", "notes", {}, number=2)
        assert (error["code"], error["data"]["scope"]) == (403, "notes:write")
        error, *_ = await peer.call("find", "users", {}, number=3)
        assert error["code"] == 403
        (connection,) = web.app.channel_registry.connections.values()
        assert connection.user["email"] == "ada@example.com"
        assert connection.authentication["scopes"] == ["notes:read"]
        headers = web.headers
        assert (await web.send("DELETE", f"{KEYS}/{key['id']}", headers=headers)).status == 200
        await peer.wait_closed()

    async def test_a_service_without_authenticate_does_not_know_the_user(self, web):
        """As over REST: nobody has asked for a scope."""
        web.app.use("open", web.world.app.service("notes").service, methods=["find"])
        key = (await new_key(web.world))["key"]
        peer = Peer(web.app, headers=key_header(key))
        await peer.join()
        assert await peer.call("find", "open", {}) == [None, [None]]
        await peer.leave()


class TestStreams:
    async def test_a_key_reads_a_stream_until_it_ends(self):
        web = Web()
        web.app.configure(sse())
        web.app.use("posts", MemoryService())
        web.app.service("posts").hooks(around={"find": [authenticate("jwt", "apiKey")]})
        web.app.on("connection", lambda connection: web.app.channel("all").join(connection))
        web.app.service("posts").publish(lambda *_: web.app.channel("all"))
        await web.start()
        wrong = await new_key(web.world, "notes:read")
        refused = Stream(web.app, "/posts", headers=[*key_header(wrong["key"]).items()])
        assert await refused.error() == (403, "This key lacks the scope posts:read")
        key = await new_key(web.world, "posts:read")
        stream = Stream(web.app, "/posts", headers=[*key_header(key["key"]).items()])
        await stream.started()
        await web.app.service("posts").create({"id": 1})
        assert await stream.have(1) == [("created", {"id": 1})]
        await web.world.accounts.api_keys.remove(key["id"])
        await stream.until(lambda: stream.ended)
        await web.app.teardown()


class TestOwnKeys:
    async def test_from_the_first_to_the_last(self, web):
        wanted = {"name": "CI", "scopes": ["notes:read"], "expiresIn": "30d"}
        made = await web.send("POST", KEYS, wanted)
        assert (made.status, made.get("cache-control")) == (201, "no-store")
        key = made.json
        assert key["expiresAt"] == key["createdAt"] + 30 * DAY_MS
        assert key["key"].startswith(f"{key['prefix']}_")
        assert await web.status(key_header(key["key"])) == 200
        await web.world.accounts.idle()
        listed = await web.send("GET", KEYS)
        assert listed.get("cache-control") == "no-store"
        (shown,) = listed.json
        assert {**shown, "lastUsedAt": None, "key": key["key"]} == key
        renamed = await web.send("PATCH", f"{KEYS}/{key['id']}", {"name": "Deploy"})
        assert renamed.json["name"] == "Deploy"
        rotated = await web.send("POST", f"{KEYS}/rotate", {"id": key["id"]})
        assert rotated.status == 200
        for text in (key["key"], rotated.json["key"]):
            assert await web.status(key_header(text)) == 200
        again = await web.send("POST", f"{KEYS}/rotate", {"id": key["id"], "overlap": 0})
        assert await web.status(key_header(rotated.json["key"])) == 401
        ended = await web.send("DELETE", f"{KEYS}/{key['id']}")
        assert (ended.status, ended.json["name"]) == (200, "Deploy")
        assert "key" not in ended.json
        assert await web.status(key_header(again.json["key"])) == 401
        assert (await web.send("GET", KEYS)).json == []

    async def test_keys_of_others_do_not_exist(self, web):
        key = await new_key(web.world, user_id=2)
        assert (await web.send("GET", f"{KEYS}?userId=2")).json == []
        for method, path, data in (
            ("DELETE", f"{KEYS}/{key['id']}", None),
            ("PATCH", f"{KEYS}/{key['id']}", {"name": "Mine"}),
            ("POST", f"{KEYS}/rotate", {"id": key["id"]}),
            ("DELETE", f"{KEYS}/identity:1", None),
        ):
            assert (await web.send(method, path, data)).status == 404
        assert await web.status(key_header(key["key"])) == 200

    async def test_a_key_makes_no_keys(self, web):
        key = await new_key(web.world, "*")
        for method, path, data in (
            ("GET", KEYS, None),
            ("POST", KEYS, {"name": "CI", "scopes": ["notes:read"]}),
            ("POST", f"{KEYS}/rotate", {"id": key["id"]}),
            ("DELETE", f"{KEYS}/{key['id']}", None),
            ("GET", "/account/sessions", None),
        ):
            answer = await web.send(method, path, data, key_header(key["key"]))
            assert answer.status == 403
            assert "needs a person" in answer.json["message"]
        data = {"strategy": "apiKey", "apiKey": key["key"]}
        assert (await web.send("POST", "/authentication", data, {})).status == 401
        assert len(await web.world.accounts.api_keys.find(1)) == 1

    @pytest.mark.parametrize(
        "data",
        [
            {"name": "CI"},
            {"name": "CI", "scopes": ["notes:read"], "userId": 2},
            {"name": "CI", "scopes": "notes:read"},
            {"name": "CI", "scopes": ["*"]},
            {"name": "CI", "scopes": ["a b"]},
            {"name": "CI", "scopes": [{}]},
            {"name": 7, "scopes": ["notes:read"]},
            {"name": "CI", "scopes": ["notes:read"], "expiresIn": None},
            {"name": "CI", "scopes": ["notes:read"], "expiresIn": "367d"},
            {"name": "CI", "scopes": ["notes:read"], "expiresIn": 0},
            {"name": "CI", "scopes": ["notes:read"], "expiresIn": True},
            {"name": "CI", "scopes": ["notes:read"], "expiresIn": f"{'9' * 400}d"},
            [],
        ],
    )
    async def test_what_is_not_valid(self, web, data):
        assert (await web.send("POST", KEYS, data)).status == 400

    async def test_what_else_is_not_valid(self, web):
        key = await new_key(web.world)
        for method, path, data in (
            ("PATCH", f"{KEYS}/{key['id']}", {"name": ""}),
            ("PATCH", f"{KEYS}/{key['id']}", {"name": "CI", "scopes": ["*"]}),
            ("POST", f"{KEYS}/rotate", {"id": 7}),
            ("POST", f"{KEYS}/rotate", {"id": key["id"], "overlap": "8d"}),
        ):
            assert (await web.send(method, path, data)).status == 400
        assert (await web.send("DELETE", KEYS)).status == 405

    async def test_only_after_a_recent_sign_in(self, web, monkeypatch):
        key = await new_key(web.world)
        later = time.time() + 301
        monkeypatch.setattr("alula.accounts._guards.time.time", lambda: later)
        for path, data in (
            (KEYS, {"name": "CI", "scopes": ["notes:read"]}),
            (f"{KEYS}/rotate", {"id": key["id"]}),
        ):
            answer = await web.send("POST", path, data)
            assert (answer.status, answer.json["data"]["code"]) == (401, "not_recent")
        assert (await web.send("GET", KEYS)).status == 200
        assert (await web.send("PATCH", f"{KEYS}/{key['id']}", {"name": "CD"})).status == 200
        assert (await web.send("DELETE", f"{KEYS}/{key['id']}")).status == 200

    async def test_twenty_keys(self, web):
        await asyncio.gather(*(new_key(web.world) for _ in range(20)))
        answer = await web.send("POST", KEYS, {"name": "CI", "scopes": ["notes:read"]})
        assert (answer.status, answer.json["message"]) == (
            409,
            "You have 20 keys; remove one before you create another",
        )
        assert await new_key(web.world)  # own code may create more

    async def test_no_client_gets_an_event_with_a_key(self, web):
        service = web.app.service("account/api-keys")
        assert service.service.secret_events
        assert not service.publishers


async def test_the_application_itself_has_no_keys_of_its_own():
    world = await started_with_keys()
    with pytest.raises(Exception, match="signed-in caller"):
        await world.app.service("account/api-keys").find()
    key = (await new_key(world))["key"]
    assert await world.app.service("notes").find(by_key(key)) == ["ada@example.com"]
