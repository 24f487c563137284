"""What granian can send: the heads and bodies of responses, checked before it gets them.

A status or header that it cannot send would abort the whole process. Bodies are counted, which
granian leaves to the application.
"""

from __future__ import annotations

from typing import Final, Protocol

from starlette.types import Message, Receive, Send

from alula.express._headers import LINE_BEGINNINGS, check_value, line_beginning

__all__ = ["KNOWN_HEADS", "Proto", "checked_head", "checked_part", "know_head"]

_STATUSES: Final = range(200, 1000)
_WITHOUT_BODY: Final = frozenset({204, 304})
_MAX_HEADERS: Final = 10_000  # of a response: granian aborts at some 25,000
_MAX_KNOWN: Final = 100

KNOWN_HEADS: dict[tuple[int, tuple[tuple[bytes, bytes], ...]], Message] = {}
"""Status and headers of whole responses to the messages for them, which let granian add the length.
"""


class Proto(Protocol):
    """A request or a websocket of granian's."""

    @property
    def receive(self) -> Receive:
        """Return the next message."""
        ...

    @property
    def send(self) -> Send:
        """Send a message."""
        ...


def know_head(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> Message | None:
    """Return the message for the head of a whole response, and remember it.

    Returns:
        None if such a response has no body, or if a header frames it, or has granian stream it.

    Raises:
        RuntimeError: granian cannot send it.
    """
    head, length = checked_head(
        {"type": "http.response.start", "status": status, "headers": headers}, has_body=True
    )
    has_framing = length is not None or len(head["headers"]) < len(headers)
    is_stream = any(value.startswith(b"text/event-stream") for _, value in headers)
    if has_framing or is_stream or status in _WITHOUT_BODY:
        return None
    if len(KNOWN_HEADS) >= _MAX_KNOWN:
        KNOWN_HEADS.clear()
    KNOWN_HEADS[status, headers] = head
    return head


def checked_head(message: Message, has_body: bool) -> tuple[Message, int | None]:
    """Return the head of a response as granian takes it, and the length that it announces.

    Args:
        message: What the application sends.
        has_body: Whether a body follows, as far as the request says.

    Raises:
        RuntimeError: granian cannot send it.
    """
    status, length = message["status"], None
    if not isinstance(status, int) or status not in _STATUSES:
        raise RuntimeError(f"the status {status!r} cannot be sent; it must be 200 to 999")
    headers: list[tuple[bytes, bytes]] = []
    given = [*message.get("headers", ())]
    if len(given) > _MAX_HEADERS:
        raise RuntimeError(f"the response has over {_MAX_HEADERS} headers")
    for name, value in given:
        beginning = LINE_BEGINNINGS.get(name) or line_beginning(name)
        if beginning == b"transfer-encoding: ":
            continue  # ASGI: the server chooses it
        if beginning == b"content-length: ":
            if not value.isdigit() or length not in {None, int(value)}:
                raise RuntimeError(f"the Content-Length {value!r} is not a number, or is a second")
            length = int(value)
        headers.append((name, value))
    check_value(b" ".join([value for _, value in headers]))
    head = {"type": message["type"], "status": status, "headers": headers}
    return head, length if has_body and status not in _WITHOUT_BODY else None


def checked_part(message: Message, left: int | None) -> tuple[Message, int | None]:
    """Return a part of a body as granian takes it, and how many bytes follow it.

    Args:
        message: What the application sends.
        left: How many bytes are to come, None if no length is announced.

    Raises:
        RuntimeError: It is not bytes, or its length is wrong.
    """
    body, more = message.get("body", b""), bool(message.get("more_body"))
    if not isinstance(body, bytes):
        if not isinstance(body, bytearray | memoryview):
            raise RuntimeError(f"a body has to be bytes, not {body!r:.50}")
        body = bytes(body)  # pyright: ignore[reportUnknownArgumentType]  # a view of any items
    if left is not None:
        left -= len(body)
        if left < 0 or (left and not more):
            longer = "longer" if left < 0 else "shorter"
            raise RuntimeError(f"the body of the response is {longer} than its Content-Length")
    return {"type": message["type"], "body": body, "more_body": more}, left
