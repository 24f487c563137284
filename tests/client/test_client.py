"""The client: transports, services, hooks, two servers at once, types."""

from __future__ import annotations

import asyncio
from typing import TypedDict

import pytest
from tests.client.faking import FakeFetch, faked

from alula import errors
from alula.client import Client, ClientService, RestService, TypedService, create_client, rest


class Message(TypedDict):
    text: str


class TestTransports:
    def test_there_is_one(self):
        client, _ = faked()
        with pytest.raises(RuntimeError, match="has the connection to http://here/api as its tran"):
            client.configure(rest("http://there").fetch())
        assert client.rest.base == "http://here/api"

    def test_there_has_to_be_one(self):
        client = create_client()
        assert client.rest is None
        assert repr(client) == "a client without a server"
        with pytest.raises(RuntimeError, match="no transport; configure one"):
            client.service("messages")

    def test_plugins_are_plain_functions(self):
        async def plugin(client):
            """Can not be waited for."""

        class Waiting:
            def __await__(self):
                """Can not be waited for either."""

        client = create_client()
        with pytest.raises(TypeError, match=r"plugin.*plugins are plain functions"):
            client.configure(plugin)
        with pytest.raises(TypeError, match="plugins are plain functions"):
            client.configure(lambda _: Waiting())
        assert client.configure(lambda each: each.set("a", 1)) is client
        assert (client.get("a"), client.get("b")) == (1, None)


class TestServices:
    def test_one_path_is_one_service(self):
        client, _ = faked()
        messages = client.service("/messages/")
        assert isinstance(messages, ClientService)
        assert client.service("messages", Message) is messages
        assert client.service("messages", dict[str, int]) is messages
        assert isinstance(messages, TypedService)
        assert client.service("other") is not messages

    @pytest.mark.parametrize("record", [int, list, "Message", object()])
    def test_records_are_dicts(self, record):
        client, _ = faked()
        with pytest.raises(TypeError, match="records are dicts"):
            client.service("messages", record)

    async def test_custom_methods_are_declared_at_any_time(self):
        client, fetch = faked()
        messages = client.service("messages")
        with pytest.raises(AttributeError, match="has no method `archive`"):
            messages.archive({})
        seen = []
        messages.hooks(before=[lambda context: seen.append(context.method)])
        client.service("messages", methods=["archive", "find"])
        client.service("messages", methods=["archive", "markRead"])
        await messages.archive({"id": 1})
        await messages.call("markRead", data={"id": 2})
        assert seen == ["archive", "markRead"]
        sent = [given["headers"]["X-Service-Method"] for _, given in fetch.calls]
        assert sent == ["archive", "markRead"]
        client.hooks(before={"archive": [lambda context: seen.append("all")]})
        await messages.archive({})
        assert seen[2:] == ["all", "archive"]

    @pytest.mark.parametrize("name", ["_hidden", "hooks", "call", "app"])
    def test_names_that_are_taken(self, name):
        client, _ = faked()
        with pytest.raises(ValueError, match=f"`{name}`; that name is Alula's own"):
            client.service("messages", methods=[name])

    @pytest.mark.parametrize("name", ["request", "connection", "custom_methods", "name", "declare"])
    def test_names_that_a_remote_service_needs(self, name):
        client, _ = faked()
        with pytest.raises(ValueError, match=f"'messages' lists `{name}`"):
            client.service("messages", methods=[name])

    async def test_a_method_of_ones_own_class_stays(self):
        class Own(RestService):
            async def archive(self, data, params):
                return "own"

        client, _ = faked(service_class=Own)
        assert await client.service("messages", methods=["archive"]).archive({}) == "own"

    def test_methods_are_a_list(self):
        client, _ = faked()
        with pytest.raises(TypeError, match=r"give a list: \['archive'\]"):
            client.service("messages", methods="archive")

    async def test_of_this_program(self):
        class Local:
            async def find(self, params):
                return [params.query]

        client, fetch = faked()
        client.use("local", Local(), events=["changed"])
        assert await client.service("local").find(query={"a": 1}) == [{"a": 1}]
        assert "changed" in client.service("local").events
        assert fetch.calls == []
        with pytest.raises(ValueError, match="`archive`, but Local has none"):
            client.service("local", methods=["archive"])
        with pytest.raises(ValueError, match="service at 'local' already"):
            client.use("/local", Local())


class TestTwoServers:
    async def test_at_once(self):
        client, here = faked(["here"])
        there = FakeFetch(["there"])
        other = rest("http://there").fetch(there)
        client.use("todos", other.service("todos"))
        client.use("tasks", other.service("tasks", methods=["clear"]), methods=["clear", "sort"])
        assert await client.service("messages").find() == ["here"]
        assert await client.service("todos").find() == ["there"]
        await client.service("tasks").clear({})
        await client.service("tasks").sort({})
        assert here.urls == ["http://here/api/messages"]
        assert there.urls == ["http://there/todos", "http://there/tasks", "http://there/tasks"]

    async def test_both_are_closed(self):
        closed = []
        client, _ = faked()
        connections = [client.rest, rest("http://there").fetch(FakeFetch([]))]
        for name in ("a", "b"):
            client.use(name, connections[1].service(name))
        client.service("c")

        class Local:
            async def find(self, params):
                return []

        client.use("local", Local())
        for connection in connections:

            async def close(connection=connection):
                closed.append(connection)

            connection.close = close
        async with client as entered:
            assert entered is client
        assert closed == connections

    async def test_a_client_without_a_transport(self):
        async with create_client() as client:
            client.use("x", rest("http://there").fetch(FakeFetch([1])).service("x"))
            assert await client.service("x").find() == [1]


class TestHooksAndEvents:
    async def test_the_client_s_surround_the_service_s(self):
        client, _ = faked({"id": 1})
        seen = []

        async def around(context, next):
            seen.append("in")
            await next()
            seen.append("out")

        messages = client.service("messages")
        messages.hooks(before=[lambda _: seen.append("service")])
        client.hooks([around])
        await messages.create({})
        assert seen == ["in", "service", "out"]

    async def test_hooks_may_answer_themselves(self):
        client, fetch = faked()

        @client.before("find")
        def cached(context):
            context.result = ["cached"]

        assert await client.service("messages").find() == ["cached"]
        assert fetch.calls == []

    async def test_error_hooks_see_what_the_server_says(self):
        client, _ = faked((409, errors.Conflict("taken").to_dict(), {}))
        messages = client.service("messages")

        @messages.error("create")
        def recover(context):
            context.result = context.error.message

        assert await messages.create({}) == "taken"

    async def test_events_are_for_the_caller(self):
        client, _ = faked([{"id": 1}, {"id": 2}])
        other, _ = faked({"id": 3})
        heard = []
        client.service("messages").on("created", lambda data, _: heard.append(data["id"]))
        await other.service("messages").create({})
        await client.service("messages").create([{}, {}])
        assert heard == [1, 2]

    async def test_closing_waits_for_listeners(self):
        client, _ = faked({"id": 1})
        heard = []

        async def listen(*_):
            await asyncio.sleep(0.01)
            heard.append(1)

        client.service("messages").on("patched", listen)
        client.on("ready", listen)
        async with client:
            await client.service("messages").patch(1, {})
            client.emit("ready")
        assert heard == [1, 1]


def test_a_client_is_no_server():
    assert isinstance(create_client(), Client)
    assert not hasattr(create_client(), "listen")
