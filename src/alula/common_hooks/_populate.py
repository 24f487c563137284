"""Related records of other services in the results of `find` and `get`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from alula._context import HookContext
from alula.adapters._related import Inclusion, bounded
from alula.adapters.relations import Relation, add_related, how_to_name_key
from alula.common_hooks._call import check_properties
from alula.hooks import Hook, annotate_hook, hook_factory
from alula.outgoing import RedactedRecord, public_part
from alula.types import UNSET, Page, Record, is_dict, is_mapping

__all__ = ["populate"]

# Not `Final`: type checkers would narrow results to types whose arguments they do not know.
_SEVERAL: tuple[type[Any], ...] = (Page, list, tuple)


@hook_factory('populate({"author": belongs_to("users", "userId")})')
def populate(relations: Mapping[str, Relation]) -> Hook:
    """Return an after hook that adds related records to all results of `find` and `get`.

    Those that the records of a page refer to are found by one call of the other service, with the
    provider and the user of the caller. So its hooks decide what the caller may see, and its
    redaction holds. A record whose related one the caller does not get has None. Results of other
    methods stay as they are: others get them as events.

    Where clients choose what they get, use the option ``relations`` of an adapter and ``$include``.

    Args:
        relations: By the name of the property that is added: what
            `alula.adapters.relations.belongs_to` and `alula.adapters.relations.has_many` return,
            with the name of the key.

    Raises:
        TypeError: ``relations`` is not a mapping of such relations.
        ValueError: A name is not that of a property, or a relation has no key.
        BadRequest: By the hook: the call of a client causes too many others.
        GeneralError: By the hook: the other service refused the query of this hook. A caller whom
            it refuses gets None, or an empty list.
        RuntimeError: By the hook: a hook before it has changed which records clients get.

    Examples:
        >>> import asyncio
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.adapters.relations import belongs_to
        >>> app = App().use("users", MemoryService([{"id": 1, "name": "Ada"}]))
        >>> app = app.use("notes", MemoryService([{"id": 5, "userId": 1}]))
        >>> author = populate({"author": belongs_to("users", "userId")})
        >>> notes = app.service("notes").hooks(after={"find": [author]})
        >>> asyncio.run(notes.find())
        [{'id': 5, 'userId': 1, 'author': {'id': 1, 'name': 'Ada'}}]
    """
    if not isinstance(relations, Mapping) or not all(
        isinstance(relation, Relation) for relation in relations.values()
    ):
        raise TypeError(
            "populate takes relations by name: {'author': belongs_to('users', 'userId')}, not"
            f" {relations!r}"
        )
    for name, relation in relations.items():
        check_properties("populate", name)
        if not relation.key:
            raise ValueError(f"populate: {name!r} has no key; {how_to_name_key(name, relation)}")

    async def add(context: HookContext) -> None:
        method = context.method
        # Of `find`, a mapping that is not a page is one record, whatever names it has.
        if method != "get" and not (method == "find" and isinstance(context.result, _SEVERAL)):
            return
        records = _records_of(context.result, method)
        own_id: object = getattr(context.service.service, "id", None)
        id_name = own_id if isinstance(own_id, str) else "id"
        # The records themselves may belong to the service: these have the keys, and get the rest.
        related: list[Record] = [dict(r) if is_mapping(r) else {} for r in records]
        with bounded(context.params):
            for name, relation in relations.items():
                handle = context.app.service(relation.service)
                inclusion = Inclusion(handle, name, relation.key, context.params, {})
                await add_related(inclusion, relation, related, id_name)
        added = [{name: record.get(name) for name in relations} for record in related]
        context.result = _with_records(context.result, method, list(map(_with, records, added)))
        if context.dispatch is not UNSET:
            views = _records_of(context.dispatch, method)
            if len(views) != len(records):
                raise RuntimeError(
                    f"populate of {context.service!r} is registered behind a hook that changes"
                    " which records clients get; register it before that hook"
                )
            public = list(map(_with, views, map(public_part, added)))
            context.dispatch = _with_records(context.dispatch, method, public)

    ignored = ("create", "update", "patch", "remove")
    return annotate_hook(add, kinds=("after",), ignores=ignored, needs_whole=("find", "get"))


def _records_of(result: Any, method: str) -> Sequence[Any]:
    if method == "get":
        return [result]
    records: Sequence[Any] = result.get("data", ()) if is_dict(result) else result
    return records


def _with_records(result: Any, method: str, records: list[Any]) -> Any:
    if method == "get":
        return records[0]
    # What clients get of a page may be a plain dict.
    return result | {"data": records} if is_dict(result) else records


def _with(record: Any, values: Mapping[str, Any]) -> Any:
    if not is_mapping(record):
        return record
    new = {**record, **values}
    return record.changed(new) if isinstance(record, RedactedRecord) else new
