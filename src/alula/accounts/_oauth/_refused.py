"""Why a sign-in with others fails: the codes that pages get, and their texts.

The texts are constants, so no text of a provider or a stranger ever reaches a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["TEXTS", "Refused"]

TEXTS: Final[Mapping[str, str]] = {
    "access_denied": "Sign-in was cancelled",
    "account_exists": "There is an account with this address; sign in as usual",
    "already_linked": "This identity belongs to another account",
    "expired": "Sign-in took too long or is finished already; try again",
    "invalid": "The response of the provider is not valid; try again",
    "unavailable": "The provider cannot be reached; try again later",
}
"""The text of each code."""


class Refused(Exception):
    """A sign-in that fails.

    Args:
        code: One of the codes of `TEXTS`, or any other together with a text.
        text: The text that the page shows, None for the text of the code.
        ticket: A ticket with which the sign-in continues, as for a second factor.
        has_mail: Whether a mail has a link that completes it, bound to the browser.
    """

    def __init__(
        self,
        code: str,
        text: str | None = None,
        *,
        ticket: str | None = None,
        has_mail: bool = False,
    ) -> None:
        super().__init__(code)
        self.code = code
        self.text = TEXTS[code] if text is None else text
        self.ticket = ticket
        self.has_mail = has_mail
