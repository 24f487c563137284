"""The second step of a sign-in: a ticket, which proves the first step, and a code.

What holds in this file:

- It is asked for after every way to sign in, except where a passkey has checked the person.
- A ticket is bound to the user, the network and the password. It has five tries, whatever is tried,
  and counts once.
- Each try is counted before the code is compared. A code of an app also counts for the account.
  Otherwise, new tickets would allow any number of tries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from alula._context import Params
from alula._shares import network_of
from alula.accounts._addresses import folded_address
from alula.accounts._events import Events
from alula.accounts._factors import Factors
from alula.accounts._messages import Messages
from alula.accounts._strategies import same_password, skips_second_step
from alula.authentication import Attempt, AuthenticationStrategy, Extension, JWTStrategy
from alula.authentication._attempt import current_attempt
from alula.authentication._sealed import OneTimeSeal, Seal, SealedValue
from alula.errors import NotAuthenticated
from alula.types import Id

__all__ = ["SecondFactor"]

_TICKET_SECONDS: Final = 300
_TRIES: Final = 5
_DAILY: Final = (20, "24h")
"""Wrong codes of an account. Three of a million codes are right, so they find one in 45 years."""

_TOPIC: Final = "account/second-factor"
_NumberOf: TypeAlias = Callable[[Id], Awaitable[int]]
_PASSKEY: Final = "hwk"  # RFC 8176: a key, which also checks the person


class _Ticket(NamedTuple):
    """What a ticket says.

    Attributes:
        user_id: The id of the user, as text.
        name: The address of the user, by which the throttle counts; None without one.
        methods: How the user has proved the first factor.
        network: Where that was.
        password: A keyed hash of the user's password.
    """

    user_id: str
    name: str | None
    methods: list[str]
    network: str | None
    password: str


class SecondFactor(Extension):
    """Asks for the second factor, and reads the tickets of those who are asked.

    Args:
        authentication: The authentication service.
        factors: The store of the factors.
        messages: Sends mails.
        events: Tells own code what has happened.
        address: The property of users that has the address.
    """

    def __init__(
        self,
        authentication: Any,
        factors: Factors,
        messages: Messages,
        events: Events,
        *,
        address: str,
    ) -> None:
        self.factors = factors
        self.messages = messages
        self._events = events
        self._authentication = authentication
        self._address = address
        self._seal = OneTimeSeal("second factor", _TICKET_SECONDS)
        self._passwords = Seal(b"")
        self._methods: list[str] = []
        self._further: dict[str, _NumberOf] = {}

    def offer(self) -> None:
        """Register the strategies and the second step."""
        strategies = {
            "totp": _CodeStrategy(self, self._is_right_code),
            "recovery": _CodeStrategy(self, self._is_right_recovery_code),
        }
        for name, strategy in strategies.items():
            self._authentication.offer(name, strategy, parses=False, signs_in=True)
        self._methods = [*strategies]
        self._authentication.extensions.append(self)

    def offer_also(self, name: str, number_of: _NumberOf) -> None:
        """Offer a further strategy, which calls `use_ticket`, to the users who have it.

        Args:
            name: The name of the strategy.
            number_of: Returns how many a user has, by the id of the user.
        """
        self._further[name] = number_of

    async def setup(self, authentication: Any) -> None:
        """Find the store, and derive the keys."""
        self.factors.setup(authentication.app, authentication)
        self._seal.setup(authentication, _TOPIC)
        self._passwords = Seal(authentication.derived_key(b"second factor: passwords"))

    async def second_step(self, attempt: Attempt) -> None:
        """Ask for the second factor where the user has one.

        Raises:
            NotAuthenticated: ``data`` has the code ``"second_factor"`` and a ticket.
        """
        entities = self._authentication.entities
        user_id = entities.id_of(attempt.result.get(entities.name))
        if user_id is None or _needs_no_factor(attempt):
            return
        if not await self.factors.is_on(user_id):
            return
        record = await entities.get(user_id, attempt.params)  # with the password
        if attempt.confirm is not None:  # the password may have changed since it was checked
            await attempt.confirm()
        ticket = _Ticket(
            str(user_id),
            folded_address(record.get(self._address)),
            [*attempt.methods],
            network_of(attempt.params.ip),
            self._password_of(record),
        )
        data = {
            "code": "second_factor",
            "ticket": self._seal.seal(ticket),
            "methods": [
                *self._methods,
                *[name for name, number in self._further.items() if await number(user_id)],
            ],
            "expiresIn": _TICKET_SECONDS,
        }
        raise NotAuthenticated("A second factor is needed", data=data)

    def read(self, credentials: Mapping[str, Any]) -> tuple[_Ticket, SealedValue] | None:
        """Return the ticket of credentials, None if it is not valid."""
        sealed = self._seal.unseal(credentials.get("ticket"))
        return None if sealed is None else (_Ticket(*sealed.value), sealed)

    async def user_of(self, ticket: _Ticket, params: Params) -> Mapping[str, Any] | None:
        """Return the user of a ticket, None where it does not count, or not any more."""
        if ticket.network != network_of(params.ip):
            return None
        try:
            record = await self._authentication.entities.get(ticket.user_id, params)
        except NotAuthenticated:  # removed meanwhile
            return None
        return record if self._password_of(record) == ticket.password else None

    async def take_try(self, sealed: SealedValue) -> bool:
        """Take one of the tries of a ticket, and return whether there was one."""
        return await self._seal.take_try(sealed, _TRIES)

    async def use_up(self, sealed: SealedValue) -> bool:
        """Use a ticket up, and return whether this was its first use."""
        return await self._seal.use_up(sealed)

    async def use_ticket(
        self, credentials: Mapping[str, Any], user_id: str, params: Params
    ) -> list[str]:
        """Use up the ticket of a user who has proved the second factor in a way of their own.

        Args:
            credentials: The credentials, with the ticket.
            user_id: The id of the user, as text.
            params: The params of the sign-in.

        Returns:
            How the user has proved the first factor.

        Raises:
            NotAuthenticated: The ticket is not valid, or that of somebody else.
        """
        found = self.read(credentials)
        if found is None or found[0].user_id != user_id:
            raise _expired()
        ticket, sealed = found
        is_valid = (
            await self.user_of(ticket, params) is not None
            and await self.take_try(sealed)
            and await self.use_up(sealed)
        )
        if not is_valid:
            raise _expired()
        return ticket.methods

    async def _is_right_code(self, user: Mapping[str, Any], code: object) -> bool:
        """Return whether a code of the app is right. Only wrong ones count for the account."""
        throttle, user_id = self._authentication.throttle, self._id_of(user)
        budget = ("accounts: codes of apps", str(user_id), *_DAILY)
        if throttle is not None and await throttle.take(*budget):
            await self.messages.warn("factor_guessed", user)
            return False
        if not await self.factors.use_code(user_id, code):
            return False
        if throttle is not None:
            await throttle.give_back(*budget)
        return True

    async def _is_right_recovery_code(self, user: Mapping[str, Any], code: object) -> bool:
        """Use a recovery code up, and return whether it was right; tell its owner by mail."""
        left = await self.factors.use_recovery_code(self._id_of(user), code)
        if left is not None:
            self.messages.tell("recovery_used", user, codes_left=left)
            self._events.emit("recovery_used", self._id_of(user))
        return left is not None

    async def confirm(self, user: Mapping[str, Any], code: str) -> list[str] | None:
        """Turn the factor of a user on, and return recovery codes; None if the code is wrong.

        Raises:
            NotFound: No set-up waits for a code.
        """
        codes = await self.factors.confirm(self._id_of(user), code)
        if codes is not None:
            self.messages.tell("factor_added", user)
            self._events.emit("factor_added", self._id_of(user))
        return codes

    async def remove(self, user: Mapping[str, Any]) -> bool:
        """Remove the factor of a user, and return whether there was one."""
        if not await self.factors.remove(self._id_of(user)):
            return False
        self.messages.tell("factor_removed", user)
        self._events.emit("factor_removed", self._id_of(user))
        return True

    async def remove_by_id(self, user_id: Id) -> bool:
        """Remove the factor of a user, as `Accounts.remove_factors`."""
        return await self.remove(await self._authentication.entities.get(user_id, Params()))

    def _id_of(self, user: Mapping[str, Any]) -> Id:
        user_id: Id = self._authentication.entities.id_of(user)
        return user_id

    def _password_of(self, record: Mapping[str, Any]) -> str:
        names = sorted(self._authentication.secret_fields)
        return self._passwords.tag("\0".join(str(record.get(name)) for name in names))


class _CodeStrategy(AuthenticationStrategy):
    """Finishes a sign-in: ``{"strategy": "totp", "ticket", "code"}``, or ``"recovery"``.

    Args:
        second: Reads tickets.
        is_right: Uses a code of a user up, and returns whether it was right.
    """

    looks_up_account = True
    methods = ("otp",)

    def __init__(
        self, second: SecondFactor, is_right: Callable[[Mapping[str, Any], object], Awaitable[bool]]
    ) -> None:
        self._second = second
        self._is_right = is_right

    def account_of(self, authentication: Mapping[str, Any]) -> str | None:
        """Return the address of the user, so that the throttle counts as for the password."""
        found = self._second.read(authentication)
        return None if found is None else found[0].name

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Check a code, and sign in the user of the ticket.

        Raises:
            NotAuthenticated: The code is wrong (``data.code`` is ``"invalid"``), or the ticket is
                (``"expired"``).
        """
        service, second = self.authentication, self._second
        found = second.read(authentication)
        user = None if found is None else await second.user_of(found[0], params)
        if found is None or user is None:
            raise _expired()
        ticket, sealed = found
        await service.account_found(service.entities.id_of(user), params)
        if not await second.take_try(sealed):
            raise _expired()
        if not await self._is_right(user, authentication.get("code")):
            text = "The code is wrong, or was used before"
            raise NotAuthenticated(text, data={"code": "invalid"})
        if not await second.use_up(sealed):
            raise _expired()
        attempt = current_attempt(service)
        if attempt is not None:
            attempt.methods = (*ticket.methods, *self.methods)
            attempt.confirm = same_password(service, user, params)
        return {"authentication": {"strategy": self.name}, service.entities.name: user}


def _needs_no_factor(attempt: Attempt) -> bool:
    """Tell whether an attempt has the factor already, or only renews a session that had it."""
    return (
        isinstance(attempt.strategy, _CodeStrategy | JWTStrategy)
        or attempt.session is not None
        or _PASSKEY in attempt.methods
        or skips_second_step(attempt.params)
    )


def _expired() -> NotAuthenticated:
    text = "The ticket is not valid any more; sign in again"
    return NotAuthenticated(text, data={"code": "expired"})
