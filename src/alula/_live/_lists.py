"""Lists that stay true: which are open, which a change concerns, and how they are read again.

A change says which lists may differ now. What a list holds is always read by `find`, as its caller,
after the change: the records of events come in another order than their commits, so a list that is
kept by them ends wrong. Why no change is missed:

- A list is registered before its first read begins. A write that commits before that read sees the
  database is on the page; one that commits later tells of it later.
- What is told while a list is read waits, and is compared with the page that the read brings:
  before, neither the ids on the page nor its query are known.
- Looking for the lists that a change concerns may take several slices of time. Each list is
  compared with its page as it is then: a read that began after the change has it, and a read that
  began before has ended with a page to compare with, or gets the change set aside.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from alula._channels import GAP_OF_LISTS, ListFigures
from alula._connection import Connection, user_id_of
from alula._context import HookContext, Params
from alula._events import emit_unless_held, is_in_transaction
from alula._live._callers import caller_of, key_of, looks_at_connection, watched_params
from alula._live._difference import differences
from alula._live._groups import Group, ListMessage, LiveList, Store
from alula._live._notices import ANYTHING, Notice, notice_of
from alula._live._reading import Reading
from alula._live._routing import shelf_of
from alula._live._slices import Slices
from alula._live._sources import (
    Source,
    concerned_users,
    declared_dependency,
    related_to,
    sources_of,
    store_of,
    used_relations,
)
from alula._live._turns import ReadTurns
from alula._service import ServiceHandle, owning_handle
from alula.errors import (
    BadRequest,
    FrameworkError,
    MethodNotAllowed,
    NotAuthenticated,
    TooManyRequests,
    Unavailable,
)
from alula.hooks import annotate_hook
from alula.outgoing._redaction import result_to_encode
from alula.types import is_mapping

if TYPE_CHECKING:
    from alula._app import App
    from alula.hooks import Next

__all__ = ["LiveLists", "live_lists_of"]

_READS: Final = frozenset({"find", "get"})

MAX_LISTS_OF_CONNECTION: Final = 100
MAX_GROUPS: Final = 10_000
MAX_ROWS: Final = 500_000
"""How many rows the lists of a process have together."""

MAX_SCANNED: Final = 1_000
"""Lists of a service without a property that is equal to something: each change looks at them."""

MAX_EXPLAINED: Final = 100
"""How many kinds of such queries the log names."""

PAUSES_PER_READ: Final = 4
"""After a read, a list rests this many times as long, so a slow query takes a fifth of the time."""

DEPENDENCY_PAUSE: Final = 1.0
"""Seconds between two reads of a list for changes of services that ``depends_on`` names."""

LEAST_GROWTH: Final = 0.01
"""By how many seconds a read may at least take longer than the one before, to count as slow."""

LONGEST_PAUSE: Final = 1.0
"""How long a list waits, in seconds, after reads that have failed on the server's side.

So lists are true again within two seconds after a database that was away.
"""

_SIGNAL: Final = "live/notice"
_SETTING: Final = "live lists"
"""The name of the setting under which `ServiceHandle.touch` finds the lists."""

_log: Final = logging.getLogger("alula.live")


class LiveLists:
    """The open lists of an application.

    Args:
        app: The application. Services with ``live()`` are known at its setup.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._stores: dict[Hashable, Store] = {}
        self._late_stores: list[Store] = []  # those whose table is known later
        self._groups: dict[Hashable, Group] = {}
        # By the service whose changes change what other services find.
        self._dependents: dict[Source, dict[Group, None]] = {}
        # How often these have changed: what was read before must not be sent.
        self._changes: Counter[Source] = Counter()
        self._lists_of: dict[Connection, dict[LiveList, None]] = {}
        # Those that tell of their changes, with the path by which other processes know them.
        self._watched: dict[ServiceHandle, str] = {}
        self._seen: dict[ServiceHandle, frozenset[str]] = {}  # what the hooks of each look at
        self._explained: set[Hashable] = set()
        self._failing: set[ServiceHandle] = set()  # logged, and no list of it was read since
        self._rows = 0
        self._turns = ReadTurns(self._read_again)
        self._slices = Slices(lambda: map(self._mark, [*self._groups.values()]))
        channels = self._channels = app.channel_registry
        self._figures = channels.list_figures = ListFigures()
        channels.on_signal(_SIGNAL, self._hear_signal)
        channels.on_signal(GAP_OF_LISTS, lambda _: self.reread())
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
        sources = {
            source.handle
            for handle in live
            for source in (*sources_of(handle, services), *related_to(handle))
        }
        for path, handle in services.items():
            owner = owning_handle(handle)
            if owner in self._watched or not (store_of(owner) in stores or owner in sources):
                continue
            self._watched[owner] = path
            owner.add_innermost(_NOTE_PAGE, ["find"])
            methods = [name for name in owner.hook_methods() if name not in _READS]
            owner.add_innermost(self._tell_of_change, methods)

    async def _tell_of_change(self, context: HookContext, next: Next) -> None:
        try:
            await next()
        except FrameworkError as error:
            if error.code >= 500:  # it may have been carried out
                self._tell(context, ANYTHING)
            raise
        except BaseException:
            self._tell(context, ANYTHING)
            raise
        handle: ServiceHandle = context.service
        if not handle.publishes_calls and context.method in _METHODS_OF_STORE:
            return  # each process hears it from the database
        if self._groups or self._channels.forward is not None or is_in_transaction():
            self._tell(context, notice_of(context))

    def _tell(self, context: HookContext, notice: Notice) -> None:
        handle: ServiceHandle = context.service
        emit_unless_held(context, lambda: self._tell_all(handle, notice))

    def _tell_all(self, handle: ServiceHandle, notice: Notice) -> None:
        self._hear(handle, notice)
        if self._channels.forward is not None:
            self._channels.signal(_SIGNAL, {"path": self._watched[handle], **notice.to_json()})

    def touch(self, handle: ServiceHandle, ids: Sequence[object] | None) -> None:
        """Tell all processes of changes that no call has made.

        Args:
            handle: The service.
            ids: Of the records, None for any.
        """
        records = () if ids is None else (None,) * len(ids)
        owner = owning_handle(handle)
        if owner in self._watched:  # otherwise no list depends on it
            self._tell_all(owner, Notice("touched", ids, records))

    def hear_change(
        self,
        handle: ServiceHandle,
        event: str,
        ids: Sequence[object] | None,
        records: Sequence[Mapping[str, Any] | None] = (),
    ) -> None:
        """Note a change that the database tells each process.

        Args:
            handle: The service.
            event: Of the change.
            ids: Of the records, None for any.
            records: What was stored, each None where that is not known.
        """
        self._hear(owning_handle(handle), Notice(event, ids, records))

    def _hear_signal(self, data: Any) -> None:
        handle = self._app.services.get(data["path"])
        if handle is not None:
            notice = Notice(data["event"], data["ids"], data["records"])
            self._hear(owning_handle(handle), notice)

    def _hear(self, handle: ServiceHandle, notice: Notice) -> None:
        key = store_of(handle)
        store = self._stores.get(key)
        if store is not None and (near := store.near(notice)):
            self._slices.add(self._look(store, notice, near))
        for store in self._late_stores:
            if store_of(store.owner) == key:
                self._slices.add(self._look(store, notice, store.near(notice)))
        if not self._dependents:
            return
        sources = [Source(handle)]
        if notice.event in {"removed", "touched"} or notice.ids is None:
            sources.append(Source(handle, by_removal=True))
        for source in sources:
            dependents = self._dependents.get(source)
            if dependents:
                self._changes[source] += 1
                self._slices.add(self._look_at_dependents([*dependents], handle, notice))

    def _look_at_dependents(
        self, groups: Iterable[Group], changed: ServiceHandle, notice: Notice
    ) -> Iterator[None]:
        """Read lists that depend on a service that has changed, one at a time."""
        found: dict[ServiceHandle, tuple[bool, frozenset[str] | None]] = {}
        for group in groups:
            if group.handle not in found:
                is_declared, users_of = declared_dependency(
                    group.handle, changed, self._app.services
                )
                found[group.handle] = is_declared, concerned_users(users_of, notice)
            is_declared, users = found[group.handle]
            if users is None or any(user_id_of(each.connection) in users for each in group.lists):
                if is_declared and not group.is_marked:
                    # Memberships change often, and each time all lists are read.
                    group.not_before = max(group.not_before, group.depended_at + DEPENDENCY_PAUSE)
                    group.depended_at = max(time.monotonic(), group.not_before)
                self._mark(group)
            yield

    def _look(self, store: Store, notice: Notice, near: Iterable[Group]) -> Iterator[None]:
        """Look which groups a change concerns, one at a time."""
        for group in near:
            if group.aside is not None:
                group.aside.append(notice)
            elif not group.is_marked and group in store.groups:
                if store.concerns(group, notice):
                    self._turns.mark(group)
                else:
                    self._figures.dismissed += 1
            yield

    def reread(self) -> None:
        """Read all lists again, since changes may have been missed."""
        self._slices.add(map(self._mark, [*self._groups.values()]))

    # -- lists -------------------------------------------------------------------------------------

    async def open(self, opening: LiveList) -> None:
        """Open a list: its first message is a ``snapshot``, before this returns.

        Raises:
            MethodNotAllowed: The service is not live, or a hook responds in place of its method.
            TooManyRequests: The connection has too many lists, or the service too many that each
                change looks at.
            Unavailable: The process has too many lists, or too many rows in them.
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
        connection.on_change = partial(self._compare_caller, connection)
        self._figures.lists += 1
        try:
            if len(self._groups) >= MAX_GROUPS and self._key_of(opening) not in self._groups:
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
        if closing in lists:
            del lists[closing]
            self._figures.lists -= 1
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
            self._move(each)

    def _compare_caller(self, connection: Connection) -> None:
        """Read lists again that may differ now: hooks may look at the user, or at channels."""
        for each in [*self._lists_of.get(connection, ())]:
            group = each.group
            if (
                group is None
                or group.page is None  # what hooks look at is not known yet
                or looks_at_connection(group.seen)
                or group.key is each  # its caller cannot be compared
                or self._key_of(each) != group.key
            ):
                self._move(each)

    def catch_up(self, late: LiveList) -> None:
        """Send a list whole: its client did not read, and was not told of changes."""
        late.why = "slow"
        if late.group is not None:
            self._mark(late.group)

    async def settled(self, connection: Connection) -> None:
        """Wait until the lists of a connection have read behind all changes told so far."""
        await self._slices.wait()
        groups = {each.group for each in self._lists_of.get(connection, ())}
        await asyncio.gather(*(group.rest() for group in groups if group is not None))

    def stop(self) -> None:
        """Forget all lists: the application stops."""
        for connection in [*self._lists_of]:
            self.close_all(connection)
        self._slices.stop()

    def _key_of(self, opening: LiveList) -> Hashable:
        return key_of(opening, self._seen.get(opening.handle, frozenset()))

    def _join(self, joining: LiveList) -> None:
        key = self._key_of(joining)
        group = self._groups.get(key)
        if group is None:
            store = self._store_of(owning_handle(joining.handle))
            # All until its query is known: a change during the first read may concern it.
            sources = frozenset(
                (
                    *sources_of(joining.handle, self._app.services),
                    *related_to(joining.handle),
                )
            )
            seen = self._seen.get(joining.handle, frozenset())
            group = self._groups[key] = Group(key, seen, store, frozenset(), joining)
            self._depend_on(group, sources)
            store.groups[group] = None
            self._figures.groups += 1
        group.lists[joining] = None
        joining.group = group
        self._mark(group)

    def _store_of(self, owner: ServiceHandle) -> Store:
        key = store_of(owner)
        store = self._stores.get(key)
        if store is None:
            store = self._stores[key] = Store(key, owner)
            if key == id(owner.service) and hasattr(owner.service, "store"):
                self._late_stores.append(store)  # its database was away until now
        return store

    def _move(self, moving: LiveList) -> None:
        """Read a list as its caller is now."""
        self._part(moving)
        moving.why = "rights"
        self._join(moving)

    def _part(self, parting: LiveList) -> None:
        group, parting.group = parting.group, None
        if group is None:
            return
        group.lists.pop(parting, None)
        if not group.lists:
            self._drop(group)

    def _drop(self, group: Group) -> None:
        if group not in group.store.groups:
            return
        if self._groups.get(group.key) is group:
            del self._groups[group.key]
        self._figures.groups -= 1
        self._rows -= len(group.page or ())
        group.store.remove(group)
        self._depend_on(group, frozenset())
        self._turns.forget(group)
        group.tell_rest()
        if group.recheck is not None:
            group.recheck.cancel()

    def _depend_on(self, group: Group, sources: frozenset[Source]) -> bool:
        """Have a group hear of these services; return whether any of them is new."""
        for source in group.sources - sources:
            dependents = self._dependents[source]
            del dependents[group]
            if not dependents:
                del self._dependents[source]
        added = sources - group.sources
        for source in added:
            self._dependents.setdefault(source, {})[group] = None
        group.sources = sources
        return bool(added)

    # -- reads -------------------------------------------------------------------------------------

    def _mark(self, group: Group) -> None:
        if group.lists:
            self._turns.mark(group)

    async def _read_again(self, group: Group) -> None:
        group.is_marked = False
        aside = group.aside = []
        group.store.reading[group] = None
        began = time.monotonic()
        changes = self._changes_of(group)
        self._figures.reads += 1
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
            if reading is None:
                return
            if self._changes_of(group) != changes:
                group.is_marked = True
                return
            group.failures = 0
            self._failing.discard(group.handle)
            now = time.monotonic()
            # About twice as long as before at most: a database that was away is no slow query.
            group.took = min(now - began, 2 * group.took + LEAST_GROWTH)
            rested = now + max(group.options.pause, PAUSES_PER_READ * group.took)
            group.not_before = max(group.not_before, rested)
            self._show(group, reading)
            self._recheck_later(group)
            if any(group.store.concerns(group, notice) for notice in aside):
                group.is_marked = bool(group.lists)
        finally:
            group.aside = None
            group.store.reading.pop(group, None)

    def _changes_of(self, group: Group) -> int:
        """Return a number that grows when services change on which `find` depends."""
        return sum(self._changes[source] for source in group.sources)

    def _recheck_later(self, group: Group) -> None:
        seconds = group.options.recheck
        if seconds is None:
            return
        if group.recheck is not None:
            group.recheck.cancel()
        group.recheck = asyncio.get_running_loop().call_later(seconds, self._mark, group)

    def _try_again_later(self, group: Group, error: Exception) -> None:
        """Go on after a failure of the server; who waits for a first page gets the error."""
        group.failures += 1
        if group.failures == 1 and group.handle not in self._failing:
            self._failing.add(group.handle)
            text = "a live list of %r could not be read; it and others that fail are tried again"
            _log.error(text, group.handle, exc_info=error)
        for each in [*group.lists]:
            if not each.opened.done():
                each.opened.set_exception(error)
                self._part(each)
        if group.lists:
            pause = min(LONGEST_PAUSE, group.options.pause * 2.0**group.failures)
            group.not_before = time.monotonic() + pause
            group.is_marked = True

    async def _read(self, group: Group) -> Reading | None:
        """Run `find` as the caller of a list; None if no list is left."""
        reading = Reading(group.handle)
        reader, params = self._reader_of(group, reading)
        if reader is None or params is None:
            return None
        handle = group.handle
        params.live = reading
        context = reading.context = HookContext(handle.app, handle, "find", params)
        try:
            await self._app.turns.take(reader.connection.ip, handle.run(context))
        finally:  # an error is that of those callers alone who are equal in what was looked at
            if reader.group is group:
                self._split(group, reader, reading.seen)
        if not group.lists:
            return None
        if reading.query is None:
            raise MethodNotAllowed(f"a hook of {handle!r} responds in its place, so it has no list")
        reading.take(result_to_encode(context))
        self._check_limits(group, reading)
        return reading

    def _reader_of(
        self, group: Group, reading: Reading
    ) -> tuple[LiveList | None, Params[Any] | None]:
        """Return a list whose caller is still signed in, with its params; end those before it."""
        for each in [*group.lists]:
            try:
                params = watched_params(each.connection, {**each.query}, each.route, reading.seen)
            except NotAuthenticated as error:
                self._end_list(each, error)
            else:
                return each, params
        return None, None

    def _split(self, group: Group, reader: LiveList, looked_at: set[str]) -> None:
        """Take out the lists between whose callers and the one of a read hooks can tell."""
        if looked_at <= group.seen:
            return
        handle = group.handle
        self._seen[handle] = self._seen.get(handle, frozenset()) | looked_at
        group.seen |= looked_at
        of_reader = caller_of(reader.connection, group.seen)
        for each in [*group.lists]:
            if caller_of(each.connection, group.seen) != of_reader:
                self._move(each)
        # From now on, a list that opens has to be equal in this, too.
        if self._groups.get(group.key) is group:
            del self._groups[group.key]
        group.key = self._key_of(reader)
        self._groups.setdefault(group.key, group)

    def _check_limits(self, group: Group, reading: Reading) -> None:
        most = group.options.max_rows
        if len(reading.rows) > most:
            raise BadRequest(f"a live list has at most {most} rows; add `$limit` to its query")
        if group.page is None and self._rows + len(reading.rows) > MAX_ROWS:
            raise Unavailable("Too many rows in live lists")
        query, shelves = reading.query or {}, group.store.shelves
        if shelf_of(query) or group in shelves.scanned:
            return
        if len(shelves.scanned) >= MAX_SCANNED:
            names = sorted(shelves.names) or [name for name in query if name[:1] != "$"]
            hint = f", such as {names[0]!r}" if names else ""
            raise TooManyRequests(
                "too many lists of this service have no property that is equal to something;"
                f" add one to the query{hint}"
            )
        self._explain(group.handle, query)

    def _explain(self, handle: ServiceHandle, query: Mapping[str, Any]) -> None:
        """Log once why each change looks at lists with such a query."""
        names = tuple(sorted(name for name in query if name not in _OF_PAGE))
        if (handle, names) in self._explained or len(self._explained) >= MAX_EXPLAINED:
            return
        self._explained.add((handle, names))
        _log.info(
            "each change of %r looks at the live lists of such a query: %s; a list is found faster"
            " by a property that is equal to a value",
            handle,
            f"no value of {', '.join(names)} is certain" if names else "it has no conditions",
        )

    def _show(self, group: Group, reading: Reading) -> None:
        """Tell the lists of a group how the page differs from what they have."""
        rows, digests, odd_ids = reading.rows, reading.digests, group.odd_ids
        messages: list[ListMessage] = []
        if group.page is not None:
            for kind, key, at in differences(group.page, digests):
                left = {"id": odd_ids.get(key, key)} if kind == "left" else None
                messages.append(ListMessage(kind, left or {"at": at, "data": rows[key]}))
        earlier = (ListMessage(kind, {**body, "more": True}) for kind, body in messages[:-1])
        batch = [*earlier, *messages[-1:]]
        self._rows += len(rows) - len(group.page or ())
        group.store.place(group, reading)
        relations = used_relations(group.handle, reading.query or {})
        sources = frozenset((*sources_of(group.handle, self._app.services), *relations))
        if self._depend_on(group, sources):
            group.is_marked = True  # they may have changed during this read
        page = {"rows": [*rows.values()]}
        digest = blake2b(b"".join(digests.values()), digest_size=16).digest()
        for each in [*group.lists]:
            each.expires = _end_of_token(each.connection, reading.expires)
            differs, each.digest = each.digest != digest, digest
            if not each.opened.done():
                each.why = None
                each.deliver([ListMessage("snapshot", {**page, **reading.limits})])
                each.opened.set_result(None)
            elif each.why is not None:
                if differs or each.why != "rights":
                    each.deliver([ListMessage("reset", {**page, "why": each.why})])
                each.why = None
            elif batch:
                each.deliver(batch)

    def _end(self, group: Group, error: FrameworkError) -> None:
        """End the lists of a group: their caller may not find them any more."""
        for each in [*group.lists]:
            self._end_list(each, error)

    def _end_list(self, ended: LiveList, error: FrameworkError) -> None:
        if ended.opened.done():
            ended.deliver([ListMessage("closed", {"error": error.to_dict()})])
            self.close(ended)
        else:
            ended.opened.set_exception(error)
            self._part(ended)


_METHODS_OF_STORE: Final = frozenset({"create", "update", "patch", "remove"})
_OF_PAGE: Final = frozenset({"$sort", "$limit", "$skip", "$select", "$include"})


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


def _is_no_reading(context: HookContext) -> bool:
    return not isinstance(context.params.__dict__.get("live"), Reading)


async def _note_page(context: HookContext, next: Next) -> None:
    reading: Reading = context.params.__dict__["live"]
    ask_primary = getattr(context.service.service, "ask_primary", None)
    if callable(ask_primary):
        ask_primary(context.params)
    if reading.is_of(context):
        await reading.note(context, next)
    else:
        await next()


_NOTE_PAGE: Final = annotate_hook(_note_page, is_idle=_is_no_reading)


def _end_of_token(connection: Connection, of_read: float | None) -> float | None:
    """Return when the token of a connection expires; what a read has found if it has none."""
    payload = (connection.authentication or {}).get("payload")
    return payload.get("exp") if is_mapping(payload) else of_read
