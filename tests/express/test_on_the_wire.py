"""Bodies, streams, files and errors over real connections, byte by byte."""

from __future__ import annotations

import asyncio
import gzip
import json as stdlib
from contextlib import asynccontextmanager

import anyio
import pytest

from alula import App
from alula.express import (
    compression,
    cors,
    error_handler,
    express,
    json,
    not_found,
    rest,
    serve_static,
    urlencoded,
)

SECONDS = 30


class Notes:
    """Keeps what arrives."""

    def __init__(self):
        self.created = []

    async def find(self, params):
        return self.created

    async def create(self, data, params):
        self.created.append(data)
        return data


class Endless:
    """A stream without an end, which tells when it was closed."""

    def __init__(self):
        self.closed = asyncio.Event()

    async def parts(self):
        try:
            while True:
                yield b"x" * 1000
                await anyio.sleep(0.001)
        finally:
            self.closed.set()


@pytest.fixture
async def served(request, tmp_path):
    """A server with everything in it, on either of the parsers that uvicorn has."""
    (tmp_path / "a.txt").write_text("0123456789")
    (tmp_path / "big.txt").write_bytes(b"0123456789" * 30_000)
    (tmp_path / ".env").write_text("secret")
    app = express(App())
    app.notes, app.endless = Notes(), Endless()
    app.use(cors(origins=["https://app.example"]))
    app.use(compression())
    app.use([json(limit="10kb"), urlencoded(limit="10kb")])
    app.configure(rest())
    app.use("notes", app.notes)
    app.get("/stream", lambda req, res: res.type("text").send(three_parts()))
    app.get("/endless", lambda req, res: res.send(app.endless.parts()))
    app.get("/broken", lambda req, res: res.send(broken_stream()))
    app.use("/files", serve_static(tmp_path))
    app.use(not_found())
    app.use(error_handler(logger=False))
    server = await app.listen(0)
    yield app, server
    await server.close()


async def three_parts():
    for part in ("one ", "two ", "three"):
        yield part


async def broken_stream():
    yield b"begun"
    raise OSError("no disk")


class Wire:
    """One connection, on which a test writes and reads what it wants."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def write(self, *parts):
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def answer(self, *, head_only=False):
        """Return status, headers and body of the next answer."""
        with anyio.fail_after(SECONDS):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            pairs = (line.split(": ", 1) for line in lines)
            headers = {name.lower(): value for name, value in pairs}
            return int(first.split()[1]), headers, b"" if head_only else await self._body(headers)

    async def _body(self, headers):
        if "chunked" not in headers.get("transfer-encoding", ""):
            return await self.reader.readexactly(int(headers.get("content-length", 0)))
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()
        return body

    async def is_closed(self):
        with anyio.fail_after(SECONDS):
            return await self.reader.read() == b""


@asynccontextmanager
async def wire(server):
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


def head(line, *headers):
    return "\r\n".join([f"{line} HTTP/1.1", "Host: a", *headers, "", ""]).encode("latin-1")


def chunks(*parts):
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


POST = ("POST /notes", "Content-Type: application/json")
CHUNKED = "Transfer-Encoding: chunked"
END = b"0\r\n\r\n"


async def get(server, path, *headers, method="GET"):
    async with wire(server) as line:
        await line.write(head(f"{method} {path}", *headers))
        return await line.answer(head_only=method == "HEAD")


# -- bodies ---------------------------------------------------------------------------------------


async def test_a_body_in_chunks(served):
    app, server = served
    async with wire(server) as line:
        await line.write(head(*POST, CHUNKED), chunks(b'{"a"'), chunks(b":1", b"}"), END)
        assert (await line.answer())[::2] == (201, b'{"a":1}')
    assert app.notes.created == [{"a": 1}]


async def test_several_requests_on_one_connection_with_errors_among_them(served):
    app, server = served
    bodies = {b'{"a":1}': 201, b'{"a":': 400, b"3": 400, b"[2]": 201}
    async with wire(server) as line:
        for body, status in bodies.items():
            await line.write(head(*POST, f"Content-Length: {len(body)}"), body)
            assert (await line.answer())[0] == status
        await line.write(head("GET /nope"))
        assert (await line.answer())[0] == 404
    assert app.notes.created == [{"a": 1}, [2]]


async def test_a_body_over_the_limit_is_refused_by_its_length(served):
    app, server = served
    async with wire(server) as line:
        await line.write(head(*POST, "Content-Length: 99999999"), b'{"a":1')
        status, _, body = await line.answer()
    assert (status, stdlib.loads(body)["className"]) == (413, "payload-too-large")
    assert app.notes.created == []


async def test_a_body_over_the_limit_is_refused_without_a_length(served):
    app, server = served
    async with wire(server) as line:
        await line.write(head(*POST, CHUNKED))
        for _ in range(11):
            await line.write(chunks(b" " * 1024))
        status, _, body = await line.answer()
    assert (status, stdlib.loads(body)["className"]) == (413, "payload-too-large")
    assert app.notes.created == []


async def test_a_packed_body_over_the_limit_is_refused(served):
    app, server = served
    bomb = gzip.compress(b" " * 5_000_000)
    sent = head(*POST, "Content-Encoding: gzip", f"Content-Length: {len(bomb)}")
    async with wire(server) as line:
        await line.write(sent, bomb)
        assert (await line.answer())[0] == 413
    assert app.notes.created == []


@pytest.mark.parametrize(
    "begun",
    [
        head(*POST, "Content-Length: 100") + b'{"a":1}',
        head(*POST, "Content-Length: 100"),
        head(*POST, CHUNKED) + chunks(b'{"a":1}'),
        head(*POST, CHUNKED),
        head("POST /notes", "Content-Type: text/plain", "Content-Length: 100"),
        head(
            "POST /notes", "Content-Length: 100", "Content-Type: application/x-www-form-urlencoded"
        )
        + b"a=1",
    ],
)
async def test_a_client_that_goes_away_in_mid_request_calls_nothing(served, begun):
    app, server = served
    async with wire(server) as line:
        await line.write(begun)
        await anyio.sleep(0.02)
    await anyio.sleep(0.05)
    assert app.notes.created == []
    assert (await get(server, "/notes"))[::2] == (200, b"[]")


async def test_a_body_of_a_type_that_nobody_takes(served):
    app, server = served
    async with wire(server) as line:
        await line.write(
            head("POST /notes", "Content-Type: text/csv", CHUNKED), chunks(b"a,b"), END
        )
        status, _, body = await line.answer()
    assert (status, stdlib.loads(body)["className"]) == (415, "unsupported-media-type")
    assert app.notes.created == []


async def test_no_body_at_all(served):
    app, server = served
    for headers in ([], ["Content-Length: 0"], ["Content-Type: application/json"]):
        assert (await get(server, "/notes", *headers, method="POST"))[0] == 201
    async with wire(server) as line:
        await line.write(head(*POST, CHUNKED), END)
        assert (await line.answer())[0] == 201
    assert app.notes.created == [{}, {}, {}, {}]


async def test_expect_100_continue_gets_a_100(served):
    _, server = served
    async with wire(server) as line:
        await line.write(head(*POST, "Content-Length: 2", "Expect: 100-continue"))
        assert await line.reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        await line.reader.readuntil(b"\r\n")
        await line.write(b"[]")
        assert (await line.answer())[0] == 201


# -- answers --------------------------------------------------------------------------------------


async def test_a_stream_is_sent_in_chunks(served):
    _, server = served
    status, headers, body = await get(server, "/stream")
    assert (status, headers["transfer-encoding"], body) == (200, "chunked", b"one two three")


async def test_a_packed_stream(served):
    _, server = served
    status, headers, body = await get(server, "/stream", "Accept-Encoding: gzip")
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert gzip.decompress(body) == b"one two three"


@pytest.mark.parametrize("accept", ["Accept-Encoding: gzip", "Accept: */*"])
async def test_an_endless_stream_ends_when_its_client_leaves(served, accept):
    app, server = served
    async with wire(server) as line:
        await line.write(head("GET /endless", accept))
        await line.reader.readexactly(300)
    with anyio.fail_after(SECONDS):
        await app.endless.closed.wait()


async def test_a_stream_that_fails_is_cut_off_so_that_its_client_notices(served):
    _, server = served
    async with wire(server) as line:
        await line.write(head("GET /broken"))
        with anyio.fail_after(SECONDS):
            rest_of_it = await line.reader.read()
    assert b"begun" in rest_of_it
    assert END not in rest_of_it


@pytest.mark.parametrize(
    "path", ["/notes", "/stream", "/endless", "/files/a.txt", "/files/big.txt", "/nope"]
)
async def test_head_has_no_body_and_the_connection_stays(served, path):
    _, server = served
    async with wire(server) as line:
        await line.write(head(f"HEAD {path}", "Accept-Encoding: gzip"))
        status, headers, _ = await line.answer(head_only=True)
        assert status == (404 if path == "/nope" else 200)
        await line.write(head("GET /files/a.txt"))
        assert (await line.answer())[2] == b"0123456789", headers


async def test_errors_are_the_same_everywhere(served):
    _, server = served
    status, headers, body = await get(server, "/nope", "Origin: https://app.example")
    assert (status, stdlib.loads(body)["name"]) == (404, "NotFound")
    assert headers["access-control-allow-origin"] == "https://app.example"
    status, headers, body = await get(server, "/nope", "Accept: text/html")
    assert (status, headers["content-type"]) == (404, "text/html; charset=utf-8")
    status, headers, _ = await get(server, "/notes", method="BREW")
    assert status in {400, 405}, "httptools refuses the verb itself"
    if status == 405:
        assert headers["allow"] == "GET, HEAD, POST"


# -- files ----------------------------------------------------------------------------------------


async def test_files(served):
    _, server = served
    assert (await get(server, "/files/a.txt"))[::2] == (200, b"0123456789")
    assert len((await get(server, "/files/big.txt"))[2]) == 300_000
    status, headers, body = await get(server, "/files/big.txt", "Range: bytes=299998-")
    assert (status, headers["content-range"], body) == (206, "bytes 299998-299999/300000", b"89")
    tag = (await get(server, "/files/a.txt"))[1]["etag"]
    assert (await get(server, "/files/a.txt", f"If-None-Match: {tag}"))[0] == 304


@pytest.mark.parametrize(
    "path",
    [
        "/files/.env",
        "/files/%2eenv",
        "/files/../../../../../../etc/passwd",
        "/files/..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/files/%2e%2e/%2e%2e/etc/passwd",
        "/files//etc/passwd",
        "/files/..\\..\\etc\\passwd",
        "/files/a.txt%00.html",
    ],
)
async def test_no_other_files(served, path):
    _, server = served
    status, _, body = await get(server, path)
    assert status == 404
    assert b"secret" not in body
    assert b"root:" not in body


async def test_a_client_that_leaves_in_the_middle_of_a_file_harms_nobody(served):
    _, server = served
    async with wire(server) as line:
        await line.write(head("GET /files/big.txt"))
        await line.reader.readexactly(1000)
    assert (await get(server, "/files/a.txt"))[0] == 200
