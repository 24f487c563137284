"""A service with the schema of its records: checks, ids, dates and resolvers in one line."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from alula.bundle import ServiceBundle
from alula.context import HookContext
from alula.hook_notes import note
from alula.schema.checking import validate_data, validate_query
from alula.schema.known_names import names_in
from alula.schema.records import Extensions, Records, records_of, without_names, write_only
from alula.schema.resolver import Resolver, resolve
from alula.schema.resolver_hooks import Hook, resolve_data, resolve_query
from alula.schema.result_hooks import resolve_external, resolve_result
from alula.types import STANDARD_METHODS, UNSET

__all__ = ["with_schema"]


def with_schema(
    service: Any,
    model: Any,
    *,
    extensions: Extensions | None = None,
    query: Resolver | None = None,
    data: Resolver | None = None,
    result: Resolver | None = None,
    external: Resolver | None = None,
    hidden: Collection[str] = (),
) -> ServiceBundle:
    """Return a service that checks and converts queries and data: ``use`` takes it.

    ``app.use("messages", with_schema(MongoDBService(...), Message))``. Queries are held to the
    whole query syntax of the model, with typed values; data of create and update to the model, in
    which the id need not be; data of patch to what of the model it has. Before hooks that are
    registered later run after these.

    Args:
        service: The service. Its ``id`` and ``schema_keywords`` count, where it has them.
        model: The JSON Schema of its records (type ``object``), or a Pydantic model. A JSON
            Schema is closed unless it says something about ``additionalProperties``, and knows
            the keyword ``date``, which makes dates of text.
        extensions: Further operators by property, as `query_syntax` takes them.
        query: Resolves the query, after its check.
        data: Resolves the data of create, update and patch, after its check; what it makes
            without looking at the value need not be sent.
        result: Resolves results.
        external: Resolves what may leave.
        hidden: Names of properties that never leave and that nobody from outside can ask for.
            Those that ``external`` always hides (``lambda: UNSET``) and those that the model says
            are never sent (``writeOnly``, ``SecretStr``) belong to them by themselves.

    Raises:
        SchemaError: The model is malformed, or has no properties, or one of a type that can not
            be stored.
        TypeError: The service is none, or something is no resolver.
        ValueError: A resolver or ``hidden`` is for a property that the model does not have.
    """
    if isinstance(service, type | ServiceBundle):
        raise TypeError(f"with_schema takes a service, such as MemoryService(), not {service!r}")
    id_ = getattr(service, "id", None)
    keywords = getattr(service, "schema_keywords", ())
    records = records_of(model, id_ if isinstance(id_, str) else "id", keywords)
    if isinstance(hidden, str):
        raise TypeError(f"hidden takes the names of properties in a list, not {hidden!r} alone")
    own = write_only(records.schema).union(hidden)
    hide = resolve(dict.fromkeys(own, lambda: UNSET)) if own else None
    known = names_in(records.schema)
    for resolver in (query, data, result, external, hide):
        if resolver is not None and known is not None:
            resolver.check(known)
    there = [name for name in STANDARD_METHODS if callable(getattr(service, name, None))]

    shown = [resolver for resolver in (external, hide) if resolver is not None]
    secret = own.union(*(resolver.hidden_names for resolver in shown))
    check_query = [_check_query(records, extensions or {}, secret)]
    if query is not None:
        check_query.append(resolve_query(query))
    whole = validate_data(records.whole(() if data is None else data.made_names))
    part = validate_data(records.part())
    by_method = {"create": whole, "update": whole, "patch": part}
    resolved = [] if data is None else [resolve_data(data)]
    around: dict[str, Any] = {"all": []}
    if shown:
        around["all"].append(resolve_external(*shown))
    if result is not None:
        around["all"].append(resolve_result(result))
    around.update(dict.fromkeys(there, check_query))
    before = {name: [by_method[name], *resolved] for name in by_method if name in there}
    leaves = without_names(records.schema, secret) if secret else records.schema
    return ServiceBundle(service, {"around": around, "before": before}, leaves)


def _check_query(records: Records, extensions: Extensions, hidden: Collection[str]) -> Hook:
    """Return the hook that checks queries; those from outside can not ask for what is hidden."""
    within = validate_query(records.query(extensions))
    if not hidden:
        return within
    asked = {name: each for name, each in extensions.items() if name.split(".")[0] not in hidden}
    checker = records.query(asked, hidden)
    outside = validate_query(checker)

    async def check_query(context: HookContext, next: Any) -> None:
        check = within if context.params.get("provider") is None else outside
        await check(context, next)

    return note(check_query, query=checker)
