"""The strategy of passkeys. It counts as two factors: the device, and what unlocks it.

All failures get the same response, so nobody finds out which passkeys exist, or what was wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from alula._context import Params
from alula.accounts._challenges import Challenges
from alula.accounts._messages import Messages
from alula.accounts._passkeys import Passkey, Passkeys
from alula.accounts._webauthn import Assertion, WebAuthn
from alula.authentication import AuthenticationStrategy
from alula.authentication._attempt import current_attempt
from alula.errors import NotAuthenticated
from alula.types import is_mapping

__all__ = ["PasskeyStrategy"]

_UseTicket: TypeAlias = Callable[[Mapping[str, Any], str, Params], Awaitable[Sequence[str]]]

_log: Final = logging.getLogger("alula.accounts")


class PasskeyStrategy(AuthenticationStrategy):
    """Accepts what a browser returns: ``{"strategy": "passkey", "token", "credential"}``.

    With a ``ticket``, it finishes the sign-in that has asked for a second factor.

    Args:
        passkeys: All passkeys.
        challenges: The challenges.
        webauthn: Checks signatures.
        messages: Sends mails.
        use_ticket: Uses up a ticket that asks a user for a second factor, and returns how the user
            has proved the first; None where there are no second factors.
    """

    can_be_guessed = False  # signatures
    methods = ("hwk", "user")

    def __init__(
        self,
        passkeys: Passkeys,
        challenges: Challenges,
        webauthn: WebAuthn,
        messages: Messages,
        use_ticket: _UseTicket | None,
    ) -> None:
        self._passkeys = passkeys
        self._challenges = challenges
        self._webauthn = webauthn
        self._messages = messages
        self._use_ticket = use_ticket

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Check a signature, and sign in the user of the passkey.

        Raises:
            NotAuthenticated: Something is wrong, or the ticket is not valid any more
                (``data.code`` is then ``"expired"``).
        """
        passkey, assertion = await self._checked(authentication)
        entities = self.authentication.entities
        try:
            user = await entities.get(passkey.user_id, params)
        except NotAuthenticated:
            raise _invalid() from None
        await self._check_counter(passkey, assertion, user)
        first_factor: Sequence[str] = ()
        if "ticket" in authentication:
            if self._use_ticket is None:
                raise _invalid()
            first_factor = await self._use_ticket(authentication, passkey.user_id, params)
        await self._passkeys.note_use(
            passkey, sign_count=assertion.sign_count, is_backed_up=assertion.is_backed_up
        )
        attempt = current_attempt(self.authentication)
        if attempt is not None:
            attempt.methods = (*first_factor, *self.methods)
            attempt.confirm = self._still_there(passkey)
        return {"authentication": {"strategy": self.name}, entities.name: user}

    async def _checked(self, authentication: Mapping[str, Any]) -> tuple[Passkey, Assertion]:
        """Return the passkey that has signed a challenge, and what it has signed.

        Raises:
            NotAuthenticated: None has.
        """
        challenge = await self._challenges.use_for_sign_in(authentication.get("token"))
        credential = authentication.get("credential")
        if challenge is None or not is_mapping(credential):
            raise _invalid()
        passkey = await self._passkeys.find(credential.get("id"))
        if passkey is None:
            raise _invalid()
        assertion = self._webauthn.assertion(credential, challenge, passkey.public_key)
        if (
            assertion is None
            or assertion.user_handle != passkey.handle
            or assertion.is_backup_eligible != passkey.is_backup_eligible  # that never changes
        ):
            raise _invalid()
        return passkey, assertion

    async def _check_counter(
        self, passkey: Passkey, assertion: Assertion, user: Mapping[str, Any]
    ) -> None:
        """Refuse a counter that does not rise: there may be a copy of the authenticator.

        Raises:
            NotAuthenticated: It does not.
        """
        stored, counted = passkey.sign_count, assertion.sign_count
        if counted > stored or counted == stored == 0:  # synced passkeys have no counter
            return
        _log.warning(
            "a passkey of the user %r may have been copied: its counter is %d after %d",
            passkey.user_id,
            counted,
            stored,
        )
        await self._messages.warn("passkey_copied", user)
        raise _invalid()

    def _still_there(self, passkey: Passkey) -> Callable[[], Awaitable[None]]:
        """Return what refuses a sign-in if the passkey was removed meanwhile."""

        async def confirm() -> None:
            current = await self._passkeys.find(passkey.id)
            if current is None or current.user_id != passkey.user_id:
                raise _invalid()

        return confirm


def _invalid() -> NotAuthenticated:
    return NotAuthenticated("Invalid login")
