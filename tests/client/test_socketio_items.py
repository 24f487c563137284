"""The items of methods that stream over socket.io: what a client sends, and broken servers."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from tests.client.socketio_server import SILENT, ScriptedServer, frames_of
from tests.client.test_socketio_session import Client as SessionClient
from tests.waiting import eventually, settle

from alula._wire import PacketType
from alula.client import create_client, socketio
from alula.client._send_options import SendOptions
from alula.client._socketio import _arriving_items
from alula.client._socketio._session import Answer
from alula.errors import BadGateway, Conflict, Timeout, Unavailable


class Client(SessionClient):
    """A session whose owner counts how often it is told of frames."""

    told = 0

    def has_frames(self):
        self.told += 1

    def stream(self, name="k1"):
        """Call a method that streams, and return its items."""
        call_id = self.call("ask", "assistant", {}, {})
        self.receive(PacketType.ACK, [None, {"$stream": name}], call_id)
        self.session.frames.clear()
        return self.outcomes[call_id].result

    def event(self, *values):
        self.receive(PacketType.EVENT, ["stream", *values])


@pytest.fixture
def client():
    client = Client()
    client.join()
    return client


class TestASession:
    async def test_the_server_hears_of_what_was_read(self, client):
        items = client.stream()
        client.event("k1", [1])
        client.event("k1", [2, 3])
        assert await items.read() == [[1], [2, 3]]
        assert client.written() == []
        client.event("k1", [4])
        assert await items.read() == [[4]]
        assert (client.written(), client.told) == (['42["stream:more","k1",3]'], 1)
        client.event("k1", None)
        assert await items.read() == []
        assert (client.written(), client.told) == ([], 1)  # it has ended, so nobody has to know

    async def test_a_result_that_looks_like_an_open_stream_is_a_result(self, client):
        items = client.stream()
        assert client.stream() == {"$stream": "k1"}
        client.event("k1", [1])
        assert await items.read() == [[1]]

    async def test_a_part_of_many_is_read_at_once(self, client):
        items = client.stream()
        for n in range(20):
            client.event("k1", [n])
        assert len(await items.read()) == 16
        assert await items.read() == [[16], [17], [18], [19]]
        assert client.written() == ['42["stream:more","k1",16]']

    async def test_a_reader_waits_for_items(self, client):
        items = client.stream()
        reading = asyncio.ensure_future(items.read())
        await settle()
        client.event("k1", [])  # nothing
        await settle()
        assert not reading.done()
        client.event("k1", [1])
        assert await reading == [[1]]

    async def test_an_error_comes_behind_the_items(self, client):
        items = client.stream()
        client.event("k1", [1])
        client.event("k1", None, {"name": "Conflict", "code": 409, "message": "taken"})
        assert await items.read() == [[1]]
        with pytest.raises(Conflict, match="taken"):
            await items.read()

    async def test_leaving_tells_the_server_once(self, client):
        items = client.stream()
        await items.close()
        await items.close()
        assert (client.written(), client.told) == (['42["stream:end","k1"]'], 1)
        client.event("k1", [1])
        client.event("k1", None)
        assert await items.read() == []

    async def test_a_connection_that_breaks_ends_it(self, client):
        items = client.stream()
        client.event("k1", [1])
        client.session.closed("reset")
        assert await items.read() == [[1]]
        with pytest.raises(Unavailable, match="failed: reset"):
            await items.read()
        client.join()
        other = client.stream()
        await items.close()
        assert client.written() == []
        client.event("k1", [2])
        assert await other.read() == [[2]]

    async def test_pings_keep_a_reader_waiting(self, client):
        items = client.stream()
        client.session.receive("2")
        client.session.receive("2")
        assert client.written() == ["3", "3"]
        assert await items.read() == [[]]
        client.event("k1", [1])
        client.session.receive("2")
        assert await items.read() == [[1]]

    async def test_an_answer_that_nobody_waits_for_is_left(self, client):
        call_id = client.call("ask", "assistant", {}, {})
        client.session.forget(call_id)
        client.written()
        client.receive(PacketType.ACK, [None, {"$stream": "k1"}], call_id)
        assert client.written() == ['42["stream:end","k1"]']
        client.event("k1", [1])  # it was on its way

    @pytest.mark.parametrize(
        "result", [{"$stream": 1}, {"$stream": "k1", "more": 1}, ["$stream"], {}]
    )
    def test_other_results_are_no_streams(self, client, result):
        call_id = client.call("get", "messages", 1, {})
        client.receive(PacketType.ACK, [None, result], call_id)
        assert client.outcomes[call_id] == Answer(None, result)

    @pytest.mark.parametrize("values", [[], [1, [1]], [["k1"], [1]], ["k2", [1]], ["k2", None]])
    async def test_events_of_unknown_streams_are_ignored(self, client, values):
        items = client.stream()
        client.event(*values)
        client.event("k1", [1])
        assert await items.read() == [[1]]

    @pytest.mark.parametrize("batch", ["text", 1, {"a": 1}, False])
    async def test_what_is_no_list_ends_it(self, client, batch):
        items = client.stream()
        client.event("k1", batch)
        assert client.written() == ['42["stream:end","k1"]']
        with pytest.raises(BadGateway) as caught:
            await items.read()
        assert caught.value.message == "the called server sent what is no part of a stream"

    async def test_a_server_that_does_not_wait_ends_it(self, client, monkeypatch):
        monkeypatch.setattr(_arriving_items, "_MAX_WAITING", 3)
        items = client.stream()
        for n in range(10):
            client.event("k1", [n])
        assert await items.read() == [[0], [1], [2]]
        with pytest.raises(BadGateway):
            await items.read()
        assert client.written() == ['42["stream:end","k1"]']

    async def test_an_event_without_a_list_is_an_end(self, client):
        items = client.stream()
        client.event("k1")
        assert await items.read() == []


@pytest.fixture
def server():
    with ScriptedServer() as server:
        server.answers["ask", "assistant"] = {"$stream": "k1"}
        yield server


@pytest.fixture
async def assistant(server):
    async with create_client().configure(socketio(server.url, options={"timeout": 5})) as client:
        yield client.service("assistant", methods=["ask"])


class TestAConnection:
    async def test_a_connection_that_breaks_is_an_error(self, server, assistant):
        items = await assistant.ask({})
        server.emit("stream", "k1", [1])
        assert await anext(items) == 1
        server.cut()
        with pytest.raises(Unavailable) as caught:
            await anext(items)
        assert "the connection broke" in caught.value.message
        assert len([call for call in server.calls if call[0] == "ask"]) == 1

    async def test_a_silent_server_is_a_timeout(self, server, assistant, monkeypatch):
        monkeypatch.setattr(SendOptions, "silence", 0.2)
        items = await assistant.ask({})
        with pytest.raises(Timeout):
            await anext(items)
        await asyncio.to_thread(server.ping)
        assert ["stream:end", "k1"] in server.calls

    async def test_pings_break_the_silence(self, server, assistant, monkeypatch):
        monkeypatch.setattr(SendOptions, "silence", 0.5)
        async with aclosing(await assistant.ask({})) as items:
            reading = asyncio.ensure_future(anext(items))
            for _ in range(4):
                await asyncio.sleep(0.2)
                await asyncio.to_thread(server.ping)
            server.emit("stream", "k1", [1])
            assert await reading == 1

    async def test_a_late_answer_is_left(self, server, assistant):
        server.answers["ask", "assistant"] = SILENT
        with pytest.raises(Timeout):
            await assistant.ask({}, connection={"timeout": 0.1})
        server.send(*frames_of(PacketType.ACK, [None, {"$stream": "k9"}], 1))
        await asyncio.to_thread(server.ping)
        await eventually(lambda: ["stream:end", "k9"] in server.calls)

    async def test_a_caller_that_is_cancelled_with_the_answer_leaves(self, server, assistant):
        await assistant.service.connection.open()
        session = assistant.service.connection._socket._session
        send, calls = session.send, []

        def cancelling(request, encoded, settle):
            def settle_and_cancel(outcome):
                settle(outcome)
                calls[0].cancel()

            send(request, encoded, settle_and_cancel)

        session.send = cancelling
        calls.append(asyncio.ensure_future(assistant.ask({})))
        with pytest.raises(asyncio.CancelledError):
            await calls[0]
        await eventually(lambda: ["stream:end", "k1"] in server.calls)
        server.answers["get", "assistant"] = 1
        calls[0] = asyncio.ensure_future(assistant.get(1))
        with pytest.raises(asyncio.CancelledError):
            await calls[0]

    async def test_a_list_that_streams_has_no_rows(self, server, assistant):
        server.answers["live", "assistant"] = {"$stream": "k2"}
        with pytest.raises(BadGateway):
            await assistant.live().__aenter__()
        await eventually(lambda: ["stream:end", "k2"] in server.calls)
