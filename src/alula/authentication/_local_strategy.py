"""The strategy that accepts a user name and a password."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeGuard

from alula._context import Params
from alula._shares import network_of
from alula.authentication._attempt import current_attempt
from alula.authentication._base_strategy import AuthenticationStrategy
from alula.authentication._entities import fold_username
from alula.authentication._passwords import HashedPassword, Passwords, default_passwords
from alula.errors import BadRequest, NotAuthenticated, NotFound, TooManyRequests, Unavailable

__all__ = ["LocalStrategy", "is_credential"]

_log: Final = logging.getLogger("alula.authentication")

_MAX_BYTES: Final = 4096  # of a password or user name


class LocalStrategy(AuthenticationStrategy):
    """Accepts a user name and a password: ``{"strategy": "local", "email", "password"}``.

    All failures have the same response after the same time, so nobody learns which users exist.

    Args:
        username_field: The property that holds the user name.
        password_field: The property that holds the password; in records, its hash.
        entity_username_field: The name of the first in records, if that differs.
        entity_password_field: The name of the second in records, if that differs.
        error_message: The message of all failures.
        fold_username: Whether names are looked up in the form of `fold_username`, without case and
            surrounding blanks. Records must have this form. Otherwise names are looked up as sent.
        passwords: Creates and checks hashes; give `Passwords` for other parameters.

    Examples:
        >>> from alula.authentication import LocalStrategy
        >>> strategy = LocalStrategy(username_field="name", fold_username=True)
    """

    looks_up_account = True
    methods = ("pwd",)

    def __init__(
        self,
        *,
        username_field: str = "email",
        password_field: str = "password",  # noqa: S107  # the name of the field
        entity_username_field: str | None = None,
        entity_password_field: str | None = None,
        error_message: str = "Invalid login",
        fold_username: bool = False,
        passwords: Passwords | None = None,
    ) -> None:
        self.username_field = username_field
        self.password_field = password_field
        self.entity_username_field = entity_username_field or username_field
        self.entity_password_field = entity_password_field or password_field
        self.secret_fields = (self.entity_password_field,)
        self.error_message = error_message
        self.fold_username = fold_username
        self.passwords = passwords or default_passwords()

    async def setup(self) -> None:
        """Check that the authentication service has users, and measure how long checks take.

        Raises:
            ValueError: It has none.
        """
        if self.authentication.entities is None:
            raise ValueError(f"the strategy {self.name!r} needs a service of users: entity='user'")
        await self.passwords.prepare()

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Check a password, and replace its hash if that has outdated parameters.

        Raises:
            NotAuthenticated: The user does not exist, or the password is wrong.
        """
        started = time.perf_counter()
        entities = self.authentication.entities
        username = authentication.get(self.username_field)
        password = authentication.get(self.password_field)
        if is_credential(username) and is_credential(password):
            try:
                record = await self._user_with_password(username, password, params)
            except (TooManyRequests, Unavailable):  # as late as for users who do not exist
                await self.passwords.until_floor(started)
                raise
            if record is not None:
                attempt = current_attempt(self.authentication)
                if attempt is not None:
                    # The password may change before there is a session that the change could end.
                    attempt.confirm = partial(self._confirm, record, password, params, started)
                return {"authentication": {"strategy": self.name}, entities.name: record}
        raise await self._refusal(started)

    def account_of(self, authentication: Mapping[str, Any]) -> str | None:
        """Return the user name, None if it is not valid."""
        username = authentication.get(self.username_field)
        return username if is_credential(username) else None

    async def hash_password(self, password: object, params: Params | None = None) -> HashedPassword:
        """Return the hash of a new password.

        Args:
            password: The password.
            params: The params of the call that sets it. Calls from clients are counted, and
                refused if too many passwords wait to be hashed.

        Raises:
            BadRequest: It is not a string, empty, or too long.
            TooManyRequests: There are too many new passwords from this address.
            Unavailable: Too many passwords wait to be hashed.
        """
        if not is_credential(password):
            raise BadRequest("A password has to be a text, not empty and not over 4096 bytes long")
        if params is not None:
            await self.authentication.new_password(params)
        client = None if params is None else network_of(params.ip)
        return await self.passwords.hash(password, limited=_is_limited(params), client=client)

    async def _user_with_password(
        self, username: str, password: str, params: Params
    ) -> Mapping[str, Any] | None:
        """Return the record of a user whose password is right, None otherwise."""
        entities = self.authentication.entities
        name = fold_username(username) if self.fold_username else username
        record: Mapping[str, Any] | None = None
        try:
            if is_credential(name):  # folding may leave nothing, or make a name too long
                record = await entities.find_one(self.entity_username_field, name, params)
        except BadRequest as error:  # the service of the users refuses such a name
            _log.info("%r refused a look-up: %s", entities.path, ascii(error.message))
        await self.authentication.account_found(entities.id_of(record), params)
        limited, client = _is_limited(params), network_of(params.ip)
        stored = None if record is None else record.get(self.entity_password_field)
        if record is None or not isinstance(stored, str):
            await self.passwords.check_nothing(password, limited=limited, client=client)
            return None
        if not await self.passwords.check(password, stored, limited=limited, client=client):
            return None
        if self.passwords.is_outdated(stored):
            await self._renew(record, stored, password, params)
        return record

    async def _confirm(
        self, record: Mapping[str, Any], password: str, params: Params, started: float
    ) -> None:
        """Refuse a sign-in if the password is no longer that of the user."""
        entities, field = self.authentication.entities, self.entity_password_field
        with suppress(NotAuthenticated):  # the user was removed
            stored = (await entities.get(entities.id_of(record), params)).get(field)
            # A renewed hash differs, but is of the same password.
            if stored == record[field] or await self.passwords.check(password, stored):
                return
        raise await self._refusal(started)

    async def _refusal(self, started: float) -> NotAuthenticated:
        """Return the error of all failures, after the time that all of them take."""
        await self.passwords.until_floor(started)
        return NotAuthenticated(self.error_message)

    async def _renew(
        self, record: Mapping[str, Any], stored: str, password: str, params: Params
    ) -> None:
        """Store a hash with the current parameters; a failure does not fail the sign-in."""
        entities, field = self.authentication.entities, self.entity_password_field
        record_id, data = entities.id_of(record), {field: await self.passwords.renewed(password)}
        try:
            try:
                # With the old hash in the query: a password that was just changed is kept.
                await entities.renew_password(record_id, data, params, {field: stored})
            except BadRequest:  # a schema does not allow the password in queries
                if (await entities.get(record_id, params)).get(field) == stored:
                    await entities.renew_password(record_id, data, params, {})
        except NotFound:
            return
        except Exception:  # noqa: BLE001  # whatever the service raises, the password was right
            _log.exception("the hash of a password could not be renewed in %r", entities.path)


def _is_limited(params: Params | None) -> bool:
    return params is not None and params.provider is not None


def is_credential(value: object) -> TypeGuard[str]:
    """Return whether a value can be a user name or a password: a string of 1 to 4096 bytes."""
    if not isinstance(value, str) or not value or len(value) > _MAX_BYTES:
        return False
    with suppress(UnicodeEncodeError):
        return len(value.encode()) <= _MAX_BYTES
    return False
