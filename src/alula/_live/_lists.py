"""Lists that stay true: which are open, which a change concerns, and how they are read again.

A change says which lists may differ now. What a list holds is always read by `find`, as its caller,
after the change: the records of events come in another order than their commits, so a list that is
kept by them ends wrong. Why no change is missed:

- A list is registered before its first read begins. A write that commits before that read sees the
  database is on the page; one that commits later tells of it later.
- What is told while a list is read waits, and is compared with the page that the read brings:
  before, neither the ids on the page nor its query are known.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from alula._connection import Connection
from alula._context import HookContext, Params, connection_params
from alula._events import emit_unless_held
from alula._json_encoding import dumps
from alula._live._difference import differences
from alula._live._routing import Shelves, may_match, shelf_of
from alula._service import LiveOptions, ServiceHandle, owning_handle
from alula.errors import (
    BadRequest,
    FrameworkError,
    MethodNotAllowed,
    TooManyRequests,
    Unavailable,
)
from alula.outgoing import public_part
from alula.types import UNSET, is_array, is_list, is_mapping

if TYPE_CHECKING:
    from alula._app import App
    from alula.hooks import Next

__all__ = ["ListMessage", "LiveList", "LiveLists"]

_READS: Final = frozenset({"find", "get"})
_WRITES: Final = frozenset({"create", "update", "patch", "remove"})
_EVENTS: Final = {"create": "created", "remove": "removed"}

READS_AT_ONCE: Final = 4
"""How many lists of a process are read at once."""

MAX_LISTS_OF_CONNECTION: Final = 100
MAX_GROUPS: Final = 10_000
MAX_SCANNED: Final = 1_000
"""Lists of a service without a property that is equal to something: each change looks at them."""

MAX_TEXT: Final = 1_000
"""Longer texts of a record stay in their process: a list may have such a record, or not."""

MAX_IDS: Final = 1_000
"""A change of more records concerns all lists of the service."""

PAUSES_PER_READ: Final = 4
"""After a read, a list rests this many times as long, so a slow query takes a fifth of the time."""

LONGEST_PAUSE: Final = 5.0
"""How long a list waits, in seconds, after reads that have failed on the server's side."""

_SIGNAL: Final = "live/notice"
_SETTING: Final = "live lists"
"""The name of the setting under which `ServiceHandle.touch` finds the lists."""

_log: Final = logging.getLogger("alula.live")


class ListMessage(NamedTuple):
    """What a client is told of a list.

    Attributes:
        kind: ``snapshot``, ``entered``, ``changed``, ``left``, ``reset`` or ``closed``.
        body: What belongs to it, without redacted values.
    """

    kind: str
    body: Mapping[str, Any]


class _Notice(NamedTuple):
    """A change of a store.

    Attributes:
        event: The event of the method.
        ids: Of the records, None for any.
        records: What was stored, each None where that is not known.
    """

    event: str
    ids: Sequence[object] | None
    records: Sequence[Mapping[str, Any] | None] = ()


class _Reading:
    """One read of a list. As ``params.live``, it notes what happens at the method of `find`.

    Attributes:
        query: The query behind the hooks, None until the method is reached.
        held: Keys of the records that the method returned, and of those behind the hooks.
        expires: When the token of the caller expires, None for never.
        limits: ``limit`` and ``skip`` of the page, where the result is one.
        rows: The records behind the hooks, by their keys, without what is hidden.
        ids: Their ids.
        digests: Their digests.
    """

    def __init__(self, id_name: str) -> None:
        self.id_name = id_name
        self.query: Mapping[str, Any] | None = None
        self.held: frozenset[str] = frozenset()
        self.limits: Mapping[str, Any] = {}
        self.expires: float | None = None
        self.rows: dict[str, Any] = {}
        self.ids: dict[str, object] = {}
        self.digests: dict[str, bytes] = {}

    def take(self, result: object) -> None:
        """Note what `find` returned to the caller.

        Raises:
            MethodNotAllowed: It is no list of records with ids.
            TypeError: A record has no JSON form.
        """
        if is_mapping(result):
            self.limits = {name: result[name] for name in ("limit", "skip") if name in result}
        for row in _rows_of(result):
            record_id = _id_of(row, self.id_name)
            if record_id is None:
                raise MethodNotAllowed(
                    f"`find` returns records without {self.id_name!r}, so they cannot be a list"
                )
            key, shown = str(record_id), public_part(row)
            self.rows[key], self.ids[key] = shown, record_id
            self.digests[key] = blake2b(dumps(shown), digest_size=16).digest()
        self.held |= self.ids.keys()


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
        self.group: _Group | None = None


class _Group:
    """Lists of one caller with one query, which share their reads."""

    def __init__(
        self, key: Hashable, store: _Store, sources: frozenset[ServiceHandle], first: LiveList
    ) -> None:
        self.key = key
        self.store = store
        self.sources = sources  # the services on which `find` depends besides its own
        self.handle = first.handle
        self.options: LiveOptions = first.handle.live_options or LiveOptions()
        self.lists: dict[LiveList, None] = {}
        self.behind: Mapping[str, Any] = {}  # the query behind the hooks
        self.held: frozenset[str] = frozenset()  # ids of the page, and of that of the method
        self.ids: dict[str, object] = {}
        self.digests: dict[str, bytes] | None = None
        self.is_marked = False
        self.changes = 0  # of rights, which make a read that is under way worthless
        self.aside: list[_Notice] | None = None
        self.not_before = 0.0
        self.failures = 0
        self.task: asyncio.Task[None] | None = None
        self.recheck: asyncio.TimerHandle | None = None
        self.at_rest = asyncio.Event()


class _Store:
    """The lists of one table or collection, so that a change finds those that it may concern."""

    def __init__(self) -> None:
        self.groups: dict[_Group, None] = {}
        self.holders: dict[str, dict[_Group, None]] = {}
        self.skipping: dict[_Group, None] = {}
        self.shelves = Shelves()

    def concerned_by(self, notice: _Notice) -> dict[_Group, None]:
        """Return the groups that a change may concern."""
        if notice.ids is None:
            return dict(self.groups)
        concerned: dict[_Group, None] = {}
        if notice.event != "created":
            concerned.update(self.skipping)
        for record_id, record in zip(notice.ids, notice.records, strict=True):
            concerned.update(self.holders.get(str(record_id), {}))
            if notice.event == "removed":
                continue
            if record is None:
                return dict(self.groups)
            for group in self.shelves.near(record):
                assert isinstance(group, _Group)  # noqa: S101  # for type checkers
                if group not in concerned and may_match(record, group.behind):
                    concerned[group] = None
        return concerned

    def place(self, group: _Group, reading: _Reading) -> None:
        """Note what a read has brought."""
        query, held = reading.query or {}, reading.held
        for key in group.held - held:
            self.holders[key].pop(group)
            if not self.holders[key]:
                del self.holders[key]
        for key in held - group.held:
            self.holders.setdefault(key, {})[group] = None
        group.held = held
        if group.digests is None or group.behind != query:
            group.behind = query
            self.shelves.put(group, query)
            self.skipping.pop(group, None)
            if query.get("$skip") not in {None, 0, "0"}:
                self.skipping[group] = None

    def remove(self, group: _Group) -> None:
        """Forget a group."""
        self.groups.pop(group, None)
        self.skipping.pop(group, None)
        self.shelves.take(group)
        for key in group.held:
            self.holders[key].pop(group)
            if not self.holders[key]:
                del self.holders[key]
        group.held = frozenset()


def concerns(group: _Group, notice: _Notice) -> bool:
    """Tell whether a change may concern a group, whose page is known."""
    if notice.ids is None or (notice.event != "created" and group in group.store.skipping):
        return True
    for record_id, record in zip(notice.ids, notice.records, strict=True):
        if str(record_id) in group.held:
            return True
        if notice.event != "removed" and (record is None or may_match(record, group.behind)):
            return True
    return False


class LiveLists:
    """The open lists of an application.

    Args:
        app: The application. Services with ``live()`` are known at its setup.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._stores: dict[Hashable, _Store] = {}
        self._groups: dict[Hashable, _Group] = {}
        # By the service whose changes change what other services find.
        self._dependents: dict[ServiceHandle, dict[_Group, None]] = {}
        self._lists_of: dict[Connection, dict[LiveList, None]] = {}
        # Those that tell of their changes, with the path by which other processes know them.
        self._watched: dict[ServiceHandle, str] = {}
        self._slots = asyncio.Semaphore(READS_AT_ONCE)
        channels = app.channel_registry
        channels.on_signal(_SIGNAL, self._hear_signal)
        channels.on_gap(self.reread)

    # -- what changes tell -------------------------------------------------------------------------

    def watch(self) -> None:
        """Have all services tell of their changes on which a live list may depend.

        Raises:
            LookupError: ``depends_on`` names a service that the application does not have.
        """
        services = self._app.services
        live = [handle for handle in services.values() if handle.live_options is not None]
        owners = {owning_handle(handle) for handle in live}
        stores = {store_of(owner) for owner in owners}
        sources = {source for handle in live for source in self._sources_of(handle)}
        for path, handle in services.items():
            owner = owning_handle(handle)
            if owner in self._watched or not (store_of(owner) in stores or owner in sources):
                continue
            self._watched[owner] = path
            if owner in owners:
                owner.add_innermost(self._note_page, ["find"])
            methods = [name for name in owner.hook_methods() if name not in _READS]
            owner.add_innermost(self._tell_of_change, methods)

    def _sources_of(self, handle: ServiceHandle) -> Iterator[ServiceHandle]:
        """Yield the services whose changes change what a live service finds."""
        for path in (handle.live_options or LiveOptions()).depends_on:
            if path not in self._app.services:
                raise LookupError(
                    f"{handle!r}: live(depends_on=[{path!r}]) names no service of the application"
                )
            yield owning_handle(self._app.services[path])
        owner = owning_handle(handle)
        relations: object = getattr(owner.service, "relations", None)
        for path in getattr(relations, "services", ()):
            yield owning_handle(owner.app.service(path))

    async def _note_page(self, context: HookContext, next: Next) -> None:
        reading: object = context.params.get("live")
        if not isinstance(reading, _Reading):
            await next()
            return
        query = context.params.query
        sort: object = query.get("$sort")
        if sort is None:
            query["$sort"] = {reading.id_name: 1}
        elif is_mapping(sort) and reading.id_name not in sort:
            query["$sort"] = {**sort, reading.id_name: 1}
        if context.result is not UNSET:
            return
        reading.query = {**query}
        authentication: object = context.params.get("authentication")
        payload = authentication.get("payload") if is_mapping(authentication) else None
        reading.expires = payload.get("exp") if is_mapping(payload) else None
        await next()
        # Also those that hooks drop: when they leave the page, others may move up.
        rows = _rows_of(context.result)
        reading.held = frozenset(str(_id_of(row, reading.id_name)) for row in rows)

    async def _tell_of_change(self, context: HookContext, next: Next) -> None:
        try:
            await next()
        except FrameworkError as error:
            if error.code >= 500:  # it may have been carried out
                self._tell(context, _Notice("changed", None))
            raise
        except BaseException:
            self._tell(context, _Notice("changed", None))
            raise
        self._tell(context, _notice_of(context))

    def _tell(self, context: HookContext, notice: _Notice) -> None:
        handle: ServiceHandle = context.service
        emit_unless_held(context, lambda: self._tell_all(handle, notice))

    def _tell_all(self, handle: ServiceHandle, notice: _Notice) -> None:
        self._hear(handle, notice)
        channels = self._app.channel_registry
        if channels.forward is not None:
            channels.signal(_SIGNAL, {"path": self._watched[handle], **_as_json(notice)})

    def touch(self, handle: ServiceHandle, ids: Sequence[object] | None) -> None:
        """Tell all processes of changes that no call has made.

        Args:
            handle: The service.
            ids: Of the records, None for any.
        """
        records = () if ids is None else (None,) * len(ids)
        owner = owning_handle(handle)
        if owner in self._watched:  # otherwise no list depends on it
            self._tell_all(owner, _Notice("touched", ids, records))

    def _hear_signal(self, data: Any) -> None:
        handle = self._app.services.get(data["path"])
        if handle is not None:
            notice = _Notice(data["event"], data["ids"], data["records"])
            self._hear(owning_handle(handle), notice)

    def _hear(self, handle: ServiceHandle, notice: _Notice) -> None:
        store = self._stores.get(store_of(handle))
        if store is not None:
            for group in store.groups:
                if group.aside is not None:
                    group.aside.append(notice)
            for group in store.concerned_by(notice):
                if group.aside is None:
                    self._mark(group)
        for group in self._dependents.get(handle, ()):
            # A read that is under way may have asked it before; nothing of that must be sent.
            group.changes += 1
            self._mark(group)

    def reread(self) -> None:
        """Read all lists again, since changes may have been missed."""
        for group in self._groups.values():
            self._mark(group)

    # -- lists -------------------------------------------------------------------------------------

    async def open(self, opening: LiveList) -> None:
        """Open a list: its first message is a ``snapshot``, before this returns.

        Raises:
            MethodNotAllowed: The service is not live, or a hook responds in place of its method.
            TooManyRequests: The connection has too many lists, or the service too many that each
                change looks at.
            Unavailable: The process has too many lists.
            Exception: Whatever the hooks of `find` raise.
        """
        handle, connection = opening.handle, opening.connection
        if handle.live_options is None or "find" not in handle.methods:
            raise MethodNotAllowed(f"the service at {handle.path!r} has no live lists")
        await handle.wait_for_setup()
        self.watch()
        lists = self._lists_of.setdefault(connection, {})
        if len(lists) >= MAX_LISTS_OF_CONNECTION:
            raise TooManyRequests(f"a connection has at most {MAX_LISTS_OF_CONNECTION} lists")
        lists[opening] = None
        connection.on_change = partial(self.change_caller, connection)
        try:
            if len(self._groups) >= MAX_GROUPS and _key_of(opening) not in self._groups:
                raise Unavailable("Too many live lists")
            self._join(opening)
            await opening.opened
        except BaseException:
            opening.opened.cancel()  # nobody waits for it any more
            self.close(opening)
            raise

    def close(self, closing: LiveList) -> None:
        """Forget a list; does nothing the second time."""
        if not closing.opened.done():  # its caller still waits for the first page
            closing.opened.set_exception(Unavailable("The list was closed before it was read"))
        lists = self._lists_of.get(closing.connection, {})
        lists.pop(closing, None)
        if not lists:
            self._lists_of.pop(closing.connection, None)
            closing.connection.on_change = None
        self._part(closing)

    def close_all(self, connection: Connection) -> None:
        """Forget the lists of a connection."""
        for each in [*self._lists_of.get(connection, ())]:
            self.close(each)

    def change_caller(self, connection: Connection) -> None:
        """Read the lists of a connection again: its user or its channels have changed."""
        for each in [*self._lists_of.get(connection, ())]:
            self._part(each)
            each.why = "rights"
            self._join(each)

    def catch_up(self, late: LiveList) -> None:
        """Send a list whole: its client did not read, and was not told of changes."""
        late.why = "slow"
        if late.group is not None:
            self._mark(late.group)

    async def settled(self, connection: Connection) -> None:
        """Wait until the lists of a connection have read behind all changes told so far."""
        groups = {each.group for each in self._lists_of.get(connection, ())}
        await asyncio.gather(*(group.at_rest.wait() for group in groups if group is not None))

    def stop(self) -> None:
        """Forget all lists: the application stops."""
        for connection in [*self._lists_of]:
            self.close_all(connection)

    def _join(self, joining: LiveList) -> None:
        key = _key_of(joining)
        group = self._groups.get(key)
        if group is None:
            store = self._stores.setdefault(store_of(owning_handle(joining.handle)), _Store())
            sources = frozenset(self._sources_of(joining.handle))
            group = self._groups[key] = _Group(key, store, sources, joining)
            store.groups[group] = None
            for source in sources:
                self._dependents.setdefault(source, {})[group] = None
        group.lists[joining] = None
        joining.group = group
        self._mark(group)

    def _part(self, parting: LiveList) -> None:
        group, parting.group = parting.group, None
        if group is None:
            return
        group.lists.pop(parting, None)
        if not group.lists:
            self._drop(group)

    def _drop(self, group: _Group) -> None:
        if self._groups.get(group.key) is group:
            del self._groups[group.key]
        group.store.remove(group)
        for source in group.sources:
            groups = self._dependents.get(source, {})
            groups.pop(group, None)
            if not groups:
                self._dependents.pop(source, None)
        group.at_rest.set()
        if group.task is not None:
            group.task.cancel()
        if group.recheck is not None:
            group.recheck.cancel()

    # -- reads -------------------------------------------------------------------------------------

    def _mark(self, group: _Group) -> None:
        group.is_marked = True
        group.at_rest.clear()
        if group.task is None:
            group.task = asyncio.create_task(self._keep_true(group), name="a live list")

    async def _keep_true(self, group: _Group) -> None:
        try:
            while group.is_marked and group.lists:
                await asyncio.sleep(max(0.0, group.not_before - time.monotonic()))
                async with self._slots:
                    await self._read_again(group)
        finally:
            group.task = None
            if not group.is_marked:
                group.at_rest.set()

    async def _read_again(self, group: _Group) -> None:
        group.is_marked = False
        aside = group.aside = []
        began = time.monotonic()
        changes = group.changes
        try:
            reading = await self._read(group)
        except FrameworkError as error:
            if error.code < 500:
                self._end(group, error)
            else:
                self._try_again_later(group, error)
        except Exception as error:  # noqa: BLE001  # of the application's hooks; it is logged
            self._try_again_later(group, error)
        else:
            if not group.lists or group.changes != changes:
                group.is_marked = True
                return
            group.failures = 0
            took = time.monotonic() - began
            group.not_before = time.monotonic() + max(group.options.pause, PAUSES_PER_READ * took)
            self._show(group, reading)
            self._recheck_later(group)
            if any(concerns(group, notice) for notice in aside):
                group.is_marked = True
        finally:
            group.aside = None

    def _recheck_later(self, group: _Group) -> None:
        seconds = group.options.recheck
        if seconds is None:
            return
        if group.recheck is not None:
            group.recheck.cancel()
        group.recheck = asyncio.get_running_loop().call_later(seconds, self._mark, group)

    def _try_again_later(self, group: _Group, error: Exception) -> None:
        """Go on after a failure of the server; who waits for a first page gets the error."""
        group.failures += 1
        if group.failures == 1:
            text = "a live list of %r could not be read; it is tried again"
            _log.error(text, group.handle, exc_info=error)
        for each in [*group.lists]:
            if not each.opened.done():
                del group.lists[each]
                each.group = None
                each.opened.set_exception(error)
        if not group.lists:
            self._drop_within(group)
            return
        group.is_marked = True
        pause = min(LONGEST_PAUSE, group.options.pause * 2.0**group.failures)
        group.not_before = time.monotonic() + pause

    async def _read(self, group: _Group) -> _Reading:
        """Run `find` as the caller of a list."""
        reader = next(iter(group.lists))
        handle, connection = reader.handle, reader.connection
        reading = _Reading(getattr(owning_handle(handle).service, "id", "id"))
        params: Params = connection_params(connection, {**reader.query}, reader.route)
        params["live"] = reading
        context = HookContext(handle.app, handle, "find", params)
        await self._app.turns.take(connection.ip, handle.run(context))
        if reading.query is None:
            raise MethodNotAllowed(f"a hook of {handle!r} responds in its place, so it has no list")
        reading.take(context.result if context.dispatch is UNSET else context.dispatch)
        most = group.options.max_rows
        if len(reading.rows) > most:
            raise BadRequest(f"a live list has at most {most} rows; add `$limit` to its query")
        scanned = group.store.shelves.scanned
        if len(scanned) >= MAX_SCANNED and group not in scanned and not shelf_of(reading.query):
            raise TooManyRequests(
                "too many lists of this service have no property that is equal to something;"
                " add one to the query"
            )
        return reading

    def _show(self, group: _Group, reading: _Reading) -> None:
        """Tell the lists of a group how the page differs from what they have."""
        rows, digests = reading.rows, reading.digests
        messages: list[ListMessage] = []
        if group.digests is not None:
            for kind, key, at in differences(group.digests, digests):
                body = {"id": group.ids[key]} if kind == "left" else {"at": at, "data": rows[key]}
                messages.append(ListMessage(kind, body))
        earlier = (ListMessage(kind, {**body, "more": True}) for kind, body in messages[:-1])
        batch = [*earlier, *messages[-1:]]
        group.store.place(group, reading)
        group.digests, group.ids = digests, reading.ids
        page = {"rows": [*rows.values()]}
        digest = blake2b(b"".join(digests.values()), digest_size=16).digest()
        for each in [*group.lists]:
            each.expires = reading.expires
            differs, each.digest = each.digest != digest, digest
            if not each.opened.done():
                each.deliver([ListMessage("snapshot", {**page, **reading.limits})])
                each.opened.set_result(None)
            elif each.why is not None:
                if differs or each.why != "rights":
                    each.deliver([ListMessage("reset", {**page, "why": each.why})])
                each.why = None
            elif batch:
                each.deliver(batch)

    def _end(self, group: _Group, error: FrameworkError) -> None:
        """End the lists of a group: their caller may not find them any more."""
        lists = [*group.lists]
        group.lists.clear()
        for each in lists:
            each.group = None
            if each.opened.done():
                each.deliver([ListMessage("closed", {"error": error.to_dict()})])
                self.close(each)
            else:
                each.opened.set_exception(error)
        self._drop_within(group)

    def _drop_within(self, group: _Group) -> None:
        """Forget a group from its own task, which ends by itself."""
        task, group.task = group.task, None
        self._drop(group)
        group.task = task


def live_lists_of(app: App) -> LiveLists:
    """Return the live lists of an application; transports share them."""
    lists: LiveLists | None = app.settings.get(_SETTING)
    if lists is not None:
        return lists
    made = app.settings[_SETTING] = LiveLists(app)

    async def start(_: object, next: Callable[[], Awaitable[None]]) -> None:
        made.watch()
        await next()

    async def stop(_: object, next: Callable[[], Awaitable[None]]) -> None:
        try:
            await next()
        finally:
            made.stop()

    app.hooks(setup=[start], teardown=[stop])

    def change(connection: Connection, _before: object) -> None:
        made.change_caller(connection)

    app.on("user_changed", change)
    return made


def store_of(handle: ServiceHandle) -> Hashable:
    """Return what holds the records of a service; services on one table have the same."""
    own: object = getattr(handle.service, "store", None)
    return own() if callable(own) else id(handle.service)


def _rows_of(result: object) -> Sequence[Any]:
    if is_mapping(result) and is_list(result.get("data")):
        return result["data"]
    if is_list(result):
        return result
    raise MethodNotAllowed("the result of `find` is no list, so it cannot be a live one")


def _id_of(row: object, name: str) -> object:
    return row.get(name) if is_mapping(row) else getattr(row, name, None)


def _notice_of(context: HookContext) -> _Notice:
    """Return what a call has changed."""
    id_name = getattr(context.service.service, "id", None)
    result: object = context.result
    if not isinstance(id_name, str) or context.method not in _WRITES:
        return _Notice("changed", None)  # nobody knows what its results are
    records = result if is_list(result) else [result]
    event = _EVENTS.get(context.method, "changed")
    if context.method == "create" and context.event != "created":
        event = "changed"
    ids = [_id_of(record, id_name) for record in records]
    if len(ids) > MAX_IDS or None in ids:
        return _Notice(event, None)
    is_whole = "$select" not in context.params.query
    stored = [{**record} if is_whole and is_mapping(record) else None for record in records]
    return _Notice(event, ids, stored)


def _as_json(notice: _Notice) -> dict[str, Any]:
    """Return a change for other processes; records that are too large go without their values."""
    ids = None
    if notice.ids is not None:
        ids = [each if isinstance(each, int) else str(each) for each in notice.ids]
    records = [*map(_plain_part, notice.records)]
    return {"event": notice.event, "ids": ids, "records": records}


def _plain_part(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the short texts, numbers and truth values of a record: what lists are found by."""
    if record is None:
        return None
    return {
        name: value
        for name, value in record.items()
        if type(value) in {bool, int, float} or (type(value) is str and len(value) <= MAX_TEXT)
    }


def _key_of(opening: LiveList) -> Hashable:
    """Return what lists have in common that share their reads: service, caller and query.

    Hooks may look at all that is known of a caller. So all of it has to be equal, headers and
    address too: somebody else's rows must not be sent.
    """
    connection = opening.connection
    caller = connection.__dict__
    try:
        key = (
            opening.handle,
            _frozen(caller),
            _frozen(connection.channels),
            _frozen(opening.route),
            _frozen(opening.query),
        )
        hash(key)
    except TypeError:
        return opening  # what cannot be compared is not shared
    return key


def _frozen(value: object) -> Hashable:
    if is_mapping(value):
        return ("{", *((name, _frozen(inner)) for name, inner in value.items()))
    if is_array(value):
        return ("[", *map(_frozen, value))
    if isinstance(value, Hashable):
        return type(value), value
    raise TypeError
