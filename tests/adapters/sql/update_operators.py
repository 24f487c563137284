"""What the update operators do, in Python: the records that a patch leaves, for comparison."""

from __future__ import annotations

import math
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal

from alula.errors import BadRequest

WHOLE = {"whole": 2**63, "always": 2**31}
CENTS = Decimal("0.01")
MOST_CENTS = Decimal(10) ** 10


def changes_of(record: dict, patch: dict) -> dict:
    """Return what a patch sets in a record.

    Raises:
        BadRequest: A value does not fit, or a property is set twice.
    """
    fields = dict(patch)
    operators = {name: fields.pop(name) for name in patch if name[0] == "$"}
    plain = operators.pop("$set", {})
    named = Counter([*fields, *plain, *(name for given in operators.values() for name in given)])
    if any(count > 1 for count in named.values()):
        raise BadRequest("twice")
    changed = {
        name: fitting(name, OPERATORS[operator](record.get(name), cents(name, value)))
        for operator, given in operators.items()
        for name, value in given.items()
    }
    return {**fields, **plain, **changed}


def cents(name, value):
    is_price = name == "price" and value is not None
    return Decimal(value).quantize(CENTS, ROUND_HALF_UP) if is_price else value


def fitting(name, value):
    """Return a value as its column has it."""
    if name in WHOLE and not -WHOLE[name] <= value < WHOLE[name]:
        raise BadRequest("too large")
    if name == "price":
        value = cents(name, value)
        if abs(value) >= MOST_CENTS:
            raise BadRequest("too large")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadRequest("too large")
    return value


def pushed(stored, value):
    items = value["$each"] if isinstance(value, dict) else [value]
    return [*(stored or []), *items]


OPERATORS = {
    "$inc": lambda stored, value: (stored or 0) + value,
    "$mul": lambda stored, value: (stored or 0) * value,
    "$min": lambda stored, value: value if stored is None else min(stored, value),
    "$max": lambda stored, value: value if stored is None else max(stored, value),
    "$push": pushed,
}
