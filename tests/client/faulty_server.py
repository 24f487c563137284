"""A quick server whose paths say what goes wrong; it ends with its standard input.

``python -m tests.client.faulty_server`` prints its address.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

OK = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\n{"id":5}'
ERROR = b'{"name":"NotFound","code":404,"message":"none"}'
HEAD = b"HTTP/1.1 %d Told\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
LARGE = b'"' + b"x" * 100_000 + b'"'
ANSWERS = {
    b"/ok": OK,
    b"/missing": HEAD % (404, len(ERROR)) + ERROR,
    b"/half": HEAD % (200, 100) + b'{"a":',
    b"/large": HEAD % (200, len(LARGE)) + LARGE,
    b"/stall": b"",
    b"/closed": b"",
    b"/reset": b"",
}


class Faulty(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        if self._data.endswith(b"\r\n\r\n"):
            path, self._data = self._data.split(b" ", 2)[1], b""
            self._transport.write(ANSWERS[path])
            if path in {b"/half", b"/closed"}:
                self._transport.close()
            elif path == b"/reset":
                self._transport.abort()


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Faulty, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
