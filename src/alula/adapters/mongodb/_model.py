"""The collection of a service: given at once, or found out when it is first needed."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import Context
from typing import Any, Final, TypeAlias

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.synchronous.collection import Collection as SyncCollection

__all__ = ["CONCERNS", "Collection", "Model", "ModelSource", "resolved", "with_concerns"]

_log = logging.getLogger("alula.mongodb")

Collection: TypeAlias = AsyncCollection[dict[str, Any]]
Model: TypeAlias = (
    Collection | Awaitable[Collection] | Callable[[], Collection | Awaitable[Collection]]
)

CONCERNS: Final = frozenset({"read_preference", "read_concern", "write_concern"})
"""The options of a call that the driver keeps with the collection."""


class ModelSource:
    """What a service was given as its model, and the collection once it is known.

    Callers that come while it is being found out share one attempt. One that fails fails for
    them all, and the next caller tries again.

    Args:
        model: The collection, an awaitable of it, or a function that returns either. An awaitable
            has one result only: one that failed fails again. A function is called again.

    Attributes:
        collection: The collection, None as long as it is not known.
    """

    def __init__(self, model: Model) -> None:
        self._model: Any = model
        self._attempt: asyncio.Task[Collection] | None = None
        self.collection: Collection | None = model if isinstance(model, AsyncCollection) else None

    async def resolve(self) -> Collection:
        """Return the collection.

        Raises:
            Exception: Whatever the model raises.
            TypeError: It is no collection.
        """
        if self.collection is not None:
            return self.collection
        if self._attempt is None:
            if inspect.isawaitable(self._model):
                self._model = _task(_awaited(self._model))
            self._attempt = _task(resolved(self._model))
            self._attempt.add_done_callback(self._keep)
        # A caller that gives up must not end the attempt for the others.
        return await asyncio.shield(self._attempt)

    async def prepare(self, whose: str) -> None:
        """Find out the collection ahead of the first call; where that fails, the log says so.

        Args:
            whose: What to call the owner in the log.
        """
        try:
            await self.resolve()
        except Exception:  # noqa: BLE001  # whatever a model of somebody's own raises
            _log.exception("the model of %s failed; its next call tries again", whose)

    def _keep(self, attempt: asyncio.Task[Collection]) -> None:
        self._attempt = None
        if not attempt.cancelled() and attempt.exception() is None:
            self.collection = attempt.result()


def _task(work: Coroutine[Any, Any, Collection]) -> asyncio.Task[Collection]:
    """Run what belongs to no call: the time limit of the one that began it does not hold."""
    return asyncio.get_running_loop().create_task(work, context=Context())


async def _awaited(model: Awaitable[Collection]) -> Collection:
    return await model


async def resolved(model: Any) -> Collection:
    """Return the collection that a model stands for.

    Raises:
        TypeError: It is none; the text says what was found.
    """
    if not isinstance(model, AsyncCollection):
        if callable(model) and not isinstance(model, SyncCollection):
            model = model()
        if inspect.isawaitable(model):
            model = await model
    if not isinstance(model, AsyncCollection):
        raise TypeError(
            f"the model of a MongoDBService is {_shown(model)}; give a collection of PyMongo's"
            ' AsyncMongoClient, such as client["chat"]["messages"], an awaitable of one, or a'
            " function that returns either"
        )
    return model


def _shown(model: Any) -> str:
    # An address of a database often has its password.
    return "a string" if isinstance(model, str) else f"{type(model).__name__} {model!r}"


def with_concerns(model: Collection, options: Mapping[str, Any] | None) -> Collection:
    """Return the collection as it is read and written with some options; others mean nothing."""
    if options is None or CONCERNS.isdisjoint(options):
        return model
    return model.with_options(**{name: options[name] for name in CONCERNS if name in options})
