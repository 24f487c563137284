"""`publish_changes`: events for all changes of a collection, also those by other programs.

The change stream does not say who has written. So it replaces the events of calls: clients get each
change once, in the order of the database, whoever made it. Each process publishes to its own
connections, so no process has to lead, and no bus carries the events.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from pymongo.errors import OperationFailure

from alula._channels import Channels, Event
from alula._context import HookContext, Params
from alula._service import ServiceHandle, event_records
from alula.adapters.mongodb._service import MongoDBService
from alula.errors import NotFound
from alula.outgoing import public_part

if TYPE_CHECKING:
    from pymongo.asynchronous.change_stream import AsyncCollectionChangeStream

__all__ = ["publish_changes"]

_log: Final = logging.getLogger("alula.mongodb")

_EVENTS: Final = {
    "insert": "created",
    "replace": "updated",
    "update": "patched",
    "delete": "removed",
}
_NOT_A_REPLICA_SET: Final = 40573
_HISTORY_LOST: Final = frozenset({136, 280, 286})
"""Codes of a change stream that cannot go on: its position is no longer in the oplog."""

_AWAIT_MS: Final = 1_000
_START_SECONDS: Final = 5.0
"""How long the setup of the application waits for the database."""

_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0

Next = Callable[[], Awaitable[object]]


class Application(Protocol):
    """An `App`, or what ``express`` makes of one."""

    @property
    def channel_registry(self) -> Channels:
        """The channels and connections."""
        ...

    # Any: an application may be typed with the paths that it has.
    def service(self, path: Any) -> ServiceHandle:
        """Return the handle of a service."""
        ...

    def hooks(self, *, setup: Any, teardown: Any) -> object:
        """Register hooks around setup and teardown."""
        ...


def publish_changes(path: str) -> Callable[[Any], None]:
    """Return the plugin that publishes the changes of a service's collection.

    Programs that write into the collection need not know of Alula: clients get their changes as
    they get those of calls. The events of calls are then published by way of the database as well,
    some milliseconds later, so that each change is published once. Each process follows the change
    stream for its own connections.

    The data is what the service's method ``get`` returns, with all its hooks, so that redaction
    holds; the record may be newer than the change. A removed record has its id alone. The context
    of a publisher has ``event``, ``id`` and ``result``, and no params of a call: a change does not
    say who made it. Listeners on the server, by ``service.on``, get calls of this process, as ever.

    Args:
        path: The path of a `MongoDBService` with a collection of a replica set.

    Raises:
        TypeError: By the plugin: the service is another one, or one of a mounted application.
        ValueError: By the plugin: the path has placeholders.
        LookupError: By the plugin: there is no such service; register it first.
        RuntimeError: By the setup of the application: the server is not part of a replica set.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.mongodb import MongoDBService, publish_changes
        >>> from pymongo import AsyncMongoClient
        >>> messages = AsyncMongoClient(connect=False)["chat"]["messages"]
        >>> app = App().use("messages", MongoDBService(messages))
        >>> _ = app.configure(publish_changes("messages"))
    """

    def configure(app: Application) -> None:
        handle = app.service(path)
        service = handle.service
        if not isinstance(service, MongoDBService):
            raise TypeError(f"publish_changes({path!r}) needs a MongoDBService, not {service!r}")
        if ":" in path:
            raise ValueError(f"publish_changes({path!r}): a change has no values for placeholders")
        handle.publishes_calls = False
        changes = _Changes(app.channel_registry, handle, service)

        async def start(_: object, next: Next) -> None:
            await next()
            await changes.start()

        async def stop(_: object, next: Next) -> None:
            try:
                await next()
            finally:
                await changes.stop()

        app.hooks(setup=[start], teardown=[stop])

    return configure


class _Changes:
    """Follows the change stream of one service.

    Args:
        channels: The channels of the application.
        handle: The service, with its hooks.
        service: The service itself.
    """

    def __init__(self, channels: Channels, handle: ServiceHandle, service: MongoDBService) -> None:
        self._channels = channels
        self._handle = handle
        self._service = service
        # An origin of its own: the bus numbers the events of this process, and never gets these.
        self._origin = secrets.token_urlsafe(9)
        self._sequence = 0
        self._token: Mapping[str, Any] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Follow the changes from now on.

        Raises:
            RuntimeError: The server has no change streams.
        """
        stream = None
        try:
            async with asyncio.timeout(_START_SECONDS):
                stream = await self._open()
        except OperationFailure as error:
            if error.code == _NOT_A_REPLICA_SET:
                raise RuntimeError(
                    f"publish_changes({self._handle.path!r}) needs a replica set; a single member"
                    " is enough"
                ) from error
            self._log_failure(error)
        except Exception as error:  # noqa: BLE001  # the model may be a function of the user
            self._log_failure(error)
        name = f"the changes of {self._handle.path!r}"
        self._task = asyncio.create_task(self.follow(stream), name=name)

    async def stop(self) -> None:
        """Follow the changes no more."""
        task, self._task = self._task, None
        # Until it has ended: a hook or the driver may take a cancellation for an error of its own.
        while task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=1)

    async def _open(self) -> AsyncCollectionChangeStream[dict[str, Any]]:
        collection = await self._service.get_model()
        return await collection.watch(
            start_after=self._token,
            full_document_before_change="whenAvailable",
            max_await_time_ms=_AWAIT_MS,
        )

    async def follow(self, stream: AsyncCollectionChangeStream[dict[str, Any]] | None) -> None:
        """Publish the changes of a stream, and of those that take its place.

        Args:
            stream: The first stream, None to open one.
        """
        pause, is_failing = _FIRST_PAUSE_SECONDS, stream is None
        while True:
            try:
                if stream is None:
                    begins_anew = self._token is None
                    stream = await self._open()
                    if begins_anew:
                        self._channels.report_gap()
                async with stream:
                    self._token = stream.resume_token
                    while stream.alive:
                        change = await stream.try_next()
                        if is_failing:
                            _log.info("the changes of %r are followed again", self._handle.path)
                        pause, is_failing = _FIRST_PAUSE_SECONDS, False
                        if change is not None:
                            await self.publish(change)
                        self._token = stream.resume_token
                stream = None  # the collection was dropped; it may be created again
            except Exception as error:  # noqa: BLE001  # also of a model that is a function
                stream = None
                if getattr(error, "code", None) in _HISTORY_LOST:
                    self._token = None
                    _log.warning("changes of %r were missed: %s", self._handle.path, error)
                elif not is_failing:
                    self._log_failure(error)
                is_failing = True
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def publish(self, change: Mapping[str, Any]) -> None:
        """Publish a change to the connections of this process.

        Args:
            change: As the stream has it.
        """
        event = _EVENTS.get(change["operationType"])
        if event is None:  # the collection was dropped or renamed
            self._channels.report_gap()
            return
        self._tell_lists(event, change)
        if event not in self._handle.publishers or not self._channels.is_active:
            return
        handle, name, key = self._handle, self._service.options.id, change["documentKey"]
        found = change.get("fullDocument") or change.get("fullDocumentBeforeChange")
        document: Mapping[str, Any] = found or {}
        if name != "_id" and event == "patched":
            # The change has the id of the database alone.
            collection = await self._service.get_model()
            document = await collection.find_one(key, {name: 1}) or {}
        record = {**key, **({name: document[name]} if name in document else {})}
        record_id = record.get(name, key["_id"])
        records: Sequence[tuple[Any, Any]] = [(record, record)]
        if event != "removed":
            context = HookContext(handle.app, handle, "get", Params(), record_id)
            try:
                await handle.run(context)
            except NotFound:
                return  # it was removed meanwhile, which is a change of its own
            except Exception:  # noqa: BLE001  # a hook of the application
                _log.exception("nobody gets %r of %r: `get` failed", event, handle.path)
                return
            records = event_records(context)
        for record, data in records:
            self._sequence += 1
            self._channels.receive(
                Event(
                    handle.path,
                    event,
                    record,
                    public_part(data),
                    origin=self._origin,
                    sequence=self._sequence,
                    id=record_id,
                )
            )

    def _tell_lists(self, event: str, change: Mapping[str, Any]) -> None:
        """Tell the live lists of this process; each one hears the database itself."""
        name, key = self._service.options.id, change["documentKey"]
        document = change.get("fullDocument")
        found: Mapping[str, Any] = document or change.get("fullDocumentBeforeChange") or {}
        record_id: object = found.get(name) if name != "_id" else key["_id"]
        # With other ids, a change of some fields or a removal may not say which record it was.
        ids = None if record_id is None else [record_id]
        self._handle.tell_lists(event, ids, [document] if ids else [])

    def _log_failure(self, error: Exception) -> None:
        text = "the changes of %r cannot be followed now, and are tried again: %s"
        _log.warning(text, self._handle.path, str(error) or type(error).__name__)
