"""Content types of files: what a client declares, checked against how the content begins.

A client can declare anything. A file whose well-known signature says otherwise is refused. No check
of this kind sees through a file that is valid in two formats: `alula.files.file_content` therefore
forbids browsers to guess.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple

__all__ = ["SIGNATURE_BYTES", "UNKNOWN_TYPE", "is_allowed", "is_content_type", "mismatch"]

SIGNATURE_BYTES: Final = 512
"""How many bytes at the start of a file are checked."""

UNKNOWN_TYPE: Final = "application/octet-stream"

_NAME: Final = "[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"  # RFC 6838, 4.2
_CONTENT_TYPE: Final = re.compile(f"{_NAME}/{_NAME}")


class _Format(NamedTuple):
    """A format that shows in the first bytes of a file.

    Attributes:
        signature: Matches its first bytes.
        types: Files that declare one of these types must have the signature.
        others: Further types that files with this signature may declare.
        is_exclusive: Whether a file with this signature must not declare any other type.
    """

    signature: re.Pattern[bytes]
    types: frozenset[str]
    others: frozenset[str] = frozenset()
    is_exclusive: bool = True


def _format(signature: bytes, *types: str, others: str = "", is_exclusive: bool = True) -> _Format:
    pattern = re.compile(signature, re.DOTALL | re.IGNORECASE if b"<" in signature else re.DOTALL)
    return _Format(pattern, frozenset(types), frozenset(others.split()), is_exclusive)


# Before the first element of a page: a byte order mark, space, comments, declarations.
# Atomic: many comments in a row could otherwise be read as one in very many ways.
_PROLOGUE: Final = rb"(?:\xef\xbb\xbf)?(?>\s|<\?xml.{0,200}?\?>|<!--.{0,400}?-->)*+"
_FTYP: Final = rb".{4}ftyp"

_FORMATS: Final = (
    _format(rb"\x89PNG\r\n\x1a\n", "image/png", "image/apng"),
    _format(rb"\xff\xd8\xff", "image/jpeg", "image/jpg"),
    _format(rb"GIF8[79]a", "image/gif"),
    _format(rb"RIFF.{4}WEBP", "image/webp"),
    _format(_FTYP + rb"avi[fs]", "image/avif"),
    _format(_FTYP + rb"(?:hei[cxms]|hev[cmsx]|mif1|msf1)", "image/heic", "image/heif"),
    _format(rb"II\*\0|MM\0\*", "image/tiff"),
    _format(
        _FTYP + rb"(?!avi[fs]|hei|hev|mif1|msf1)|.{4}(?:moov|mdat|wide|free)",
        "video/mp4",
        "audio/mp4",
        "audio/x-m4a",
        "video/x-m4v",
        "video/quicktime",
        "video/3gpp",
    ),
    _format(rb"\x1aE\xdf\xa3", "video/webm", "audio/webm", "video/x-matroska", "audio/x-matroska"),
    _format(rb"RIFF.{4}WAVE", "audio/wav", "audio/x-wav", "audio/wave"),
    _format(rb"OggS", "audio/ogg", "video/ogg", "application/ogg", "audio/opus"),
    _format(rb"fLaC", "audio/flac", "audio/x-flac"),
    _format(rb"ID3|\xff[\xe2-\xff]", "audio/mpeg", "audio/mp3", is_exclusive=False),
    _format(rb"%PDF-", "application/pdf"),
    _format(
        rb"\x7fELF|MZ.{0,62}\0|\xcf\xfa\xed\xfe|\xca\xfe\xba\xbe",
        "application/vnd.microsoft.portable-executable",
        "application/x-msdownload",
        "application/x-executable",
        "application/x-elf",
        others="application/java-vm application/x-mach-binary application/x-sharedlib"
        " application/x-dosexec application/x-msdos-program",
    ),
    _format(
        _PROLOGUE + rb"(?:<!doctype svg[^>]*>\s*)?<svg[\s>]",
        "image/svg+xml",
        others="text/xml application/xml text/html application/xhtml+xml",
    ),
    # A fragment of HTML has no signature, so text/html needs none.
    _format(
        _PROLOGUE + rb"<(?:!doctype html|html|head|body|script|iframe)[\s>]",
        others="text/html application/xhtml+xml text/xml application/xml",
    ),
    # Documents of office programs, and many others, are archives of these formats.
    _format(
        rb"PK(?:\x03\x04|\x05\x06|\x07\x08)",
        "application/zip",
        "application/x-zip-compressed",
        "application/java-archive",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/epub+zip",
        is_exclusive=False,
    ),
    _format(rb"\x1f\x8b", "application/gzip", "application/x-gzip", is_exclusive=False),
)


def is_content_type(text: str) -> bool:
    """Tell whether a text is a content type in lower case, without parameters."""
    return _CONTENT_TYPE.fullmatch(text) is not None


def check_types(types: Collection[str] | None) -> None:
    """Check the option ``types`` of a middleware.

    Raises:
        TypeError: It is one string instead of a list.
        ValueError: One of them is not a content type.
    """
    if isinstance(types, str):
        raise TypeError(f"types is one string; give a list: [{types!r}]")
    for content_type in types or ():
        if not is_content_type(content_type.replace("/*", "/any")):
            raise ValueError(
                f"{content_type!r} is not a content type; write one in lower case, such as"
                " 'image/png' or 'image/*'"
            )


def is_allowed(content_type: str, types: Collection[str]) -> bool:
    """Tell whether a list of types has one: in full, or as ``image/*``."""
    return content_type in types or f"{content_type.partition('/')[0]}/*" in types


def mismatch(content_type: str, head: bytes) -> bool:
    """Tell whether a file is not of the type that it declares, as far as its signature shows.

    Args:
        content_type: In lower case, without parameters.
        head: The first `SIGNATURE_BYTES` of the file, fewer of a smaller one.

    Examples:
        >>> mismatch("image/png", b"<script>"), mismatch("text/plain", b"<script>")
        (True, True)
        >>> mismatch("text/plain", b"plain text"), mismatch("application/octet-stream", b"%PDF-1.7")
        (False, False)
    """
    required = [known for known in _FORMATS if content_type in known.types]
    if required:
        return not any(known.signature.match(head) for known in required)
    if content_type == UNKNOWN_TYPE:  # it claims nothing, and is never shown by a browser
        return False
    return any(
        known.is_exclusive and content_type not in known.others and known.signature.match(head)
        for known in _FORMATS
    )
