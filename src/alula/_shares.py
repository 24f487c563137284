"""Divides what is limited among clients, so that no single one can use it up."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["Shares"]


class Shares:
    """A limited amount of something, such as bytes, of which each client may have a share.

    A client may have as much as is left for all others: alone half of it, and less the more the
    others have. So there is always something for a client that has nothing yet.

    Args:
        total: The amount.

    Examples:
        >>> shares = Shares(100)
        >>> shares.take("a", 50), shares.take("a", 1), shares.take("b", 25)
        (True, False, True)
        >>> shares.give_back("a", 50)
        >>> shares.take("b", 12)
        True
    """

    __slots__ = ("_free", "_taken")

    def __init__(self, total: int) -> None:
        self._free = total
        self._taken: dict[Hashable, int] = {}

    def has_room(self, client: Hashable | None, amount: int) -> bool:
        """Tell whether a client may take an amount; None has no share of its own, but the total."""
        left = self._free - amount
        if client is None:
            return left >= 0
        return self._taken.get(client, 0) + amount <= left

    def take(self, client: Hashable | None, amount: int) -> bool:
        """Take an amount if a client may; return whether it may."""
        taken = self._taken.get(client, 0) + amount
        left = self._free - amount
        if left < 0 or (taken > left and client is not None):
            return False
        self._free = left
        self._taken[client] = taken
        return True

    def give_back(self, client: Hashable | None, amount: int) -> None:
        """Give back what a client has taken."""
        self._free += amount
        left = self._taken.get(client, 0) - amount
        if left:
            self._taken[client] = left
        else:
            self._taken.pop(client, None)
