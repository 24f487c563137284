"""A form whose parts are read one after the other, while it arrives.

What a part holds passes through in small pieces. No file is ever held, and nothing is unpacked.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Self
from urllib.parse import unquote_to_bytes

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from alula.errors import BadRequest, PayloadTooLarge, UnsupportedMediaType, shown_name
from alula.express import Request
from alula.files._content_types import (
    SIGNATURE_BYTES,
    UNKNOWN_TYPE,
    is_allowed,
    is_content_type,
    mismatch,
)

__all__ = ["MAX_PART_HEAD_BYTES", "FormLimits", "Part", "Upload", "check_file_name"]

MAX_NAME_BYTES: Final = 255
"""The longest name of a file, in UTF-8, as most file systems have it."""

MAX_PART_HEAD_BYTES: Final = 8 * 1024
"""Bytes that the headers of one part may have together."""

MAX_PART_HEADERS: Final = 16
"""Headers that one part may have."""

# What a header with options may have: the name of a file and that of its part fit well.
_MAX_OPTIONS_BYTES: Final = 2048

# Of a larger piece of the body, one part is parsed at a time. Limits of counts are checked behind
# it: 16 kB of nothing but tiny parts take the parser some 5 milliseconds.
_PIECE_BYTES: Final = 16 * 1024

# Bytes in a row that mean nothing: before the first part, behind a boundary, behind the last one.
# The parser goes through some of them one by one.
_MAX_IDLE_BYTES: Final = 64 * 1024

# Control characters, separators of paths, and marks that turn the direction of text: by these,
# `invoice<mark>fdp.exe` reads as `invoiceexe.pdf`.
_NOT_IN_NAMES: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f/\\\\\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SEPARATORS: Final = re.compile(r"[/\\]")

# RFC 8187. Whatever is in quotes, such as a name of a file, is no parameter.
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\])*"')
_EXTENDED_NAME: Final = re.compile(r";\s*filename\*\s*=\s*([^;\s]*)", re.IGNORECASE)
_EXTENDED_VALUE: Final = re.compile(
    r"(utf-8|iso-8859-1)'[^']*'((?:%[0-9a-f]{2}|[^%])*)", re.IGNORECASE
)
_PLAIN_ENCODINGS: Final = frozenset({"7bit", "8bit", "binary"})


@dataclass(frozen=True)
class FormLimits:
    """How much one form may hold.

    Attributes:
        max_files: Files.
        max_file_size: Bytes of each file.
        max_request_size: Bytes of the whole request.
        max_fields: Fields that are not files.
        max_field_size: Bytes of each of them.
        types: Content types that files may have, such as ``image/png`` or ``image/*``; None for
            all.
    """

    max_files: int
    max_file_size: int
    max_request_size: int
    max_fields: int
    max_field_size: int
    types: frozenset[str] | None


class Upload:
    """A form that has not been read: ``async for part in upload`` yields its parts in order.

    It can be read once. What is left of a part is skipped when the next one begins. Its end is
    checked: a form that breaks off is an error, and everything made of it has to be undone.

    Attributes:
        limits: How much the form may hold.
        is_begun: Whether some of it has been read.

    Args:
        req: The request.
        limits: As above.

    Raises:
        BadRequest: The form is not valid, or its client went away.
        PayloadTooLarge: A limit is exceeded.
        UnsupportedMediaType: The request is compressed, or a file is of a type that is not allowed.
    """

    def __init__(self, req: Request, limits: FormLimits) -> None:
        encoding = (req.get("content-encoding") or "identity").strip().lower()
        if encoding != "identity":  # unpacked, a small request may fill the disk
            raise UnsupportedMediaType(
                f"A form with files cannot have the content encoding {encoding}; send it without"
            )
        length = req.get("content-length") or ""
        self._length = int(length[:19]) if length.isdecimal() else 0
        _, options = _parse_options("Content-Type", req.get("content-type") or "")
        boundary = options.get(b"boundary", b"")
        if not 0 < len(boundary) <= 70:  # RFC 2046, 5.1.1
            raise BadRequest("The content type multipart/form-data has no valid boundary")
        self.limits = limits
        self.is_begun = False
        self._receive_part = req.receive_part
        self._received = self._idle = 0
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

    def __aiter__(self) -> Self:
        return self

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
            part = self._part = Part(self, await self._read_headers())
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
        """Return the next event of the parser: its name and its bytes.

        Raises:
            BadRequest: The form is not valid, or ends too early.
            PayloadTooLarge: The request is too large.
        """
        while not self._events:
            if self._at_end:
                raise BadRequest("The form ends before its last boundary")
            await self._parse_more()
        return self._events.popleft()

    async def _parse_more(self) -> None:
        """Parse one piece of the body."""
        self.is_begun = True
        if not self._unparsed:
            self._check_size(self._length)
            body, more = await self._receive_part()
            self._received += len(body)
            self._check_size(self._received)
            starts = range(0, len(body), _PIECE_BYTES)
            self._unparsed.extend(body[start : start + _PIECE_BYTES] for start in starts)
            self._more = more
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

    def _check_size(self, size: int) -> None:
        limit = self.limits.max_request_size
        if size > limit:
            raise PayloadTooLarge(f"The form is too large; the limit is {limit} bytes")


class Part:
    """One part of a form: a file or a field. ``async for piece in part`` yields its bytes, once.

    Attributes:
        name: Its name in the form.
        file_name: The name of the file, which is not a path: of ``dir/a.txt`` it is ``a.txt``. It
            has no control characters, and at most 255 bytes in UTF-8. None for a field.
        type: The content type of a file, in lower case, without parameters. The first bytes of the
            file do not contradict it.
        size: How many bytes have been read so far.

    Args:
        upload: The form.
        headers: The headers of the part, by names in lower case.

    Raises:
        BadRequest: The headers are not valid; later, the form is not.
        UnsupportedMediaType: The type of a file is not allowed, or not that of its content.
        PayloadTooLarge: The part is too large.
    """

    def __init__(self, upload: Upload, headers: dict[str, str]) -> None:
        disposition = headers.get("content-disposition", "")
        kind, options = _parse_options("Content-Disposition", disposition)
        try:
            name, file_name = (
                None if options.get(key) is None else options[key].decode()
                for key in (b"name", b"filename")
            )
        except UnicodeDecodeError:
            raise BadRequest("A name in the form is not valid UTF-8") from None
        file_name = _last_segment(_extended_file_name(disposition) or file_name)
        if kind != b"form-data" or name is None:
            raise BadRequest("A part of the form has no name in its header Content-Disposition")
        encoding = headers.get("content-transfer-encoding", "binary").lower()
        if encoding not in _PLAIN_ENCODINGS:
            raise UnsupportedMediaType(
                f"The part {shown_name(name)!r} has the transfer encoding {encoding}; send it as"
                " binary"
            )
        limits = upload.limits
        self.name = name
        self.file_name = file_name
        self.type = headers.get("content-type", "").partition(";")[0].strip().lower()
        self.size = 0
        self._upload = upload
        self._max_size = limits.max_file_size if file_name else limits.max_field_size
        self._is_begun = self._is_read = False
        if not file_name:
            return
        check_file_name(file_name)
        self.type = self.type or UNKNOWN_TYPE
        if not is_content_type(self.type):
            raise BadRequest(f"{self} has {self.type!r} as its content type, which is not one")
        if limits.types is not None and not is_allowed(self.type, limits.types):
            raise UnsupportedMediaType(
                f"{self} is of the type {self.type}; send {', '.join(sorted(limits.types))}"
            )

    def __repr__(self) -> str:
        file = f", the file {self.file_name!r}," if self.file_name else ""
        return f"The part {shown_name(self.name)!r}{file}"

    @property
    def is_file(self) -> bool:
        """Whether it is a file, not a field."""
        return bool(self.file_name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._next_piece()
        if not self._is_begun:
            self._is_begun = True
            while self.is_file and len(piece) < SIGNATURE_BYTES:
                if not (more := await self._next_piece()):
                    break
                piece += more
            # An empty file shows no type. It cannot be anything else than it says, either.
            if self.is_file and piece and mismatch(self.type, piece[:SIGNATURE_BYTES]):
                raise UnsupportedMediaType(
                    f"{self} is sent as {self.type}, but its content is of another type"
                )
        if not piece:
            raise StopAsyncIteration
        return piece

    async def text(self) -> str:
        """Return a field as text.

        Raises:
            BadRequest: It is not valid UTF-8.
            TypeError: It is a file, whose bytes are read in pieces.
        """
        if self.is_file:
            raise TypeError(f"{self} is not a field; read it by `async for piece in part`")
        try:
            return b"".join([piece async for piece in self]).decode()
        except UnicodeDecodeError:
            raise BadRequest(f"{self} is not valid UTF-8") from None

    async def _next_piece(self) -> bytes:
        """Return the next bytes; none at the end."""
        while not self._is_read:
            event, data = await self._upload.next_event()
            if event == "end":
                self._is_read = True
            elif data:
                self.size += len(data)
                if self.size > self._max_size:
                    raise PayloadTooLarge(
                        f"{self} is too large; the limit is {self._max_size} bytes"
                    )
                return data
        return b""


def _parse_options(name: str, value: str) -> tuple[bytes, dict[bytes, bytes]]:
    # The time that this takes grows with the square of the length: 60 kB take seconds.
    if len(value) > _MAX_OPTIONS_BYTES:
        raise BadRequest(f"The header {name} of a form has over {_MAX_OPTIONS_BYTES} bytes")
    return parse_options_header(value)


def _extended_file_name(disposition: str) -> str | None:
    """Return the file name of a parameter ``filename*`` (RFC 8187), None without one.

    RFC 7578 does not want it in forms, but clients send it, such as those of .NET. It counts more
    than ``filename``, which these clients fill with a replacement.

    Raises:
        BadRequest: It is not valid.
    """
    values = _EXTENDED_NAME.findall(_QUOTED.sub('""', disposition))
    if not values:
        return None
    match = _EXTENDED_VALUE.fullmatch(values[0])
    try:
        if match is None or len(values) > 1:
            raise ValueError
        return unquote_to_bytes(match[2]).decode(match[1])
    except ValueError:
        raise BadRequest(
            "A part of the form has a parameter filename* that is not valid; send it as in"
            " filename*=UTF-8''na%C3%AFve.txt"
        ) from None


def _last_segment(file_name: str | None) -> str | None:
    """Return a file name without the folders in front; clients may send a whole path."""
    if file_name is None:
        return None
    return _SEPARATORS.split(file_name)[-1] or file_name


def check_file_name(name: object) -> None:
    """Check that the name of a file is a name, and not a path.

    Raises:
        BadRequest: It is not text, empty, too long, ``.`` or ``..``, or has separators of paths,
            control characters, or marks that turn the direction of text.
    """
    if (
        not isinstance(name, str)
        or name.strip() in {"", ".", ".."}
        or _NOT_IN_NAMES.search(name)
        or len(name.encode()) > MAX_NAME_BYTES
    ):
        raise BadRequest(
            f"{str(name)[:MAX_NAME_BYTES]!r} is not the name of a file; send one without a path"
            f" and control characters, of {MAX_NAME_BYTES} bytes at most"
        )
