"""Lists that share their reads, and how a change finds those that it may concern."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from alula._connection import NO_VALUES, Connection, client_key
from alula._live._notices import Notice
from alula._live._reading import LastRow, Reading, is_behind, skips
from alula._live._routing import Shelves, may_match
from alula._live._sources import Source
from alula._service import LiveOptions, ServiceHandle

__all__ = ["Group", "ListMessage", "LiveList", "Store"]


class ListMessage(NamedTuple):
    """What a client is told of a list.

    Attributes:
        kind: ``snapshot``, ``entered``, ``changed``, ``left``, ``reset`` or ``closed``.
        body: What belongs to it, without redacted values.
    """

    kind: str
    body: Mapping[str, Any]


class LiveList:
    """One list of one client.

    Args:
        handle: The service.
        connection: The caller.
        route: The values of the placeholders in the path of the service.
        query: As the client gave it.
        deliver: Called with each batch of messages; it returns at once and never raises.

    Attributes:
        digest: Of the rows that the client has been told of.
        expires: When the token of its caller expires, in seconds since 1970; None for never.
    """

    def __init__(
        self,
        handle: ServiceHandle,
        connection: Connection,
        route: Mapping[str, str],
        query: Mapping[str, Any],
        deliver: Callable[[Sequence[ListMessage]], object],
    ) -> None:
        self.handle = handle
        self.connection = connection
        self.route = route
        self.query = query
        self.deliver = deliver
        self.digest = b""
        self.expires: float | None = None
        self.why: str | None = None  # a reset is due, for this reason
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.group: Group | None = None


class Group:
    """Lists of equal callers with one query, which share their reads.

    Args:
        key: What they have in common.
        store: Where their records are.
        sources: The services on which `find` depends besides its own.
        first: The first of them.

    Attributes:
        seen: What hooks have looked at, as far as the lists are equal in it.
        behind: The query behind the hooks.
        page: The digests of the rows by their ids, None before the first read.
        beyond: Keys of records that the method returned and that hooks have dropped.
        odd_ids: As in `Reading`.
        last_row: As in `Reading`.
        is_marked: Whether it is to be read again.
        is_waiting: Whether it waits for its turn.
        aside: The changes that were told of during the read that is under way, None without one.
        not_before: When it may be read again.
        depended_at: When it is, or was, read for a change of a service on which it depends.
        failures: How many reads have failed, one after the other.
        took: How long its reads take, in seconds, for the pauses between them.
        client: Whom its reads count for.
    """

    __slots__ = (
        "aside",
        "behind",
        "beyond",
        "client",
        "depended_at",
        "failures",
        "handle",
        "is_marked",
        "is_waiting",
        "key",
        "last_row",
        "lists",
        "not_before",
        "odd_ids",
        "options",
        "page",
        "recheck",
        "seen",
        "sources",
        "store",
        "task",
        "timer",
        "took",
        "waiters",
    )

    def __init__(
        self,
        key: Hashable,
        seen: frozenset[str],
        store: Store,
        sources: frozenset[Source],
        first: LiveList,
    ) -> None:
        self.key = key
        self.seen = seen
        self.store = store
        self.sources = sources
        self.client: Hashable = client_key(first.connection) or key
        self.handle = first.handle
        self.options: LiveOptions = first.handle.live_options or LiveOptions()
        self.lists: dict[LiveList, None] = {}
        self.behind: Mapping[str, Any] = NO_VALUES
        self.page: dict[Hashable, bytes] | None = None
        self.beyond: frozenset[str] = frozenset()
        self.odd_ids: Mapping[Hashable, object] = {}
        self.last_row: LastRow | None = None
        self.is_marked = self.is_waiting = False
        self.aside: list[Notice] | None = None
        self.not_before = self.depended_at = 0.0
        self.failures = 0
        self.took = 0.0
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.recheck: asyncio.TimerHandle | None = None
        self.waiters: list[asyncio.Future[None]] | None = None

    def is_at_rest(self) -> bool:
        """Tell whether nothing is to be read."""
        return not self.lists or not (self.is_marked or self.task is not None)

    async def rest(self) -> None:
        """Wait until nothing is to be read."""
        if not self.is_at_rest():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiters = [*(self.waiters or ()), waiter]
            await waiter

    def tell_rest(self) -> None:
        """Tell those who wait that nothing is to be read."""
        waiters, self.waiters = self.waiters or (), None
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def keys(self) -> Iterator[str]:
        """Yield the keys of the records that the method returned."""
        yield from map(str, self.page or ())
        yield from self.beyond


class Store:
    """The lists of one table or collection, so that a change finds those that it may concern.

    Args:
        key: What tells it from others.
        owner: The service of its first list.

    Attributes:
        key: As given.
        owner: As given.
        groups: All of them.
        reading: Those that are being read.
        skipping: Those whose page has records in front of it.
        shelves: All by a value that their records have.
    """

    def __init__(self, key: Hashable, owner: ServiceHandle) -> None:
        self.key = key
        self.owner = owner
        self.groups: dict[Group, None] = {}
        self.reading: dict[Group, None] = {}
        self.skipping: dict[Group, None] = {}
        self.shelves = Shelves()
        # By the key of a record; most are on one page.
        self._holders: dict[str, Group | dict[Group, None]] = {}

    def near(self, notice: Notice) -> dict[Group, None]:
        """Return the groups that a change may concern, before each of them is tested."""
        if notice.ids is None:
            return dict(self.groups)
        found = dict(self.reading)
        if self.skipping and notice.event != "created":
            found.update(self.skipping)
        for record_id, record in zip(notice.ids, notice.records, strict=True):
            holders = self._holders.get(str(record_id))
            if holders is not None:
                found.update({holders: None} if isinstance(holders, Group) else holders)
            if notice.event == "removed":
                continue
            if record is None:
                return dict(self.groups)
            self.shelves.add_near(record, found)
        return found

    def concerns(self, group: Group, notice: Notice) -> bool:
        """Tell whether a change may concern a group, whose page is known."""
        if notice.ids is None or (notice.event != "created" and group in self.skipping):
            return True
        for record_id, record in zip(notice.ids, notice.records, strict=True):
            holders = self._holders.get(str(record_id), NO_GROUPS)
            if holders is group or (not isinstance(holders, Group) and group in holders):
                return True
            if notice.event == "removed":
                continue
            if record is None or (
                may_match(record, group.behind)
                and (group.last_row is None or not is_behind(record, group.last_row))
            ):
                return True
        return False

    def place(self, group: Group, reading: Reading) -> None:
        """Note what a read has brought."""
        query = reading.query or NO_VALUES
        before = {*group.keys()}
        is_new = group.page is None or group.behind != query
        group.page, group.beyond = reading.digests, reading.beyond
        group.odd_ids, group.last_row = reading.odd_ids, reading.last_row
        after = {*group.keys()}
        for key in before - after:
            self._let_go(key, group)
        for key in after - before:
            self._hold(key, group)
        if is_new:
            group.behind = query
            self.shelves.put(group, query)
            self.skipping.pop(group, None)
            if skips(query):
                self.skipping[group] = None

    def remove(self, group: Group) -> None:
        """Forget a group."""
        self.groups.pop(group, None)
        self.reading.pop(group, None)
        self.skipping.pop(group, None)
        self.shelves.take(group)
        for key in {*group.keys()}:
            self._let_go(key, group)
        group.page, group.beyond = None, frozenset()

    def _hold(self, key: str, group: Group) -> None:
        holders = self._holders.get(key)
        if holders is None:
            self._holders[key] = group
        elif isinstance(holders, Group):
            self._holders[key] = {holders: None, group: None}
        else:
            holders[group] = None

    def _let_go(self, key: str, group: Group) -> None:
        holders = self._holders[key]
        if not isinstance(holders, Group):
            del holders[group]
            if holders:
                return
        del self._holders[key]


NO_GROUPS: Final[Mapping[Group, None]] = MappingProxyType({})
