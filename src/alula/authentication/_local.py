"""The strategy that takes a user name and a password."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

from alula._context import Params
from alula.authentication._entities import fold_username
from alula.authentication._passwords import (
    HashedPassword,
    Passwords,
    is_credential,
    usual_passwords,
)
from alula.authentication._strategy import CONFIRM, AuthenticationStrategy
from alula.errors import BadRequest, NotAuthenticated, NotFound, TooManyRequests, Unavailable

__all__ = ["LocalStrategy"]

_log = logging.getLogger("alula.authentication")


class LocalStrategy(AuthenticationStrategy):
    """Takes a user name and a password: ``{"strategy": "local", "email": ..., "password": ...}``.

    Whatever fails gets the same answer after the same time.

    Args:
        username_field: The property that holds the user name.
        password_field: The property that holds the password; in records, its hash.
        entity_username_field: The name of the first in records, where that differs.
        entity_password_field: The name of the second in records, where that differs.
        error_message: The answer to everything that fails.
        fold_username: Whether names are looked up as `fold_username` folds them: without case,
            Unicode form and blanks around. The records have to have them in this form. Otherwise
            they are looked up as they are sent.
        passwords: Makes and checks hashes; give one with parameters of your own.
    """

    looks_up_account = True

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
        self.passwords = passwords or usual_passwords()

    async def setup(self) -> None:
        """Check that there is a service whose users can sign in.

        Raises:
            ValueError: The authentication service has none.
        """
        if self.authentication.entities is None:
            raise ValueError(f"the strategy {self.name!r} needs a service of users: entity='user'")
        await self.passwords.prepare()

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Check a password, and renew its hash where that is not of today's kind.

        Raises:
            NotAuthenticated: There is no such user, or the password is wrong.
        """
        started = time.perf_counter()
        entities = self.authentication.entities
        username = authentication.get(self.username_field)
        password = authentication.get(self.password_field)
        record = None
        if is_credential(username) and is_credential(password):
            try:
                record = await self._checked(username, password, params)
            except (TooManyRequests, Unavailable):  # an account that is there must not show
                await self.passwords.until_floor(started)
                raise
        if record is None:
            await self._refuse(started)
        # Its password may be changed before there is a session that the change could end.
        params[CONFIRM] = partial(self._confirm, record, password, params, started)
        return {"authentication": {"strategy": self.name}, entities.name: record}

    def account_of(self, authentication: Mapping[str, Any]) -> str | None:
        """Return the user name, None where it can be none."""
        username = authentication.get(self.username_field)
        return username if is_credential(username) else None

    async def hash_password(self, password: Any, params: Params | None = None) -> HashedPassword:
        """Return the hash of a new password.

        Args:
            password: The password.
            params: The params of the call that sets it. Calls from outside are counted, and
                refused where too many wait.

        Raises:
            BadRequest: It can be none: no text, empty, or too long.
            TooManyRequests: Too many new passwords come from this address.
            Unavailable: Too many wait to be hashed.
        """
        if not is_credential(password):
            raise BadRequest("A password has to be a text, not empty and not over 4096 bytes long")
        if params is not None:
            await self.authentication.new_password(params)
        return await self.passwords.hash(password, limited=_is_limited(params))

    async def _checked(self, username: str, password: str, params: Params) -> Any:
        """Return the record of a user whose password is right, None otherwise."""
        entities = self.authentication.entities
        record = await self._find(username, params)
        await self.authentication.account_found(entities.id_of(record), params)
        hashed = record.get(self.entity_password_field) if isinstance(record, Mapping) else None
        limited = _is_limited(params)
        if not isinstance(hashed, str):
            await self.passwords.check_nothing(password, limited=limited)
            return None
        if not await self.passwords.check(password, hashed, limited=limited):
            return None
        if self.passwords.is_outdated(hashed):
            await self._renew(record, hashed, password, params)
        return record

    async def _find(self, username: str, params: Params) -> Any:
        """Return the record of a user, None where there is none."""
        entities = self.authentication.entities
        name = fold_username(username) if self.fold_username else username
        try:
            return await entities.find_one({self.entity_username_field: name}, params)
        except BadRequest as error:  # a schema says what a user name looks like, we do not
            _log.info("%r refused a look-up: %s", entities.path, ascii(error.message))
            return None

    async def _confirm(self, record: Any, password: Any, params: Params, started: float) -> None:
        """Refuse a sign-in where the password is no longer that of the user."""
        entities, field = self.authentication.entities, self.entity_password_field
        with suppress(NotAuthenticated):  # the user is gone
            hashed = (await entities.get(entities.id_of(record), params)).get(field)
            # A renewed hash is another one of the same password.
            if hashed == record[field] or await self.passwords.check(password, hashed):
                return
        await self._refuse(started)

    async def _refuse(self, started: float) -> NoReturn:
        await self.passwords.until_floor(started)
        raise NotAuthenticated(self.error_message)

    async def _renew(self, record: Any, hashed: str, password: str, params: Params) -> None:
        entities, field = self.authentication.entities, self.entity_password_field
        record_id, data = entities.id_of(record), {field: await self.passwords.renewed(password)}
        try:
            try:
                # Not over a password that was changed meanwhile.
                await entities.renew_password(record_id, data, params, {field: hashed})
            except BadRequest:  # a schema that has no password in its queries
                if (await entities.get(record_id, params)).get(field) == hashed:
                    await entities.renew_password(record_id, data, params, {})
        except NotFound:
            return
        except Exception:  # noqa: BLE001  # whatever the service says, the password was right
            _log.exception("the hash of a password could not be renewed in %r", entities.path)


def _is_limited(params: Params | None) -> bool:
    return params is not None and params.provider is not None
