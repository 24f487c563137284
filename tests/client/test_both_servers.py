"""One suite for every kind of client, on Alula's server and on that of FeathersJS."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from urllib.parse import unquote

import pytest
from tests.client.kinds import all_of, settled

from alula import errors
from alula.client import authentication

ADA = {"strategy": "local", "email": "ada@example.com", "password": "secret-ada"}
NAMES = sorted(
    each.name
    for each in errors.FrameworkError.__subclasses__()
    if each.__module__ == "alula.errors"
    and each.__name__ not in {"PayloadTooLarge", "UnsupportedMediaType"}  # FeathersJS has none
)


@pytest.fixture
def messages(client):
    return client.service("messages")


@pytest.fixture
def room():
    """The name of a room that no other test uses."""
    return uuid.uuid4().hex


class TestMethods:
    async def test_records_go_through_their_life(self, messages, room):
        made = await settled(messages.create({"text": "hällo \U0001f600", "room": room, "n": 1.5}))
        assert made == {"text": "hällo \U0001f600", "room": room, "n": 1.5, "id": made["id"]}
        assert await settled(messages.get(made["id"])) == made
        replaced = await settled(messages.update(made["id"], {"text": "new", "room": room}))
        assert replaced == {"text": "new", "room": room, "id": made["id"]}
        patched = await settled(messages.patch(made["id"], {"n": None}))
        assert patched == {**replaced, "n": None}
        assert await settled(messages.remove(made["id"])) == patched
        with pytest.raises(errors.NotFound, match="No record found") as caught:
            await settled(messages.get(made["id"]))
        assert caught.value.code == 404

    async def test_many_at_once(self, messages, room):
        many = [{"room": room, "n": n} for n in range(3)]
        made = await settled(messages.create(many))
        assert [each["n"] for each in made] == [0, 1, 2]
        patched = await settled(messages.patch(None, {"read": True}, query={"room": room}))
        assert [each["read"] for each in patched] == [True] * 3
        removed = await settled(messages.remove(None, query={"room": room}))
        assert {each["id"] for each in removed} == {each["id"] for each in made}
        page = await settled(messages.find(query={"room": room}))
        assert page == {"total": 0, "limit": 10, "skip": 0, "data": []}

    async def test_the_query_syntax(self, messages, room):
        await settled(messages.create([{"room": room, "n": f"{n}"} for n in range(5)]))
        query = {"room": room, "$sort": {"n": -1}, "$limit": 2, "$skip": 1, "$select": ["n"]}
        page = await settled(messages.find(query=query))
        assert (page["total"], page["limit"], page["skip"]) == (5, 2, 1)
        assert [each["n"] for each in page["data"]] == ["3", "2"]
        assert "room" not in page["data"][0]
        query = {"room": room, "$or": [{"n": {"$in": ["0", "9"]}}, {"n": {"$gt": "3"}}]}
        page = await settled(messages.find(query={**query, "$sort": {"n": 1}}))
        assert [each["n"] for each in page["data"]] == ["0", "4"]

    async def test_every_record_page_after_page(self, messages, room):
        await settled(messages.create([{"room": room, "n": n} for n in range(7)]))
        told = []
        query = {"room": room, "$sort": {"id": 1}}
        records = messages.iterate(query, page_size=3, progress=lambda *each: told.append(each))
        assert [each["n"] for each in await all_of(records)] == list(range(7))
        assert told == [(3, 7), (6, 7), (7, 7)]
        some = await all_of(messages.iterate({**query, "$skip": 2, "$limit": 4}, page_size=3))
        assert [each["n"] for each in some] == [2, 3, 4, 5]

    async def test_ids_of_every_kind(self, client):
        echo = client.service("echo")
        for key in ("a/b", "ü", "a b", "50%", "?x=1", "#", "a+b", "100", "'()*!~", 7, 1.5):
            answer = await settled(echo.get(key))
            assert unquote(answer["id"]) == unquote(str(key))  # FeathersJS does not decode


class TestWhatTravels:
    async def test_values_of_a_query(self, client):
        moment = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
        query = {
            "list": ["a", "b"],
            "nested": {"deep": {"er": "x"}},
            "objects": [{"a": 1}, {"b": True}],
            "yes": True,
            "no": False,
            "none": None,
            "when": moment,
            "n": 1.5,
            "ünï & =": "y z+%",
        }
        answer = await settled(client.service("echo").find(query=query))
        assert answer["query"] == {
            "list": ["a", "b"],
            "nested": {"deep": {"er": "x"}},
            "objects": [{"a": "1"}, {"b": "true"}],
            "yes": "true",
            "no": "false",
            "none": "",
            "when": "2026-01-02T03:04:05.678Z",
            "n": "1.5",
            "ünï & =": "y z+%",
        }

    async def test_of_params_only_the_query(self, client):
        given = {"query": {"a": "1"}, "user": {"id": 1}, "provider": None, "docdb": {"x": 1}}
        answer = await settled(client.service("echo").patch(None, {"b": 2}, given))
        shown = {name: answer[name] for name in ("method", "id", "data", "query", "provider")}
        assert shown == {
            "method": "patch",
            "id": None,
            "data": {"b": 2},
            "query": {"a": "1"},
            "provider": "rest",
        }

    async def test_route_and_headers(self, client):
        issues = client.service("orgs/:org/repos/:repo/issues")
        answer = await settled(
            issues.get(
                "7",
                route={"org": "ä/b", "repo": "c d"},
                headers={"x-request-id": "1", "X-Empty": "shadowed"},
                connection={"headers": {"x-empty": ""}},
            )
        )
        assert answer["id"] == "7"
        route = {name: unquote(value) for name, value in answer["route"].items()}
        assert route == {"org": "ä/b", "repo": "c d"}
        assert answer["headers"] == {
            "x-request-id": "1",
            "accept": "application/json, text/event-stream;q=0.9",
            "x-empty": "",
        }

    async def test_headers_of_all_calls(self, url, kind):
        async with kind.client(url, headers={"X-Request-Id": "every"}) as client:
            users = client.service("users/:userId/messages")
            answer = await settled(users.find(route={"userId": 5}))
            assert answer["headers"]["x-request-id"] == "every"
            assert answer["route"] == {"userId": "5"}


class TestCustomMethods:
    async def test_they_get_data_and_query(self, client):
        calc = client.service("calc", methods=["sum", "noop", "fail"])
        answer = await settled(calc.sum({"values": [1, 2]}, query={"a": "b"}))
        assert answer == {"sum": 3, "query": {"a": "b"}, "provider": "rest"}
        assert await settled(calc.noop({})) is None
        with pytest.raises(errors.Unprocessable, match="Can not process") as caught:
            await settled(calc.fail({"x": 1}))
        assert caught.value.data == {"given": {"x": 1}}

    async def test_what_the_server_does_not_open(self, client):
        with pytest.raises(errors.MethodNotAllowed):
            await settled(client.service("calc", methods=["hidden"]).hidden({}))


class TestErrors:
    async def test_every_class_comes_back(self, client):
        for name in NAMES:
            query = {"error": name, "message": f"about {name}", "data": "1"}
            with pytest.raises(errors.FrameworkError, match=f"^about {name}$") as caught:
                await settled(client.service("calc").find(query=query))
            error = caught.value
            assert type(error).name == name
            assert (error.data, error.errors) == ({"reason": "because"}, {"field": "is bad"})

    async def test_one_of_an_own_class(self, client):
        with pytest.raises(errors.FrameworkError, match="Short and stout") as caught:
            await settled(client.service("calc").find(query={"error": "teapot"}))
        error = caught.value
        assert (error.name, error.code, error.class_name) == ("Teapot", 418, "teapot")
        assert error.data == {"handle": "here"}

    async def test_a_service_that_is_not_there(self, client):
        with pytest.raises(errors.NotFound):
            await settled(client.service("nowhere").find())

    async def test_an_answer_that_is_no_json(self, client):
        with pytest.raises(errors.BadGateway, match=r"200 with text/plain.*: hello$") as caught:
            await settled(client.service("mw").get("plain"))
        assert caught.value.__cause__.body == b"hello"
        assert caught.value.data is None


class TestOnThisSide:
    async def test_hooks_and_events(self, client, room):
        seen = []

        def stamp(context):
            context.data = {**context.data, "room": room}

        client.hooks(after=[lambda context: seen.append(context.method)])
        messages = client.service("messages")
        messages.hooks(before={"create": [stamp]})
        messages.on("created", lambda data, _: seen.append(data["room"]))
        await settled(messages.create({"text": "x"}))
        assert seen == ["create", room]


class TestSigningIn:
    async def test_in_and_out(self, client):
        client.configure(authentication())
        secrets = client.service("secrets")
        with pytest.raises(errors.NotAuthenticated):
            await settled(secrets.find())
        answer = await settled(client.login(ADA))
        assert answer["user"]["email"] == "ada@example.com"
        assert client.authentication.access_token == answer["accessToken"]
        assert len(await settled(secrets.find())) > 0
        assert (await settled(client.re_authenticate(force=True)))["user"] == answer["user"]
        gone = await settled(client.logout())
        assert gone["user"]["id"] == answer["user"]["id"]
        assert not client.authentication.authenticated
        assert client.authentication.storage == {}
        with pytest.raises(errors.NotAuthenticated):
            await settled(secrets.find())

    async def test_a_token_is_enough(self, client):
        client.configure(authentication())
        storage = {"alula-jwt": (await settled(client.login(ADA)))["accessToken"]}
        client.configure(authentication(storage=storage))
        assert (await settled(client.re_authenticate()))["user"]["email"] == "ada@example.com"

    async def test_a_wrong_password(self, client):
        client.configure(authentication())
        with pytest.raises(errors.NotAuthenticated, match="Invalid login"):
            await settled(client.login(strategy="local", email="ada@example.com", password="x"))
        assert client.authentication.access_token is None
