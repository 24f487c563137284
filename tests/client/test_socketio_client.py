"""The client over socket.io, against a server that does what the tests tell it."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import ssl
from functools import partial
from http import HTTPStatus

import pytest
import trustme
from tests.client.faking import faked
from tests.client.socketio_server import SILENT, ScriptedServer, breaks_of, frames_of
from tests.waiting import eventually

from alula import App, errors
from alula._connection import Connection as RealtimeConnection
from alula._wire import PacketType
from alula.client import (
    AbortController,
    Aborted,
    Client,
    EventsLost,
    NotConnected,
    RequestError,
    SocketConnection,
    authentication,
    create_client,
    rest,
    socketio,
)
from alula.client import _retries as retries_module
from alula.client._socketio import _streams, _transport


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(retries_module, "_FIRST_DELAY", 0.002)
    monkeypatch.setattr(retries_module, "_LONGEST_DELAY", 0.02)


class NoLink:
    """The link of a connection that gets no events."""

    def deliver(self, event): ...


@pytest.fixture
def server():
    with ScriptedServer() as server:
        yield server


def client_of(server, **given) -> Client:
    options = given.pop("options", None)
    return create_client().configure(socketio(server.url, options=options, **given))


@pytest.fixture
async def client(server):
    async with client_of(server) as client:
        yield client


class TestCalls:
    async def test_of_all_methods(self, client, server):
        messages = client.service("messages", methods=["archive"])
        await messages.find(query={"$limit": 2, "at": {"$in": []}})
        await messages.get(1, query={"$select": ["id"]})
        await messages.create({"text": "a"})
        await messages.update(1, {"text": "b"})
        await messages.patch(None, {"text": "b"}, query={"id": 1})
        await messages.remove("x")
        await messages.archive({"id": 1})
        assert server.calls == [
            ["find", "messages", {"$limit": 2, "at": {"$in": []}}],
            ["get", "messages", 1, {"$select": ["id"]}],
            ["create", "messages", {"text": "a"}, {}],
            ["update", "messages", 1, {"text": "b"}, {}],
            ["patch", "messages", None, {"text": "b"}, {"id": 1}],
            ["remove", "messages", "x", {}],
            ["archive", "messages", {"id": 1}, {}],
        ]

    async def test_results_and_errors(self, client, server):
        server.answers["find", "messages"] = [{"id": 1}]
        server.answers["create", "messages"] = errors.Conflict("taken", {"text": "a"})
        messages = client.service("messages")
        assert await messages.find() == [{"id": 1}]
        with pytest.raises(errors.Conflict) as caught:
            await messages.create({"text": "a"})
        assert caught.value.data == {"text": "a"}
        assert isinstance(caught.value.__cause__, RequestError)
        assert str(caught.value.__cause__) == f"create {server.url}/messages got status 409"

    async def test_many_at_once(self, client, server):
        server.answers["get", "numbers"] = lambda key, query: key
        numbers = client.service("numbers")
        assert await asyncio.gather(*map(numbers.get, range(200))) == [*range(200)]
        assert len(server.joins) == 1

    async def test_pages(self, client, server):
        server.answers["find", "n"] = lambda query: {
            "total": 3,
            "data": [query["$skip"]],
        }
        assert [n async for n in client.service("n").iterate(page_size=1)] == [0, 1, 2]

    async def test_placeholders_take_their_values(self, client, server):
        await client.service("users/:id/messages").find(route={"id": "é b"})
        assert server.calls == [["find", "users/é b/messages", {}]]
        with pytest.raises(errors.BadRequest, match="cannot hold a slash"):
            await client.service("users/:id/messages").find(route={"id": "a/b"})

    async def test_an_id_is_needed(self, client):
        with pytest.raises(errors.BadRequest, match=r"id for .get is required"):
            await client.service("messages").get(None)

    @pytest.mark.parametrize(
        "params",
        [{"headers": {"Authorization": "Bearer x"}}, {"connection": {"headers": {"a": "b"}}}],
    )
    async def test_a_call_has_no_headers(self, client, server, params):
        with pytest.raises(TypeError, match=r"give them to the connection: socketio\(url, options"):
            await client.service("messages").find(params)
        assert server.calls == []

    async def test_a_call_has_no_unknown_options(self, client):
        with pytest.raises(TypeError, match=r"params.connection has verify; the options of a call"):
            await client.service("messages").find(connection={"verify": False})

    async def test_what_cannot_be_sent_fails_at_once(self, server):
        server.stop()
        async with client_of(server) as client:
            with pytest.raises(TypeError, match="has no form in JSON"):
                await client.service("messages").create({"a": object()})

    async def test_what_is_changed_while_it_waits_is_not_sent(self, server):
        server.is_mute = True
        async with client_of(server) as client:
            data = {"text": "first"}
            call = asyncio.create_task(client.service("messages").create(data))
            await eventually(lambda: server._open)
            data["text"] = "second"
            server.send(server.opening)
            await call
            assert server.calls == [["create", "messages", {"text": "first"}, {}]]

    async def test_hooks_and_other_clients_of_services(self, server):
        async with create_client() as client:
            client.use("letters", socketio(server.url).service("messages", methods=["archive"]))

            @client.before()
            def add(context):
                context.params.query["from"] = "hook"

            await client.service("letters").archive({})
            assert server.calls == [["archive", "messages", {}, {"from": "hook"}]]

    @pytest.mark.parametrize("transport", ["rest", "socketio"])
    async def test_a_server_passes_calls_of_connections_on(self, server, transport):
        params = {"provider": "socketio", "headers": {"x-test": "1"}, "query": {"a": 1}}
        params["connection"] = RealtimeConnection(
            NoLink(), provider="socketio", headers={}, ip=None
        )
        if transport == "socketio":
            client = client_of(server)
        else:
            client, fetch = faked([])
        async with client:
            app = App().use("letters", client.service("messages"))
            await app.service("letters").find(params)
        if transport == "socketio":
            assert server.calls == [["find", "messages", {"a": 1}]]
        else:
            sent = fetch.calls[0][1]["headers"]
            assert sent.pop("Accept").startswith("application/json")
            assert sent == {"x-test": "1"}


class TestTheHandshake:
    async def test_has_headers_a_query_and_data(self, server):
        client = client_of(
            server,
            path="ws",
            query={"name": "a b"},
            auth={"tenant": "acme"},
            options={"headers": {"X-Test": "yes"}},
        )
        async with client:
            await client.open()
        ((path, headers),) = server.requests
        assert path == "/ws/?name=a+b&EIO=4&transport=websocket"
        assert headers["X-Test"] == "yes"
        assert "Sec-WebSocket-Extensions" not in headers
        assert server.joins == [{"tenant": "acme"}]

    async def test_options_of_the_library(self, server):
        client = client_of(server, websocket={"origin": "http://page.example"})
        async with client:
            await client.open()
        assert server.requests[0][1]["Origin"] == "http://page.example"

    async def test_an_option_that_the_library_does_not_have(self, server):
        async with client_of(server, websocket={"retries": 3}) as client:
            with pytest.raises(errors.GeneralError, match=r"options: .*retries"):
                await client.open()

    @pytest.mark.parametrize(
        ("status", "error", "message"),
        [
            (403, errors.Forbidden, "the called server refuses the connection with status 403"),
            (404, errors.NotFound, "the called server has no real time at this path"),
            (302, errors.BadGateway, "the called server responded with a redirect"),
        ],
    )
    async def test_refused(self, server, status, error, message):
        server.status = HTTPStatus(status)
        async with client_of(server) as client:
            waiting = [client.service("messages").find(), client.service("messages").create({})]
            for caught in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(caught, error)
                assert caught.message == message
                assert f"got status {status}" in str(caught)
        assert server.calls == []

    async def test_after_a_refusal_it_tries_again(self, server):
        server.refusal = {"message": "full", "data": {"room": "a"}}
        async with client_of(server) as client:
            with pytest.raises(errors.Forbidden) as caught:
                await client.service("messages").find()
            assert (caught.value.message, caught.value.data) == ("full", {"room": "a"})
            server.refusal = None
            await client.service("messages").find()

    async def test_a_server_that_is_busy_is_asked_again(self, server):
        server.status = HTTPStatus.SERVICE_UNAVAILABLE
        async with client_of(server) as client:
            call = asyncio.create_task(client.service("messages").find())
            await eventually(lambda: len(server.requests) >= 3)
            server.status = None
            await call

    async def test_a_redirect_is_not_followed(self, server):
        async with client_of(server) as client:
            server.status = HTTPStatus.TEMPORARY_REDIRECT
            with pytest.raises(errors.BadGateway):
                await client.open()

    async def test_tls(self):
        authority = trustme.CA()
        server = ScriptedServer()
        server.ssl = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(server.ssl)
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        with server:
            url = server.url.replace("http", "https")
            trusted = socketio(url, websocket={"ssl": trusting})
            async with create_client().configure(trusted) as client:
                await client.service("messages").find()
            # Long enough for one attempt on a slow machine: the error tells of the last one.
            async with create_client().configure(socketio(url, connect_timeout=2)) as client:
                with pytest.raises(errors.Unavailable, match=r"is not valid: .*CERTIFICATE_VERIFY"):
                    await client.open()


class TestAnUnreachableServer:
    async def test_calls_wait_for_it(self, server):
        server.stop()
        async with client_of(server) as client:
            call = asyncio.create_task(client.service("messages").create({}))
            await asyncio.sleep(0.02)
            server.listen()
            await call
            assert server.calls == [["create", "messages", {}, {}]]

    async def test_they_wait_for_so_long(self, server, caplog):
        server.stop()
        async with client_of(server, connect_timeout=2) as client:
            with pytest.raises(NotConnected) as caught:
                await client.service("messages").create({})
        assert caught.value.message.endswith("the call was not sent")
        assert str(server.port) not in caught.value.message
        assert re.search(
            rf"no connection to ws://127.0.0.1:{server.port}/socket.io/ in 2 seconds;"
            r" tried \d+ times, at last: ConnectionRefusedError: ",
            str(caught.value),
        )
        warnings = [line for line in caplog.records if line.levelno == logging.WARNING]
        assert len(warnings) == 1

    async def test_the_time_limit_of_a_call_may_be_shorter(self, server):
        server.stop()
        async with client_of(server) as client:
            with pytest.raises(NotConnected, match=r"in 0.02 seconds; tried"):
                await client.service("messages").find(connection={"timeout": 0.02})
            with pytest.raises(NotConnected, match=r"in 0.02 seconds; tried"):
                await client.service("messages").find(connection={"timeout": 0.02})

    async def test_only_so_many_wait(self, server, monkeypatch):
        server.stop()
        monkeypatch.setattr(_transport, "_MAX_WAITING_CALLS", 2)
        async with client_of(server, connect_timeout=0.05) as client:
            messages = client.service("messages")
            calls = await asyncio.gather(
                *(messages.find() for _ in range(3)), return_exceptions=True
            )
        assert sum("2 calls wait for a connection already" in str(error) for error in calls) == 1
        assert all(isinstance(error, NotConnected) for error in calls)

    async def test_a_call_that_waits_is_cancelled(self, server):
        server.stop()
        async with client_of(server) as client:
            call = asyncio.create_task(client.service("messages").create({}))
            await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            server.listen()
            await client.open()
            assert server.calls == []

    async def test_a_call_that_is_cancelled_just_when_it_is_due(self, client, server):
        transport = client.connection._transport
        waiting = asyncio.create_task(client.service("messages").create({}))
        await asyncio.sleep(0)
        waiting.cancel()
        transport._release(None)
        server.answers["create", "messages"] = SILENT
        sent = asyncio.create_task(client.service("messages").create({}))
        await eventually(lambda: server.calls)
        sent.cancel()
        transport._session.closed("at the same moment")
        for call in (waiting, sent):
            with pytest.raises(asyncio.CancelledError):
                await call

    async def test_retries_of_reads(self, server):
        tries = []
        server.answers["find", "s"] = lambda query: (
            tries.append(query) or (errors.Unavailable("busy") if len(tries) < 3 else "done")
        )
        server.answers["create", "s"] = errors.Unavailable("busy")
        async with client_of(server, options={"retries": 3}) as client:
            assert await client.service("s").find() == "done"
            with pytest.raises(errors.Unavailable, match="busy"):
                await client.service("s").create({})
        assert [call[0] for call in server.calls] == ["find", "find", "find", "create"]

    async def test_a_server_that_says_nothing(self, server):
        server.is_mute = True
        async with client_of(server, connect_timeout=0.05) as client:
            with pytest.raises(NotConnected):
                await client.open()
            await eventually(lambda: len(server.requests) > 1)

    async def test_a_server_that_speaks_nonsense(self, server):
        server.opening = "hello"
        async with client_of(server, connect_timeout=2) as client:
            with pytest.raises(NotConnected, match="ProtocolError: the first packet"):
                await client.open()


class TestABreak:
    async def test_a_call_without_an_answer_is_not_repeated(self, client, server):
        server.answers["create", "messages"] = SILENT
        call = asyncio.create_task(client.service("messages").create({}))
        await eventually(lambda: server.calls)
        server.cut()
        with pytest.raises(errors.Unavailable, match="got no response: ConnectionClosedError") as e:
            await call
        assert not isinstance(e.value, NotConnected)
        await client.service("messages").find()
        assert [call[0] for call in server.calls] == ["create", "find"]

    async def test_a_read_is_repeated_once(self, client, server):
        server.answers["get", "messages"] = SILENT
        call = asyncio.create_task(client.service("messages").get(1))
        await eventually(lambda: server.calls)
        server.cut()
        await eventually(lambda: len(server.calls) == 2)
        server.cut()
        with pytest.raises(errors.Unavailable, match="got no response"):
            await call
        assert len(server.calls) == 2

    async def test_a_read_that_is_repeated_has_its_result(self, client, server):
        server.answers["get", "messages"] = SILENT
        call = asyncio.create_task(client.service("messages").get(1))
        await eventually(lambda: server.calls)
        server.answers["get", "messages"] = {"id": 1}
        server.cut()
        assert await call == {"id": 1}

    async def test_is_told(self, client, server):
        told = []
        client.on("connect", told.append)
        client.on("disconnect", lambda reason: told.append(reason.partition(":")[0]))
        await client.open()
        server.pid = "p"
        for number in (1, 2):
            server.cut()
            await eventually(lambda n=number: told.count("ConnectionClosedError") == n)
            await client.open()
        assert told == [False, *["ConnectionClosedError", False], "ConnectionClosedError", True]
        await client.close()
        assert told[-1] == "this client closed the connection"

    async def test_by_the_server(self, client, server):
        await client.open()
        server.send("41")
        await eventually(lambda: len(server.joins) == 2)

    async def test_a_server_that_falls_silent(self):
        with ScriptedServer(ping_interval=0.02, ping_timeout=0.02) as server:
            async with client_of(server) as client:
                reasons = []
                client.on("disconnect", reasons.append)
                await client.open()
                await eventually(lambda: len(server.joins) > 1)
                assert reasons[0] == "the server was silent for too long"

    async def test_a_server_that_pings_is_alive(self):
        with ScriptedServer(ping_interval=0.75, ping_timeout=0.75) as server:
            async with client_of(server) as client:
                await client.open()
                for _ in range(6):
                    await asyncio.sleep(0.3)
                    server.send("2")
                assert len(server.joins) == 1

    async def test_a_stable_connection_is_replaced_at_once(self, client, server, monkeypatch):
        monkeypatch.setattr(_transport, "_STABLE", 0.0)
        for _ in range(3):
            await client.open()
            breaks = breaks_of(client)
            server.cut()
            await eventually(partial(bool, breaks))
        await client.open()

    async def test_a_call_that_takes_too_long(self, client, server):
        server.answers["create", "messages"] = SILENT
        await client.open()
        with pytest.raises(errors.Timeout, match=r"took longer than 0.02 seconds"):
            await client.service("messages").create({}, connection={"timeout": 0.02})
        assert client.connection._transport._session._sent == {}

    async def test_a_call_that_is_aborted(self, client, server):
        server.answers["create", "messages"] = SILENT
        controller = AbortController()
        call = asyncio.create_task(
            client.service("messages").create({}, connection={"signal": controller.signal})
        )
        await eventually(lambda: server.calls)
        controller.abort()
        with pytest.raises(Aborted):
            await call


class TestSigningIn:
    @pytest.fixture
    async def signing(self, server):
        server.tokens = {"t1": "ada"}
        async with client_of(server).configure(authentication()) as client:
            yield client

    async def test_is_renewed_before_calls_that_wait(self, signing, server):
        await signing.login(strategy="local", password="t1")
        server.calls.clear()
        breaks = breaks_of(signing)
        server.cut()
        await eventually(lambda: breaks)
        await signing.service("messages").create({})
        assert [call[:2] for call in server.calls] == [
            ["create", "authentication"],
            ["create", "messages"],
        ]
        assert [*server.users.values()] == ["ada"]
        assert signing.authentication.authenticated

    async def test_a_stored_token_signs_in(self, server):
        server.tokens = {"t1": "ada"}
        stored = {"alula-jwt": "t1"}
        async with client_of(server).configure(authentication(storage=stored)) as client:
            await client.service("messages").find()
            assert client.authentication.result["user"] == {"name": "ada"}
            assert [*server.users.values()] == ["ada"]

    async def test_an_expired_token_is_forgotten(self, signing, server):
        await signing.login(strategy="local", password="t1")
        server.tokens.clear()
        breaks = breaks_of(signing)
        server.cut()
        await eventually(lambda: breaks)
        await signing.service("messages").find()
        assert signing.authentication.access_token is None
        assert not signing.authentication.authenticated

    async def test_calls_are_not_sent_while_it_cannot_be_renewed(self, signing, server):
        await signing.login(strategy="local", password="t1")
        server.answers["create", "authentication"] = errors.Unavailable("no database")
        server.calls.clear()
        breaks = breaks_of(signing)
        server.cut()
        await eventually(lambda: breaks)
        call = asyncio.create_task(signing.service("messages").create({}))
        await eventually(lambda: len(server.calls) > 2)
        assert {call[1] for call in server.calls} == {"authentication"}
        assert signing.authentication.access_token == "t1"
        del server.answers["create", "authentication"]
        await call

    async def test_an_odd_result_is_taken_as_it_is(self, signing, server):
        await signing.login(strategy="local", password="t1")
        for odd in ("odd", {"user": {"name": "ada"}}):
            server.answers["create", "authentication"] = odd
            breaks = breaks_of(signing)
            server.cut()
            await eventually(partial(bool, breaks))
            await signing.open()
        assert signing.authentication.result == {"user": {"name": "ada"}}
        assert signing.authentication.access_token == "t1"

    async def test_calls_wait_for_a_sign_in(self, signing, server):
        login = asyncio.create_task(signing.login(strategy="local", password="t1"))
        await asyncio.sleep(0)
        await signing.service("messages").find()
        await login
        assert [call[1] for call in server.calls] == ["authentication", "messages"]

    async def test_logout_forgets(self, signing, server):
        await signing.login(strategy="local", password="t1")
        await signing.logout()
        assert server.calls[-1] == ["remove", "authentication", None, {}]
        assert signing.authentication.access_token is None

    async def test_a_connection_has_one_user(self, server):
        connection = socketio(server.url)
        create_client().configure(connection)
        with pytest.raises(RuntimeError, match="has a client already; create another one"):
            create_client().configure(connection)


class TestListeners:
    async def test_hear_of_each_event(self, client, server):
        messages = client.service("messages")
        heard, whole = [], []
        messages.on("created", heard.append)

        @messages.on("created")
        def listener(message, context):
            whole.append((message, context.method, context.event, context.result, context.path))

        await client.open()
        server.emit("messages created", {"id": 1})
        server.emit("others created", {"id": 2})
        server.emit("messages created", {"id": 3})
        await eventually(lambda: len(heard) == 2)
        assert heard == [{"id": 1}, {"id": 3}]
        assert whole[0] == ({"id": 1}, "create", "created", {"id": 1}, "messages")

    async def test_own_calls_emit_nothing_by_themselves(self, client, server):
        heard = []
        client.service("messages").on("created", heard.append)
        await client.service("messages").create({"id": 1})
        assert heard == []

    async def test_of_custom_events_get_the_data(self, client, server):
        heard = []
        client.service("ticker").on("tick", heard.append)
        await client.open()
        server.emit("ticker tick", {"i": 1})
        await eventually(lambda: heard == [{"i": 1}])

    async def test_once_and_off(self, client, server):
        messages = client.service("messages")
        once, off, last = [], [], []
        messages.once("created", once.append)
        messages.on("created", off.append)
        messages.on("created", last.append)
        messages.off("created", off.append)
        await client.open()
        for number in (1, 2):
            server.emit("messages created", number)
        await eventually(lambda: last == [1, 2])
        assert (once, off) == ([1], [])

    async def test_may_be_coroutine_functions_that_call(self, client, server):
        messages = client.service("messages")
        server.answers["get", "messages"] = lambda key, query: {"id": key, "whole": True}
        heard = []

        @messages.on("created")
        async def listener(message):
            heard.append(await messages.get(message["id"]))

        await client.open()
        server.emit("messages created", {"id": 1})
        await eventually(lambda: heard == [{"id": 1, "whole": True}])

    async def test_that_fail_are_logged(self, client, server, caplog):
        messages = client.service("messages")

        @messages.on("created")
        def failing(message):
            raise ValueError("boom")

        await client.open()
        server.emit("messages created", {"id": 1})
        await eventually(lambda: "failing" in caplog.text)
        await messages.find()

    async def test_that_do_not_fit(self, client):
        with pytest.raises(TypeError, match=r"listeners are called with \(data, context\)"):
            client.service("messages").on("created", lambda: None)
        with pytest.raises(TypeError, match="a listener is a function"):
            client.service("messages").on("created", 5)

    async def test_open_the_connection(self, client, server):
        client.service("messages").on("created", print)
        await eventually(lambda: server.joins)

    def test_outside_of_a_loop_they_wait_for_one(self, server):
        client = client_of(server)
        heard = []
        client.service("messages").on("created", heard.append)

        async def main():
            async with client:
                await eventually(lambda: server.joins)
                server.emit("messages created", 1)
                await eventually(lambda: heard == [1])

        asyncio.run(main())

    def test_outside_of_a_loop_they_wait_for_the_first_call(self, server):
        client = client_of(server)
        heard = []
        client.service("messages").on("created", heard.append)

        async def main():
            try:
                await client.service("messages").find()
                server.emit("messages created", 1)
                await eventually(lambda: heard == [1])
            finally:
                await client.close()

        asyncio.run(main())

    async def test_a_listener_equals_itself(self, client):
        from alula.client._client_service import _DataListener

        listener = _DataListener(print)
        assert listener == listener
        assert listener == print
        assert listener != len


class TestStreams:
    async def test_of_one_event(self, client, server):
        async with client.service("messages").events("created") as stream:
            await client.open()
            server.emit("messages removed", {"id": 1})
            server.emit("messages created", {"id": 2})
            event = await anext(stream)
        assert event == ("messages", "created", {"id": 2})
        assert (event.path, event.event, event.data) == event
        assert [event async for event in stream] == []

    async def test_of_all_events(self, client, server):
        stream = client.service("ticker").events()
        await client.open()
        server.emit("ticker created", 1)
        server.emit("ticker tick", 2)
        assert [(await anext(stream)).event for _ in range(2)] == ["created", "tick"]

    async def test_waits_for_the_next_event(self, client, server):
        stream = client.service("messages").events("created")
        waiting = asyncio.create_task(anext(stream))
        await client.open()
        await asyncio.sleep(0)
        server.emit("messages created", 1)
        assert (await waiting).data == 1

    async def test_names_are_still_a_tuple(self, client):
        events = client.service("ticker").events
        assert events == ("created", "updated", "patched", "removed")
        assert "created" in events

    async def test_a_typo_is_refused(self, client):
        with pytest.raises(ValueError, match="did you mean 'created'"):
            client.service("messages").events("creatd")

    async def test_ends_with_the_client(self, client, server):
        stream = client.service("messages").events()
        await client.open()
        server.emit("messages created", 1)
        await client.service("messages").find()  # the event came before its response
        await client.close()
        assert [event.data async for event in stream] == [1]

    async def test_says_where_too_many_waited(self, client, server, monkeypatch):
        stream = client.service("messages").events("created")
        stream._buffer = _streams.EventBuffer(2)
        await client.open()
        for n in range(4):
            server.emit("messages created", n)
        await client.service("messages").find()
        assert [(await anext(stream)).data for _ in range(2)] == [0, 1]
        with pytest.raises(EventsLost, match="over 2 events waited to be read") as caught:
            await anext(stream)
        assert caught.value.name == "EventsLost"
        server.emit("messages created", 4)
        assert (await anext(stream)).data == 4

    async def test_says_where_the_connection_broke(self, client, server):
        stream = client.service("messages").events("created")
        await client.open()
        server.emit("messages created", 1)
        assert (await anext(stream)).data == 1
        server.cut()
        with pytest.raises(EventsLost, match="the connection broke; events may be missing"):
            await anext(stream)
        server.emit("messages created", 2)
        assert (await anext(stream)).data == 2

    async def test_goes_on_where_nothing_was_lost(self, client, server):
        server.pid = "p"
        stream = client.service("messages").events("created")
        await client.open()
        server.emit("messages created", 1, "offset-1")
        assert (await anext(stream)).data == 1
        server.cut()
        await eventually(lambda: len(server.joins) == 2)
        assert server.joins[1] == {"pid": "p", "offset": "offset-1"}
        await client.open()
        server.emit("messages created", 2, "offset-2")
        assert (await anext(stream)).data == 2

    async def test_says_that_the_server_refuses(self, client, server):
        stream = client.service("messages").events("created")
        await client.open()
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        server.refusal = {"message": "not any more"}
        server.cut()
        with pytest.raises(errors.Forbidden, match="not any more"):
            await waiting

    async def test_says_that_there_is_no_connection(self, server):
        server.stop()
        async with client_of(server, connect_timeout=0.03) as client:
            with pytest.raises(NotConnected):
                await anext(client.service("messages").events())

    async def test_that_nobody_has_any_more_is_forgotten(self, client):
        client.service("messages").events("created")
        stream = client.service("messages").events("created")
        gc.collect()
        assert [*client.connection._streams["messages"]] == [stream]

    async def test_are_of_socket_io_alone(self):
        async with create_client().configure(rest("http://here")) as client:
            with pytest.raises(RuntimeError, match=r"a server sends them over socket.io"):
                client.service("messages").events("created")


class TestTheConnection:
    @pytest.mark.parametrize("url", ["localhost:3030", "ftp://here", "http://", "/api"])
    def test_needs_an_address(self, url):
        with pytest.raises(ValueError, match="the address of a server is needed"):
            socketio(url)

    @pytest.mark.parametrize("end", ["/socket.io", "?a=b", "#a"])
    def test_takes_the_address_alone(self, end):
        with pytest.raises(ValueError, match="give the address of the server alone"):
            socketio(f"http://here{end}")

    def test_keeps_credentials_out_of_texts(self):
        with pytest.raises(ValueError, match=r"socketio\(http://here\.\.\.\)"):
            socketio("http://user:secret@here")

    def test_has_options_of_its_own(self):
        with pytest.raises(ValueError, match="websocket options max_size, uri are set by"):
            socketio("http://here", websocket={"uri": "", "max_size": 1})
        with pytest.raises(ValueError, match="unknown options: retry"):
            socketio("http://here", options={"retry": 1})
        with pytest.raises(ValueError, match="a timeout is a number"):
            socketio("http://here", connect_timeout=0)

    def test_of_tls(self):
        connection = socketio("https://here:8443", query={"token": "secret"})
        assert connection._settings.url.startswith("wss://here:8443/socket.io/?token=secret&EIO=4")
        assert connection._settings.shown_url == "wss://here:8443/socket.io/"
        assert connection.base == "https://here:8443"

    async def test_is_the_one_of_its_client(self, server):
        async with client_of(server) as client:
            assert isinstance(client.connection, SocketConnection)
            assert client.rest is None
            assert repr(client) == f"the client of {server.url}"
            assert not client.connection.is_connected
            await client.open()
            assert client.connection.is_connected
            with pytest.raises(RuntimeError, match="a client has one"):
                client.configure(rest("http://there"))

    async def test_opens_again_after_its_end(self, client, server):
        await client.open()
        await client.close()
        assert not client.connection.is_connected
        await eventually(lambda: not server._open)
        await client.service("messages").find()
        assert len(server.joins) == 2
        assert server.joins == [None, None]

    async def test_calls_fail_when_it_is_closed(self, client, server):
        server.answers["create", "s"] = SILENT
        sent = asyncio.create_task(client.service("s").create({}))
        await eventually(lambda: server.calls)
        await client.close()
        with pytest.raises(errors.Unavailable, match="this client closed the connection"):
            await sent
        server.stop()
        waiting = asyncio.create_task(client.service("s").create({}))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(NotConnected, match="the client was closed"):
            await waiting

    def test_outlives_event_loops(self, server):
        client = client_of(server)

        async def main():
            await client.service("messages").find()

        asyncio.run(main())
        asyncio.run(main())

        async def end():
            await client.close()

        asyncio.run(end())
        assert len(server.calls) == 2

    async def test_by_itself(self, server):
        connection = socketio(server.url)
        await connection.open()
        assert connection.is_connected
        await connection.close()
        await socketio(server.url).close()

    async def test_leaves_nothing(self, server):
        before = asyncio.all_tasks()
        async with client_of(server) as client:
            await client.service("messages").find()
            assert len(asyncio.all_tasks()) > len(before)
        assert asyncio.all_tasks() == before

    async def test_a_client_without_one(self):
        with pytest.raises(RuntimeError, match="configure one first"):
            await create_client().open()
        async with create_client().configure(rest("http://here")) as client:
            await client.open()

    async def test_a_response_that_is_too_large(self, server):
        server.answers["find", "messages"] = "z" * 2_000
        async with client_of(server, options={"max_response_size": 1_000}) as client:
            with pytest.raises(errors.Unavailable, match="1000"):
                await client.service("messages").find()

    async def test_an_attachment_of_an_event(self, client, server):
        stream = client.service("files").events()
        await client.open()
        server.send(*frames_of(PacketType.EVENT, ["files created", {"b": b"\0"}]))
        assert (await anext(stream)).data == {"b": b"\0"}
