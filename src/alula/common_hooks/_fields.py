"""Which properties data may have, which may change, and which a result has."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Final

from alula._context import HookContext
from alula._item_stream import change_each, is_stream
from alula.common_hooks._call import (
    change_data,
    check_properties,
    keep_stored,
    split_changes,
    write_kept,
)
from alula.errors import BadRequest
from alula.hooks import Hook, annotate_hook, hook_factory
from alula.outgoing import RedactedRecord
from alula.outgoing._redaction import item_method, map_records
from alula.types import UNSET, is_array, is_mapping

__all__ = ["discard", "keep", "prevent_changes"]

_CHANGES: Final = frozenset({"update", "patch"})
_SETTERS: Final = frozenset({"$set", "$setOnInsert"})


@hook_factory('keep("text")')
def keep(*names: str) -> Hook:
    """Return a hook that keeps only these properties.

    As a before hook it reduces the data, each record of a list and also the operands of update
    operators. As an after hook it reduces each record of the result, for the application as well
    as for clients; name the id, too.

    Args:
        names: The properties. ``"author.name"`` leads into another property, also in a list.

    Raises:
        TypeError: There are no names, or one is not a string.
        ValueError: A name is empty, or has an empty part.
        BadRequest: By the hook: the data is not an object.

    Examples:
        >>> import asyncio
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App().use("notes", MemoryService())
        >>> notes = app.service("notes").hooks(before={"create": [keep("text")]})
        >>> asyncio.run(notes.create({"text": "Hello", "admin": True}))
        {'text': 'Hello', 'id': 0}
    """
    return _reducing("keep", names, keeps=True)


@hook_factory('discard("password")')
def discard(*names: str) -> Hook:
    """Return a hook that removes these properties: from the data before, or the result after.

    It works as `keep` does. To hide properties from clients only, and from their queries, use
    `alula.authentication.protect`.

    Args:
        names: As `keep` takes them.

    Raises:
        TypeError: There are no names, or one is not a string.
        ValueError: A name is empty, or has an empty part.
        BadRequest: By the hook: the data is not an object.

    Examples:
        >>> import asyncio
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App().use("notes", MemoryService())
        >>> notes = app.service("notes").hooks(before={"create": [discard("author.email")]})
        >>> asyncio.run(notes.create({"author": {"name": "Ada", "email": "ada@example.com"}}))
        {'author': {'name': 'Ada'}, 'id': 0}
    """
    return _reducing("discard", names, keeps=False)


def _reducing(hook: str, names: tuple[str, ...], *, keeps: bool) -> Hook:
    shape = _Shape(hook, names, keeps=keeps)

    def reduce_records(context: HookContext) -> Awaitable[object] | None:
        if context.type == "before":
            if context.data is not None:
                has_operators = context.method in _CHANGES
                change_data(context, lambda data: shape.of_data(data, has_operators))
            return None
        method = context.method
        if is_stream(context.result):
            return reduce_items(context)
        context.result = map_records(context.result, method, shape.of, dict)
        if context.dispatch is not UNSET:
            context.dispatch = map_records(context.dispatch, method, shape.of, dict)
        return None

    async def reduce_items(context: HookContext) -> None:
        method = item_method(context.method)
        await change_each(context, lambda item: map_records(item, method, shape.of, dict))

    return annotate_hook(reduce_records, kinds=("before", "after"))


class _Shape:
    """The properties that records keep or lose.

    Args:
        hook: The name of the hook, for messages.
        names: The names, with dots.
        keeps: Whether records keep these properties, and no others.
    """

    def __init__(self, hook: str, names: tuple[str, ...], *, keeps: bool) -> None:
        paths = [name.split(".") if isinstance(name, str) else [name] for name in names]
        check_properties(hook, *(part for path in paths for part in path))
        # By the first part of the name: the same for what follows it, None for the whole property.
        self._tree: dict[str, Any] = {}
        self._keeps = keeps
        for parts in paths:
            node: Any = self._tree
            for part in parts[:-1]:
                node = node.setdefault(part, {})
                if node is None:  # the whole property is named already
                    break
            else:
                node[parts[-1]] = None

    def of(self, value: Any) -> Any:
        """Return a record of a result in this shape."""
        return self._reduced(value, self._tree)

    def of_data(self, data: Mapping[str, Any], has_operators: bool) -> dict[str, Any]:
        """Return data in this shape.

        Args:
            data: A record, or the changes of one.
            has_operators: Whether keys that begin with ``$`` are update operators.
        """
        if not has_operators:
            return self._properties(data, self._tree)
        reduced: dict[str, Any] = {}
        for key, value in data.items():
            if str(key)[:1] != "$" or not is_mapping(value):
                reduced |= self._properties({key: value}, self._tree)
                continue
            if key in _SETTERS:
                operands = self._properties(value, self._tree)
            else:
                # As a whole or not at all: a part of an operand may do more than all of it.
                whole = None if self._keeps else UNSET
                operands = {
                    path: operand
                    for path, operand in value.items()
                    if _node(self._tree, path) is whole
                    # It writes to the property that is its operand.
                    and (key != "$rename" or _node(self._tree, operand) is whole)
                }
            if operands or not value:
                reduced[key] = operands
        return reduced

    def _reduced(self, value: Any, tree: Mapping[str, Any]) -> Any:
        if is_array(value):
            return [self._reduced(item, tree) for item in value]
        if not is_mapping(value):
            return value
        properties = self._properties(value, tree)
        return value.changed(properties) if isinstance(value, RedactedRecord) else properties

    def _properties(self, record: Mapping[str, Any], tree: Mapping[str, Any]) -> dict[str, Any]:
        reduced: dict[str, Any] = {}
        for key, value in record.items():
            is_name = type(key) is str and "." not in key  # as nearly all
            node = tree.get(key, UNSET) if is_name else _node(tree, key)
            if node is None or node is UNSET:  # as a whole, or not at all
                if (node is None) is self._keeps:
                    reduced[key] = value
            elif isinstance(value, Mapping | list | tuple) or not self._keeps:
                reduced[key] = self._reduced(value, node)
        return reduced


def _node(tree: Mapping[str, Any], path: object) -> Any:
    """Return what a tree of names says of a path: None for all of it, `UNSET` for nothing.

    An index leads into a list (``items.0.secret``), and so do MongoDB's marks (``items.$[]``). The
    names in the tree leave them out, as they are for each item of a list.
    """
    node: Any = tree
    for at, part in enumerate(str(path).split(".")):
        if at and part not in node and (part.isdecimal() or part[:1] == "$"):
            continue
        node = node.get(part, UNSET)
        if not node:
            break
    return node


@hook_factory('prevent_changes("email")')
def prevent_changes(*fields: str, discard: bool = False) -> Hook:
    """Return a before hook that keeps clients from changing properties by `patch` and `update`.

    Dotted names and update operators such as ``$inc`` are changes, too. An `update`, which replaces
    the record, keeps the stored values: the hook reads them first and makes them a condition of the
    write, which is tried again if other calls change them. Calls of the application pass.

    Args:
        fields: Names of properties.
        discard: Whether what would change them is left out of the data. By default, it is a
            `BadRequest`.

    Raises:
        TypeError: There are no fields, or a name is not a string.
        ValueError: A name leads into another property; guard that one.
        BadRequest: By the hook: the data would change one of them, or is not an object.
        Conflict: By the hook: other calls change them again and again during an `update`.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App().use("users", MemoryService())
        >>> users = app.service("users").hooks(before=[prevent_changes("email")])
    """
    check_properties("prevent_changes", *fields)

    def prevent(context: HookContext) -> None:
        if context.params.provider is None or context.method not in _CHANGES:
            return
        if context.method == "update":
            replace(context)
        else:
            change_data(context, checked)

    def checked(data: Mapping[str, Any]) -> Mapping[str, Any]:
        kept, changed = split_changes(data, fields)
        if changed and not discard:
            raise _refusal(changed)
        return kept

    def replace(context: HookContext) -> None:
        sent: dict[str, Any] = {}

        def without(data: Mapping[str, Any]) -> Mapping[str, Any]:
            sent.update({name: data[name] for name in fields if name in data})
            return checked({name: value for name, value in data.items() if name not in sent})

        def unchanged(stored: Mapping[str, Any]) -> None:
            changed = [name for name in sent if name not in stored or sent[name] != stored[name]]
            if changed and not discard:
                raise _refusal(changed)

        change_data(context, without)
        keep_stored(context, fields, unchanged)

    return annotate_hook(prevent, kinds=("before",), completes={"update": write_kept})


def _refusal(names: Iterable[str]) -> BadRequest:
    errors = dict.fromkeys(names, "cannot be changed")
    return BadRequest(f"The data changes {', '.join(errors)}, which clients cannot", errors=errors)
