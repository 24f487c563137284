"""What brings a live list, in orders of events that a network seldom has."""

from __future__ import annotations

import asyncio

import pytest

from alula._context import Params
from alula.client._codec import Request
from alula.client._live_list import ListSink
from alula.client._live_stream import StreamFeed
from alula.client._socketio._live_feed import SocketFeed
from alula.client._socketio._session import Answer, SocketRequest
from alula.errors import BadGateway


class Connected:
    """A connection that answers at once, and sends events before its answer."""

    def __init__(self, early=()):
        self.early = early
        self.feeds = {}

    async def send_now(self, request):
        for feed in [*self.feeds.values()]:
            for message in self.early:
                feed.take(message)
        return Answer(None, {"rows": [], "have": "L.1"})

    def list_request(self, name, method, data, params):
        return SocketRequest(method, name, [method, name, data, params.query], repeatable=False)

    def add_list(self, path, feed):
        self.feeds[path] = feed
        return "l1"

    def remove_list(self, path, name):
        self.feeds.pop(path, None)


async def params():
    return Params()


def feed_of(connection):
    sink = ListSink(None, lambda: None)
    return sink, SocketFeed(connection, "todos", params, sink)


async def test_events_before_the_page_come_behind_it():
    sink, feed = feed_of(Connected([{"kind": "entered", "at": 0, "data": {"id": 1}}]))
    feed.joined(recovered=False)  # nothing is to be opened again yet
    await feed.open()
    assert sink.rows == [{"id": 1}]
    assert sink.next().changes[0].kind == "entered"


async def test_a_message_that_does_not_fit_ends_the_list():
    connection = Connected()
    sink, feed = feed_of(connection)
    await feed.open()
    connection.feeds["todos"].take({"kind": "moved"})
    with pytest.raises(BadGateway):
        sink.next()
    with pytest.raises(BadGateway):
        await feed.settled()
    assert connection.feeds == {}


class Streaming:
    """A connection whose streams have an empty page, and then what a test sends."""

    max_event = 1_000

    def __init__(self):
        self.takes = []

    def stream_request(self, name, params, have):
        return Request("GET", name, {})

    async def stream(self, request, take):
        self.takes.append(take)
        take(b'event: snapshot\ndata: {"rows":[]}\nid: L.1\n\n')
        await asyncio.Event().wait()


async def test_a_stream_that_is_given_up_settles_nothing():
    """Its last part may arrive after `settled` was called, but was read before."""
    connection = Streaming()
    sink = ListSink(None, lambda: None)
    feed = StreamFeed(connection, "todos", params, sink)
    await feed.open()
    settling = asyncio.ensure_future(feed.settled())
    await asyncio.sleep(0)
    connection.takes[0](b'event: entered\ndata: {"at":0,"data":{"id":1}}\n\n')
    assert not settling.done()
    assert sink.rows == [{"id": 1}]
    await settling
    assert (len(connection.takes), sink.rows) == (2, [])
    await feed.close()
