"""How a user can sign in. Nobody can remove the last way, which would lock them out for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

from alula._context import Params
from alula.accounts._management import password_strategy
from alula.errors import Conflict

__all__ = ["WaysIn"]

_T = TypeVar("_T")

_Count: TypeAlias = Callable[[str], Awaitable[int]]


class WaysIn:
    """Counts the ways in of a user: a password, mails, and what features add to them.

    Args:
        authentication: The authentication service.
        verified: The property of users that says whether their address is confirmed; None where
            nobody can sign in by a mail.
    """

    def __init__(self, authentication: Any, *, verified: str | None) -> None:
        self._authentication = authentication
        self._verified = verified
        self._counts: list[_Count] = []

    def add(self, count: _Count) -> None:
        """Count the ways in of a feature, too: a function of the id of a user."""
        self._counts.append(count)

    async def remove(
        self,
        user_id: str,
        remove: Callable[[], Awaitable[_T]],
        restore: Callable[[_T], Awaitable[object]],
    ) -> _T:
        """Remove one way in, unless it is the last one, and return what ``remove`` returns.

        Args:
            user_id: The id of the user, as text.
            remove: Removes it. It raises where there is nothing to remove.
            restore: Stores again what ``remove`` has returned.

        Raises:
            Conflict: It is the last one.
        """
        if await self._count(user_id) < 2:
            raise _last_way()
        removed = await remove()
        # Once more: another call may have removed another way in at the same time.
        if not await self._count(user_id):
            await restore(removed)
            raise _last_way()
        return removed

    async def _count(self, user_id: str) -> int:
        user = await self._authentication.entities.get(user_id, Params())
        local = password_strategy(self._authentication)
        # Without an address, nobody can sign in by a password.
        has_password = bool(user.get(local.entity_password_field)) and bool(
            user.get(local.entity_username_field)
        )
        has_mail = self._verified is not None and user.get(self._verified) is True
        number = has_password + has_mail
        for count in self._counts:
            number += await count(user_id)
        return number


def _last_way() -> Conflict:
    return Conflict("This is your last way to sign in; set a password first")
