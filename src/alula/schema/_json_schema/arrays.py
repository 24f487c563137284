"""Checks of lists and of what is in them."""

from __future__ import annotations

from typing import Any

from alula.schema._failures import MOST_TOLD, Check, Failures, failure
from alula.schema._json_schema.equality import key_of
from alula.schema._json_schema.json_types import is_array
from alula.schema._json_schema.location import Schema, Spot

__all__ = ["contains", "items", "unique_items"]


def unique_items(spot: Spot, schema: Schema) -> Check | None:
    """Return the check of ``uniqueItems``."""
    where = spot.at("uniqueItems")

    def check(value: Any, path: str, failures: Failures) -> Any:
        if is_array(value) and (pair := _last_pair(value)) is not None:
            i, j = pair
            message = f"must NOT have duplicate items (items ## {j} and {i} are identical)"
            failures.append(failure(path, where, "uniqueItems", {"i": i, "j": j}, message))
        return value

    return check if schema["uniqueItems"] else None


def _last_pair(value: Any) -> tuple[int, int] | None:
    """Return the last index whose item was there before, and the index before it."""
    seen: dict[Any, int] = {}
    pair = None
    for index, key in enumerate(map(key_of, value)):
        if key in seen:
            pair = index, seen[key]
        seen[key] = index
    return pair


def items(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``prefixItems`` and ``items`` together."""
    first = [
        spot.check(each, "prefixItems", index)
        for index, each in enumerate(schema.get("prefixItems", ()))
    ]
    rest = schema.get("items", True)
    if rest is False and first:
        return _closed(spot, first)
    other = None if rest is True else spot.check(rest, "items")

    def check(value: Any, path: str, failures: Failures) -> Any:
        if not is_array(value):
            return value
        changed: list[Any] | None = None
        for index, item in enumerate(value):
            one = first[index] if index < len(first) else other
            if one is None:
                break
            new = one(item, f"{path}/{index}", failures)
            if len(failures) > MOST_TOLD:
                break  # nobody is told of more
            if new is not item:
                changed = list(value) if changed is None else changed
                changed[index] = new
        return value if changed is None else changed

    return check


def _closed(spot: Spot, first: list[Check]) -> Check:
    """Return the check of lists that have nothing behind their first items."""
    where, most = spot.at("items"), len(first)
    message, params = f"must NOT have more than {most} items", {"limit": most}

    def check(value: Any, path: str, failures: Failures) -> Any:
        if not is_array(value):
            return value
        if len(value) > most:
            failures.append(failure(path, where, "items", params, message))
        new = [
            one(item, f"{path}/{i}", failures)
            for i, (one, item) in enumerate(zip(first, value, strict=False))
        ]
        same = all(a is b for a, b in zip(new, value, strict=False))
        return value if same else [*new, *value[most:]]

    return check


def contains(spot: Spot, schema: Schema) -> Check:
    """Return the check of ``contains``; the items that it finds are taken as converted."""
    one = spot.check(schema["contains"], "contains", branch=True)
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    where, params = spot.at("contains"), {"minContains": least}
    message = f"must contain at least {least} valid item(s)"
    if most is not None:
        params["maxContains"] = most
        message = f"must contain at least {least} and no more than {most} valid item(s)"

    def check(value: Any, path: str, failures: Failures) -> Any:
        if not is_array(value):
            return value
        new, found = list(value), 0
        tried: Failures = []
        for index, item in enumerate(value):
            own: Failures = []
            converted = one(item, f"{path}/{index}", own)
            if own:
                tried += own[: max(0, MOST_TOLD - len(tried))]
            else:
                new[index] = converted
                found += 1
        if found < least or (most is not None and found > most):
            failures += [*tried, failure(path, where, "contains", params, message)]
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new

    return check
