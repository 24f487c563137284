"""Events of accounts, so that your own code can react when an account changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import Final, Literal, TypeAlias, TypeVar, get_args

from alula.accounts._mail import Outbox
from alula.types import Id

__all__ = [
    "AccountEvent",
    "AccountEventName",
    "EventHandler",
    "EventHandlerT",
    "Events",
    "check_event",
]

_FactorEventName: TypeAlias = Literal["factor_added", "factor_removed", "recovery_used"]
AccountEventName: TypeAlias = (
    Literal["signed_up", "verified", "password_changed", "address_changed", "removed"]
    | _FactorEventName
)

_OF_FACTORS: Final[tuple[str, ...]] = get_args(_FactorEventName)
_NAMES: Final[tuple[str, ...]] = tuple(
    name for names in get_args(AccountEventName) for name in get_args(names)
)


@dataclass(frozen=True)
class AccountEvent:
    """Something that has happened to an account; see `Accounts.on`.

    Attributes:
        name: What has happened, such as ``"password_changed"``.
        user_id: The id of the user. After ``"removed"`` there is no such user any more.
    """

    name: AccountEventName
    user_id: Id


EventHandler: TypeAlias = Callable[[AccountEvent], Awaitable[None] | None]
EventHandlerT = TypeVar("EventHandlerT", bound=EventHandler)


class Events:
    """Calls own code with events, behind the request that has caused them.

    Args:
        outbox: Runs the calls.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._handlers: dict[str, list[EventHandler]] = {}

    def add(self, name: AccountEventName, handler: EventHandler) -> None:
        """Call a function with each event of a name from now on."""
        self._handlers.setdefault(name, []).append(handler)

    def emit(self, name: AccountEventName, user_id: Id) -> None:
        """Call the functions of an event soon; this returns at once."""
        event = AccountEvent(name, user_id)
        for handler in self._handlers.get(name, ()):
            self._outbox.put_if_free(partial(_call, handler, event))


def check_event(name: object, *, has_mails: bool, has_factors: bool) -> None:
    """Check the name of an event.

    Args:
        name: Any value that an owner has given.
        has_mails: Whether there is a mailer. Without one, accounts do nothing with users.
        has_factors: Whether there are second factors.

    Raises:
        ValueError: There is no such event, or it can never happen.
    """
    if name not in _NAMES:
        raise ValueError(f"there is no event {name!r}; the events are {', '.join(_NAMES)}")
    if not has_mails:
        raise ValueError(f"the event {name!r} never happens without a mailer")
    if name in _OF_FACTORS and not has_factors:
        raise ValueError(f"the event {name!r} never happens without totp=True")


async def _call(handler: EventHandler, event: AccountEvent) -> None:
    result = handler(event)
    if isawaitable(result):
        await result
