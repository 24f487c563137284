"""Options of a call: those of the service, its one time limit, and those of the driver.

`MongoDBOptions` holds what `MongoDBService` and ``params.adapter`` set. `driver_options` picks what
each operation of PyMongo takes of ``params.docdb`` and ``params.collation``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias

import pymongo
from pymongo import ReturnDocument
from pymongo.asynchronous.client_session import AsyncClientSession

from alula._context import Params
from alula.adapters._database_options import BATCHED, DatabaseOptions
from alula.adapters.mongodb._model import CONCERNS, Model

__all__ = [
    "MongoDBOptions",
    "Operation",
    "driver_options",
    "limited",
    "pairs_of",
    "session_of",
    "upsert_options",
]

_SHARED: Final = (*BATCHED, "find")
_UNLIMITED: Final[AbstractContextManager[Any]] = nullcontext()


@dataclass(frozen=True)
class MongoDBOptions(DatabaseOptions):
    """The options of one call of a `MongoDBService`.

    Attributes:
        objectify: Whether 24 hexadecimal digits as the ``_id`` mean an ObjectId.
        estimates: Whether ``total`` of a query without criteria is the collection's estimated size.
        model: A collection for this call in place of the service's, None for that one.
    """

    id: str = "_id"
    objectify: bool = True
    shared: frozenset[str] = frozenset(_SHARED)
    estimates: bool = False
    model: Model | None = None

    batched_operations: ClassVar[tuple[str, ...]] = _SHARED

    @property
    def counting(self) -> str:
        """How a page gets its total: ``paginate["count"]``, or else by ``estimates``."""
        if self.estimates and self.pagination and "count" not in self.pagination.more:
            return "estimated"
        return super().counting

    def changed(self, given: Mapping[str, Any], paginate_names: Collection[str]) -> Self:
        """Return these options with others in their place; None leaves an option as it is.

        Raises:
            ValueError: An option is not valid.
        """
        options = super().changed(given, paginate_names)
        changes: dict[str, Any] = {}
        if given.get("disable_objectify") is not None:
            changes["objectify"] = not given["disable_objectify"]
        if given.get("use_estimated_document_count") is not None:
            changes["estimates"] = bool(given["use_estimated_document_count"])
        if given.get("model") is not None:
            changes["model"] = given["model"]
        return replace(options, **changes) if changes else options


# -- the time limit of an operation ----------------------------------------------------------------


def limited(seconds: float | None) -> AbstractContextManager[Any]:
    """Limit the driver's operations within: on the server, on the network, and in its queues.

    Args:
        seconds: None leaves the limit to the settings of the client.
    """
    return _UNLIMITED if seconds is None else pymongo.timeout(seconds)


# -- options of the driver -------------------------------------------------------------------------

Operation: TypeAlias = Literal[
    "find",
    "aggregate",
    "count",
    "get",
    "insert",
    "change",
    "replace",
    "delete",
    "select_many",
    "create_many",
    "patch_many",
    "remove_many",
]
"""An operation of the driver. Those on many records get their session apart from their options."""

_SERVER_NAMES: Final = {
    "max_time_ms": "maxTimeMS",
    "allow_disk_use": "allowDiskUse",
    "batch_size": "batchSize",
    "bypass_document_validation": "bypassDocumentValidation",
}
"""The server's names of options that the driver passes on as they are."""


def _named(names: str, of_server: Iterable[str] = ()) -> Mapping[str, str]:
    plain = {name: name for name in names.split()}
    return MappingProxyType(plain | {name: _SERVER_NAMES[name] for name in of_server})


_FIND: Final = (
    "session comment hint let collation projection max_time_ms batch_size allow_disk_use min max"
    " no_cursor_timeout allow_partial_results show_record_id return_key cursor_type oplog_replay"
)
_CHANGE: Final = "session comment hint let collation projection upsert"
_OPTIONS: Final[Mapping[Operation, Mapping[str, str]]] = {
    "find": _named(_FIND),
    "aggregate": _named(
        "session comment hint let collation", ["max_time_ms", "allow_disk_use", "batch_size"]
    ),
    "count": _named("session comment hint let collation", ["max_time_ms", "allow_disk_use"]),
    "get": _named("session comment hint let collation projection max_time_ms"),
    "insert": _named("session comment bypass_document_validation"),
    "create_many": _named("comment bypass_document_validation"),
    "change": _named(f"{_CHANGE} array_filters", ["max_time_ms", "bypass_document_validation"]),
    "replace": _named(_CHANGE, ["max_time_ms", "bypass_document_validation"]),
    "select_many": _named(
        "comment hint let collation max_time_ms batch_size allow_disk_use min max"
    ),
    "patch_many": _named("comment let array_filters bypass_document_validation"),
    "remove_many": _named("comment let"),
    "delete": _named("session comment hint let collation projection", ["max_time_ms"]),
}
_COLLATED: Final = frozenset({"find", "aggregate", "count", "change", "delete", "select_many"})
"""The operations that ``params.collation`` is for: those of find, patch and remove."""
_OF_QUERY: Final = frozenset({"limit", "skip", "sort"})
"""What is merged with the query: see `QueryTranslator.with_docdb_range`."""
_AS_PAIRS: Final = frozenset({"hint", "min", "max"})
"""What may be given as pairs, which not every operation of the driver accepts."""
_KNOWN: Final = (_OF_QUERY | CONCERNS).union(*_OPTIONS.values())
_NOT_READ: Final = {
    "return_document": "patch and update return the record as it is after the change",
    "ordered": "create stores all records of a list or none",
    "filter": "the criteria are those of params.query",
}
"""Options of the driver that a service has its own way for."""


def driver_options(operation: Operation, params: Params) -> dict[str, Any]:
    """Return the options for an operation of the driver, without those that it does not have.

    Args:
        operation: The operation.
        params: ``docdb`` has options by the driver's names.

    Raises:
        ValueError: ``docdb`` has a name that no operation has.
    """
    given = params.docdb
    if given is None and params.collation is None:
        return {}
    driver_names = _OPTIONS[operation]
    options: dict[str, Any] = {}
    if params.collation is not None and operation in _COLLATED:
        options["collation"] = dict(params.collation)
    for name, value in (given or {}).items():
        if name in driver_names:
            as_pairs = name in _AS_PAIRS and isinstance(value, list | tuple)
            options[driver_names[name]] = dict(pairs_of(value)) if as_pairs else value
        elif name not in _KNOWN:
            why = _NOT_READ.get(name) or f"MongoDBService reads {', '.join(sorted(_KNOWN))}"
            raise ValueError(f"params.docdb has {name!r}; {why}")
    return options


def upsert_options(params: Params) -> dict[str, Any] | None:
    """Return the options of the change that creates a record if none meets a query.

    None if ``docdb`` does not have ``upsert``.
    """
    if params.docdb is None or not params.docdb.get("upsert"):
        return None
    options = driver_options("change", params) | {"return_document": ReturnDocument.AFTER}
    return {name: options[name] for name in options if name not in {"session", "projection"}}


def pairs_of(value: Any) -> tuple[Any, ...]:
    """Return pairs for every form in which the driver takes the fields of an index or an order."""
    fields: Mapping[str, Any] | list[Any] = [value] if isinstance(value, str) else value
    items = fields.items() if isinstance(fields, Mapping) else fields
    return tuple((item, 1) if isinstance(item, str) else tuple(item) for item in items)


def session_of(params: Params) -> AsyncClientSession | None:
    """Return the session that a call takes part in, None without one."""
    return params.docdb.get("session") if params.docdb else None
