"""Reading server-sent events from the parts of a response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from alula.errors import BadGateway

__all__ = ["EventParser", "StreamedEvent"]


class StreamedEvent(NamedTuple):
    """An event of a stream.

    Attributes:
        kind: Its name.
        data: Its data, as text.
        id: The last id of the stream so far, None without one.
    """

    kind: str
    data: str
    id: str | None


class EventParser:
    r"""Reads server-sent events from the parts of a response, without I/O.

    Args:
        limit: The largest event, in bytes.

    Examples:
        >>> parser = EventParser(1_000)
        >>> [*parser.feed(b"event: left\ndata: {}\n")]
        []
        >>> [*parser.feed(b"id: 5\n\n")]
        [StreamedEvent(kind='left', data='{}', id='5')]
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line: list[bytes] = []  # the parts of a line that has not ended
        self._kind = ""
        self._data: list[str] = []
        self._size = 0  # of the event so far
        self._id: str | None = None

    def feed(self, part: bytes) -> Iterator[StreamedEvent]:
        """Yield the events that a part completes.

        Raises:
            BadGateway: An event is too large.
        """
        first, *more = part.split(b"\n")
        self._add(first)
        for following in more:
            # Joined once for each line: a long line may come in thousands of parts.
            line, self._line = b"".join(self._line), []
            event = self._take(line.rstrip(b"\r"))
            if event is not None:
                yield event
            self._add(following)

    def _add(self, part: bytes) -> None:
        self._line.append(part)
        self._size += len(part)
        if self._size > self._limit:
            raise BadGateway("an event of the called server is too large")

    def _take(self, line: bytes) -> StreamedEvent | None:
        """Take a line; return the event that it ends, if there is one."""
        if not line:
            event = StreamedEvent(self._kind or "message", "\n".join(self._data), self._id)
            has_data = bool(self._data)
            self._kind, self._data, self._size = "", [], 0
            return event if has_data else None
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._kind = value
        elif field == "data":
            self._data.append(value)
        elif field == "id":
            self._id = value
        return None
