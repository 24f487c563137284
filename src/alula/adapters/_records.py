"""What every adapter does with records in Python: check data, merge patches, select, copy.

What holds in this file:

- Nothing here changes data or records of a caller; `hide_nested` gets the adapter's own dict.
- The work is bounded by the size of the data: loops instead of recursion where a client decides
  how deep it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID

from alula.errors import BadRequest, shown_name
from alula.outgoing import HiddenValue, public_part
from alula.outgoing._redaction import HiddenValueError, shown_value
from alula.types import (
    SCALAR_TYPES,
    UNSET,
    JSONValue,
    Record,
    is_dict,
    is_list,
    is_mapping,
)

__all__ = [
    "IMMUTABLE",
    "MAX_DEPTH",
    "are_immutable",
    "check_data",
    "check_dotted",
    "check_new_id",
    "copied",
    "dotted_names",
    "hide_nested",
    "is_plain",
    "is_scalar",
    "merged",
    "read_data",
    "refers",
    "selected",
    "selector",
    "size_of_patch",
]

MAX_DEPTH: Final = 100
"""How many levels of objects and lists data may have (as in MongoDB)."""

IMMUTABLE: Final[frozenset[type]] = SCALAR_TYPES | {
    bytes,
    complex,
    date,
    datetime,
    time,
    timedelta,
    Decimal,
    UUID,
}
"""Types of values that need no copy, since nothing can change them."""

are_immutable: Final = IMMUTABLE.issuperset
"""Tells whether all of some types are among these."""

_are_scalars: Final = SCALAR_TYPES.issuperset

_MAX_PADDING: Final = 1500
"""How many entries of None a patch may add to the lists of a record, before entries of its own."""

_Container: TypeAlias = Mapping[str, Any] | list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any]
_OBJECTS: Final = (dict, Mapping)  # most are dicts: the test with the ABC takes five times as long
_CONTAINERS: Final[Any] = (Mapping, list, tuple, set, frozenset)
_NOT_SCALAR: Final = (*_CONTAINERS, type(None))
_JSON_NAMES: Final[dict[type, str]] = {
    type(None): "null",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
}

_T = TypeVar("_T")
_Tree: TypeAlias = dict[str, "_Tree"]
"""Names by level; an empty tree selects the whole value."""


# -- checks of data --------------------------------------------------------------------------------


def is_scalar(id: object) -> bool:
    """Return whether this can be an id: neither None nor a container."""
    # The first test is for speed: isinstance() with Mapping takes longer than a get in memory.
    return type(id) is str or type(id) is int or not isinstance(id, _NOT_SCALAR)


def refers(key: object) -> bool:
    """Tell whether a value may be an id; a client may have stored lists or booleans as well."""
    return type(key) is not bool and is_scalar(key)


def check_new_id(name: str, id: object) -> None:
    """Refuse an id that a new record cannot have.

    Raises:
        BadRequest: It is a container or a boolean.
    """
    if type(id) is bool or not is_scalar(id):
        raise BadRequest(f"'{name}' is {_json_name(id)}; an id is a string or a number")


def read_data(method: str, data: JSONValue) -> Record:
    """Return the data as a new dict, whose entries may be set and removed.

    Raises:
        BadRequest: The data is not an object.
    """
    if not isinstance(data, _OBJECTS):
        # Only Python code passes models; data from a client is JSON.
        hint = f" {type(data).__name__}; write .model_dump()" if hasattr(data, "model_dump") else ""
        raise BadRequest(f"The data of {method} must be an object, not {_json_name(data)}{hint}")
    return dict(data)


def is_plain(data: Record) -> bool:
    """Tell whether data holds scalars alone, under names that together are an identifier.

    It proves at once what the checks below look for: nothing is nested, and no name has a dot or a
    ``$``. Other data may be as harmless; those checks tell.
    """
    # Built-in functions alone: nearly all data is plain (a PATCH: -8 % bytecodes).
    try:
        return "".join(data).isidentifier() and _are_scalars(map(type, data.values()))
    except TypeError:  # a key that is not a string, which only Python code gives
        return False


def dotted_names(names: Iterable[str]) -> list[str]:
    """Return the names that have dots, and so lead into objects and lists."""
    return [name for name in names if type(name) is str and "." in name]


def check_data(data: Mapping[str, Any], opened: Collection[str] | None) -> None:
    """Refuse data that cannot be stored.

    Args:
        data: A record, or the changes of a patch.
        opened: The keys that may begin with ``$``; None allows every key.

    Raises:
        BadRequest: A key begins with ``$`` and is not opened, or there are too many levels.
    """
    # A loop instead of recursion: the client decides how deep the data is.
    waiting: list[tuple[Any, int]] = [(data, 1)]
    value: _Container
    inner: object
    while waiting:
        value, depth = waiting.pop()
        inside: Iterable[object] = value
        if isinstance(value, _OBJECTS):
            if opened is not None:
                for key in value:
                    if isinstance(key, str) and key[:1] == "$" and key not in opened:
                        raise BadRequest(
                            f"Invalid key {shown_name(key)} in the data: keys cannot begin with"
                            " '$' here"
                        )
            inside = value.values()
        if _are_scalars(map(type, inside)):  # without a loop in Python: may be very many
            continue
        for inner in inside:
            inner_type = type(inner)
            if inner_type not in SCALAR_TYPES and (
                inner_type is dict or inner_type is list or isinstance(inner, _CONTAINERS)
            ):
                if depth == MAX_DEPTH:
                    raise BadRequest(f"The data has more than {MAX_DEPTH} levels")
                if inner:
                    waiting.append((inner, depth + 1))


def check_dotted(names: Iterable[str], *, are_open: bool) -> None:
    """Refuse names with dots in the data of a patch, or those that lead too deep.

    They would bypass hooks that look at ``data["a"]``: ``{"a.b": 1}`` changes it, too.

    Args:
        names: Names of properties.
        are_open: Whether they may have dots.

    Raises:
        BadRequest: A name has a dot, or where that is allowed, more than `MAX_DEPTH` parts.
    """
    for name in dotted_names(names):
        if not are_open:
            raise BadRequest(
                f"Invalid key {shown_name(name)} in the data: a name with dots is not allowed"
                " here; send"
                f" {shown_name(name.partition('.')[0])!r} as a whole (the option dotted_names"
                " opens them)"
            )
        if name.count(".") >= MAX_DEPTH:
            raise BadRequest(f"The data has more than {MAX_DEPTH} levels")


def hide_nested(data: Record) -> None:
    """Replace redacted records of other services within the data by their public part.

    They would be stored whole, and come back as plain records that nothing redacts. The data
    itself may be a redacted record that is changed and written back: its own properties stay.

    Raises:
        HiddenValueError: A part of a property is the hidden value of another record.
    """
    for name, value in data.items():
        if isinstance(value, HiddenValue):
            data[name] = shown_value(value)
        elif type(value) not in SCALAR_TYPES:
            data[name] = public_part(value, of_hidden=_refuse_hidden)


def _refuse_hidden(value: HiddenValue) -> object:
    raise HiddenValueError(value.hidden_name)


def _json_name(value: object) -> str:
    """Return what a value is, in the words of JSON."""
    if isinstance(value, Mapping):
        return "an object"
    return _JSON_NAMES.get(type(value), "a list" if isinstance(value, _CONTAINERS) else "a value")


# -- patches ---------------------------------------------------------------------------------------


def merged(record: Record, changes: Record, dotted: Collection[str]) -> Record:
    """Return a record with the changes of a patch; the record itself stays as it is.

    A name with dots leads into objects and lists, which are made if they are missing, as MongoDB
    does it.

    Args:
        record: Any record.
        changes: Values by name.
        dotted: The names in ``changes`` that have dots: `dotted_names`, once for all records.

    Raises:
        BadRequest: A name leads into a value that is not a container, or to a place that another
            name changes as well, or a part of it is empty or begins with ``$``.

    Examples:
        >>> changes = {"address.town": "Oslo"}
        >>> merged({"address": {"zip": "0150"}}, changes, dotted_names(changes))
        {'address': {'zip': '0150', 'town': 'Oslo'}}
    """
    if not dotted:
        return {**record, **changes}
    for name in dotted:
        for above in accumulate(name.split(".")[:-1], "{}.{}".format):
            if above in changes:
                raise BadRequest(
                    f"Invalid keys in the data: {shown_name(above)} and {shown_name(name)} change"
                    " one place"
                )
    places = frozenset(dotted)
    whole = {name: value for name, value in changes.items() if name not in places}
    changed = {**record, **whole}
    # Copies by id(): a client may name very many items of one long list, which is copied once.
    copies: dict[int, Any] = {}
    room = _MAX_PADDING  # for all names together: each may pad a list, or the same one further
    for name in dotted:
        path = name.split(".")
        if not all(part and part[0] != "$" for part in path):
            raise BadRequest(
                f"Invalid key {shown_name(name)} in the data: a part is empty or begins with '$'"
            )
        holder: Any = changed
        for part in path[:-1]:  # each value on the way is copied before it is changed
            key, room = _key_in(holder, part, name, room)
            value: JSONValue = {} if not is_list(holder) and key not in holder else holder[key]
            below = copies.get(id(value))
            if below is None:
                if isinstance(value, Mapping):
                    below = dict(value)
                elif isinstance(value, list | tuple):
                    below = list(value)
                else:
                    raise BadRequest(
                        f"Invalid key {shown_name(name)} in the data: {shown_name(part)} holds no"
                        " other values"
                    )
                copies[id(below)] = below
            holder[key] = holder = below
        key, room = _key_in(holder, path[-1], name, room)
        holder[key] = changes[name]
    return changed


def size_of_patch(changes: Record, dotted: Collection[str]) -> int:
    """Return how many values `merged` may give to a record, with those that pad lists.

    Args:
        changes: Values by name.
        dotted: The names in ``changes`` that have dots.
    """
    indexes = (_index_of(part) for name in dotted for part in name.split("."))
    return _values_in(changes) + min(_MAX_PADDING, sum(index or 0 for index in indexes))


def _values_in(value: JSONValue) -> int:
    """Return how many values data consists of, itself included."""
    if isinstance(value, Mapping):
        return 1 + sum(map(_values_in, value.values()))
    return 1 + sum(map(_values_in, value)) if type(value) is list else 1


def _key_in(holder: Record | list[Any], part: str, name: str, room: int) -> tuple[Any, int]:
    """Return the key of a part of a path, and how many entries of None may still be added.

    A list is padded up to that index.
    """
    if not isinstance(holder, list):
        return part, room
    index = _index_of(part)
    if index is None or index > len(holder) + room:
        raise BadRequest(
            f"Invalid key {shown_name(name)} in the data: {shown_name(part)} is not an index of a"
            " list"
        )
    room -= max(0, index - len(holder))
    holder += [None] * (index + 1 - len(holder))
    return index, room


def _index_of(part: str) -> int | None:
    """Return the index that a part of a path says, None if it says none."""
    # Nine digits at most: int() of a client's text takes quadratic time.
    index = int(part[:9]) if part.isdecimal() and part.isascii() else -1
    return index if str(index) == part and index >= 0 else None


# -- $select ---------------------------------------------------------------------------------------


def selected(record: Mapping[str, Any], names: Sequence[str], id: str) -> Record:
    """Return one record reduced to some fields; see `selector`.

    Args:
        record: The record.
        names: Names of fields, as in `Query.select`.
        id: Name of the id property, which is always kept.
    """
    # `itemgetter` takes all names in one call (bench rest get with $select: -5 %). A subclass of
    # dict may define what it returns for a missing key.
    if record.__class__ is dict and "." not in "".join(names):
        whole = (*names, id)
        try:
            return dict(zip(whole, map(record.__getitem__, whole)))  # noqa: B905  # the same length
        except KeyError:  # it lacks a field
            pass
    return selector(names, id)(record)


def selector(names: Iterable[str], id: str) -> Callable[[Mapping[str, Any]], Record]:
    """Return a function that reduces records to some fields, as MongoDB's projection does.

    A dotted name selects a part of an object and keeps its structure; in a list it selects that
    part of each object and drops other values. Fields that a record lacks are left out.

    Args:
        names: Names of fields, as in `Query.select`.
        id: Name of the id property, which is always kept.

    Examples:
        >>> selector(["address.town"], "id")({"id": 1, "address": {"town": "Oslo", "zip": "0150"}})
        {'id': 1, 'address': {'town': 'Oslo'}}
    """
    # The smaller side is walked everywhere: a client may name thousands of fields, and a list may
    # hold thousands of objects, but the work must not be their product.
    whole = tuple(dict.fromkeys((*names, id)))
    wanted = frozenset(whole)

    def fields(record: Mapping[str, Any]) -> Record:
        if len(record) < len(whole):
            return {name: record[name] for name in record if name in wanted}
        return {name: record[name] for name in whole if name in record}

    dotted = [name for name in whole if "." in name]
    if not dotted:
        return fields
    tree: _Tree = {}
    # Short names first: one that selects a whole value must be known before names below it.
    for name in sorted(dotted, key=len):
        *path, last = name.split(".")
        level = tree
        for part in path:
            if level.get(part) == {}:
                break
            level = level.setdefault(part, {})
        else:
            level.setdefault(last, {})

    def fields_and_parts(record: Mapping[str, Any]) -> Record:
        selected = fields(record)  # dotted names, too: a key may be spelled with a dot
        for name in record if len(record) < len(tree) else tree:
            if name in record and name in tree and name not in selected:
                part = _parts_of(record[name], tree[name])
                if part is not UNSET:
                    selected[name] = part
        return selected

    return fields_and_parts


def _parts_of(value: JSONValue, tree: _Tree) -> object:
    """Return the parts of a value that a tree selects, UNSET if it cannot have any."""
    if not tree:
        return value
    if isinstance(value, Mapping):
        fewer, other = (value, tree) if len(value) < len(tree) else (tree, value)
        parts = {name: _parts_of(value[name], tree[name]) for name in fewer if name in other}
        return {name: part for name, part in parts.items() if part is not UNSET}
    if isinstance(value, list | tuple):
        items = (_parts_of(item, tree) for item in value)
        return [item for item in items if item is not UNSET]
    return UNSET


# -- copies ----------------------------------------------------------------------------------------


def copied(value: _T, immutable: frozenset[type] = IMMUTABLE) -> _T:
    """Return a deep copy of data; mappings that are not dicts become plain dicts.

    Subclasses of dict keep their type: that of a validated query, for one, says what is open in it.

    Args:
        value: Any data.
        immutable: Types of values that are not copied; a database adds those of its own.
    """
    # copy.deepcopy() takes twice as long for JSON data, and this runs for every record.
    # Types of inner values are looked up in place, without a call: data may have very many.
    data: Any = value
    data_type = type(value)
    if data_type in immutable:
        return value
    result: Any
    values = data.values() if data_type is dict else data if data_type is list else None
    if values is not None and immutable.issuperset(map(type, values)):
        result = data.copy()
    elif data_type is list:
        result = [inner if type(inner) in immutable else copied(inner, immutable) for inner in data]
    elif data_type is dict or (not is_dict(data) and is_mapping(data)):
        result = {
            name: inner if type(inner) in immutable else copied(inner, immutable)
            for name, inner in data.items()
        }
    else:
        result = deepcopy(data)
    same: _T = result
    return same
