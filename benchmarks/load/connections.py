"""Opens HTTP connections that then are idle: ``python -m benchmarks.load.connections URL``.

Each line of input is ``connect N`` or ``count``. ``connect`` opens connections until there are N,
sends one request on each, and answers with N once all have their response. ``count`` answers how
many of them the server has not closed.
"""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import urlsplit

_AT_ONCE = 100


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _open(host: str, port: int, path: str) -> Connection:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise SystemExit(f"bench: {path} did not answer: {head!r}")
    length = next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)
    await reader.readexactly(int(length.partition(b":")[2]))
    return reader, writer


async def main(url: str) -> None:
    """Do what standard input says, until it ends."""
    place = urlsplit(url)
    connections: list[Connection] = []
    for line in sys.stdin:
        if line == "count\n":
            # Reading the input blocks the loop, so it has yet to see what was closed.
            await asyncio.sleep(0.1)
            print(sum(not reader.at_eof() for reader, _ in connections), flush=True)
            continue
        number = int(line.removeprefix("connect "))
        while (missing := number - len(connections)) > 0:
            opened = (
                _open(place.hostname or "", place.port or 0, place.path)
                for _ in range(min(_AT_ONCE, missing))
            )
            connections += await asyncio.gather(*opened)
        print(len(connections), flush=True)


asyncio.run(main(sys.argv[1]))
