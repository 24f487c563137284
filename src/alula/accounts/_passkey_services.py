"""The services of `account/` for passkeys: options for browsers, and the list of one's own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from secrets import token_urlsafe
from typing import Any, Final

from alula._context import HookContext, Params
from alula._identity import Application
from alula.accounts._addresses import folded_address
from alula.accounts._budgets import charge_network
from alula.accounts._challenges import CHALLENGE_SECONDS, Challenges, Registration
from alula.accounts._client_data import checked_name, fields_of, one_id
from alula.accounts._guards import RECENT_SECONDS, recent
from alula.accounts._messages import Messages
from alula.accounts._passkeys import Passkey, Passkeys
from alula.accounts._session_list import caller_of, forbid_caching, offer_to_callers
from alula.accounts._ways_in import WaysIn
from alula.accounts._webauthn import WebAuthn
from alula.authentication import authenticate
from alula.errors import BadRequest, Conflict, NotAuthenticated, NotFound
from alula.hooks import Hook
from alula.types import Id, Record, is_mapping

__all__ = ["PasskeyOptionsService", "PasskeysService"]

_OPTIONS_PATH: Final = "account/passkey-options"
_PATH: Final = "account/passkeys"
_OPTIONS_AN_HOUR: Final = 120
_MOST_PASSKEYS: Final = 20  # of a user


class PasskeyOptionsService:
    """Options with a challenge, which a page gives to the browser.

    Args:
        authentication: The authentication service.
        passkeys: All passkeys.
        challenges: The challenges.
        webauthn: Makes the options.
        address: The property of users that has the address.

    Attributes:
        secret_events: True: its events have tokens, so they are never published.
    """

    secret_events = True

    def __init__(
        self,
        authentication: Any,
        passkeys: Passkeys,
        challenges: Challenges,
        webauthn: WebAuthn,
        *,
        address: str,
    ) -> None:
        self._authentication = authentication
        self._passkeys = passkeys
        self._challenges = challenges
        self._webauthn = webauthn
        self._address = address

    def offer(self, app: Application, authentication_path: str | None) -> None:
        """Register the service. Anybody may sign in; only somebody signed in adds a passkey."""
        signed_in = authenticate(
            self._authentication.token_strategy.name, service=authentication_path
        )
        app.use(_OPTIONS_PATH, self, methods=["create"])
        checked = _only_for_new_passkeys(signed_in, recent(RECENT_SECONDS))
        app.service(_OPTIONS_PATH).hooks(before={"create": [forbid_caching, checked]})

    async def setup(self, app: Application, path: str) -> None:  # noqa: ARG002  # as applications call it
        """Find the store, and derive the keys."""
        self._passkeys.setup(app)
        self._challenges.setup(self._authentication)

    async def create(self, data: object, params: Params) -> Record:
        """Return ``{"options", "token", "expiresIn"}`` for ``{"purpose": "create"}`` or ``"get"``.

        The options to sign in are the same for everybody, and name no passkey.

        Raises:
            BadRequest: There is no such purpose.
            TooManyRequests: There were too many calls from this network.
        """
        purpose = data.get("purpose") if is_mapping(data) else None
        if purpose not in ("create", "get"):  # no set: clients may send what cannot be hashed
            raise BadRequest('purpose is "create" for a new passkey, or "get" to sign in')
        await charge_network(self._authentication, "passkey options", params, _OPTIONS_AN_HOUR)
        if purpose == "get":
            challenge, token = self._challenges.for_sign_in()
            options = self._webauthn.request_options(challenge)
        else:
            options, token = await self._for_new_passkey(params)
        return {"options": options, "token": token, "expiresIn": CHALLENGE_SECONDS}

    async def _for_new_passkey(self, params: Params) -> tuple[Record, str]:
        """Return options and a token for a new passkey of the caller."""
        user_id = caller_of(params)["sub"]
        user: Mapping[str, Any] = params[self._authentication.entities.name]
        known = await self._passkeys.of_user(user_id)
        handle = known[0].handle if known else token_urlsafe(32)
        challenge, token = self._challenges.for_registration(user_id, handle)
        options = self._webauthn.creation_options(
            challenge,
            handle=handle,
            name=folded_address(user.get(self._address)) or user_id,
            known=[passkey.id for passkey in known],
        )
        return options, token


class PasskeysService:
    """The passkeys of the caller; those of others do not exist here.

    Args:
        authentication: The authentication service.
        passkeys: All passkeys.
        challenges: The challenges.
        webauthn: Checks new passkeys.
        messages: Sends mails.
        ways: All ways in of a user.

    Attributes:
        secret_events: True: nobody else may know how somebody signs in, so its events are never
            published.
    """

    secret_events = True

    def __init__(
        self,
        authentication: Any,
        passkeys: Passkeys,
        challenges: Challenges,
        webauthn: WebAuthn,
        messages: Messages,
        ways: WaysIn,
    ) -> None:
        self._authentication = authentication
        self._passkeys = passkeys
        self._challenges = challenges
        self._webauthn = webauthn
        self._messages = messages
        self._ways = ways
        ways.add(passkeys.number_of)

    def offer(self, app: Application, authentication_path: str | None) -> None:
        """Register the service.

        Args:
            app: The application.
            authentication_path: The path of the authentication service, None for the default one.
        """
        methods, recently = ["find", "create", "patch", "remove"], ["create", "remove"]
        strategy = self._authentication.token_strategy.name
        offer_to_callers(
            app, _PATH, self, methods, strategy, authentication_path, recently=recently
        )

    async def find(self, params: Params) -> list[Record]:
        """Return the passkeys of the caller, the newest first."""
        return [_shown(one) for one in await self._passkeys.of_user(caller_of(params)["sub"])]

    async def create(self, data: object, params: Params) -> Record:
        """Add a passkey: ``token`` of the options, ``credential`` of the browser, and ``name``.

        Raises:
            BadRequest: The data has another form.
            Conflict: The caller has too many passkeys, or the passkey is registered already.
            NotAuthenticated: The token is not valid any more (``data.code`` is ``"expired"``), or
                the credential is not valid (``"invalid"``), or the session has ended meanwhile.
        """
        caller = caller_of(params)
        fields = fields_of(data, needed=("token", "credential", "name"))
        name = _name_in(fields)
        if not is_mapping(fields["credential"]):
            raise BadRequest("credential is what navigator.credentials.create returns, as JSON")
        await self._check_number(caller["sub"], _MOST_PASSKEYS - 1)
        registration = await self._challenges.use_for_registration(fields["token"], caller["sub"])
        if registration is None:
            text = "The token is not valid any more; begin again"
            raise NotAuthenticated(text, data={"code": "expired"})
        passkey = self._new_passkey(registration, fields["credential"], name)
        if not await self._passkeys.add(passkey):
            raise Conflict("This passkey is registered already")
        try:
            # Once more: other calls may have added some, or a take-over has ended the session.
            await self._check_number(caller["sub"], _MOST_PASSKEYS)
            await self._authentication.sessions.check(caller)
        except (Conflict, NotAuthenticated):
            await self._passkeys.remove(passkey.id, passkey.user_id)
            raise
        self._messages.tell("passkey_added", params[self._authentication.entities.name])
        return _shown(passkey)

    async def patch(self, id: Id, data: object, params: Params) -> Record:
        """Rename a passkey of the caller: ``{"name"}``.

        Raises:
            BadRequest: The data has another form.
            NotFound: The caller has no such passkey.
        """
        user_id, name = caller_of(params)["sub"], _name_in(fields_of(data, needed=("name",)))
        renamed = await self._passkeys.rename(one_id(id), user_id, name)
        if renamed is None:
            raise _not_found()
        return _shown(renamed)

    async def remove(self, id: Id, params: Params) -> Record:
        """Remove a passkey of the caller, who can no longer sign in with it.

        Raises:
            Conflict: The caller has no other way to sign in.
            NotFound: The caller has no such passkey.
        """
        user_id, passkey_id = caller_of(params)["sub"], one_id(id)
        if passkey_id not in {passkey.id for passkey in await self._passkeys.of_user(user_id)}:
            raise _not_found()

        async def remove() -> Passkey:
            removed = await self._passkeys.remove(passkey_id, user_id)
            if removed is None:
                raise _not_found()
            return removed

        removed = await self._ways.remove(user_id, remove, self._passkeys.add)
        self._messages.tell("passkey_removed", params[self._authentication.entities.name])
        return _shown(removed)

    def _new_passkey(self, registration: Registration, credential: object, name: str) -> Passkey:
        """Return a passkey that an authenticator has made, and that is not stored yet.

        Raises:
            NotAuthenticated: The credential is not valid.
        """
        made = self._webauthn.new_credential(credential, registration.challenge)
        if made is None:
            raise NotAuthenticated("The passkey is not valid", data={"code": "invalid"})
        return Passkey(
            made.id,
            registration.user_id,
            name,
            registration.handle,
            made.public_key,
            made.sign_count,
            made.is_backup_eligible,
            made.is_backed_up,
            int(time.time() * 1000),
        )

    async def _check_number(self, user_id: str, most: int) -> None:
        if await self._passkeys.number_of(user_id) > most:
            raise Conflict(f"You have {_MOST_PASSKEYS} passkeys; remove one before you add another")


def _only_for_new_passkeys(*checks: Hook) -> Hook:
    """Return a before hook that runs others only where a passkey is to be added."""

    async def check(context: HookContext) -> None:
        if is_mapping(context.data) and context.data.get("purpose") == "create":
            for each in checks:
                await each(context)

    return check


def _name_in(fields: Mapping[str, Any]) -> str:
    """Return the name of a passkey.

    Raises:
        BadRequest: It is not one.
    """
    try:
        return checked_name(fields["name"], "a passkey")
    except ValueError as error:
        raise BadRequest(str(error)) from None


def _shown(passkey: Passkey) -> Record:
    return {
        "id": passkey.id,
        "name": passkey.name,
        "createdAt": passkey.created_at,
        "lastUsedAt": passkey.last_used_at,
        "backedUp": passkey.is_backed_up,
    }


def _not_found() -> NotFound:
    return NotFound("You have no such passkey")
