"""Recovery codes: people keep them on paper, in case they lose their phone.

A code has 120 random bits, so nobody can guess it, and its fast keyed hash tells nothing about it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b32encode
from secrets import token_bytes
from typing import Final

__all__ = ["RECOVERY_CODES", "new_recovery_code", "recovery_code_of", "recovery_tag"]

RECOVERY_CODES: Final = 10
"""How many codes somebody gets at once."""

_BYTES: Final = 15
_GROUP: Final = 4
_CODE: Final = re.compile(r"[A-Z2-7]{24}")
_MOST_TYPED: Final = 100  # characters, with blanks and dashes


def new_recovery_code() -> str:
    """Return a random code, in six groups of four characters."""
    text = b32encode(token_bytes(_BYTES)).decode()
    return "-".join(text[start : start + _GROUP] for start in range(0, len(text), _GROUP))


def recovery_code_of(typed: object) -> str | None:
    """Return a code without blanks and dashes, in capitals; None if it is none.

    Args:
        typed: Any value that a client has sent.

    Examples:
        >>> recovery_code_of("abcd-efgh ijkl-MNOP-qrst-uvwx")
        'ABCDEFGHIJKLMNOPQRSTUVWX'
    """
    if not isinstance(typed, str) or len(typed) > _MOST_TYPED:
        return None
    code = re.sub(r"[\s-]", "", typed).upper()
    return code if _CODE.fullmatch(code) else None


def recovery_tag(key: bytes, user_id: object, code: str) -> str:
    """Return what the store has of a code.

    Args:
        key: A secret key.
        user_id: Whose code it is.
        code: The code, as `recovery_code_of` returns it.
    """
    return hmac.digest(key, f"{user_id}\0{code}".encode(), hashlib.sha256).hex()
