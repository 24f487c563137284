"""Giving up a blocking call of httpx2: its connection is closed under it."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import httpx2
import pytest
from tests.client.raw_server import CLOSE, STALL, answer, raw_server

from alula import errors
from alula.client import AbortController, Aborted, create_sync_client, rest
from alula.client._httpx import _Connections, _Deadline, _Deadlines

SOON = 30.0
CONNECTED, ENCRYPTED = "connection.connect_tcp.complete", "connection.start_tls.complete"


@contextmanager
def items_of(url, *given):
    with create_sync_client().configure(rest(url).httpx(*given)) as client:
        yield client.service("items")


def aborting(server, controller):
    """Abort from another thread as soon as the server has stalled."""

    def abort():
        server.stalled.wait(SOON)
        controller.abort()

    thread = threading.Thread(target=abort)
    thread.start()
    return thread


def test_what_ends_with_its_connection_is_not_taken_for_whole():
    controller = AbortController()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[1]"
    with raw_server((head, STALL)) as server, items_of(server.url) as items:
        thread = aborting(server, controller)
        with pytest.raises(Aborted):
            items.find(connection={"signal": controller.signal})
        thread.join()


def test_what_ends_with_its_connection_at_a_timeout_is_not_taken_for_whole():
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[1]"
    for signal in (None, AbortController().signal):
        late = pytest.raises(errors.Timeout, match=r"longer than 0\.3 seconds")
        with raw_server((head, STALL)) as server, items_of(server.url) as items, late:
            items.find(connection={"timeout": 0.3, "signal": signal})


def test_without_a_timeout_a_call_takes_as_long_as_it_takes():
    with raw_server(answer([1]), answer([2])) as server, items_of(server.url) as items:
        signal = AbortController().signal
        assert items.find(connection={"timeout": None, "signal": signal}) == [1]
        assert items.find(connection={"timeout": None}) == [2]


def test_other_failures_stay():
    controller = AbortController()
    with raw_server(answer([1]), CLOSE) as server, items_of(server.url) as items:
        assert items.find(connection={"signal": controller.signal}) == [1]
        with pytest.raises(errors.Unavailable):
            items.find(connection={"signal": controller.signal})


def test_other_calls_keep_their_connection():
    controller = AbortController()
    with raw_server(*[answer([n]) for n in range(4)]) as server, items_of(server.url) as items:
        items.find()
        items.find(connection={"signal": controller.signal})
        items.find(connection={"signal": controller.signal, "extensions": {"sni_hostname": "a"}})
        items.find()
        assert server.connections == 3


def test_a_client_of_the_users_cannot_do_it():
    signal = AbortController().signal
    refused = pytest.raises(TypeError, match="a signal cannot abort")
    with httpx2.Client() as given, items_of("http://here", given) as items, refused:
        items.find(connection={"signal": signal})


class TestConnections:
    @pytest.fixture
    def sockets(self):
        ours, theirs = socket.socketpair()
        theirs.settimeout(SOON)
        with ours, theirs:
            yield ours, theirs

    def told(self, sock):
        return {"return_value": SimpleNamespace(get_extra_info=lambda _: sock)}

    @pytest.mark.parametrize("event", [CONNECTED, ENCRYPTED])
    @pytest.mark.parametrize("first", ["connect", "abort"])
    def test_closes_the_connection(self, sockets, event, first):
        ours, theirs = sockets
        connections = _Connections()
        steps = [lambda: connections.trace(event, self.told(ours)), connections.abort]
        for step in steps if first == "connect" else reversed(steps):
            step()
        assert theirs.recv(1) == b""
        assert connections.aborted

    def test_does_not_mind_one_that_is_closed(self, sockets):
        ours, _ = sockets
        connections = _Connections()
        connections.trace("connection.connect_tcp.started", {})
        connections.trace(CONNECTED, self.told(ours))
        ours.close()
        connections.abort()


class TestDeadlines:
    """One thread per client closes the connections of requests whose time is over."""

    @pytest.fixture
    def deadlines(self):
        deadlines = _Deadlines()
        yield deadlines
        deadlines.close()

    def started(self, deadlines, seconds):
        deadline = _Deadline(seconds, _Connections())
        deadlines.add(deadline)
        return deadline

    def ended(self, thread):
        thread.join(SOON)
        return not thread.is_alive()

    def test_many_requests_share_a_thread(self, deadlines):
        first = self.started(deadlines, 60.0)  # a thread that finds nothing to watch ends
        threads = set()
        for _ in range(100):
            deadline = self.started(deadlines, 60.0)
            threads.add(deadlines._thread)
            deadlines.remove(deadline)
        deadlines.remove(first)
        assert len(threads) == 1

    def test_an_earlier_deadline_wakes_it(self, deadlines):
        late = self.started(deadlines, 60.0)
        early = self.started(deadlines, 0.05)
        until = time.monotonic() + SOON
        while not early.expired:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert not late.expired
        deadlines.remove(late)

    def test_what_has_ended_does_not_expire(self, deadlines):
        deadline = self.started(deadlines, 0.05)
        thread = deadlines._thread
        deadlines.remove(deadline)
        assert self.ended(thread)
        assert not deadline.expired

    def test_it_ends_with_the_last_request_and_begins_again(self, deadlines):
        for _ in range(2):
            deadline = self.started(deadlines, 0.1)
            assert self.ended(deadlines._thread)
            assert deadline.expired

    def test_closing_ends_it(self, deadlines):
        deadlines.remove(self.started(deadlines, 60.0))
        thread = deadlines._thread
        deadlines.close()
        assert self.ended(thread)
