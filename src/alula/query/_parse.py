"""Query strings in bracket notation: ``a[b]=1`` to ``{"a": {"b": "1"}}``.

Guarantees of this module:

- `parse` returns what the npm package ``qs`` returns, also for keys that contradict each other. It
  refuses what ``qs`` cuts off: too many parameters, too many levels.
- Nothing is recursive, and the time is linear in the length of the string.
- The result holds only dicts, lists and strings, and each string can be encoded as UTF-8.

Most query strings have brackets in order and do not contradict themselves: `read_agreeing` puts
their values into place at once. All others take `read_any`, which is right for every string: it
reads each key alone, and merges one result after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from alula.errors import BadRequest

__all__ = ["parse", "without_surrogates"]

# A table of all escapes decodes a key in half the time of urllib.parse.unquote.
_HEX: Final = "0123456789abcdefABCDEF"
_CHARACTERS: Final = {a + b: chr(int(a + b, 16)) for a in _HEX for b in _HEX}

_SURROGATES: Final = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")

# JavaScript objects list names that are numbers below this one before all others.
_NUMBERS_FIRST: Final = 2**32 - 1
_LONGEST_KEY_SHOWN: Final = 60


def parse(
    querystring: str, *, array_limit: int = 20, depth: int = 5, parameter_limit: int = 1000
) -> dict[str, Any]:
    """Return the mapping of a query string in bracket notation.

    Args:
        querystring: The part of a URL after the ``?``, percent-encoded.
        array_limit: The largest number of items in a list, and the limit of indexes. Longer lists
            become mappings with the indexes as keys.
        depth: The largest number of bracket pairs in a key.
        parameter_limit: The largest number of parameters. Each part between two ``&`` counts, even
            an empty one.

    Returns:
        A new dict of dicts, lists and strings.

    Raises:
        BadRequest: More parameters than ``parameter_limit``, or a key deeper than ``depth``.

    Examples:
        >>> parse("done=false&tags[]=work&$sort[at]=-1")
        {'done': 'false', 'tags': ['work'], '$sort': {'at': '-1'}}
    """
    if not querystring:
        return {}
    # Counted before anything is read: a flood of parameters costs one scan.
    if querystring.count("&") >= parameter_limit:
        raise BadRequest(
            f"The query string has {querystring.count('&') + 1} parameters; at most"
            f" {parameter_limit} are allowed. Send fewer, or raise parameter_limit in the server's"
            " query parser."
        )
    text = querystring if querystring.isascii() else without_surrogates(querystring)
    if "+" in text:
        text = text.replace("+", " ")
    if "%" in text:  # encoded brackets mean what plain ones mean
        text = text.replace("%5B", "[").replace("%5D", "]")
        # Clients encode the "$" of filters too. Without any other escape, that was all.
        decoded = text.replace("%24", "$")
        text = text.replace("%5b", "[").replace("%5d", "]") if "%" in decoded else decoded
    result = read_agreeing(text, array_limit, depth)
    if result is None:
        values = read_values(text, array_limit)
        result = read_any(values, array_limit, depth) if "[" in text else values
    return result


def without_surrogates(text: str) -> str:
    """Return text with U+FFFD in place of surrogates, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.translate(_SURROGATES)
    return text


def read_agreeing(  # noqa: C901, PLR0912  # one loop: a call for each key would cost as much
    text: str, limit: int, depth: int
) -> dict[str, Any] | None:
    """Return the result if brackets are in order and no two keys contradict, otherwise None.

    It takes one pass. A repeated key is left to `read_any`, unless it ends with ``[]`` and no other
    key has added to its list meanwhile.

    Args:
        text: The query string, in which only names and values are encoded.
        limit: The largest number of items in a list.
        depth: The largest number of bracket pairs in a key.
    """
    if limit < 1 or depth < 1:
        return None
    result: dict[str, Any] = {}
    is_encoded = "%" in text
    last = ""  # a key that ends with "[]", until another one may have added to its list
    items: list[str] = []
    for part in text.split("&"):
        try:
            key, value = part.split("=", 2)
        except ValueError:  # none, or more than one
            key, value = _key_and_value(part)
        if is_encoded and "%" in part:
            key, value = _decode(key), _decode(value)
        if "[" not in key:
            if key in result:
                return None
            result[key] = value
            continue
        if key == last:
            if len(items) == limit:
                return None
            items.append(value)
            continue
        name, _, rest = key.partition("[")
        if rest == "]":
            if name in result:
                return None
            last = key
            result[name] = items = [value]
            continue
        group, bracket, more = rest.partition("]")
        if more or not bracket or "[" in group:
            groups = _groups_in_order(rest)
            if groups is None or len(groups) > depth:
                return None
            last, items = ("", []) if groups[-1] else (key, [value])
            if items:
                groups.pop()
            if not _place(result, name, groups, items or value, limit):
                return None
            continue
        below: str | list[Any] | dict[str, Any] | None = result.get(name)
        if group[0] in "0123456789":
            last, items = "", result.setdefault(name, [])
            if type(items) is not list or len(items) == limit or group != str(len(items)):
                return None
            items.append(value)
        elif below is None:
            result[name] = {group: value}
        elif type(below) is dict and group not in below:
            below[group] = value
        else:
            return None
    # Brackets without a name before them are for `read_any`; a value without any key is dropped.
    return None if "" in result and type(result.pop("")) is not str else result


def read_values(text: str, limit: int) -> dict[str, Any]:
    """Return the value of each key as it is written; a list of all for a repeated key."""
    values: dict[str, Any] = {}
    repeated: dict[str, list[str]] = {}
    for part in text.split("&"):
        key, value = _key_and_value(part)
        if "%" in part:
            key, value = _decode(key), _decode(value)
        if key not in values:
            values[key] = value
        elif key in repeated:
            repeated[key].append(value)
        else:
            values[key] = repeated[key] = [values[key], value]
    for key, items in repeated.items():
        if len(items) > limit:
            values[key] = _by_index(items)
    values.pop("", None)
    return values


def _key_and_value(part: str) -> tuple[str, str]:
    key, _, value = part.partition("=")
    if "]=" in value:
        # The first "]=" ends the key: a name in brackets may contain "=".
        key, _, value = part.partition("]=")
        key += "]"
    return key, value


def _decode(text: str) -> str:
    """Return text with its percent escapes decoded, or unchanged if one of them is broken."""
    if "%" not in text:
        return text
    start, *rest = text.encode().decode("latin-1").split("%")
    try:
        decoded = start + "".join([_CHARACTERS[part[:2]] + part[2:] for part in rest])
        return decoded.encode("latin-1").decode()
    except (KeyError, UnicodeDecodeError):
        return text


def _by_index(items: list[str]) -> dict[str, Any]:
    """Return a list as a mapping of its indexes to its items."""
    return {str(index): item for index, item in enumerate(items)}


def _groups_in_order(text: str) -> list[str] | None:
    """Return the names in the brackets of ``b][c]``, None if the brackets are not in order."""
    groups = text[:-1].split("][")
    pairs = len(groups)
    in_order = text[-1:] == "]" and text.count("]") == pairs and text.count("[") == pairs - 1
    return groups if in_order else None


def _place(result: dict[Any, Any], name: str, groups: list[str], value: object, limit: int) -> bool:
    """Put a value where its key says; return False if the place is taken or unreachable."""
    node: dict[Any, Any] | list[Any] = result
    slot: Any = name
    for group in groups:
        container: type[Any] = dict
        inner: Any = group
        if group[:1] in "0123456789":
            container, inner = list, _index(group)
            if inner is None or inner >= limit:
                return False
        if isinstance(node, dict):
            below = node.setdefault(slot, container())
        elif slot <= len(node):
            if slot == len(node):
                node.append(container())
            below = node[slot]
        else:
            return False
        if type(below) is not container:
            return False
        node, slot = below, inner
    if isinstance(node, dict):
        if slot in node:
            return False
        node[slot] = value
        return True
    if slot != len(node):
        return False
    node.append(value)
    return True


class _Numbered:
    """The value of a name while keys are merged, if some of its keys may be indexes.

    It is a list until it gets a name as a key or more items than a list may have; then it is a
    mapping. Items have string keys in either case: gaps in a list take no memory, and a list that
    becomes a mapping is not copied.
    """

    __slots__ = ("is_list", "items", "next", "stays")

    def __init__(self, items: dict[str, Any], next_index: int, limit: int) -> None:
        self.items = items
        # The index of the next value without a key.
        self.next = next_index
        self.is_list = next_index <= limit
        # Whether it takes values without a key even after names made it a mapping.
        self.stays = False

    def put(self, key: str, value: object) -> None:
        """Add an item under a new key."""
        self.items[key] = value
        index = _index(key)
        if index is not None and index >= self.next:
            self.next = index + 1

    def append(self, value: object) -> None:
        """Add an item without a key."""
        self.items[str(self.next)] = value
        self.next += 1

    def check(self, limit: int) -> None:
        """Become a mapping if the list is too long."""
        self.is_list = self.is_list and len(self.items) <= limit

    def finished(self) -> list[Any] | dict[str, Any]:
        """Return the items as a plain list or dict."""
        if self.is_list:
            return [self.items[key] for key in sorted(self.items, key=int)]
        return self.items


_Container = dict[str, Any] | _Numbered


def _items_of(container: _Container) -> dict[str, Any]:
    return container.items if isinstance(container, _Numbered) else container


def read_any(values: dict[str, Any], limit: int, depth: int) -> dict[str, Any]:
    """Return the result for keys of any shape."""
    root: dict[str, Any] = {}
    keys: Iterable[str] = values
    # Keys are merged in the order of the query string. If a number is a name both with brackets and
    # without (``0[]=x&0=y``), numbers come first, as in JavaScript objects: it decides the order of
    # the list.
    numbers = [key for key in values if _index(key) is not None and int(key) < _NUMBERS_FIRST]
    if numbers:
        bracketed = {key.partition("[")[0] for key in values if "[" in key}
        if not bracketed.isdisjoint(["", *numbers]):
            keys = dict.fromkeys([*numbers, *values])
    for key in keys:
        _merge(root, _container_of(key, values[key], limit, depth), limit)
    containers: list[dict[Any, Any] | list[Any]] = [root]
    for container in containers:
        entries: Iterable[Any] = (
            container.items() if isinstance(container, dict) else enumerate(container)
        )
        for key, item in entries:
            if isinstance(item, _Numbered):
                container[key] = item.finished()
            if not isinstance(item, str):
                containers.append(container[key])
    return root


def _index(name: str) -> int | None:
    """Return the list index of a name in brackets, None if it is only a name."""
    # Up to 15 digits: JavaScript, whose objects and lists these rules come from, holds no larger
    # integers exactly.
    if name.isdigit() and name.isascii() and len(name) < 16 and (name[0] != "0" or name == "0"):
        return int(name)
    return None


def _container_of(
    key: str, value: str | list[str] | dict[str, Any], limit: int, depth: int
) -> _Container:
    """Return the result of one key and its value alone."""
    name, groups = _split(key, depth)
    node: str | _Container
    if isinstance(value, str):
        node = value
    else:
        items = value if isinstance(value, dict) else _by_index(value)
        node = _Numbered(items, len(items), limit)
    for group in reversed(groups):
        index = _index(group)
        if index is not None:
            node = _Numbered({group: node}, index + 1, limit)
        elif group:
            node = {group: node}
        elif not isinstance(node, _Numbered):
            node = _Numbered({"0": node}, 1, limit)
        # Otherwise the brackets are empty and around a list: ``a[][]`` means ``a[]``.
    return {name: node} if name or isinstance(node, str) else node


def _split(key: str, depth: int) -> tuple[str, list[str]]:
    """Return the name before the brackets, and the names in them.

    Text between two pairs is dropped. A pair inside a pair is part of the name there. An open
    bracket without an end starts a name that it is part of.
    """
    name, bracket, rest = key.partition("[")
    if not bracket:
        return name, []
    in_order = _groups_in_order(rest)
    if in_order is not None and len(in_order) <= depth:
        return name, in_order
    groups: list[str] = []
    start, level = len(name), 0
    for position, character in enumerate(key):
        if character == "[":
            if not level:
                if len(groups) >= depth:
                    shown = key[:_LONGEST_KEY_SHOWN] + "…" * (len(key) > _LONGEST_KEY_SHOWN)
                    raise BadRequest(
                        f"The key '{shown}' of the query string has more than {depth} pairs of "
                        "brackets. Nest less deeply, or raise depth in the server's query parser."
                    )
                start = position
            level += 1
        elif character == "]" and level:
            level -= 1
            if not level:
                groups.append(key[start + 1 : position])
    if level:
        groups.append(key[start:])
    return name, groups


def _merge(root: dict[str, Any], source: _Container, limit: int) -> None:
    """Merge the items of source into root."""
    todo: list[tuple[_Container, _Container]] = [(root, source)]
    for target, new in todo:
        numbered = target if isinstance(target, _Numbered) else None
        items = _items_of(target)
        for key, value in _items_of(new).items():
            held = items.get(key)
            if held is None:
                if numbered:
                    numbered.put(key, value)
                else:
                    items[key] = value
            elif not isinstance(held, str) and not isinstance(value, str):
                items[key] = held = _fitting(held, value)
                todo.append((held, value))
            elif numbered and numbered.is_list:
                numbered.append(value)
            elif value:  # "" is an item of a list, but adds nothing to a name
                items[key] = _joined(held, value, limit)
        if numbered:
            numbered.check(limit)


def _fitting(held: _Container, new: _Container) -> _Container:
    """Return held in the shape that new can be merged into."""
    if isinstance(new, _Numbered) and new.is_list:
        return held
    if isinstance(held, _Numbered):
        if not held.is_list or held.stays:
            held.is_list = False
            return held
        held = held.items
    if isinstance(new, _Numbered):
        numbers = [index for name in held if (index := _index(name)) is not None]
        return _Numbered(held, max(numbers, default=-1) + 1, -1)
    return held


def _joined(held: str | _Container, value: str | _Container, limit: int) -> _Numbered:
    """Return the value of a name that is given twice, at least once as a string."""
    if isinstance(held, _Numbered):
        held.append(value)
        held.check(limit)
        return held
    if isinstance(value, _Numbered):
        later = {str(int(key) + 1): item for key, item in value.items.items()}
        return _Numbered({"0": held, **later}, value.next + 1, limit)
    pair = _Numbered({"0": held, "1": value}, 2, limit)
    pair.stays = not isinstance(held, str)
    return pair
