"""A client that calls an ASGI application directly, with full control of what is sent.

It holds the application to the protocol: one head, a body as long as it says, nothing after the
end, headers that HTTP can carry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import anyio

from alula.express import Request, Response

Pairs = Iterable[tuple[str, str]]


@dataclass
class Answer:
    """What came back."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)
    ended: bool = False

    def get(self, name: str) -> str | None:
        """Return a header that may come once at most."""
        found = self.all(name)
        assert len(found) < 2, f"{name} came {len(found)} times: {found}"
        return found[0] if found else None

    def all(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known == name.lower()]

    @property
    def vary(self) -> set[str]:
        return {part.strip() for line in self.all("vary") for part in line.split(",")}

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        assert (self.get("content-type") or "").startswith("application/json"), self.headers
        return json.loads(self.body)


def scope_of(method: str = "GET", url: str = "/", headers: Any = (), **more: Any) -> dict[str, Any]:
    """Return an ASGI scope; ``url`` is percent-encoded, as it stands in a request line."""
    path, _, query = url.partition("?")
    pairs = headers.items() if isinstance(headers, dict) else headers
    decoded = re.sub(rb"%([0-9a-fA-F]{2})", lambda m: bytes.fromhex(m[1].decode()), path.encode())
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": decoded.decode("utf-8", "replace"),
        "raw_path": path.encode(),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs],
        "client": ("192.0.2.7", 50000),
        "server": ("alula.example", 80),
        **more,
    }


class Sender:
    """The ``receive`` of a request: its body in parts, then silence or a disconnect."""

    def __init__(self, parts: Iterable[bytes] = (), *, leaves: bool = False) -> None:
        self._parts = list(parts)
        self._leaves = leaves
        self._done = False

    async def __call__(self) -> dict[str, Any]:
        if self._parts:
            body = self._parts.pop(0)
            more = bool(self._parts) or self._leaves
            self._done = not more
            return {"type": "http.request", "body": body, "more_body": more}
        if self._leaves:
            return {"type": "http.disconnect"}
        if not self._done:
            self._done = True
            return {"type": "http.request"}
        await anyio.sleep_forever()
        raise AssertionError


class Receiver:
    """The ``send`` of a request: takes the answer and checks it."""

    def __init__(self, method: str = "GET") -> None:
        self.answer = Answer()
        self._method = method

    async def __call__(self, message: dict[str, Any]) -> None:
        answer = self.answer
        assert not answer.ended, f"{message} came after the end"
        if message["type"] == "http.response.start":
            assert not answer.status, "there were two heads"
            answer.status = message["status"]
            for name, value in message["headers"]:
                assert re.fullmatch(rb"[!#-'*+\-.^_`|~0-9a-z]+", name), name
                assert not re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", value), value
                answer.headers.append((name.decode(), value.decode("latin-1")))
            return
        assert message["type"] == "http.response.body"
        assert answer.status, "a body came before the head"
        answer.parts.append(bytes(message.get("body", b"")))
        if not message.get("more_body", False):
            self._end()

    def _end(self) -> None:
        answer = self.answer
        answer.ended = True
        if answer.status in {204, 304}:
            assert answer.body == b""
            assert answer.get("content-length") is None
        elif self._method == "HEAD":
            answer.parts.clear()  # as servers do
        elif answer.get("content-length") is not None:
            assert int(answer.get("content-length")) == len(answer.body)


async def call(
    app: Any,
    method: str = "GET",
    url: str = "/",
    body: bytes | list[bytes] | None = None,
    headers: Any = (),
    *,
    leaves: bool = False,
    **scope: Any,
) -> Answer:
    """Send one request to an application and return its answer.

    Args:
        app: The ASGI application.
        method: HTTP method.
        url: Path and query string, as they are to be sent.
        body: Bytes get a Content-Length, a list of bytes is sent in parts without one.
        headers: A dict, or pairs where a name comes twice.
        leaves: Whether the client goes away after the last part.
        scope: Further entries of the scope.
    """
    pairs = list(headers.items() if isinstance(headers, dict) else headers)
    names = {name.lower() for name, _ in pairs}
    if isinstance(body, bytes) and "content-length" not in names:
        pairs.append(("content-length", str(len(body))))
    elif isinstance(body, list) and "transfer-encoding" not in names:
        pairs.append(("transfer-encoding", "chunked"))
    parts = [body] if isinstance(body, bytes) else body or []
    receiver = Receiver(method)
    await app(scope_of(method, url, pairs, **scope), Sender(parts, leaves=leaves), receiver)
    assert receiver.answer.ended, "the answer did not end"
    return receiver.answer


async def post_json(app: Any, value: Any, url: str = "/", headers: Any = ()) -> Answer:
    """Post a JSON text, or a value as one."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return await call(
        app, "POST", url, body, [("content-type", "application/json"), *dict(headers).items()]
    )


def fake_app(**settings: Any) -> Any:
    """Return what requests need of an application."""
    return SimpleNamespace(settings=settings, debug=False)


def request(method: str = "GET", url: str = "/", headers: Any = (), **more: Any) -> Request:
    """Return a request that no application handles."""
    app, sender = more.pop("app", None) or fake_app(), more.pop("sender", None) or Sender()
    return Request(app, scope_of(method, url, headers, **more), sender)


def response(method: str = "GET", url: str = "/", headers: Any = (), **more: Any) -> Response:
    """Return a response that no application finishes."""
    return Response(request(method, url, headers, **more))


async def finish(res: Response) -> Answer:
    """Send a response and return what came out."""
    receiver = Receiver(res.req.method)
    await res.finish(res.req.scope, res.req.receive, receiver)
    assert receiver.answer.ended, "the answer did not end"
    return receiver.answer
