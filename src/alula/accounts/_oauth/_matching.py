"""Who is it? From what a provider says about a person to a user.

What holds in this file:

- If the identity is linked, nothing else matters. The address matters only for a new identity, only
  if the provider is trusted with it, and only once.
- If a user's address is not confirmed, a stranger may have signed up with it. A trusted identity
  then takes the account over: first, all that the stranger has set is removed.
- If nobody confirms the address, the link in a mail to it does. Until then nothing is linked.
- Another call could change what a check has seen, so such checks run again when the identity is
  stored.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias

from alula._context import Params
from alula.accounts._addresses import folded_address
from alula.accounts._management import AuthManagement
from alula.accounts._messages import Messages
from alula.accounts._oauth._identities import Identities, Identity, identity_id
from alula.accounts._oauth._refused import Refused
from alula.accounts._oauth._starts import Start
from alula.accounts._proofs import StoredProof
from alula.accounts.providers._provider import Claims, Provider
from alula.errors import BadRequest, Conflict, Forbidden, NotAuthenticated, NotFound
from alula.types import Id, Record

__all__ = ["LinkByEmail", "Matching"]

LinkByEmail: TypeAlias = Literal["verified", "ask", "never"]

_log: Final = logging.getLogger("alula.accounts")
_MOST_LOOKS: Final = 3  # while others create and remove the same user or identity


class Matching:
    """Finds or creates the user of an identity.

    Args:
        authentication: The authentication service.
        identities: The identities.
        management: Takes over accounts for their owner.
        messages: Sends mails.
        address: The property of users that has the address.
        verified: The property that says whether the address is confirmed.
        link_by_email: Whether an identity is linked to the user who has its address, or a mail asks
            that user.
        asks_for_proof: Whether new users get a mail that asks them to confirm their address.
    """

    def __init__(
        self,
        authentication: Any,
        identities: Identities,
        management: AuthManagement,
        messages: Messages,
        *,
        address: str,
        verified: str,
        link_by_email: LinkByEmail,
        asks_for_proof: bool,
    ) -> None:
        self._authentication = authentication
        self._identities = identities
        self._management = management
        self._messages = messages
        self._address = address
        self._verified = verified
        self._link_by_email = link_by_email
        self._asks_for_proof = asks_for_proof

    async def identity_of(
        self, claims: Claims, provider: Provider, start: Start, browser: str
    ) -> Identity:
        """Return the identity of a person, which is linked to a user by now.

        Args:
            claims: What the provider says about the person.
            provider: The provider.
            start: The start of the sign-in, which says whether a signed-in user wants to link the
                identity.
            browser: The tag of the browser, to which a link in a mail is bound.

        Raises:
            Refused: The identity cannot be linked.
        """
        if start.user_id is not None:
            return await self._link_to_caller(claims, start)
        for _ in range(_MOST_LOOKS):
            identity = await self._known(identity_id(claims))
            if identity is None:
                identity = await self._link_by_address(claims, provider, browser)
            if identity is not None:
                return identity
        raise Refused("account_exists")

    async def _known(self, id: str) -> Identity | None:
        """Return the identity with a hash if it is linked to a user who exists."""
        identity = await self._identities.get(id)
        if identity is not None and await self._user(identity.user_id) is None:
            # The user was removed without us. Databases give ids again.
            await self._identities.remove(identity.id, identity.user_id)
            return None
        return identity

    async def _link_to_caller(self, claims: Claims, start: Start) -> Identity:
        """Link an identity to the signed-in user who asked for it."""
        await self._check_session(start)
        identity = (
            await self._known(identity_id(claims))
            or await self._link_in_session(claims, start)
            or await self._known(identity_id(claims))  # another call was faster
        )
        if identity is None or identity.user_id != start.user_id:
            raise Refused("already_linked")
        return identity

    async def _link_in_session(self, claims: Claims, start: Start) -> Identity | None:
        identity = await self._identities.link(claims, str(start.user_id))
        if identity is not None:
            try:
                await self._check_session(start)  # which may have ended before there was a link
            except Refused:
                await self._identities.remove(identity.id, identity.user_id)
                raise
            self._messages.linked(identity.user_id)
        return identity

    async def _check_session(self, start: Start) -> None:
        payload = {"sid": start.session_id, "sub": start.user_id}
        try:
            await self._authentication.sessions.check(payload)
        except NotAuthenticated:
            raise Refused("expired") from None

    async def _link_by_address(
        self, claims: Claims, provider: Provider, browser: str
    ) -> Identity | None:
        """Link a new identity to the user of its address, or to a new one.

        Returns:
            None if another call was faster with the identity or the address.

        Raises:
            Refused: The address belongs to a user, and is not confirmed to be this person's. That
                user gets a mail.
        """
        address = folded_address(claims.email)
        user = None if address is None else await self._messages.find_user(address)
        if user is None or address is None:
            return await self._sign_up(claims, address, provider)
        if self._link_by_email == "never":
            raise Refused("account_exists")
        if self._link_by_email == "ask" or not claims.is_verified:
            if self._messages.are_sent:
                self._ask(claims, address, browser)
            raise Refused("account_exists", has_mail=self._messages.are_sent)
        user_id = str(self._authentication.entities.id_of(user))
        await self._management.take_over(user_id, "oauth")
        identity = await self._link(claims, user_id)
        if identity is not None:
            self._messages.linked(user_id)
        return identity

    def _ask(self, claims: Claims, address: str, browser: str) -> None:
        """Mail the user of an address a link that links the identity."""
        self._messages.link_identity(
            address,
            {
                "browser": browser,
                "identity": identity_id(claims),
                "provider": claims.provider,
                "email": claims.email,
                "is_verified": claims.is_verified,
            },
        )

    async def link_by_mail(self, proof: StoredProof) -> bool:
        """Link the identity of a link in a mail, which was used up.

        Returns:
            Whether the identity is that user's. Otherwise, somebody else has linked it, or the user
            was removed.
        """
        data, user_id = proof.data, proof.user_id
        other = await self._known(data["identity"])
        if other is None:
            # A mail alone does not remove a second factor.
            action = "oauth" if data["is_verified"] else "linkIdentity"
            await self._management.take_over(user_id, action)
            identity = await self._unless_removed(
                await self._identities.link_by_id(
                    data["identity"], user_id, data["provider"], data["email"]
                )
            )
            if identity is not None:
                self._messages.linked(user_id)
                return True
            other = await self._known(data["identity"])  # another call was faster
        return other is not None and other.user_id == user_id

    async def _sign_up(
        self, claims: Claims, address: str | None, provider: Provider
    ) -> Identity | None:
        user_id = await self._new_user(claims, address, provider)
        if user_id is None:
            return None
        identity = None
        try:
            identity = await self._link(claims, str(user_id))
        finally:
            if identity is None:  # another call has linked it to a user, or the store has failed
                with suppress(NotFound):
                    await self._users.remove(user_id, accounts=_action("undo", provider))
        if identity is not None and self._asks_for_proof and self._messages.are_sent:
            self._messages.signed_up(user_id)
        return identity

    async def _new_user(self, claims: Claims, address: str | None, provider: Provider) -> Id:
        """Create a user, and return the id, None if the address is taken.

        Raises:
            Refused: The service of the users refuses this user.
        """
        make = provider.profile or self._default_profile
        data = dict(make(claims))
        stored = folded_address(data.get(self._address))
        data[self._verified] = claims.is_verified and stored is not None and stored == address
        try:
            user = await self._users.create(data, accounts=_action("create", provider))
        except Conflict:
            return None
        except Forbidden as error:
            raise Refused("access_denied") from error
        except BadRequest as error:
            _log.error(
                "%r refuses a new user from the provider %r: %s; let it accept what the option"
                " profile of the provider returns, and users without a password",
                self._authentication.entities.path,
                provider.name,
                ascii(error.message),
            )
            raise Refused("unavailable") from error
        return self._authentication.entities.id_of(user)

    def _default_profile(self, claims: Claims) -> Record:
        profile = {self._address: folded_address(claims.email), "name": claims.name}
        return {name: value for name, value in profile.items() if value is not None}

    async def _link(self, claims: Claims, user_id: str) -> Identity | None:
        """Link an identity to a user who still exists when that is done."""
        return await self._unless_removed(await self._identities.link(claims, user_id))

    async def _unless_removed(self, identity: Identity | None) -> Identity | None:
        """Return a new identity; remove it, and return None, if its user was removed meanwhile."""
        if identity is not None and await self._user(identity.user_id) is None:
            await self._identities.remove(identity.id, identity.user_id)
            return None
        return identity

    async def _user(self, user_id: str) -> Mapping[str, Any] | None:
        try:
            user: Mapping[str, Any] = await self._authentication.entities.get(user_id, Params())
        except NotAuthenticated:
            return None
        return user

    @property
    def _users(self) -> Any:
        return self._authentication.entities.handle


def _action(name: str, provider: Provider) -> dict[str, str]:
    """Return what the hooks of the users' service see as ``params.accounts``."""
    return {"action": name, "provider": provider.name}
