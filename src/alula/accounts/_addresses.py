"""E-mail addresses: which texts are some, and how two of them are compared."""

from __future__ import annotations

import re
from typing import Final

from alula.authentication import fold_username

__all__ = ["folded_address", "mailbox"]

_MAX_BYTES: Final = 254
_MAX_LOCAL_BYTES: Final = 64
# Blanks, control characters, and what has a meaning in the header of a mail.
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f-\xa0,;:\"'()<>\[\]\\\u2028\u2029]")


def folded_address(text: object) -> str | None:
    """Return an address in the form in which it is stored and compared, None if it is not one.

    Args:
        text: Any value that a client has sent.

    Examples:
        >>> folded_address("Ada@Example.com"), folded_address("ada"), folded_address({"$ne": ""})
        ('ada@example.com', None, None)
    """
    if not isinstance(text, str) or len(text) > _MAX_BYTES:
        return None
    folded = fold_username(text)
    local, at, domain = folded.rpartition("@")
    if not at or not local or "@" in local or _FORBIDDEN.search(folded):
        return None
    try:
        ascii_domain = domain.encode("idna")
        size = len(local.encode())
    except UnicodeError:  # an empty or long label, or half of a surrogate pair
        return None
    if b"." not in ascii_domain and ascii_domain != b"localhost":
        return None
    is_short = size <= _MAX_LOCAL_BYTES and size + 1 + len(ascii_domain) <= _MAX_BYTES
    return folded if is_short else None


def mailbox(address: str) -> str:
    """Return a stored address as mail servers take it: with the domain in ASCII (IDNA).

    Examples:
        >>> mailbox("ada@b\u00fccher.example")
        'ada@xn--bcher-kva.example'
    """
    local, _, domain = address.rpartition("@")
    return f"{local}@{domain.encode('idna').decode()}"
