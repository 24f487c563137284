"""The work that servers of a "same work" row share: checked with what has no framework."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import httpx2
import pytest
from benchmarks.exchanges import SAME_WORK, check_exchanges, creation
from benchmarks.servers import same_work
from benchmarks.servers.alula_app import app
from benchmarks.servers.messages import MOST, Message, store
from pydantic import ValidationError


class Handler(BaseHTTPRequestHandler):
    """The shared functions, behind the server of the standard library."""

    content_type = same_work.JSON
    ignores_queries = False

    def respond(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        try:
            data = same_work.parse_body(self.rfile.read(length), self.headers.get("content-type"))
            status, body = 200, json.dumps(self.result(data)).encode()
        except same_work.ServiceError as error:
            status, body = error.code, error.to_json()
        self.send_body(status, body)

    def send_json(self, status: int, content: object) -> None:
        self.send_body(status, json.dumps(content).encode())

    def send_body(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", self.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PATCH = do_TRACE = respond  # noqa: N815  # the names of the standard library
    refusal = 400

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        try:
            self.send_json(201, store(Message.model_validate_json(raw)))
        except ValidationError as error:
            self.send_json(self.refusal, error.errors())

    def result(self, data):
        url = urlsplit(self.path)
        query = {} if self.ignores_queries else parse_qs(url.query)
        folder, _, record_id = url.path.rpartition("/")
        if folder != "/memory":
            raise same_work.page_not_found(url.path)
        if self.command == "GET":
            return same_work.get(unquote(record_id), query)
        if self.command == "PATCH":
            return same_work.patch(unquote(record_id), data, query)
        raise same_work.method_not_allowed(self.command)

    def log_message(self, *_) -> None: ...


@pytest.fixture
def serve() -> Iterator:
    servers = []

    def start(handler: type[Handler]) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_the_shared_functions_do_the_work(serve):
    check_exchanges(serve(Handler), "the standard library", SAME_WORK)


@pytest.mark.parametrize("refusal", [400, 422])
def test_the_shared_model_validates(serve, refusal):
    handler = type("Handler", (Handler,), {"refusal": refusal})
    check_exchanges(serve(handler), "the standard library", creation(refusal))


def test_a_server_that_validates_nothing_is_told(serve):
    class Trusting(Handler):
        def do_POST(self) -> None:
            data = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send_json(201, {**data, "read": data.get("read", False), "id": 1})

    with pytest.raises(SystemExit, match=r"POST /messages gave 201 .*; expected 400 with None"):
        check_exchanges(serve(Trusting), "trusting", creation(400))


async def test_alula_does_it():
    """The responses that peers must give are those of Alula itself, without a server."""
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        for exchange in (*SAME_WORK, *creation(400)):
            response = await client.request(
                exchange.method,
                exchange.path,
                content=exchange.body,
                headers={"Content-Type": exchange.content_type} if exchange.body else {},
            )
            assert response.status_code == exchange.status
            content = response.json()
            if exchange.content is not None:
                assert {**content, **exchange.content} == content


async def test_alula_forgets_messages():
    messages = app.service("messages")
    for _ in range(MOST + 2):
        await messages.create({"text": "new", "room": "room 5"})
    assert 0 < len(await messages.find()) < MOST


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"ignores_queries": True}, r"lazy does not do the same work as Alula: GET /memory/5\?"),
        ({"content_type": "text/plain"}, r"GET /memory/5 gave 200 '\{\"text\""),
        ({"result": lambda _, __: []}, r"GET /memory/5 gave 200 '\[\]'; expected 200 with"),
    ],
)
def test_other_work_is_told(serve, fault, message):
    with pytest.raises(SystemExit, match=message):
        check_exchanges(serve(type("Lazy", (Handler,), fault)), "lazy", SAME_WORK)


def test_a_response_that_is_not_json_is_told(serve):
    class Text(Handler):
        def respond(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", self.content_type)
            self.send_header("Content-Length", "1")
            self.end_headers()
            self.wfile.write(b"{")

        do_GET = respond  # noqa: N815  # as above

    with pytest.raises(SystemExit, match=r"gave 200 '\{'; expected 200"):
        check_exchanges(serve(Text), "text", SAME_WORK)


class TestSharedFunctions:
    def test_an_empty_body_is_an_empty_object(self):
        assert same_work.parse_body(b"", None) == {}

    def test_a_body_has_a_limit(self):
        with pytest.raises(same_work.PayloadTooLarge, match="the limit is 1048576 bytes"):
            same_work.parse_body(b"x" * (same_work.BODY_LIMIT + 1), "application/json")

    def test_a_patch_takes_an_object(self):
        with pytest.raises(same_work.BadRequest, match="must be an object"):
            same_work.patch("8", [], {})

    def test_a_patch_of_nothing_changes_nothing(self):
        before = dict(same_work.RECORDS)
        with pytest.raises(same_work.NotFound):
            same_work.patch("nobody", {"text": "new"}, {})
        assert before == same_work.RECORDS

    def test_other_exceptions_tell_clients_nothing(self):
        assert json.loads(same_work.internal_error().to_json()) == {
            "name": "GeneralError",
            "message": "The server failed; its log says why",
            "code": 500,
            "className": "general-error",
        }

    def test_a_405_says_what_is_allowed(self):
        headers = same_work.method_not_allowed("PUT").headers
        assert headers == {"Allow": "GET, PATCH"}
