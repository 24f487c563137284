"""Strategies: the ways to prove who is calling. `JWTStrategy`, `LocalStrategy`, and their base."""
# ruff: noqa: ARG002  # methods of the base class are there to be overridden

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import MethodType
from typing import Any, Final, Literal, NoReturn, TypeAlias, get_args

from alula._context import Params
from alula._identity import AmbientCredentials, SentRequest
from alula._shares import network_of
from alula.authentication._attempt import Extension, current_attempt
from alula.authentication._entities import check_property, fold_username, without
from alula.authentication._passwords import (
    HashedPassword,
    Passwords,
    default_passwords,
    is_credential,
)
from alula.errors import BadRequest, NotAuthenticated, NotFound, TooManyRequests, Unavailable
from alula.types import is_mapping

__all__ = [
    "AuthenticationStrategy",
    "Credentials",
    "JWTStrategy",
    "LocalStrategy",
    "Parsed",
    "Parser",
]

Credentials: TypeAlias = Mapping[str, Any]
"""What a client sends to show who it is: ``strategy``, and what that strategy needs."""

Parsed: TypeAlias = Credentials | Awaitable[Credentials | None] | None
Parser: TypeAlias = Callable[[Any, Any], Parsed]

OnExpiry: TypeAlias = Literal["close", "sign_out"]
"""What happens to a real-time connection whose token is no longer valid."""

_log: Final = logging.getLogger("alula.authentication")

_NO_CHECK: Final = Extension.check_token


class AuthenticationStrategy:
    """Base class for a way to authenticate; override `authenticate`.

    Attributes:
        name: The name under which it is registered.
        authentication: The authentication service that it is registered at.
        app: The application of that service.
        secret_fields: Fields of a user's record that are removed from ``params.user`` and from
            every response.
        can_be_guessed: Whether credentials can be guessed by many tries, which the throttle then
            limits.
        looks_up_account: Whether `authenticate` calls ``self.authentication.account_found(id,
            params)`` after it has looked for the account, and before it checks the credentials.
            The throttle then counts by account. Otherwise it counts by the name in `account_of`.

    Examples:
        >>> from alula.authentication import AuthenticationStrategy
        >>> from alula.errors import NotAuthenticated
        >>> class Pin(AuthenticationStrategy):
        ...     async def authenticate(self, authentication, params):
        ...         if authentication.get("pin") != "0000":
        ...             raise NotAuthenticated("Invalid PIN")
        ...         user = await self.app.service("users").get(1)
        ...         return {"authentication": {"strategy": self.name}, "user": user}
    """

    name: str = ""
    authentication: Any = None
    app: Any = None
    secret_fields: tuple[str, ...] = ()
    can_be_guessed: bool = True
    looks_up_account: bool = False

    def register(self, name: str, authentication: Any) -> None:
        """Connect the strategy to its service, which calls this when it is registered.

        Args:
            name: The name under which it is registered.
            authentication: The authentication service.

        Raises:
            ValueError: The strategy is already registered somewhere else, or one of its
                `secret_fields` is inside another property.
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
        """Prepare, and check the configuration; called when the application is set up."""

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Check credentials.

        Args:
            authentication: What the client sent: ``strategy``, and any other JSON.
            params: The params of the call; ``params.provider`` is None for internal calls.

        Returns:
            ``{"authentication": {"strategy": self.name}}``, and under the name of the entity
            (``"user"``) the record of the user. All of it except ``accessToken`` is copied into
            ``params``.

        Raises:
            NotAuthenticated: The credentials are not valid.
        """
        raise NotImplementedError(f"{type(self).__name__} has no authenticate(...)")

    def authenticate_without(
        self, authentication: Mapping[str, Any], params: Params, fields: frozenset[str]
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Return a coroutine of what `authenticate` returns, without some fields of the user.

        The authentication service calls it with its ``secret_fields``; override `authenticate`.
        """

        async def authenticate() -> dict[str, Any]:
            result = await self.authenticate(authentication, params)
            entity = self.authentication.entity
            if entity not in result:
                return result
            # A copy: a strategy may keep what it has returned.
            return {**result, entity: without(result[entity], fields)}

        return authenticate()

    def account_of(self, authentication: Mapping[str, Any]) -> str | None:
        """Return the account that credentials name, None if they name none."""
        return None

    def parse(
        self, req: Any, res: Any
    ) -> Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None:
        """Return the credentials in a request, None if it has none.

        It runs for every request; make it a plain function if you can, since a coroutine costs
        more.

        Args:
            req: The request.
            res: The response.
        """
        return None


class JWTStrategy(AuthenticationStrategy):
    """Accepts an access token: ``{"strategy": "jwt", "accessToken": "..."}``.

    In a request the token is in one header, alone or after a scheme: ``Bearer <token>``. A colon
    after the scheme and several spaces are accepted, as FeathersJS does.

    Args:
        header: The name of the header.
        schemes: The accepted schemes, in upper or lower case.
        on_expiry: What happens to a real-time connection whose token expires. ``"close"`` closes
            it, so that clients come back and notice that they are signed out. ``"sign_out"`` keeps
            it open, without a user. The same happens where its session or its user is removed.

    Attributes:
        header: As given, in lower case.
        on_expiry: As given.

    Raises:
        ValueError: ``on_expiry`` is neither of these.

    Examples:
        >>> from alula.authentication import JWTStrategy
        >>> strategy = JWTStrategy(header="X-Token", schemes=["Token"])
    """

    can_be_guessed = False

    def __init__(
        self,
        *,
        header: str = "Authorization",
        schemes: Iterable[str] = ("Bearer", "JWT"),
        on_expiry: OnExpiry = "close",
    ) -> None:
        if on_expiry not in get_args(OnExpiry):
            raise ValueError(f'on_expiry is {on_expiry!r}; write "close" or "sign_out"')
        self.on_expiry = on_expiry
        self._built_in_check = MethodType(JWTStrategy.authenticate, self)
        self.header = header.lower()
        self._raw_header = self.header.encode("ascii")
        spelled = (*schemes,)
        names = [scheme.lower() for scheme in spelled]
        self._schemes = frozenset((*spelled, *names, *(f"{name}:" for name in names)))

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Verify a token, and load its user.

        Raises:
            NotAuthenticated: The token is not valid, or its user does not exist.
            Forbidden: It is that of a cookie, and another site may have made the request.
        """
        return await JWTStrategy.authenticate_without(self, authentication, params, None)

    async def authenticate_without(
        self, authentication: Mapping[str, Any], params: Params, fields: frozenset[str] | None
    ) -> dict[str, Any]:
        """As in the base class; None for the fields is a call by `authenticate`.

        Raises:
            NotAuthenticated: The token or its user is not valid.
        """
        if fields is not None and self.authenticate != self._built_in_check:  # it is overridden
            return await super().authenticate_without(authentication, params, fields)
        token = authentication.get("accessToken")
        if not token and token in (None, "", 0):
            if isinstance(authentication, AmbientCredentials) and authentication.refusal:
                raise authentication.refusal
            raise NotAuthenticated("No access token")
        service = self.authentication
        try:
            payload = service.verify_access_token(token)
            entities, record = service.entities, None
            if entities is not None:
                record = await entities.get(payload["sub"], params)
            for extension in service.extensions:
                check = extension.check_token
                if getattr(check, "__func__", None) is not _NO_CHECK:  # saves a coroutine
                    await check(payload, record, params)
        except NotAuthenticated:
            service.forget_access_token(token)
            service.connections.refused(params.get("connection"), token)
            raise
        verified = {"strategy": self.name, "accessToken": token, "payload": payload}
        result: dict[str, Any] = {"accessToken": token, "authentication": verified}
        if entities is not None:
            result[entities.name] = without(record, fields) if fields else record
        return result

    def parse(self, req: SentRequest, res: object) -> Mapping[str, Any] | None:
        """Return the token of a request, None if the header has none."""
        raw = req.sent_headers.get(self._raw_header)
        if raw is None:
            return None
        sent = req.scope["headers"]
        if (
            len(req.sent_headers) < len(sent)
            and sum(name == self._raw_header for name, _ in sent) > 1
        ):
            # A proxy may have checked the one, and this would take the other.
            return {"strategy": self.name, "accessToken": None}
        scheme, _, rest = raw.decode("latin-1").partition(" ")
        if not rest or " " in rest or "\t" in rest or scheme not in self._schemes:
            scheme, _, rest = raw.decode("latin-1").strip(" \t").partition(" ")
            if not scheme:
                return None
            if not rest:
                return {"strategy": self.name, "accessToken": scheme}
            if scheme.lower() not in self._schemes:
                return None
            rest = rest.lstrip(" ").partition(" ")[0]
        return {"strategy": self.name, "accessToken": rest}


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
        if not (is_credential(username) and is_credential(password)):
            await self._refuse(started)
        try:
            record = await self._user_with_password(username, password, params)
        except (TooManyRequests, Unavailable):  # as late as for users who do not exist
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
        client = None if params is None else network_of(params.get("ip"))
        return await self.passwords.hash(password, limited=_is_limited(params), client=client)

    async def _user_with_password(
        self, username: str, password: str, params: Params
    ) -> Mapping[str, Any] | None:
        """Return the record of a user whose password is right, None otherwise."""
        entities = self.authentication.entities
        name = fold_username(username) if self.fold_username else username
        record = None
        try:
            if is_credential(name):  # folding may leave nothing, or make a name too long
                record = await entities.find_one({self.entity_username_field: name}, params)
        except BadRequest as error:  # a schema of the users refuses such a name
            _log.info("%r refused a look-up: %s", entities.path, ascii(error.message))
        await self.authentication.account_found(entities.id_of(record), params)
        limited, client = _is_limited(params), network_of(params.get("ip"))
        stored = record.get(self.entity_password_field) if is_mapping(record) else None
        if not is_mapping(record) or not isinstance(stored, str):
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
        await self._refuse(started)

    async def _refuse(self, started: float) -> NoReturn:
        await self.passwords.until_floor(started)
        raise NotAuthenticated(self.error_message)

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
