"""The collection of a service: given at once, or resolved when it is first needed."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import Context
from typing import Any, Final, TypeAlias, cast

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import ConnectionFailure
from pymongo.synchronous.collection import Collection as SyncCollection

from alula._public_error import log_text
from alula.adapters.mongodb._errors import unavailable

__all__ = ["CONCERNS", "Collection", "Model", "ModelSource", "resolved", "with_concerns"]

_log = logging.getLogger("alula.mongodb")

_SYNCHRONOUS: Final[Any] = SyncCollection  # `Any`: its documents would be unknown
Collection: TypeAlias = AsyncCollection[dict[str, Any]]
Model: TypeAlias = (
    Collection | Awaitable[Collection] | Callable[[], Collection | Awaitable[Collection]]
)

CONCERNS: Final = frozenset({"read_preference", "read_concern", "write_concern"})
"""Options of a call that the driver keeps with the collection."""


class ModelSource:
    """The model of a service, and the collection once it is resolved.

    Concurrent callers share one attempt. If it fails, it fails for all of them, and the next caller
    tries again.

    Args:
        model: The collection, an awaitable of it, or a function that returns either. An awaitable
            has one result only: after a failure it fails again. A function is called again.

    Attributes:
        collection: The collection, None until it is resolved.
    """

    def __init__(self, model: Model) -> None:
        self._model: object = model
        self._attempt: asyncio.Task[Collection] | None = None
        self.collection: Collection | None = model if isinstance(model, AsyncCollection) else None

    async def resolve(self) -> Collection:
        """Return the collection.

        Raises:
            Exception: Whatever the model raises.
            TypeError: It is not a collection.
        """
        if self.collection is not None:
            return self.collection
        if self._attempt is None:
            model = self._model
            if inspect.isawaitable(model) and not isinstance(model, asyncio.Future):
                # A coroutine can be awaited once, a task any number of times.
                async def awaited() -> Collection:
                    collection: Collection = await model
                    return collection

                self._model = _task(awaited())
            self._attempt = _task(resolved(self._model))
            self._attempt.add_done_callback(self._keep)
        # Shielded: a caller that gives up must not end the attempt for the others.
        return await asyncio.shield(self._attempt)

    async def prepare(self, owner: str) -> None:
        """Resolve the model before the first call; a failure is logged.

        Args:
            owner: What to call the owner of the model in the log.
        """
        try:
            await self.resolve()
        except Exception as error:  # noqa: BLE001  # the model may be a function of the user
            text = "the model of %s failed; its next call tries again%s"
            is_away = isinstance(error, ConnectionFailure)
            reason = f": {log_text(unavailable(error))}" if is_away else ""
            _log.error(text, owner, reason, exc_info=None if is_away else error)

    def _keep(self, attempt: asyncio.Task[Collection]) -> None:
        self._attempt = None
        if not attempt.cancelled() and attempt.exception() is None:
            self.collection = attempt.result()


def _task(work: Coroutine[Any, Any, Collection]) -> asyncio.Task[Collection]:
    # In a context of its own: the time limit of the call that began it must not end it for others.
    return asyncio.get_running_loop().create_task(work, context=Context())


async def resolved(model: object) -> Collection:
    """Return the collection of a model.

    Raises:
        TypeError: It is not a collection; the message says what it is.
    """
    if not isinstance(model, AsyncCollection):
        # A synchronous collection is callable, and calling it explains nothing.
        if callable(model) and not isinstance(model, _SYNCHRONOUS):
            model = model()
        if inspect.isawaitable(model):
            model = await model
    if not isinstance(model, AsyncCollection):
        # A string is not shown: the address of a database often contains its password.
        shown = "a string" if isinstance(model, str) else f"{type(model).__name__} {model!r}"
        raise TypeError(
            f"the model of a MongoDBService is {shown}; give a collection of PyMongo's"
            ' AsyncMongoClient, such as client["chat"]["messages"], an awaitable of one, or a'
            " function that returns either"
        )
    return cast("Collection", model)  # `isinstance` does not tell that documents are dicts


def with_concerns(model: Collection, options: Mapping[str, Any]) -> Collection:
    """Return the collection with the read and write concerns among some options."""
    if CONCERNS.isdisjoint(options):
        return model
    return model.with_options(**{name: options[name] for name in CONCERNS if name in options})
