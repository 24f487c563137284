"""The blocking client over socket.io: the same, with threads that end with it."""

from __future__ import annotations

import sys
import threading
import time

import pytest
from tests.client.socketio_server import SILENT, ScriptedServer, breaks_of

from alula import errors
from alula.client import (
    AbortController,
    Aborted,
    EventsLost,
    NotConnected,
    SyncClient,
    authentication,
    create_client,
    create_sync_client,
    socketio,
)
from alula.client import _fetch as fetch_module
from alula.client import _retries as retries_module
from alula.client._socketio import _connection as connection_module
from alula.client._socketio import _streams
from alula.client._socketio._listeners import ListenerThread


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(retries_module, "_FIRST_DELAY", 0.002)
    monkeypatch.setattr(retries_module, "_LONGEST_DELAY", 0.02)


@pytest.fixture
def server():
    with ScriptedServer() as server:
        yield server


def client_of(server, **given) -> SyncClient:
    return create_sync_client().configure(socketio(server.url, **given))


@pytest.fixture
def client(server):
    with client_of(server) as client:
        yield client


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


class TestCalls:
    def test_results_and_errors(self, client, server):
        server.answers["find", "messages"] = [{"id": 1}]
        server.answers["create", "messages"] = errors.Conflict("taken")
        messages = client.service("messages", methods=["archive"])
        assert messages.find(query={"a": 1}) == [{"id": 1}]
        assert messages.archive({"id": 1}) is None
        with pytest.raises(errors.Conflict):
            messages.create({})

    def test_time_limits(self, client, server):
        server.answers["create", "messages"] = SILENT
        client.open()
        with pytest.raises(errors.Timeout, match=r"took longer than 0.02 seconds"):
            client.service("messages").create({}, connection={"timeout": 0.02})

    def test_no_server(self, server):
        server.stop()
        client = client_of(server, connect_timeout=0.03)
        with client, pytest.raises(NotConnected, match=r"in 0.03 seconds; tried"):
            client.open()

    def test_are_aborted_from_another_thread(self, client, server):
        server.answers["create", "messages"] = SILENT
        controller = AbortController()
        timer = threading.Timer(0.02, controller.abort)
        timer.start()
        with pytest.raises(Aborted):
            client.service("messages").create({}, connection={"signal": controller.signal})
        timer.join()

    def test_after_a_break(self, client, server):
        server.tokens = {"t1": "ada"}
        client.configure(authentication())
        client.login(strategy="local", password="t1")
        breaks = breaks_of(client)
        server.cut()
        until(lambda: breaks)
        client.service("messages").create({})
        assert [*server.users.values()] == ["ada"]


class TestListeners:
    def test_may_call_services(self, client, server):
        messages = client.service("messages")
        server.answers["get", "messages"] = lambda key, query: {"id": key}
        heard = []
        # First: a listener of a service connects in the background.
        client.on("connect", heard.append)
        messages.on("created", lambda message: heard.append(messages.get(message["id"])))
        client.open()
        server.emit("messages created", {"id": 1})
        until(lambda: heard == [False, {"id": 1}])

    def test_wait_for_a_sign_in(self, client, server):
        client.configure(authentication())
        client.service("messages").find()
        is_signing_in, heard = threading.Event(), []

        def sign_in(data, query):
            is_signing_in.set()
            time.sleep(0.02)
            return {"accessToken": "t1"}

        def listener(message):
            is_signing_in.wait(30)
            client.service("secrets").find()
            heard.append(client.authentication.access_token)

        server.answers["create", "authentication"] = sign_in
        client.service("messages").on("created", listener)
        server.emit("messages created", 1)
        client.login(strategy="local")
        until(lambda: heard == ["t1"])

    def test_that_fail_are_logged(self, client, server, caplog):
        messages = client.service("messages")

        @messages.on("created")
        async def listener(message, context):
            raise AssertionError

        heard = []
        messages.on("removed", heard.append)
        client.open()
        server.emit("messages created", 1)
        server.emit("messages removed", 2)
        until(lambda: heard == [2])
        assert "is asynchronous" in caplog.text

    def test_that_are_too_slow(self, caplog, monkeypatch):
        listeners = ListenerThread()
        listeners._buffer = _streams.EventBuffer(1)
        go_on, heard = threading.Event(), []
        started = threading.Event()
        listeners.call(lambda: (started.set(), go_on.wait(30)))
        started.wait(30)
        for n in range(3):
            listeners.call(lambda n=n: heard.append(n))
        go_on.set()
        until(lambda: "listeners are too slow: over 1 events waited" in caplog.text)
        assert heard == [0]
        listeners.close()

    def test_go_on_after_an_end(self):
        listeners, heard = ListenerThread(), []
        for n in range(2):
            listeners.call(lambda n=n: heard.append(n))
            until(lambda n=n: len(heard) == n + 1)
            listeners.close()
            until(lambda: not listeners._is_running)
        assert heard == [0, 1]

    def test_may_close_the_client(self, server):
        client = client_of(server)
        closed = threading.Event()
        client.service("messages").on("created", lambda data: (client.close(), closed.set()))
        client.open()
        server.emit("messages created", 1)
        assert closed.wait(30)


class TestStreams:
    def test_block(self, client, server):
        with client.service("messages").events("created") as stream:
            client.open()
            server.emit("messages created", 1)
            server.emit("messages removed", 1)
            assert next(stream).data == 1
            with pytest.raises(errors.Timeout, match=r"no event arrived in 0\.01 seconds"):
                stream.get(timeout=0.01)
            timer = threading.Timer(0.02, server.emit, ["messages created", 2])
            timer.start()
            assert stream.get(30).data == 2
            timer.join()
        assert list(stream) == []

    def test_say_where_the_connection_broke(self, client, server):
        stream = client.service("messages").events()
        client.open()
        server.cut()
        with pytest.raises(EventsLost):
            next(stream)
        server.emit("messages created", 2)
        assert next(stream).data == 2

    def test_end_with_the_client(self, client, server):
        stream = client.service("messages").events()
        client.open()
        waiting = threading.Thread(target=list, args=[stream])
        waiting.start()
        client.close()
        waiting.join(30)
        assert not waiting.is_alive()
        with pytest.raises(EventsLost, match="its client was closed"):
            stream.get()


class TestTheEnd:
    def test_leaves_no_thread(self, server):
        before = set(threading.enumerate())
        with client_of(server) as client:
            client.service("messages").on("created", print)
            client.service("messages").find()
            assert set(threading.enumerate()) - before
            assert client.connection.is_connected
        until(lambda: set(threading.enumerate()) <= before)
        client.close()

    def test_the_next_call_opens_it_again(self, client, server):
        client.service("messages").find()
        client.close()
        client.service("messages").find()
        assert len(server.joins) == 2


class TestWhereItCannotRun:
    @pytest.mark.parametrize("create", [create_client, create_sync_client])
    def test_in_a_browser(self, create, monkeypatch):
        monkeypatch.setattr(connection_module, "in_browser", lambda: True)
        with pytest.raises(TypeError, match="needs the sockets of an operating system; use rest"):
            create().configure(socketio("http://here"))
        assert fetch_module.in_browser() is False

    def test_without_the_library(self, monkeypatch):
        monkeypatch.delitem(sys.modules, "alula.client._socketio._websocket", raising=False)
        monkeypatch.setitem(sys.modules, "websockets.asyncio.client", None)
        with pytest.raises(ImportError, match=r"install it with: pip install 'alula\[realtime\]'"):
            create_client().configure(socketio("http://here"))
