"""The collection of a service: given at once, or resolved when it is first needed."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import Context
from decimal import Decimal, DecimalException
from typing import Any, Final, TypeAlias, cast

from bson.codec_options import CodecOptions, TypeCodec, TypeRegistry
from bson.decimal128 import Decimal128
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import ConnectionFailure
from pymongo.synchronous.collection import Collection as SyncCollection

from alula._public_error import log_text
from alula.adapters.mongodb._errors import of_outage
from alula.errors import BadRequest

__all__ = [
    "CONCERNS",
    "Collection",
    "Model",
    "ModelSource",
    "resolved",
    "with_concerns",
    "with_decimals",
]

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
        self.collection: Collection | None = (
            with_decimals(cast("Collection", model)) if isinstance(model, AsyncCollection) else None
        )

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

    def forget(self) -> None:
        """Let the next caller ask a function again: its client may be closed by then."""
        # A collection is callable, too, and says only that it is not a function.
        if callable(self._model) and not isinstance(self._model, AsyncCollection):
            self.collection = None

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
            reason = f": {log_text(of_outage(error))}" if is_away else ""
            _log.error(text, owner, reason, exc_info=None if is_away else error)

    def _keep(self, attempt: asyncio.Task[Collection]) -> None:
        self._attempt = None
        if not attempt.cancelled() and attempt.exception() is None:
            self.collection = attempt.result()


def _task(work: Coroutine[Any, Any, Collection]) -> asyncio.Task[Collection]:
    # A new context: the time limit of the call that began it must not end it for others.
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
    return with_decimals(cast("Collection", model))


class _DecimalCodec(TypeCodec):
    """Stores decimals as numbers of the database, which compares them as such."""

    @property
    def python_type(self) -> type[Decimal]:
        """The type of records."""
        return Decimal

    @property
    def bson_type(self) -> type[Decimal128]:
        """The type of the database."""
        return Decimal128

    def transform_python(self, value: Decimal) -> Decimal128:
        """Return a decimal as the database stores it.

        Raises:
            BadRequest: It has more digits than the database can keep.
        """
        try:
            return Decimal128(value)
        except DecimalException as error:
            raise BadRequest(
                "Invalid number: MongoDB keeps at most 34 digits of a decimal"
            ) from error

    def transform_bson(self, value: Decimal128) -> Decimal:
        """Return a decimal of the database as one of Python."""
        return value.to_decimal()


_PLAIN: Final = TypeRegistry()
_WITH_DECIMALS: Final = TypeRegistry([_DecimalCodec()])


def with_decimals(model: Collection) -> Collection:
    """Return a collection whose documents may have decimals of Python.

    One that has types of its own already stays as it is.
    """
    options: CodecOptions[Any] = model.codec_options
    if options.type_registry != _PLAIN:
        return model
    return model.with_options(options.with_options(type_registry=_WITH_DECIMALS))


def with_concerns(model: Collection, options: Mapping[str, Any]) -> Collection:
    """Return the collection with the read and write concerns among some options."""
    if CONCERNS.isdisjoint(options):
        return model
    return model.with_options(**{name: options[name] for name in CONCERNS if name in options})
