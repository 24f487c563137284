"""What strangers see where the error of another server escapes from a hook of this one."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager

import pytest
from tests.client.kinds import Kind
from tests.client.raw_server import CLOSE, answer, raw_server

from alula import App
from alula.adapters.memory import MemoryService
from alula.client import create_client, rest
from alula.express import error_handler, express
from alula.express import rest as serve_rest

KEY = "s3cret"
IN_PAGES = "10.0.0.7"
HOSTILE = {
    "set-cookie": "session=theirs",
    "access-control-allow-origin": "*",
    "x-powered-by": "somebody",
    "content-type": "text/html",
    "location": f"https://evil.example/?apiKey={KEY}",
}
PASSING = {"retry-after": "7", "allow": "GET", "www-authenticate": "Basic"}
CHUNKED = (
    b"HTTP/1.1 500 Told\r\ntransfer-encoding: chunked\r\nset-cookie: a=b\r\n"
    b"content-type: text/html\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
)
ASYNCHRONOUS = [Kind(library, synchronous=False) for library in ("fetch", "httpx", "aiohttp")]


@asynccontextmanager
async def gateway(kind, upstream):
    """Serve an application with a hook that calls another server; yield what asks it."""
    async with kind.client(upstream, timeout=30) as other:
        app = express(App())
        app.configure(serve_rest())
        app.use("orders", MemoryService())

        async def check_stock(context):
            await other.service("stock").find(query={"apiKey": KEY})

        app.service("orders").hooks(before={"find": [check_stock]})
        app.use(error_handler())
        async with await app.listen(0) as server:
            yield server.port


async def ask(port, accept="application/json"):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET /orders HTTP/1.1\r\nhost: here\r\naccept: {accept}\r\nconnection: close\r\n\r\n"
    writer.write(head.encode())
    answered = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    head, _, body = answered.decode().partition("\r\n\r\n")
    first, *lines = head.lower().split("\r\n")
    return int(first.split()[1]), [line.partition(": ")[::2] for line in lines], body


def every(value, status, **headers):
    return answer(
        body=value if isinstance(value, bytes) else json.dumps(value).encode(),
        status=status,
        **{
            name.replace("-", "_"): each for name, each in {**HOSTILE, **PASSING, **headers}.items()
        },
    )


def check_head(headers, body, content_type):
    """Each header is there once, and nothing of the other server but what may pass."""
    sent = dict(headers)
    assert len(sent) == len(headers)
    theirs = set(HOSTILE) | {"transfer-encoding"}
    assert not (set(sent) - {"content-type"}) & theirs
    assert sent["content-type"] == f"{content_type}; charset=utf-8"
    assert sent["content-length"] == str(len(body.encode()))
    for name, value in PASSING.items():
        assert sent.get(name, value.lower()) == value.lower()


UPSTREAMS = {
    "an error of the interface": (
        every({"name": "Conflict", "message": "taken", "code": 409, "data": {"a": 1}}, 409),
        (409, "taken"),
    ),
    "JSON of its own": (
        every({"error": IN_PAGES, "trace": f"http://{IN_PAGES}/x"}, 400),
        (400, "the server responded with 400"),
    ),
    "the page of a proxy": (
        every(f"<h1>{IN_PAGES}</h1>".encode(), 502),
        (502, "the called server responded with 502, not JSON"),
    ),
    "a page with 200": (
        every(f"<h1>{IN_PAGES}".encode(), 200),
        (502, "the called server responded with 200, not JSON"),
    ),
    "chunks": (CHUNKED, (500, "the called server responded with 500, not JSON")),
    "a redirect": (every({}, 302), (502, "the called server responded with a redirect")),
    "nothing": (
        CLOSE,
        (503, "the called server cannot be reached, or the connection broke"),
    ),
}


@pytest.mark.parametrize("kind", ASYNCHRONOUS, ids=str)
@pytest.mark.parametrize(("step", "shown"), UPSTREAMS.values(), ids=UPSTREAMS)
async def test_strangers_see_neither_its_headers_nor_its_address(kind, step, shown, caplog):
    caplog.set_level(logging.DEBUG, logger="alula")
    # Twice each: once for JSON and once for a page; and a `find` may be sent again.
    with raw_server(*[step] * 4) as upstream:
        async with gateway(kind, upstream.url) as port:
            for accept in ("application/json", "text/html"):
                status, headers, body = await ask(port, accept)
                assert (status, shown[1] in body) == (shown[0], True)
                check_head(headers, body, accept)
                for secret in (KEY, upstream.url.removeprefix("http://"), IN_PAGES):
                    assert secret not in f"{headers} {body}"
    assert KEY not in caplog.text


async def test_a_slow_server():
    async def stall(reader, writer):
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(stall, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    app = express(App())
    app.configure(serve_rest())
    client = create_client().configure(rest(url).fetch(options={"timeout": 0.2}))
    app.use("stock", client.service("stock").service)
    app.use(error_handler(logger=False))
    async with listening, client, await app.listen(0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"GET /stock?apiKey={KEY} HTTP/1.0\r\nhost: here\r\n\r\n".encode())
        answered = (await asyncio.wait_for(reader.read(), 30)).decode()
        writer.close()
    assert " 408 " in answered.partition("\r\n")[0]
    assert "the called server took longer than 0.2 seconds" in answered
    assert KEY not in answered
    assert url not in answered
