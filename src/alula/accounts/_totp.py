"""Codes of authenticator apps: TOTP (RFC 6238), with the settings that all such apps support."""

from __future__ import annotations

import hmac
import re
from base64 import b32encode
from secrets import token_bytes
from typing import Final
from urllib.parse import quote

__all__ = ["code_at", "matching_step", "new_secret", "secret_text", "setup_uri"]

_SECRET_BYTES: Final = 20  # RFC 4226, section 4: 160 bits
_STEP_SECONDS: Final = 30
_DIGITS: Final = 6
_CODE: Final = re.compile(r"[0-9]{6}")  # not \d, which also matches digits of other scripts


def new_secret() -> bytes:
    """Return a random secret."""
    return token_bytes(_SECRET_BYTES)


def secret_text(secret: bytes) -> str:
    """Return a secret as people type it into an app.

    Examples:
        >>> secret_text(b"12345678901234567890")
        'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ'
    """
    return b32encode(secret).decode()


def setup_uri(secret: bytes, issuer: str, account: str) -> str:
    """Return the URI of a secret, which pages show as a QR code.

    Args:
        secret: The secret.
        issuer: The name of the application.
        account: The address of the user.

    Examples:
        >>> setup_uri(b"12345678901234567890", "My app", "ada@example.com")[:63]
        'otpauth://totp/My%20app:ada%40example.com?secret=GEZDGNBVGY3TQO'
    """
    name, label = quote(issuer, safe=""), quote(account, safe="")
    return f"otpauth://totp/{name}:{label}?secret={secret_text(secret)}&issuer={name}"


def code_at(secret: bytes, step: int) -> str:
    """Return the code of a step of 30 seconds.

    Examples:
        >>> code_at(b"12345678901234567890", 59 // 30)
        '287082'
    """
    digest = hmac.digest(secret, step.to_bytes(8, "big"), "sha1")
    offset = digest[-1] & 0xF
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFF_FFFF
    return f"{number % 10**_DIGITS:0{_DIGITS}}"


def matching_step(secret: bytes, code: object, now: float) -> int | None:
    """Return the step that a code belongs to, None if it is wrong.

    The steps before and after the current one count as well, because clocks differ and typing takes
    time.

    Args:
        secret: The secret.
        code: Any value that a client has sent.
        now: The time, in seconds since 1970.
    """
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        return None
    current, found = int(now // _STEP_SECONDS), None
    for step in (current - 1, current, current + 1):
        if hmac.compare_digest(code_at(secret, step), code):
            found = step
    return found
