"""What tests/conftest.py does for all tests."""

from __future__ import annotations

import asyncio
import socket

import pytest


async def test_a_cancelled_attempt_to_connect_closes_its_socket():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = server.getsockname()
        with socket.create_connection(address):  # takes the only place in the queue
            waiting = socket.socket()
            waiting.setblocking(False)
            attempt = asyncio.create_task(asyncio.get_running_loop().sock_connect(waiting, address))
            await asyncio.sleep(0)
            attempt.cancel()
            with pytest.raises(asyncio.CancelledError):
                await attempt
    assert waiting.fileno() == -1
