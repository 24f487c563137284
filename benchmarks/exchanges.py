"""What servers respond that claim the same work: they are compared after this is checked."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_TIMEOUT = 10  # seconds
_RECORD = {
    "text": "message 5",
    "room": "room 5",
    "read": False,
    "createdAt": 1_700_000_000_595,
    "id": 5,
}
_BAD_REQUEST = {"name": "BadRequest", "code": 400, "className": "bad-request"}
_NOT_FOUND = {"name": "NotFound", "code": 404, "className": "not-found"}


@dataclass(frozen=True)
class Exchange:
    """A request, and what its response has.

    Attributes:
        method: The method.
        path: The path and the query.
        status: The status of the response.
        content: Members of the JSON object in its body; an error may have any other message. With
            None, the body may be any JSON.
        body: The body of the request.
        content_type: That of this body.
    """

    method: str
    path: str
    status: int
    content: Mapping[str, object] | None
    body: bytes | None = None
    content_type: str = "application/json"


SAME_WORK = (
    Exchange("GET", "/memory/5", 200, _RECORD),
    Exchange("GET", "/memory/5?room=room%205", 200, _RECORD),
    Exchange(
        "GET",
        "/memory/5?$select[]=text&$select[]=read",
        200,
        {"text": "message 5", "read": False, "id": 5},
    ),
    Exchange("PATCH", "/memory/7", 200, {"text": "new", "room": "room 0"}, b'{"text":"new"}'),
    Exchange(
        "GET", "/memory/9999", 404, {**_NOT_FOUND, "message": "No record found for id '9999'"}
    ),
    Exchange("GET", "/memory/x", 404, {**_NOT_FOUND, "message": "No record found for id 'x'"}),
    Exchange(
        "GET", "/memory/5?room=x", 404, {**_NOT_FOUND, "message": "No record found for id '5'"}
    ),
    Exchange(
        "GET",
        "/nowhere",
        404,
        {**_NOT_FOUND, "message": "Page not found", "data": {"url": "/nowhere"}},
    ),
    Exchange(
        "TRACE",  # some frameworks respond to OPTIONS themselves
        "/memory/5",
        405,
        {
            "name": "MethodNotAllowed",
            "message": "Method TRACE not allowed",
            "code": 405,
            "className": "method-not-allowed",
        },
    ),
    Exchange(
        "GET",
        "/memory/5?$unknown=1",
        400,
        {**_BAD_REQUEST, "message": "Invalid filter value $unknown"},
    ),
    Exchange("PATCH", "/memory/5", 400, _BAD_REQUEST, b'{"text":'),
    Exchange(
        "PATCH",
        "/memory/5",
        400,
        {**_BAD_REQUEST, "message": "The body must be a JSON object or array"},
        b'"text"',
    ),
    Exchange("PATCH", "/memory/5", 415, {"name": "UnsupportedMediaType"}, b"text", "text/plain"),
)


def creation(refusal: int) -> tuple[Exchange, ...]:
    """Return what a server responds that creates validated messages.

    Args:
        refusal: The status that its framework gives to data which is not valid.
    """
    message = {"text": "x" * 900, "room": "room 5", "read": True}
    by_default = {"text": "new", "room": "room 5"}
    return (
        Exchange("POST", "/messages", 201, message, json.dumps(message).encode()),
        Exchange(
            "POST", "/messages", 201, {**by_default, "read": False}, json.dumps(by_default).encode()
        ),
        Exchange("POST", "/messages", refusal, None, b'{"text":"","room":"room 5"}'),
        Exchange("POST", "/messages", refusal, None, b'{"text":"new","room":5}'),
    )


def check_exchanges(base: str, name: str, exchanges: Iterable[Exchange]) -> None:
    """Send requests to a server.

    Args:
        base: The base URL.
        name: What a message calls the server.
        exchanges: The requests, and their expected responses.

    Raises:
        SystemExit: A response is not that of the others; the message shows it.
    """
    for exchange in exchanges:
        request = urllib.request.Request(
            base + exchange.path,
            exchange.body,
            {"Content-Type": exchange.content_type} if exchange.body else {},
            method=exchange.method,
        )
        try:
            response = urllib.request.urlopen(request, timeout=_TIMEOUT)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            text = response.read().decode()
        if (
            response.status != exchange.status
            or response.headers.get_content_type() != "application/json"
            or not _has(text, exchange.content)
        ):
            raise SystemExit(
                f"bench: {name} does not do the same work as Alula: {exchange.method}"
                f" {exchange.path} gave {response.status} {text[:300]!r};"
                f" expected {exchange.status} with {exchange.content}"
            )


def _has(text: str, members: Mapping[str, object] | None) -> bool:
    """Tell whether a text is a JSON object with these members, or more; with None, any JSON."""
    try:
        content = json.loads(text)
    except ValueError:
        return False
    return members is None or (isinstance(content, dict) and {**content, **members} == content)
