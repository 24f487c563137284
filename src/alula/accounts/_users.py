"""Hooks on the service of the users: what clients may set, and what happens with a new user.

Clients cannot mark an address as confirmed, and cannot change it without a mail. To change a
password, they need a recent sign-in, and the user gets a mail. New passwords have rules. These
checks run before all other hooks, because a later hook hashes the password. The properties that
accounts add are set after all other hooks, directly around the method.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from alula._context import HookContext
from alula._events import emit_unless_held
from alula._service import ServiceHandle, owning_handle
from alula.accounts._addresses import folded_address
from alula.accounts._events import Events
from alula.accounts._guards import RECENT_SECONDS, check_recent
from alula.accounts._refusals import refusal
from alula.authentication import HashedPassword
from alula.authentication._entities import changed_properties, record_ids
from alula.authentication._local_strategy import is_credential
from alula.errors import Conflict, MethodNotAllowed
from alula.hooks import Next
from alula.types import Id, is_list, is_mapping

__all__ = ["PasswordRules", "UserHooks", "forget_removed_users"]

_NEWS: Final = "news of accounts"
"""The attribute of a context with what its call has to tell by mail. No hook sets one like it."""


class PasswordRules:
    """The rules of new passwords. They are checked exactly as they were sent: nothing is trimmed.

    Args:
        shortest: The least number of characters.
        check: Your own rule: returns why a password is not good enough, None if it is.
    """

    def __init__(self, shortest: int, check: Callable[[str], str | None] | None) -> None:
        self._shortest = shortest
        self._check = check

    def refuse(self, password: object, address: object) -> None:
        """Check a new password.

        Args:
            password: Any value that a client has sent.
            address: The address of its user.

        Raises:
            BadRequest: It is not good enough. ``errors.password`` says why.
        """
        if not is_credential(password):
            self._raise("The password has to be a text of at most 4096 bytes")
        elif len(password) < self._shortest:
            self._raise(f"The password needs at least {self._shortest} characters")
        elif (folded := folded_address(address)) and folded_address(password) == folded:
            self._raise("The password must not be the address")
        if self._check is not None and (reason := self._check(str(password))):
            self._raise(reason)

    def _raise(self, reason: str) -> None:
        raise refusal(reason, password=reason)


class News(Protocol):
    """What `UserHooks` tells about; each call returns at once."""

    def signed_up(self, user_id: Id) -> None:
        """Handle a user whom a client has created."""
        ...

    def taken(self, address: str) -> None:
        """Handle an address that a client wanted, but somebody has."""
        ...

    def password_changed(self, user_id: Id) -> None:
        """Handle a user whose password a client has changed."""
        ...


class UserHooks:
    """The hooks.

    Args:
        proofs: The store of links and codes.
        rules: The rules of passwords.
        news: Gets to know what has happened.
        events: Tells own code what has happened.
        address: The property of the address.
        verified: The property that says whether the address is proved.
        asks_for_proof: Whether new users get a mail that asks them to prove the address.
        has_mails: Whether people can change the address by a mail.
    """

    def __init__(
        self,
        proofs: Any,
        rules: PasswordRules,
        news: News,
        events: Events,
        *,
        address: str,
        verified: str,
        asks_for_proof: bool,
        has_mails: bool,
    ) -> None:
        self._proofs = proofs
        self._rules = rules
        self._news = news
        self._events = events
        self._address = address
        self._verified = verified
        self._asks_for_proof = asks_for_proof
        self._other_way = "; use the action identityChange" if has_mails else ""
        self._passwords: Collection[str] = ()

    def register(self, users: ServiceHandle, id_name: str, passwords: Collection[str]) -> None:
        """Add the hooks to the service of the users.

        Args:
            users: Its handle.
            id_name: The property that holds the id of a user.
            passwords: The properties that hold passwords.
        """
        self._id, self._passwords = id_name, passwords
        owner = owning_handle(users)
        changes = {"create", "update", "patch"}.intersection(owner.hook_methods())
        owner.hook_table.add_outermost(self.check_client, changes)
        owner.add_innermost(self.complete, changes)
        owner.add_innermost(self.tell_removed, {"remove"}.intersection(owner.hook_methods()))
        forget_removed_users(users, id_name, self._proofs.forget)

    async def check_client(self, context: HookContext, next: Next) -> None:
        """Check what a client sends, and send mails about the result.

        Raises:
            BadRequest: A value is not valid, or clients may not set it.
            MethodNotAllowed: It replaces a user.
        """
        if context.params.provider is None:
            await next()
            return
        if context.method == "update":
            raise MethodNotAllowed("Change a user by `patch`, which keeps the address")
        if is_list(context.data):
            context.data = [self._checked(record, context.method) for record in context.data]
        else:
            context.data = self._checked(context.data, context.method)
        setattr(context, _NEWS, [])
        try:
            await next()
        finally:
            # Also where another hook hides that an address is taken.
            for tell, what in getattr(context, _NEWS):
                tell(what)

    async def complete(self, context: HookContext, next: Next) -> None:
        """Complete what is stored: the folded address, and whether it is proved.

        Raises:
            NotAuthenticated: A client changes a password, and its sign-in is too long ago.
        """
        records: list[Any] = context.data if is_list(context.data) else [context.data]
        completed = [self._completed(record, context.method) for record in records]
        context.data = completed if is_list(context.data) else completed[0]
        news: list[Any] = getattr(context, _NEWS, [])
        changes_password = (
            context.method == "patch"
            and context.params.provider is not None
            and any(not changed_properties(each).isdisjoint(self._passwords) for each in completed)
        )
        if changes_password:
            # A password is a way in, so whoever finds an open browser must not set one.
            authentication: Mapping[str, Any] = context.params.authentication or {}
            check_recent(RECENT_SECONDS, authentication.get("payload") or {})
        try:
            if context.method == "create":
                for record in completed:
                    await self._check_reserved(record)
            await next()
        except Conflict:
            if context.method == "create":
                addresses = [record.get(self._address) for record in completed]
                news += [(self._news.taken, address) for address in addresses if address]
            raise
        if context.method == "create" and self._asks_for_proof:
            ids = record_ids(context.result, None, self._id) or ()
            news += [(self._news.signed_up, user_id) for user_id in ids]
        if changes_password:
            ids = record_ids(context.result, context.id, self._id) or ()
            news += [(self._news.password_changed, user_id) for user_id in ids]
        self._emit_changes(context, completed)

    async def tell_removed(self, context: HookContext, next: Next) -> None:
        """Tell own code of users who are removed."""
        await next()
        self._emit(context, ["removed"])

    def _emit_changes(self, context: HookContext, records: Sequence[object]) -> None:
        """Tell own code of a new user, or of what was changed of users."""
        params = context.params
        accounts: Mapping[str, Any] = params.get("accounts", {})
        if context.method == "create":
            # By a client, or by accounts for somebody who comes from a provider.
            is_sign_up = params.provider is not None or accounts.get("action") == "create"
            self._emit(context, ["signed_up"] if is_sign_up else [])
            return
        names: list[Any] = [*accounts.get("events", ())]
        changed = {name for record in records for name in changed_properties(record)}
        # A renewed hash is of the same password.
        if not changed.isdisjoint(self._passwords) and not params.get("renews_password"):
            names.append("password_changed")
        self._emit(context, names)

    def _emit(self, context: HookContext, names: Sequence[Any]) -> None:
        for user_id in record_ids(context.result, context.id, self._id) or ():
            for name in names:
                emit_unless_held(context, partial(self._events.emit, name, user_id))

    def _checked(self, record: object, method: str) -> object:
        """Return what a client may set of a user.

        Raises:
            BadRequest: It may not, or a value is not valid.
        """
        if not is_mapping(record):
            return record  # the service refuses it
        changed = changed_properties(record)
        if method == "patch" and (forbidden := changed & {self._address, self._verified}):
            name = min(forbidden)
            reason = f"{name} cannot be changed here{self._other_way}"
            raise refusal(reason, **{name: reason})
        data = {name: value for name, value in record.items() if name != self._verified}
        if method == "create":
            data[self._address] = folded_address(data.get(self._address))
            if data[self._address] is None:
                reason = "This is not an e-mail address"
                raise refusal(reason, **{self._address: reason})
        for operand in (data, *(data[name] for name in data if name[:1] == "$")):
            for name in self._passwords:
                if is_mapping(operand) and name in operand:
                    self._rules.refuse(operand[name], data.get(self._address))
        return data

    def _completed(self, record: object, method: str) -> Any:
        if not is_mapping(record):
            return record
        # A text: databases do not know the type.
        texts = {n: str(v) for n, v in record.items() if isinstance(v, HashedPassword)}
        data: dict[str, Any] = {**record, **texts}
        if self._address in data:
            data[self._address] = folded_address(data[self._address]) or data[self._address]
        if method == "create":
            data.setdefault(self._verified, False)
        return data

    async def _check_reserved(self, record: object) -> None:
        """Refuse an address whose owner may still take it back.

        Raises:
            Conflict: It is one.
        """
        address = record.get(self._address) if is_mapping(record) else None
        if isinstance(address, str) and await self._proofs.reserved_for(address) is not None:
            raise Conflict("This address is taken", errors={self._address: "Already taken."})


def forget_removed_users(
    users: ServiceHandle, id_name: str, forget: Callable[[Id], Awaitable[object]]
) -> None:
    """Remove what is stored of users who are removed, before it and again after it.

    Databases use ids again, and no left-over link or key may belong to the next user. The second
    removal catches what was stored in between.

    Args:
        users: The handle of the users' service.
        id_name: The property that holds the id of a user.
        forget: Removes all of one user.
    """

    async def forget_removed(context: HookContext, next: Next) -> None:
        if context.id is not None:
            await forget(context.id)
        await next()
        for user_id in record_ids(context.result, context.id, id_name) or ():
            await forget(user_id)

    owner = owning_handle(users)
    owner.add_innermost(forget_removed, {"remove"}.intersection(owner.hook_methods()))
