"""Challenges of passkeys: random texts that authenticators sign, each once.

What holds in this file:

- A challenge is in a sealed token, which the client sends back. The server stores nothing before.
- A token counts once, for five minutes, and for one purpose: a sign-in, or a new passkey of one
  user.
- It is used up before anything is verified, so nobody can try twice with one.
"""

from __future__ import annotations

from secrets import token_urlsafe
from typing import Any, Final, NamedTuple

from alula.authentication._sealed import OneTimeSeal

__all__ = ["CHALLENGE_SECONDS", "Challenges", "Issued", "Registration"]

CHALLENGE_SECONDS: Final = 300
_TOPIC: Final = "account/passkeys"


class Issued(NamedTuple):
    """A new challenge.

    Attributes:
        challenge: 256 random bits, in base64.
        token: The sealed challenge.
    """

    challenge: str
    token: str


class Registration(NamedTuple):
    """What the token of a new passkey says.

    Attributes:
        challenge: The challenge, in base64.
        user_id: Whose passkey it will be.
        handle: The handle of that user, in base64.
    """

    challenge: str
    user_id: str
    handle: str


class Challenges:
    """Issues challenges, and uses them up."""

    def __init__(self) -> None:
        self._sign_ins = OneTimeSeal("passkey sign-in", CHALLENGE_SECONDS)
        self._registrations = OneTimeSeal("passkey registration", CHALLENGE_SECONDS)

    def setup(self, authentication: Any) -> None:
        """Derive the keys, and find out where used challenges are remembered."""
        self._sign_ins.setup(authentication, _TOPIC)
        self._registrations.setup(authentication, _TOPIC)

    def for_sign_in(self) -> Issued:
        """Return a new challenge for a sign-in."""
        challenge = token_urlsafe(32)
        return Issued(challenge, self._sign_ins.seal(challenge))

    def for_registration(self, user_id: str, handle: str) -> Issued:
        """Return a new challenge for a passkey of a user."""
        registration = Registration(token_urlsafe(32), user_id, handle)
        return Issued(registration.challenge, self._registrations.seal(registration))

    async def use_for_sign_in(self, token: object) -> str | None:
        """Use the challenge of a sign-in up, and return it, None if it does not count.

        Args:
            token: Any value that a client has sent.
        """
        sealed = self._sign_ins.unseal(token)
        if sealed is None or not await self._sign_ins.use_up(sealed):
            return None
        challenge: str = sealed.value
        return challenge

    async def use_for_registration(self, token: object, user_id: str) -> Registration | None:
        """Use the challenge of a new passkey up, and return it, None if it does not count.

        Args:
            token: Any value that a client has sent.
            user_id: Who sends it.
        """
        sealed = self._registrations.unseal(token)
        registration = None if sealed is None else Registration(*sealed.value)
        if sealed is None or registration is None or registration.user_id != user_id:
            return None
        return registration if await self._registrations.use_up(sealed) else None
