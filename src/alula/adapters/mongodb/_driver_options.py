"""``params.docdb`` and ``params.collation`` -> what each call of the driver takes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from pymongo import ReturnDocument

from alula._context import Params
from alula.adapters.mongodb._model import CONCERNS
from alula.query import Query

__all__ = ["Call", "options_for", "ranged", "session_of", "upsert_options"]

Call: TypeAlias = Literal[
    "find", "aggregate", "count", "get", "insert", "change", "replace", "delete",
    "several", "create_all", "patch_all", "remove_all",
]  # fmt: skip
"""What the driver is asked for. The last four are those of calls that concern several records,
whose session is passed on apart."""

_COMMAND_NAMES: Final = {
    "max_time_ms": "maxTimeMS",
    "allow_disk_use": "allowDiskUse",
    "batch_size": "batchSize",
    "bypass_document_validation": "bypassDocumentValidation",
}
"""Where the driver passes options on to the server, they bear the names of the server."""


def _named(names: str, of_command: Iterable[str] = ()) -> Mapping[str, str]:
    own = {name: name for name in names.split()}
    return MappingProxyType(own | {name: _COMMAND_NAMES[name] for name in of_command})


_FIND: Final = (
    "session comment hint let collation projection max_time_ms batch_size allow_disk_use min max"
    " no_cursor_timeout allow_partial_results show_record_id return_key cursor_type oplog_replay"
)
_CHANGE: Final = "session comment hint let collation projection upsert"
_OPTIONS: Final[Mapping[Call, Mapping[str, str]]] = {
    "find": _named(_FIND),
    "aggregate": _named(
        "session comment hint let collation", ["max_time_ms", "allow_disk_use", "batch_size"]
    ),
    "count": _named("session comment hint let collation", ["max_time_ms", "allow_disk_use"]),
    "get": _named("session comment hint let collation projection max_time_ms"),
    "insert": _named("session comment bypass_document_validation"),
    "create_all": _named("comment bypass_document_validation"),
    "change": _named(
        f"{_CHANGE} array_filters", ["max_time_ms", "bypass_document_validation"]
    ),
    "replace": _named(_CHANGE, ["max_time_ms", "bypass_document_validation"]),
    "several": _named("comment hint let collation max_time_ms batch_size allow_disk_use min max"),
    "patch_all": _named("comment let array_filters bypass_document_validation"),
    "remove_all": _named("comment let"),
    "delete": _named("session comment hint let collation projection", ["max_time_ms"]),
}  # fmt: skip
_COLLATED: Final = frozenset({"find", "aggregate", "count", "change", "delete", "several"})
"""The calls of find, patch and remove, which ``params.collation`` is for."""
_RANGE: Final = frozenset({"limit", "skip", "sort"})
"""What goes together with the query: see `ranged`."""
_PAIRED: Final = frozenset({"hint", "min", "max"})
"""What may be given as pairs, which not every call of the driver knows."""
_KNOWN: Final = (_RANGE | CONCERNS).union(*_OPTIONS.values())
_NOT_READ: Final = {
    "return_document": "patch and update answer the record as it is after the change",
    "ordered": "create stores all records of a list or none",
    "filter": "the criteria stand in params.query",
}
"""What the driver knows and a service has its own way for."""


def options_for(call: Call, params: Params) -> dict[str, Any]:
    """Return the options of a call of the driver; those that mean nothing for it are left out.

    Args:
        call: What is to be done.
        params: ``docdb`` has options by the driver's names.

    Raises:
        ValueError: ``docdb`` has a name that is an option of no call.
    """
    given = params.docdb
    if given is None and params.collation is None:
        return {}
    known = _OPTIONS[call]
    found: dict[str, Any] = {}
    if params.collation is not None and call in _COLLATED:
        found["collation"] = dict(params.collation)
    for name, value in (given or {}).items():
        if name in known:
            listed = name in _PAIRED and isinstance(value, list | tuple)
            found[known[name]] = dict(_pairs(value)) if listed else value
        elif name not in _KNOWN:
            why = _NOT_READ.get(name) or f"MongoDBService reads {', '.join(sorted(_KNOWN))}"
            raise ValueError(f"params.docdb has {name!r}; {why}")
    return found


def upsert_options(params: Params) -> dict[str, Any] | None:
    """Return the options of the change that makes a record where none meets a query.

    None where ``docdb`` does not ask for that.
    """
    if params.docdb is None or not params.docdb.get("upsert"):
        return None
    options = options_for("change", params) | {"return_document": ReturnDocument.AFTER}
    return {name: options[name] for name in options if name not in {"session", "projection"}}


def ranged(query: Query, params: Params) -> Query:
    """Return the query with the order, the start and the limit that ``docdb`` has.

    What the query says goes first; of two limits the smaller one counts.
    """
    given = params.docdb or {}
    if _RANGE.isdisjoint(given):
        return query
    own = abs(given.get("limit") or 0) or None
    return replace(
        query,
        limit=min((each for each in (query.limit, own) if each is not None), default=None),
        skip=query.skip or given.get("skip") or 0,
        sort=query.sort or _pairs(given.get("sort") or ()),
    )


def _pairs(value: Any) -> tuple[Any, ...]:
    """Return pairs for all that the driver takes as the fields of an index, or as an order."""
    named = [value] if isinstance(value, str) else value
    listed = named.items() if isinstance(named, Mapping) else named
    return tuple((each, 1) if isinstance(each, str) else tuple(each) for each in listed)


def session_of(params: Params) -> Any:
    """Return the session that a call takes part in, None where there is none."""
    return params.docdb and params.docdb.get("session")
