"""What is known of a service: from its methods, its adapter, its hooks and its schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from alula._service import ServiceHandle
from alula.adapters.base import AdapterService
from alula.hooks import hook_metadata
from alula.openapi._sign_in import answer_of_sign_in, is_sign_in, proofs_of_sign_in

__all__ = ["Facts", "facts_of"]


class Facts(NamedTuple):
    """What a description says about one service.

    Attributes:
        handle: Its handle.
        adapter: The adapter behind it, None for a service of one's own.
        query: The JSON Schema of queries by method.
        data: The JSON Schema of data by method.
        secured: The methods for which callers have to prove who they are.
        record: The JSON Schema of what it answers, None where nobody knows.
        signs_in: Whether callers get tokens here.
    """

    handle: ServiceHandle
    adapter: AdapterService | None
    query: Mapping[str, Any]
    data: Mapping[str, Any]
    secured: frozenset[str]
    record: Any
    signs_in: bool

    @property
    def tag(self) -> str:
        """What its operations are grouped by: its path."""
        return self.handle.path or "/"

    @property
    def paginated(self) -> bool:
        """Whether `find` answers pages."""
        return self.adapter is not None and self.adapter.options.pagination is not None

    def takes_several(self, method: str) -> bool:
        """Tell whether a method works on several records at once; of a stranger nobody knows."""
        return self.adapter is None or method in self.adapter.options.multi


def facts_of(handle: ServiceHandle) -> Facts:
    """Return what is known of a service now; hooks that are registered later are not seen."""
    query: dict[str, Any] = {}
    data: dict[str, Any] = {}
    secured = set()
    for method in handle.methods:
        for noted in _notes(handle, method):
            if "strategies" in noted:
                secured.add(method)
            if "query" in noted:
                query[method] = _schema_of(noted["query"])
            checker = noted["data"](method) if "data" in noted else None
            if checker is not None:
                data[method] = _schema_of(checker)
    service = _innermost(handle).service
    adapter = service if isinstance(service, AdapterService) else None
    record, signs_in = handle.record_schema, is_sign_in(service)
    if signs_in:
        data.setdefault("create", proofs_of_sign_in(service))
        secured.add("remove")
        record = answer_of_sign_in(service)
    return Facts(handle, adapter, query, data, frozenset(secured), record, signs_in)


def _notes(handle: ServiceHandle, method: str) -> Iterator[Mapping[str, Any]]:
    """Yield what the hooks around a method say, those of an application behind it included."""
    for table in (handle.app.hook_table, handle.hook_table):
        for kind in ("around", "before"):
            yield from filter(None, map(hook_metadata, table.of(kind, method)))
    if isinstance(handle.service, ServiceHandle):
        yield from _notes(handle.service, method)


def _innermost(handle: ServiceHandle) -> ServiceHandle:
    return _innermost(handle.service) if isinstance(handle.service, ServiceHandle) else handle


def _schema_of(checker: Any) -> Any:
    """Return the JSON Schema by which something checks; ``{}`` where it does not say."""
    describe = getattr(checker, "json_schema", None)
    try:
        schema = describe() if callable(describe) else getattr(checker, "schema", None)
    except (RuntimeError, TypeError):  # no JSON Schema for a type (TypeError: Pydantic 2.12)
        schema = None
    return schema if isinstance(schema, Mapping) else {}
