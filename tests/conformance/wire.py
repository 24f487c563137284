"""Requests over plain sockets: each goes out byte by byte as it was written."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Mapping
from http.client import HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import urlsplit

SECONDS_TO_ANSWER = 60

WITHOUT_LENGTH = frozenset({"GET", "HEAD", "DELETE", "OPTIONS", "TRACE", "LINK", "SEARCH", "PURGE"})
"""Methods that are sent without Content-Length where they have no body."""


class Reply(NamedTuple):
    """An answer: status, headers by name in lower case, and the body as text."""

    status: int
    headers: dict[str, str]
    text: str

    def json(self) -> Any:
        """Return the body as strict JSON.

        Raises:
            ValueError: It is none.
        """
        return json.loads(self.text, parse_constant=_no_json)


def body_of(request: Mapping[str, Any]) -> bytes | None:
    """Return the bytes of a recorded body, None where there is none."""
    raw = request.get("rawBody")
    if isinstance(raw, str):
        return raw.encode("utf-8", "surrogatepass")
    if raw is not None and "$repeat" in raw:
        prefix, unit, count, suffix = raw["$repeat"]
        return (prefix + unit * count + suffix).encode()
    if raw is not None:
        return base64.b64decode(raw["$base64"])
    if "body" in request:
        text = json.dumps(request["body"], ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")
    return None


def send(
    base: str,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Reply:
    """Send one request as it is, over a connection of its own.

    Args:
        base: Address of the server.
        method: HTTP method.
        path: Request target; it is not changed in any way.
        headers: Further headers. With ``transfer-encoding: chunked`` the body goes in one chunk.
        body: None for none.

    Raises:
        OSError: The server is not there, or did not answer in time.
        http.client.HTTPException: What it answered is no HTTP.
    """
    parts = urlsplit(base)
    sent = {"Host": parts.netloc, "Connection": "close", **(headers or {})}
    names = {name.lower() for name in sent}
    payload = body or b""
    if "transfer-encoding" in names:
        payload = (b"%x\r\n%s\r\n" % (len(payload), payload) if payload else b"") + b"0\r\n\r\n"
    elif "content-length" not in names and (body is not None or method not in WITHOUT_LENGTH):
        sent["Content-Length"] = str(len(payload))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    with socket.create_connection((parts.hostname, parts.port), SECONDS_TO_ANSWER) as connection:
        connection.sendall(head + payload)
        return read_reply(connection, method)


def read_reply(connection: socket.socket, method: str = "GET") -> Reply:
    """Read one answer.

    Raises:
        OSError: The connection was lost.
        http.client.HTTPException: What came is no HTTP.
    """
    response = HTTPResponse(connection, method=method)
    try:
        response.begin()
        text = response.read().decode("utf-8", "replace")
        # Several headers of one name are one, joined.
        headers = {
            name: ", ".join(response.headers.get_all(name, ()))
            for name in map(str.lower, response.headers)
        }
        return Reply(response.status, headers, text)
    finally:
        response.close()


def _no_json(word: str) -> None:
    raise ValueError(f"{word} is no JSON")
