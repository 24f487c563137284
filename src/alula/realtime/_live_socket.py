"""Live lists over socket.io: how a client asks for one, and how it is told of changes.

``["live", path, {"list": name}, query]`` opens a list; its page is the acknowledgement. After that,
the client gets events ``"<path> live"`` until it sends ``["unlive", path, {"list": name}]``, or the
list ends with ``closed``. ``["live", path, {"settled": true}]`` is acknowledged when the lists of
the connection have been read behind all changes that were told so far.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from alula._connection import Connection
from alula._json_encoding import dumps_with_attachments
from alula._live import ListMessage, LiveList, LiveLists
from alula._service import ServiceHandle
from alula._wire import MESSAGE, Frame, PacketType, encode_text
from alula.errors import BadRequest, Conflict
from alula.realtime._engine import EngineSession
from alula.realtime._event_ids import EventIds, signer_of_list
from alula.types import is_mapping

__all__ = ["LIST_METHODS", "ListCall", "SocketLists", "list_call"]

LIST_METHODS: Final = frozenset({"live", "unlive"})

MAX_NAME: Final = 100
"""How many characters the name of a list may have."""

_EVENT: Final = PacketType.EVENT
_EVENT_HEAD: Final = f"{MESSAGE}{_EVENT:d}"


class ListCall(NamedTuple):
    """A call of ``live`` or ``unlive``.

    Attributes:
        method: Which of them.
        path: The path of the service, as the client wrote it.
        handle: The service.
        route: The values of the placeholders in its path.
        name: The name that the client gave the list; None to wait until all lists are settled.
        have: What a client that comes back shows of its rows.
        query: The query of the list.
    """

    method: str
    path: str
    handle: ServiceHandle
    route: Mapping[str, str]
    name: str | None
    have: str | None
    query: Mapping[str, Any]


def list_call(
    event: Sequence[Any], path: str, handle: ServiceHandle, route: Mapping[str, str]
) -> ListCall:
    """Return the call of ``live`` or ``unlive`` in an event.

    Args:
        event: The method, the path, and arguments.
        path: The path, a text.
        handle: The service at the path.
        route: The values of the placeholders in the path.

    Raises:
        BadRequest: An argument is missing, or of a wrong type.
    """
    method, data = event[0], event[2] if len(event) > 2 else None
    query: object = event[3] if len(event) > 3 else None
    if len(event) > 4:
        raise BadRequest(f"Too many arguments for '{method}' method")
    if not isinstance(query, dict | None):
        raise BadRequest("A query has to be an object")
    if method == "live" and data == {"settled": True}:
        return ListCall(method, path, handle, route, None, None, {})
    name, have = (data.get("list"), data.get("have")) if is_mapping(data) else (None, None)
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise BadRequest(f'\'{method}\' needs the name of a list, such as {{"list": "a1"}}')
    if not isinstance(have, str | None):
        raise BadRequest("`have` is the text that came with the last message of the list")
    return ListCall(method, path, handle, route, name, have, query or {})


class Link(Protocol):
    """What reaches the client of a connection.

    Attributes:
        connection: The connection.
        session: The session of the client, None while it is away.
    """

    connection: Connection
    session: EngineSession | None


class _SocketList:
    """One list of a client.

    Attributes:
        live: The list.
        call: The call that opened it.
        sign: Returns what the client shows when it comes back, from a digest of its rows.
        acknowledge: Sends the page.
        is_behind: Whether the client was not told of changes, and gets the list whole.
        last: The frames of ``closed``, for a client that was away when the list ended.
    """

    __slots__ = ("acknowledge", "call", "is_behind", "last", "live", "sign")
    live: LiveList

    def __init__(
        self,
        call: ListCall,
        sign: Callable[[bytes], str],
        acknowledge: Callable[[Mapping[str, Any]], object],
    ) -> None:
        self.call = call
        self.sign = sign
        self.acknowledge = acknowledge
        self.is_behind = False
        self.last: list[Frame] = []

    def encode(self, message: ListMessage, have: str | None) -> list[Frame]:
        """Return the frames of a message."""
        body = {"list": self.call.name, "kind": message.kind, **message.body}
        if have is not None:
            body["have"] = have
        attachments: list[bytes] = []
        text = dumps_with_attachments([f"{self.call.path} live", body], attachments)
        return encode_text(_EVENT, text, attachments) if attachments else [_EVENT_HEAD + text]


class SocketLists:
    """The live lists of one connection.

    Args:
        lists: Those of the application.
        ids: Signs what clients show when they come back.
        link: Reaches the client.
    """

    __slots__ = ("_caught_up", "_ids", "_link", "_lists", "_open")

    def __init__(self, lists: LiveLists, ids: EventIds, link: Link) -> None:
        self._lists = lists
        self._ids = ids
        self._link = link
        # By path and name: a name may be used for one list of each service.
        self._open: dict[tuple[str, str | None], _SocketList] = {}
        self._caught_up = asyncio.Event()

    async def run(self, call: ListCall, acknowledge: Callable[[object], object]) -> None:
        """Carry out a call of a client.

        Args:
            call: The call.
            acknowledge: Sends its result. Called once, before any event of a new list is sent.

        Raises:
            Conflict: A list of this name is open.
            FrameworkError: The list cannot be opened; see `LiveLists.open`.
        """
        if call.name is None:
            await self._settle()
            acknowledge({})
        elif call.method == "unlive":
            opened = self._open.pop((call.path, call.name), None)
            if opened is not None:
                self._lists.close(opened.live)
            acknowledge({"list": call.name})
        else:
            await self._begin(call, acknowledge)

    async def _begin(self, call: ListCall, acknowledge: Callable[[object], object]) -> None:
        key = call.path, call.name
        if key in self._open:
            raise Conflict(f"a list called {call.name!r} of '{call.path}' is open")
        connection = self._link.connection
        sign = signer_of_list(self._ids, connection, call.handle, call.route, call.query)
        opening = self._open[key] = _SocketList(call, sign, acknowledge)

        def take(messages: Sequence[ListMessage]) -> None:
            self._take(opening, messages)

        opening.live = LiveList(call.handle, connection, call.route, call.query, take)
        try:
            await self._lists.open(opening.live)
        except BaseException:
            self._forget(opening)
            raise

    async def _settle(self) -> None:
        """Wait until the client was told of all changes so far."""
        while True:
            await self._lists.settled(self._link.connection)
            if not any(each.is_behind for each in self._open.values()):
                return
            self._caught_up.clear()
            await self._caught_up.wait()

    def _forget(self, closing: _SocketList) -> None:
        key = closing.call.path, closing.call.name
        if self._open.get(key) is closing:  # the client may have opened another one
            del self._open[key]
        self._caught_up.set()

    # -- messages ------------------------------------------------------------------------------

    def _take(self, told: _SocketList, messages: Sequence[ListMessage]) -> None:
        """Send the messages of a batch, as far as the client reads."""
        kind, have = messages[0].kind, told.sign(told.live.digest)
        if kind == "snapshot":
            # Here, and not where the call ends: events may follow before that.
            is_same = have == told.call.have
            page = {"unchanged": True} if is_same else messages[0].body
            told.acknowledge({**page, "have": have})
        elif kind == "closed":
            self._end(told, told.encode(messages[0], None))
        elif not told.is_behind or kind == "reset":
            told.is_behind = False
            self._caught_up.set()
            session = self._link.session
            for message in messages:
                if session is None or not session.has_room:
                    told.is_behind = True  # `reset` makes good for half a batch, too
                    return
                for frame in told.encode(message, have if message is messages[-1] else None):
                    session.send(frame)

    def _end(self, ending: _SocketList, frames: list[Frame]) -> None:
        session = self._link.session
        if session is None:
            ending.last = frames
            return
        self._forget(ending)
        for frame in frames:
            session.send(frame)

    def drained(self) -> None:
        """Tell the client of changes that it was not told of: it reads again."""
        for each in self._open.values():
            if each.is_behind:
                self._lists.catch_up(each.live)

    def wake(self) -> None:
        """Tell a client that was away of everything: what was sent before it left may be lost."""
        for each in [*self._open.values()]:
            each.is_behind = True
            if each.last:
                self._end(each, each.last)
        self.drained()

    def close(self) -> None:
        """Close all lists: the connection has ended."""
        self._open.clear()
        self._caught_up.set()
        self._lists.close_all(self._link.connection)
