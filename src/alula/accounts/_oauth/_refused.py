"""Why a sign-in with others fails: the codes that pages get, and their texts.

The texts are constants. What a provider or a stranger has written never reaches a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["TEXTS", "Refused"]

TEXTS: Final[Mapping[str, str]] = {
    "access_denied": "Sign-in was cancelled",
    "account_exists": "There is an account with this address; sign in as usual",
    "already_linked": "This identity belongs to another account",
    "expired": "Sign-in took too long or was finished before; try again",
    "invalid": "The response of the provider is not valid; try again",
    "unavailable": "The provider cannot be reached; try again later",
}
"""The text of each code."""


class Refused(Exception):
    """A sign-in that fails.

    Args:
        code: One of the codes of `TEXTS`, or another one with a text of its own.
        text: What the page shows, None for that of the code.
        ticket: With which the sign-in goes on, such as by a second factor.
    """

    def __init__(self, code: str, text: str | None = None, *, ticket: str | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.text = TEXTS[code] if text is None else text
        self.ticket = ticket
