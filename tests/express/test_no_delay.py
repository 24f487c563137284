"""Answers go out at once: no part waits until the client has acknowledged the one before it."""

import asyncio
import socket

from alula.express import express


async def test_connections_send_each_part_at_once():
    app = express()
    found = []

    def note(req, res):
        (connection,) = server._http_server.state.connections
        accepted = connection.transport.get_extra_info("socket")
        found.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        res.end()

    app.get("/", note)
    async with await app.listen(0) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        await writer.wait_closed()
    assert found
    assert all(found)
