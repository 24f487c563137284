"""An upload whose parts are read one after the other, while it arrives.

What a part holds passes through in small pieces. No file is ever held, and nothing is unpacked.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import unquote_to_bytes

from python_multipart.multipart import parse_options_header

from alula._service import ServiceHandle
from alula.errors import BadRequest, PayloadTooLarge, UnsupportedMediaType, shown_name
from alula.express import Request
from alula.files._content_types import (
    SIGNATURE_BYTES,
    UNKNOWN_TYPE,
    is_allowed,
    is_content_type,
    mismatch,
)
from alula.types import UNSET, is_dict

__all__ = [
    "Part",
    "Upload",
    "UploadLimits",
    "check_file_name",
    "is_taken",
    "read_options",
    "sent_file_name",
    "takes_uploads",
]

MAX_NAME_BYTES: Final = 255
"""The longest name of a file, in UTF-8, as most file systems have it."""

# What a header with options may have: the name of a file and that of its part fit well.
_MAX_OPTIONS_BYTES: Final = 2048

# Control characters, separators of paths, and marks that turn the direction of text: by these,
# `invoice<mark>fdp.exe` reads as `invoiceexe.pdf`.
_NOT_IN_NAMES: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f/\\\\\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SEPARATORS: Final = re.compile(r"[/\\]")

# RFC 8187. Text in quotes, such as the name of a file, is not a parameter.
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\])*"')
_EXTENDED_NAME: Final = re.compile(r";\s*filename\*\s*=\s*([^;\s]*)", re.IGNORECASE)
_EXTENDED_VALUE: Final = re.compile(
    r"(utf-8|iso-8859-1)'[^']*'((?:%[0-9a-f]{2}|[^%])*)", re.IGNORECASE
)


@dataclass(frozen=True)
class UploadLimits:
    """How much one upload may hold.

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


class Upload(ABC):
    """Files of a request that have not been read: ``async for part in upload`` yields its parts.

    A form (`multipart`) has files and fields, in their order. A body that is the file itself
    (`file_body`) has one part. An upload can be read once. What is left of a part is skipped when
    the next one begins. Its end is checked: an upload that breaks off is an error, and everything
    made of it has to be undone.

    Attributes:
        kind: What it is: ``"form"`` or ``"body"``.
        limits: How much it may hold.
        is_begun: Whether some of it has been read.

    Args:
        req: The request.
        limits: As above.

    Raises:
        BadRequest: The upload is not valid, or its client went away.
        PayloadTooLarge: A limit is exceeded.
        UnsupportedMediaType: The request is compressed, or a file is of a type that is not allowed.
    """

    kind: str

    def __init__(self, req: Request, limits: UploadLimits) -> None:
        encoding = (req.get("content-encoding") or "identity").strip().lower()
        if encoding != "identity":  # unpacked, a small request may fill the disk
            raise UnsupportedMediaType(
                f"A {self.kind} with files cannot have the content encoding {encoding}; send it"
                " without"
            )
        length = req.get("content-length") or ""
        self._length = int(length[:19]) if length.isdecimal() else 0
        self.limits = limits
        self.is_begun = False
        self._receive_part = req.receive_part
        self._received = 0

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> Part: ...

    @abstractmethod
    async def next_event(self) -> tuple[str, bytes]:
        """Return what comes next: ``"data"`` and bytes of the part, or ``"end"`` at its end.

        Raises:
            BadRequest: The upload is not valid, or ends too early.
            PayloadTooLarge: The request is too large.
        """

    async def receive(self) -> tuple[bytes, bool]:
        """Return the next bytes of the request, and whether there are more.

        Raises:
            BadRequest: The client went away.
            PayloadTooLarge: The request is too large.
        """
        self.is_begun = True
        self._check_size(self._length)
        body, more = await self._receive_part()
        self._received += len(body)
        self._check_size(self._received)
        return body, more

    def _check_size(self, size: int) -> None:
        limit = self.limits.max_request_size
        if size > limit:
            raise PayloadTooLarge(f"The {self.kind} is too large; the limit is {limit} bytes")


class Part:
    """A file or a field of an upload. ``async for piece in part`` yields its bytes, once.

    Attributes:
        name: Its name in the form; ``""`` for a body that is the file itself.
        file_name: The name of the file, which is not a path: of ``dir/a.txt`` it is ``a.txt``. It
            has no control characters, and at most 255 bytes in UTF-8. None for a field; ``""`` for
            a body that was sent without one.
        type: The content type of a file, in lower case, without parameters. The first bytes of the
            file do not contradict it.
        is_file: Whether it is a file, not a field.
        size: How many bytes have been read so far.

    Args:
        upload: What it is a part of.
        name: As above.
        file_name: As it was sent, with the folders that it may have; checked here.
        content_type: The same, with its parameters.
        is_file: Whether it is a file, not a field.

    Raises:
        BadRequest: A name or a type is not valid; later, the upload is not.
        UnsupportedMediaType: The type of a file is not allowed, or not that of its content.
        PayloadTooLarge: The part is too large.
    """

    def __init__(
        self,
        upload: Upload,
        name: str,
        file_name: str | None,
        content_type: str,
        *,
        is_file: bool,
    ) -> None:
        limits = upload.limits
        self.name = name
        self.file_name = file_name
        self.type = content_type.partition(";")[0].strip().lower()
        self.is_file = is_file
        self.size = 0
        self._upload = upload
        self._max_size = limits.max_file_size if is_file else limits.max_field_size
        self._is_begun = self._is_read = False
        if not is_file:
            return
        if file_name:
            check_file_name(file_name)
        self.type = self.type or UNKNOWN_TYPE
        if not is_content_type(self.type):
            raise BadRequest(f"{self} has {self.type!r} as its content type, which is not one")
        if limits.types is not None and not is_allowed(self.type, limits.types):
            raise UnsupportedMediaType(
                f"{self} is of the type {self.type}; send {', '.join(sorted(limits.types))}"
            )

    def __repr__(self) -> str:
        whole = self._upload.kind == "body"
        part = "The body" if whole else f"The part {shown_name(self.name)!r}"
        return f"{part}, the file {self.file_name!r}," if self.file_name else part

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


def read_options(name: str, value: str) -> tuple[bytes, dict[bytes, bytes]]:
    """Return the value of a header and its options.

    Raises:
        BadRequest: It is too long.
    """
    # The time that this takes grows with the square of the length: 60 kB take seconds.
    if len(value) > _MAX_OPTIONS_BYTES:
        raise BadRequest(f"The header {name} of an upload has over {_MAX_OPTIONS_BYTES} bytes")
    return parse_options_header(value)


def sent_file_name(disposition: str, options: Mapping[bytes, bytes]) -> str | None:
    """Return the name of a file by a header Content-Disposition, None if it has none.

    The folders in front of it are left out; clients may send a whole path.

    Args:
        disposition: The header.
        options: Its options, as `read_options` returns them.

    Raises:
        BadRequest: It is not valid.
    """
    plain = options.get(b"filename")
    try:
        name = _extended_file_name(disposition) or (None if plain is None else plain.decode())
    except UnicodeDecodeError:
        raise BadRequest("The name of a file is not valid UTF-8") from None
    return name if name is None else _SEPARATORS.split(name)[-1] or name


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
            "The upload has a parameter filename* that is not valid; send it as in"
            " filename*=UTF-8''na%C3%AFve.txt"
        ) from None


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


def is_taken(req: Request, upload: type[Upload]) -> bool:
    """Tell whether a parser has taken the body of a request, or read some of it.

    Where several middleware take an upload of the same class, the limits of the last one count.
    """
    earlier = req.body.get("upload") if is_dict(req.body) else None
    return req.body is not UNSET and (not isinstance(earlier, upload) or earlier.is_begun)


def takes_uploads(req: Request) -> bool:
    """Tell whether a path leads to a service that takes uploads, or to no service at all."""
    # Any other service would store the upload as a value of its record.
    lookup = getattr(req.app, "lookup", None)
    match = req.match if req.match is not None or lookup is None else lookup(req.path)
    if match is None:
        return True
    service: Any = match[0]
    while isinstance(service, ServiceHandle):
        service = service.service
    return getattr(service, "takes_uploads", False) is True
