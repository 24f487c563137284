"""Which mails are sent to whom, within the budgets of an account. All of it runs in jobs.

A job looks up the user, and sends nothing if there is none. By then, the request has its response,
so neither the response nor its time reveals whether there is an account.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from alula._context import Params
from alula.accounts._addresses import folded_address
from alula.accounts._events import Events
from alula.accounts._mail import ConsoleMailer, Mail, Mailer, Outbox, send_patiently
from alula.accounts._proofs import Proof, Proofs, Purpose
from alula.accounts._texts import Text, built_in_text
from alula.errors import BadRequest, NotAuthenticated
from alula.types import Id

__all__ = ["Messages"]

_LINK_OF: Final[Mapping[str, str]] = {
    "verify": "verify",
    "change": "verify",
    "undo": "verify",
    "reset": "reset",
    "restored": "reset",
    "link": "link",
    "link_identity": "link_identity",
}
"""By kind of mail: which of the owner's links it has. The first three have the same action."""

_PER_HOUR: Final = 3


class Messages:
    """Sends the mails of accounts.

    Args:
        authentication: The authentication service.
        proofs: Makes links and codes.
        outbox: Runs the jobs.
        events: Tells own code what has happened.
        mailer: Sends mails; None for an application that sends none.
        sender: The sender; None without a mailer.
        links: The links by name, with ``{token}``.
        texts: Texts by kind that replace the built-in ones.
        locale: The language of the texts.
        address: The property of users that has the address.
        verified: The property that says whether it is proved.
    """

    def __init__(
        self,
        authentication: Any,
        proofs: Proofs,
        outbox: Outbox,
        events: Events,
        *,
        mailer: Mailer | None,
        sender: str | None,
        links: Mapping[str, str],
        texts: Mapping[str, Text],
        locale: str,
        address: str,
        verified: str,
    ) -> None:
        self._authentication = authentication
        self._proofs = proofs
        self._outbox = outbox
        self._events = events
        self._mailer = mailer
        self._sender = sender
        self._links = links
        self._texts = texts
        self._locale = locale
        self._address = address
        self._verified = verified

    @property
    def are_sent(self) -> bool:
        """Whether there is a mailer."""
        return self._mailer is not None

    def check(self, app: object) -> None:
        """Check at the start that the mailer is one for this application.

        Not before: programs that only look at an application, such as one that writes a migration,
        run outside of debug mode.

        Raises:
            ValueError: It prints mails, and this is not debug mode.
        """
        if isinstance(self._mailer, ConsoleMailer) and getattr(app, "debug", False) is not True:
            raise ValueError(
                "ConsoleMailer prints links that sign people in, so it works in debug mode only:"
                " set ALULA_DEBUG=1 for development, and use SMTP otherwise"
            )

    # -- jobs ----------------------------------------------------------------------------------

    def signed_up(self, user_id: Id) -> None:
        """Ask a new user to prove the address."""
        self._outbox.put_if_free(partial(self._verify_by_id, user_id))

    def verify(self, address: str) -> None:
        """Ask the user of an address again to prove it."""
        self._outbox.put(partial(self._verify_by_address, address))

    def reset(self, address: str) -> None:
        """Send a link for a new password."""
        self._outbox.put(partial(self._send_to_address, "reset", address, {}))

    def sign_in_link(self, address: str, browser: str | None) -> None:
        """Send a link that signs in."""
        self._outbox.put(partial(self._send_to_address, "link", address, {"browser": browser}))

    def link_identity(self, address: str, data: Mapping[str, Any]) -> None:
        """Send a link that links an identity to the user of an address."""
        self._outbox.put_if_free(partial(self._send_to_address, "link_identity", address, data))

    def taken(self, address: str) -> None:
        """Tell the owner of an address that somebody wanted to have an account with it."""
        self._outbox.put_if_free(partial(self._taken, address))

    def password_changed(self, user_id: Id) -> None:
        """Tell a user that a client has changed the password."""
        self._outbox.put_if_free(partial(self._tell_of_password, user_id))

    def change(self, user: Mapping[str, Any], address: str) -> None:
        """Ask for the proof of a new address, and tell the old one how to undo the change."""
        self._outbox.put(partial(self._change, user, address))

    def tell(self, kind: str, user: Mapping[str, Any], *, codes_left: int | None = None) -> None:
        """Send a user a mail without a link, such as ``"factor_added"``."""
        self._outbox.put_if_free(partial(self._notify, kind, user, codes_left))

    async def warn(self, kind: str, user: Mapping[str, Any]) -> None:
        """Send a user a mail about an attack, such as ``"factor_guessed"``, once a day."""
        throttle = self._authentication.throttle
        budget = (f"accounts: mails {kind}", str(self._id(user)), 1, "24h")
        if throttle is None or not await throttle.take(*budget):
            self.tell(kind, user)

    def linked(self, user_id: Id) -> None:
        """Tell a user, and own code, that there is a new way to sign in."""
        self._outbox.put_if_free(partial(self._linked, user_id))

    def restored(self, user: Mapping[str, Any]) -> None:
        """Tell a user that the address is back, with a link for a new password."""
        self._outbox.put_if_free(partial(self._restored, user))

    # -- what they do --------------------------------------------------------------------------

    async def find_user(self, address: str) -> Mapping[str, Any] | None:
        """Return the user of a folded address, None if there is none."""
        entities = self._authentication.entities
        user: Mapping[str, Any] | None = None
        with suppress(BadRequest):  # a schema of the users refuses such an address
            user = await entities.find_one(self._address, address, Params())
        return user

    async def _verify_by_id(self, user_id: Id) -> None:
        if (user := await self._user(user_id)) is not None:
            await self._verify(user)

    async def _tell_of_password(self, user_id: Id) -> None:
        if (user := await self._user(user_id)) is not None:
            await self._notify("password_changed", user)

    async def _linked(self, user_id: Id) -> None:
        if (user := await self._user(user_id)) is not None:
            self._events.emit("linked", self._id(user))
            await self._notify("linked", user)

    async def _user(self, user_id: Id) -> Mapping[str, Any] | None:
        """Return a user, None if it was removed meanwhile, or a transaction was rolled back."""
        try:
            user: Mapping[str, Any] = await self._authentication.entities.get(user_id, Params())
        except NotAuthenticated:
            return None
        return user

    async def _verify_by_address(self, address: str) -> None:
        if (user := await self.find_user(address)) is not None:
            await self._verify(user)

    async def _verify(self, user: Mapping[str, Any]) -> None:
        if user.get(self._verified) is not True:
            await self._send_proof("verify", user)

    async def _send_to_address(
        self, purpose: Purpose, address: str, data: Mapping[str, Any]
    ) -> None:
        if (user := await self.find_user(address)) is not None:
            await self._send_proof(purpose, user, **data)

    async def _taken(self, address: str) -> None:
        user = await self.find_user(address)
        if user is not None and await self._may_send("taken", user):
            await self._notify("taken", user)

    async def _change(self, user: Mapping[str, Any], address: str) -> None:
        if not await self._may_send("change", user):
            return
        old = user[self._address]
        # An address that is not proved may be that of a stranger, who must not get the account.
        if user.get(self._verified) is True:
            proof = await self._proofs.issue("undo", self._id(user), {"address": old})
            await self._send("undo", user, old, proof)
        if await self.find_user(address) is None:
            data = {"address": old, "to": address}
            proof = await self._proofs.issue("change", self._id(user), data)
            await self._send("change", user, address, proof)
        else:
            await self._taken(address)

    async def _restored(self, user: Mapping[str, Any]) -> None:
        address = user[self._address]
        proof = await self._proofs.issue("reset", self._id(user), {"address": address})
        await self._send("restored", user, address, proof)

    async def _notify(
        self, kind: str, user: Mapping[str, Any], codes_left: int | None = None
    ) -> None:
        if folded_address(user.get(self._address)) is not None:
            await self._send(kind, user, user[self._address], None, codes_left)

    async def _send_proof(self, purpose: Purpose, user: Mapping[str, Any], **data: Any) -> None:
        """Send a link to the stored address, which a similar one in a request cannot redirect."""
        if folded_address(user.get(self._address)) is None:
            return
        if await self._may_send(purpose, user):
            address = user[self._address]
            proof = await self._proofs.issue(purpose, self._id(user), {"address": address, **data})
            await self._send(purpose, user, address, proof)

    async def _may_send(self, kind: str, user: Mapping[str, Any]) -> bool:
        """Take a mail out of the budgets of an account, and return whether there was one."""
        throttle = self._authentication.throttle
        if throttle is None:
            return True
        name, user_id = f"accounts: mails {kind}", str(self._id(user))
        if await throttle.take(f"{name} in a minute", user_id, 1, "1m"):
            return False
        return not await throttle.take(name, user_id, _PER_HOUR, "1h")

    async def _send(
        self,
        kind: str,
        user: Mapping[str, Any],
        to: str,
        proof: Proof | None,
        codes_left: int | None = None,
    ) -> None:
        if self._mailer is None or self._sender is None:
            return
        mail = Mail(
            kind=kind,
            to=to,
            sender=self._sender,
            link=None if proof is None else self._links[_LINK_OF[kind]].format(token=proof.token),
            code=None if proof is None else proof.code,
            codes_left=codes_left,
            expires=None if proof is None else datetime.fromtimestamp(proof.expires_at / 1000, UTC),
        )
        subject, text, html = self._texts.get(kind, built_in_text)(mail, self._locale)
        mail = replace(mail, subject=subject, text=text, html=html)
        await send_patiently(self._mailer, mail, self._id(user))

    def _id(self, user: Mapping[str, Any]) -> Id:
        user_id: Id = self._authentication.entities.id_of(user)
        return user_id
