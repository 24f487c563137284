"""A channel: a view of the connections of some names."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Iterable
from typing import Any, Final, Self, TypeAlias

from alula._connection import Connection, is_outdated_call
from alula.types import COLLECTION_TYPES

__all__ = ["Channel", "Members", "channels_in", "leave_all"]

_log: Final = logging.getLogger("alula.events")

Predicate: TypeAlias = Callable[[Connection], object]
Members: TypeAlias = dict[str, dict[Connection, None]]
"""The connections of all channels by name, in the order in which they joined."""


class Channel:
    """The connections of one or several names: ``app.channel("rooms/a", "rooms/b")``.

    A channel is a view. A name that nobody is in takes no memory.

    Args:
        members: The connections by name, of all channels.
        names: The names.
        predicates: Connections for which one of these returns a false value are left out.
        data: What to send in place of the record, None for the record.

    Attributes:
        names: As given.
        data: As given.

    Examples:
        >>> from alula import App
        >>> app = App()
        >>> room = app.channel("rooms/a")
        >>> len(room), room.connections, app.channels
        (0, [], [])
    """

    __slots__ = ("_members", "_predicates", "data", "names")

    def __init__(
        self,
        members: Members,
        names: tuple[str, ...],
        predicates: tuple[Predicate, ...] = (),
        data: object = None,
    ) -> None:
        self._members = members
        self.names = names
        self._predicates = predicates
        self.data = data

    def __repr__(self) -> str:
        return f"app.channel({', '.join(map(repr, self.names))})"

    def join(self, *connections: Connection | None) -> Self:
        """Add connections; None and closed ones are skipped.

        ``params.connection`` is None for a REST call.

        Raises:
            TypeError: Something is not a connection.
        """
        for connection in connections:
            if connection is None:
                continue
            if not isinstance(connection, Connection):
                raise TypeError(
                    f"join({connection!r}): only connections join a channel; the connection of a"
                    " call is context.params.connection"
                )
            if is_outdated_call(connection):
                _log.warning(
                    "a call began before its user signed out: %r does not join %r", connection, self
                )
            elif connection.is_open:  # else nothing would ever remove it
                names = connection._names  # noqa: SLF001  # kept here alone
                for name in self.names:
                    members = self._members.setdefault(name, {})
                    if connection not in members:
                        members[connection] = None
                        names[name] = (*names.get(name, ()), self._members)
                        connection.joined_at = time.time()
        return self

    def leave(self, *connections: Connection | Predicate | None) -> Self:
        """Remove connections, or all for which a function returns a true value.

        Raises:
            TypeError: Something is neither a connection nor a function.
        """
        for given in connections:
            if isinstance(given, Connection):
                leaving = [given]
            elif callable(given):
                leaving = [connection for connection in self.connections if given(connection)]
            elif given is None:
                continue
            else:
                raise TypeError(f"leave({given!r}) takes connections, or a function of one")
            for connection in leaving:
                for name in self.names:
                    _remove(connection, name, self._members)
        return self

    def filter(self, predicate: Predicate) -> Channel:
        """Return this channel with only those connections for which a function returns true.

        Raises:
            TypeError: It is not a function.
        """
        if not callable(predicate):
            raise TypeError(f"filter({predicate!r}) takes a function of one connection")
        return Channel(self._members, self.names, (*self._predicates, predicate), self.data)

    def send(self, data: object) -> Channel:
        """Return this channel with data to send in place of the record; None sends the record."""
        return Channel(self._members, self.names, self._predicates, data)

    @property
    def connections(self) -> list[Connection]:
        """The connections, each once."""
        if len(self.names) == 1:  # most channels
            found: Iterable[Connection] = self._members.get(self.names[0], ())
        else:
            found = dict.fromkeys(c for name in self.names for c in self._members.get(name, ()))
        if not self._predicates:
            return list(found)
        return [c for c in found if all(keeps(c) for keeps in self._predicates)]

    def __contains__(self, connection: object) -> bool:
        return (
            isinstance(connection, Connection)
            and any(connection in self._members.get(name, ()) for name in self.names)
            and all(keeps(connection) for keeps in self._predicates)
        )

    def __len__(self) -> int:
        return len(self.connections)


def leave_all(connection: Connection, kept: Container[str]) -> None:
    """Remove a connection from its channels, those of other applications included.

    Args:
        connection: The connection.
        kept: Names of channels that it stays in.
    """
    names = connection._names  # noqa: SLF001  # kept here alone
    for name, tables in [*names.items()]:
        if name not in kept:
            for members in tables:
                _remove(connection, name, members)


def _remove(connection: Connection, name: str, members: Members) -> None:
    named = members.get(name)
    if named is None or connection not in named:
        return
    del named[connection]
    if not named:
        del members[name]
    names = connection._names  # noqa: SLF001  # kept here alone
    names[name] = tuple(table for table in names[name] if table is not members)
    if not names[name]:
        del names[name]


def channels_in(returned: Any) -> list[Channel]:
    """Return the channels in lists of any depth, without None and False.

    Raises:
        TypeError: There is something else.
    """
    if isinstance(returned, Channel):
        return [returned]
    if returned is None or returned is False:
        return []
    if isinstance(returned, COLLECTION_TYPES):
        return [channel for item in returned for channel in channels_in(item)]
    raise TypeError(f"returned {returned!r}; return app.channel(...), a list of channels, or None")
