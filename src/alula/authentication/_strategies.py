"""Strategies: the ways to prove who is calling. `JWTStrategy`, `LocalStrategy`, and their base."""
# ruff: noqa: ARG002  # methods of the base class are there to be overridden

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NoReturn, TypeAlias

from alula._context import Params
from alula.authentication._attempt import current_attempt
from alula.authentication._entities import check_property, fold_username
from alula.authentication._passwords import (
    HashedPassword,
    Passwords,
    is_credential,
    usual_passwords,
)
from alula.errors import BadRequest, NotAuthenticated, NotFound, TooManyRequests, Unavailable

__all__ = [
    "AuthenticationStrategy",
    "JWTStrategy",
    "LocalStrategy",
    "Parser",
    "first_credentials",
    "parsers_of",
]

Parser: TypeAlias = Callable[[Any, Any], Any]
"""A function from a request and its response to credentials, None, or an awaitable of either."""

_log: Final = logging.getLogger("alula.authentication")


class AuthenticationStrategy:
    """One way to prove who is calling; derive from it for a way of your own.

    Attributes:
        name: The name under which it is registered.
        authentication: The authentication service it belongs to.
        app: The application of that service.
        secret_fields: Fields of a user's record that nobody gets to see: they are left out of
            ``params.user`` and of every answer.
        can_be_guessed: Whether trying again and again may lead to a proof, so that tries have to
            be limited.
        looks_up_account: Whether `authenticate` calls ``self.authentication.account_found(id,
            params)`` once it has looked for the account, and before it checks anything. The
            throttle then counts by the account. Otherwise it counts by the name in `account_of`.
    """

    name: str = ""
    authentication: Any = None
    app: Any = None
    secret_fields: tuple[str, ...] = ()
    can_be_guessed: bool = True
    looks_up_account: bool = False

    def register(self, name: str, authentication: Any) -> None:
        """Take note of the service; called by its ``register``.

        Raises:
            ValueError: The strategy is registered somewhere else already, or one of its
                `secret_fields` is no property of its own.
        """
        if self.authentication not in {None, authentication} or self.name not in {"", name}:
            raise ValueError(
                f"the strategy {name!r} is already registered, as {self.name!r}; make one instance"
                " for each place where it is used"
            )
        for field in self.secret_fields:
            check_property(field, f"the strategy {name!r}")
        self.name, self.authentication, self.app = name, authentication, authentication.app

    async def setup(self) -> None:
        """Prepare, and check whether all is there; called when the application is set up."""

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Check a proof.

        Args:
            authentication: What was sent: ``strategy`` and what belongs to it. Any JSON.
            params: The params of the call; ``params.provider`` is None for internal ones.

        Returns:
            ``{"authentication": {"strategy": self.name}}``, and under the name of the entity
            (``"user"``) its record. All of it but ``accessToken`` gets into ``params``.

        Raises:
            NotAuthenticated: It proves nothing.
        """
        raise NotImplementedError(f"{type(self).__name__} has no authenticate(...)")

    def account_of(self, authentication: Mapping[str, Any]) -> str | None:
        """Return whose account a proof is for, as the client says; None where it does not say."""
        return None

    def parse(
        self, req: Any, res: Any
    ) -> Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None:
        """Return the proof that a request carries, as `authenticate` takes it, None for none.

        It runs for every request, so it is a plain function wherever it can be one.
        """
        return None


def parsers_of(strategies: Iterable[AuthenticationStrategy]) -> list[Parser]:
    """Return the `parse` methods of strategies, without those that never find anything.

    Every request calls them all.
    """
    inherited = AuthenticationStrategy.parse
    return [strategy.parse for strategy in strategies if type(strategy).parse is not inherited]


async def first_credentials(
    awaitable: Awaitable[Any], parsers: Sequence[Parser], req: Any, res: Any
) -> Any:
    """Wait for an asynchronous parser, and call the following ones until one finds credentials."""
    credentials = await awaitable
    for parse in parsers:
        if credentials is not None:
            break
        credentials = parse(req, res)
        if hasattr(credentials, "__await__"):
            credentials = await credentials
    return credentials


class JWTStrategy(AuthenticationStrategy):
    """Takes an access token: ``{"strategy": "jwt", "accessToken": "..."}``.

    Of a request it reads one header. Its value is a scheme, a colon if somebody sends one, and a
    token with spaces between them, or a token alone.

    Args:
        header: The name of the header.
        schemes: Schemes that it may have, in any case.
    """

    can_be_guessed = False

    def __init__(
        self, *, header: str = "Authorization", schemes: Iterable[str] = ("Bearer", "JWT")
    ) -> None:
        self._header = header.lower().encode("ascii")
        names = [scheme.lower() for scheme in schemes]
        self._schemes = frozenset((*names, *(f"{name}:" for name in names)))

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Check a token, and load the user that it names.

        Raises:
            NotAuthenticated: The token is not in order, or its user is gone.
        """
        token = authentication.get("accessToken")
        if token in (None, "", 0):
            raise NotAuthenticated("No access token")
        service = self.authentication
        payload = service.verify_access_token(token)
        proof = {"strategy": self.name, "accessToken": token, "payload": payload}
        result: dict[str, Any] = {"accessToken": token, "authentication": proof}
        record: Any = None
        entities = service.entities
        if entities is not None:
            record = result[entities.name] = await entities.get(payload["sub"], params)
        for extension in service.extensions:
            await extension.check_token(payload, record, params)
        return result

    def parse(self, req: Any, res: Any) -> Mapping[str, Any] | None:
        """Return the token of a request, None where the header has none."""
        # The raw headers: most requests need no others, so no table of them is made.
        name = self._header
        values = [value for key, value in req.scope["headers"] if key == name]
        if not values:
            return None
        if len(values) > 1:  # which one counts is not ours to guess
            return {"strategy": self.name, "accessToken": None}
        scheme, *rest = values[0].decode("latin-1").strip(" \t").split(" ")
        if not scheme:
            return None
        if not rest:
            return {"strategy": self.name, "accessToken": scheme}
        if scheme.lower() not in self._schemes:
            return None
        return {"strategy": self.name, "accessToken": next(filter(None, rest))}


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
        attempt = current_attempt(self.authentication)
        if attempt is not None:
            # The password may change before there is a session that the change could end.
            attempt.confirm = partial(self._confirm, record, password, params, started)
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
