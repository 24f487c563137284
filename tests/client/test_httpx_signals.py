"""Giving up a blocking call of httpx2: its connection is closed."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import httpx2
import pytest
from tests.client.raw_server import CLOSE, STALL, answer, raw_server

from alula import errors
from alula.client import AbortController, Aborted, create_sync_client, rest

SOON = 30.0


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


def test_calls_with_a_signal_use_the_connections_of_others():
    controller = AbortController()
    with raw_server(*[answer([n]) for n in range(4)]) as server, items_of(server.url) as items:
        items.find()
        items.find(connection={"signal": controller.signal})
        items.find(connection={"signal": controller.signal, "extensions": {"sni_hostname": "a"}})
        items.find()
        assert server.connections == 1


def test_a_client_of_the_users_cannot_do_it():
    signal = AbortController().signal
    refused = pytest.raises(TypeError, match="a signal cannot abort")
    with httpx2.Client() as given, items_of("http://here", given) as items, refused:
        items.find(connection={"signal": signal})
