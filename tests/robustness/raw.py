"""Bytes to a server and what comes back, and what a clear refusal is."""

from __future__ import annotations

import socket
from http.client import HTTPException
from urllib.parse import urlsplit

from tests.conformance.wire import Reply, read_reply, send

SECONDS_TO_ANSWER = 60
ERROR_KEYS = {"name", "message", "code", "className", "data", "errors"}


def connect(base: str) -> socket.socket:
    """Open a connection to a server."""
    parts = urlsplit(base)
    return socket.create_connection((parts.hostname, parts.port), SECONDS_TO_ANSWER)


def head(target: bytes | str, *lines: bytes, method: str = "GET") -> bytes:
    """Return the head of a request that closes the connection."""
    path = target if isinstance(target, bytes) else target.encode("latin-1")
    fixed = (b"Host: localhost", b"Connection: close")
    return b"\r\n".join([method.encode() + b" " + path + b" HTTP/1.1", *fixed, *lines, b"", b""])


def exchange(base: str, *parts: bytes, method: str = "GET") -> Reply:
    """Send bytes and read one answer, also where the server stops listening before the end."""
    with connect(base) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except ConnectionError:
            pass  # the answer may be there all the same
        return read_reply(connection, method)


def answers_on(base: str, *parts: bytes) -> list[Reply]:
    """Send bytes, and read answers until the server closes the connection."""
    replies = []
    with connect(base) as connection:
        for part in parts:
            connection.sendall(part)
        connection.shutdown(socket.SHUT_WR)
        try:
            while True:
                replies.append(read_reply(connection))
        except (OSError, HTTPException):
            return replies


def assert_refused(reply: Reply, *codes: int) -> None:
    """Check that an answer is a clear 4xx in error JSON, without a stack."""
    assert reply.status in codes, reply
    assert reply.headers["content-type"].startswith("application/json"), reply
    error = reply.json()
    assert {"name", "message", "code", "className"} <= error.keys() <= ERROR_KEYS, reply
    assert error["code"] == reply.status
    assert error["message"]
    assert_no_stack(reply)


def assert_no_stack(reply: Reply) -> None:
    """Check that an answer shows nothing of the program."""
    for sign in ("Traceback", "site-packages", 'File "', ", line "):
        assert sign not in reply.text, reply


def assert_serves(base: str) -> None:
    """Check that the server answers."""
    assert send(base, "GET", "/echo").status == 200
