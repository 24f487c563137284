"""A form whose parts are read one after the other, while it arrives."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

from alula.errors import BadRequest, PayloadTooLarge, UnsupportedMediaType, shown_name
from alula.express import Request
from alula.files._upload import Part, Upload, UploadLimits, read_options, sent_file_name

__all__ = ["MAX_PART_HEAD_BYTES", "Form"]

MAX_PART_HEAD_BYTES: Final = 8 * 1024
"""Bytes that the headers of one part may have together."""

MAX_PART_HEADERS: Final = 16
"""Headers that one part may have."""

# Of a larger piece of the body, one part is parsed at a time. Limits of counts are checked behind
# it: 16 kB of nothing but tiny parts take the parser some 5 milliseconds.
_PIECE_BYTES: Final = 16 * 1024

# Bytes in a row that mean nothing: before the first part, behind a boundary, behind the last one.
# The parser goes through some of them one by one.
_MAX_IDLE_BYTES: Final = 64 * 1024

_PLAIN_ENCODINGS: Final = frozenset({"7bit", "8bit", "binary"})


class Form(Upload):
    """A form that has not been read.

    Args:
        req: The request.
        limits: How much it may hold.

    Raises:
        BadRequest: Its content type has no valid boundary.
        UnsupportedMediaType: The request is compressed.
    """

    kind = "form"

    def __init__(self, req: Request, limits: UploadLimits) -> None:
        super().__init__(req, limits)
        _, options = read_options("Content-Type", req.get("content-type") or "")
        boundary = options.get(b"boundary", b"")
        if not 0 < len(boundary) <= 70:  # RFC 2046, 5.1.1
            raise BadRequest("The content type multipart/form-data has no valid boundary")
        self._idle = 0
        self._unparsed: deque[bytes] = deque()
        self._more = True
        self._at_end = False
        # What the parser has seen: the name of an event, and its bytes.
        self._events: deque[tuple[str, bytes]] = deque()
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._noting("begin"),
                "on_part_end": self._noting("end"),
                "on_headers_finished": self._noting("body"),
                "on_end": self._noting("last"),
                "on_header_field": self._noting_bytes("field"),
                "on_header_value": self._noting_bytes("value"),
                "on_header_end": self._noting("header"),
                "on_part_data": self._noting_bytes("data"),
            },
        )
        self._part: Part | None = None
        self._files = self._fields = 0

    async def __anext__(self) -> Part:
        while True:
            if self._part is not None:
                async for _ in self._part:
                    pass
                self._part = None
            event, _ = await self.next_event()
            if event == "last":
                while not self._at_end:  # the epilogue, which has no meaning
                    await self._parse_more()
                self._events.append(("last", b""))
                raise StopAsyncIteration
            part = self._part = _part_of(self, await self._read_headers())
            if part.is_file:
                self._files += 1
            else:
                self._fields += 1
            for name, count, limit in (
                ("files", self._files, self.limits.max_files),
                ("fields", self._fields, self.limits.max_fields),
            ):
                if count > limit:
                    raise PayloadTooLarge(f"The form has more than {limit} {name}")
            if part.file_name == "":  # a browser sends this if no file was chosen
                async for _ in part:
                    raise BadRequest(f"{part} has content, but no name of a file")
                continue
            return part

    async def next_event(self) -> tuple[str, bytes]:
        while not self._events:
            if self._at_end:
                raise BadRequest("The form ends before its last boundary")
            await self._parse_more()
        return self._events.popleft()

    async def _parse_more(self) -> None:
        """Parse one piece of the body."""
        if not self._unparsed:
            body, self._more = await self.receive()
            starts = range(0, len(body), _PIECE_BYTES)
            self._unparsed.extend(body[start : start + _PIECE_BYTES] for start in starts)
        if self._unparsed:
            piece = self._unparsed.popleft()
            try:
                self._parser.write(piece)
            except FormParserError as error:
                raise BadRequest(f"The form is not valid multipart/form-data: {error}") from None
            self._idle = 0 if self._events else self._idle + len(piece)
            if self._idle > _MAX_IDLE_BYTES:
                raise BadRequest("The form has too many bytes between or behind its parts")
        self._at_end = not self._more and not self._unparsed

    async def _read_headers(self) -> dict[str, str]:
        """Return the headers of the next part, by their names in lower case."""
        headers: dict[str, str] = {}
        field, value, size = b"", b"", 0
        while (event := await self.next_event())[0] != "body":
            size += len(event[1])
            if size > MAX_PART_HEAD_BYTES:
                raise BadRequest(f"The head of a part has over {MAX_PART_HEAD_BYTES} bytes")
            if event[0] == "field":
                field += event[1]
            elif event[0] == "value":
                value += event[1]
            else:
                name = field.decode("latin-1").strip().lower()
                if name in headers or len(headers) >= MAX_PART_HEADERS:
                    raise BadRequest(
                        f"A part has the header {name} twice, or over {MAX_PART_HEADERS} headers"
                    )
                headers[name] = value.decode("latin-1").strip()
                field = value = b""
        return headers

    def _noting(self, event: str) -> Callable[[], None]:
        return partial(self._events.append, (event, b""))

    def _noting_bytes(self, event: str) -> Callable[[bytes, int, int], None]:
        return lambda data, start, end: self._events.append((event, data[start:end]))


def _part_of(form: Form, headers: dict[str, str]) -> Part:
    """Return a part with these headers, by names in lower case.

    Raises:
        BadRequest: The headers are not valid.
        UnsupportedMediaType: The part is encoded, or a file is of a type that is not allowed.
    """
    disposition = headers.get("content-disposition", "")
    kind, options = read_options("Content-Disposition", disposition)
    file_name = sent_file_name(disposition, options)
    if kind != b"form-data" or b"name" not in options:
        raise BadRequest("A part of the form has no name in its header Content-Disposition")
    try:
        name = options[b"name"].decode()
    except UnicodeDecodeError:
        raise BadRequest("A name in the form is not valid UTF-8") from None
    encoding = headers.get("content-transfer-encoding", "binary").lower()
    if encoding not in _PLAIN_ENCODINGS:
        raise UnsupportedMediaType(
            f"The part {shown_name(name)!r} has the transfer encoding {encoding}; send it as binary"
        )
    content_type = headers.get("content-type", "")
    return Part(form, name, file_name, content_type, is_file=bool(file_name))
