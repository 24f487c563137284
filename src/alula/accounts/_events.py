"""Events of accounts, so that your own code can react when an account changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
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

AccountEventName: TypeAlias = Literal[
    "signed_up",
    "verified",
    "password_changed",
    "address_changed",
    "removed",
    "linked",
    "unlinked",
    "key_created",
    "factor_added",
    "factor_removed",
    "recovery_used",
]

_NAMES: Final[tuple[AccountEventName, ...]] = get_args(AccountEventName)
_NEEDED: Final[Mapping[str, str]] = {
    **dict.fromkeys(["linked", "unlinked"], "sign_in=[...]"),
    **dict.fromkeys(["key_created"], "api_keys=True"),
    **dict.fromkeys(["factor_added", "factor_removed", "recovery_used"], "totp=True"),
}
"""By event: the option without which it never happens. All others need a mailer."""


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

    async def close(self) -> None:
        """Wait for the functions that still run."""
        await self._outbox.close()


def check_event(name: object, options: Collection[str]) -> None:
    """Check the name of an event.

    Args:
        name: Any value that an owner has given.
        options: The options that are on, of those that events need.

    Raises:
        ValueError: There is no such event, or it can never happen.
    """
    if name not in _NAMES:
        raise ValueError(f"there is no event {name!r}; the events are {', '.join(_NAMES)}")
    needed = _NEEDED.get(name, "a mailer")
    if needed not in options:
        raise ValueError(f"the event {name!r} never happens without {needed}")


async def _call(handler: EventHandler, event: AccountEvent) -> None:
    result = handler(event)
    if isawaitable(result):
        await result
