"""Opens HTTP connections that then are idle: ``python -m benchmarks.load.connections URL``.

Each line of input is ``connect N``. It opens connections until there are N, sends one request on
each, and answers with N once all have their response.
"""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import urlsplit

_AT_ONCE = 100


async def _open(host: str, port: int, path: str) -> asyncio.StreamWriter:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise SystemExit(f"bench: {path} did not answer: {head!r}")
    length = next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)
    await reader.readexactly(int(length.partition(b":")[2]))
    return writer


async def main(url: str) -> None:
    """Do what standard input says, until it ends."""
    place = urlsplit(url)
    writers: list[asyncio.StreamWriter] = []
    for line in sys.stdin:
        number = int(line.removeprefix("connect "))
        while (missing := number - len(writers)) > 0:
            opened = (
                _open(place.hostname or "", place.port or 0, place.path)
                for _ in range(min(_AT_ONCE, missing))
            )
            writers += await asyncio.gather(*opened)
        print(len(writers), flush=True)


asyncio.run(main(sys.argv[1]))
