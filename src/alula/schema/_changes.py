"""Checks what a patch changes: whole properties, paths such as ``address.town``, update operators.

Each value is checked by the schema of the property that it is for. An operator whose result nobody
can know in advance (``$inc`` on a property with a minimum) also gives conditions: the store makes
the change only for a record whose stored value allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from alula.errors import BadRequest, shown_name
from alula.query._grammar import COMMON_OPERATORS
from alula.schema._failures import (
    MOST_LISTED,
    Failures,
    failure,
    missing,
    moved,
    pointer,
    refusal,
    without_prefix,
)
from alula.schema._flat_schemas import index_of, types_of
from alula.types import is_list, is_mapping

__all__ = ["KNOWN_OPERATORS", "Changes", "Place", "has_operators"]


class Place(Protocol):
    """A property of a record, or a part of one, to which a path leads."""

    @property
    def alternatives(self) -> Sequence[Mapping[str, Any]]:
        """Flat JSON Schemas, of which a value in data meets one."""
        ...

    def validate(self, value: object) -> Any:
        """Return a value of this place with all conversions made.

        Raises:
            BadRequest: It is not valid.
        """

    def below(self, name: str) -> tuple[str, Any] | None:
        """Return the stored name and the place of a property or an item, None if there is none."""

    def has_to_have(self, name: str) -> bool:
        """Tell whether every value of this place has a property."""
        ...

    def item(self) -> Any:
        """Return the place of new items, None if values of this place are not lists."""


class _Target(NamedTuple):
    """Where an operand is for.

    Attributes:
        changes: The validator.
        operator: The operator.
        path: The path in stored records.
        place: The place that it leads to.
        removable: Whether a record may lack it.
    """

    changes: Changes
    operator: str
    path: str
    place: Place
    removable: bool


MOST_PADDING: Final = 1_500
"""The highest index that a path may have, unless the schema says how long the list may be: stores
fill a list up to the index that is set."""

_MODIFIERS: Final = frozenset({"$each", "$position", "$slice", "$sort"})
_IN_CONDITIONS: Final = frozenset(
    {"$all", "$elemMatch", "$eq", "$exists", "$not", "$regex", "$size"}
)
_TAKES: Final = frozenset({"$pop", "$pull", "$pullAll"})
_LIMITS: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")


def has_operators(data: Mapping[str, Any]) -> bool:
    """Tell whether data has update operators."""
    return any(str(name)[:1] == "$" for name in data)


def _has_paths(data: Mapping[str, Any]) -> bool:
    """Tell whether data may have update operators, or names with dots."""
    try:
        names = "".join(data)  # one look at all of them
    except TypeError:  # a name that is not text, which only Python code gives
        return True
    return "$" in names or "." in names


class Changes:
    """Checks and converts the data of a patch, or of an update that consists of operators.

    Args:
        part: Checks whole properties.
        root: The place of the record.
        make_check: Returns what checks a query for these records. The operand of ``$pull`` is one,
            and nothing else is, so this is called at the first of them: a quarter of the time in
            which a generated application is made.
        id: The name of the id property.

    Attributes:
        operators: Empty: it is no validator of queries.
        filters: Empty, too.
    """

    operators: frozenset[str] = frozenset()
    filters: frozenset[str] = frozenset()

    def __init__(
        self,
        part: Callable[[Any], Any],
        root: Place,
        make_check: Callable[[], Callable[[Any], Any]],
        id: str,
    ) -> None:
        self._part = part
        self._root = root
        self._query_check = cache(make_check)
        self._id = id

    def validate(self, data: Any) -> Any:
        """Return changes with all conversions made.

        Raises:
            BadRequest: A value is not valid, or there is no such property; ``data`` lists every
                failure.
        """
        if not is_mapping(data) or not _has_paths(data):
            return self._part(data)
        whole: dict[str, Any] = {}
        changed: dict[str, Any] = {}
        failures: Failures = []
        for name, value in data.items():
            if len(failures) > MOST_LISTED:
                break  # the response does not list more
            if str(name)[:1] == "$":
                changed[name] = self._operands(name, value, failures)
            elif "." in str(name):
                target = self.target("$set", name, failures, "")
                if target is not None:
                    with _collected(failures, pointer(name)):
                        changed[target.path] = target.place.validate(value)
            else:
                whole[name] = value
        if whole:
            with _collected(failures, ""):
                whole = self._part(whole)
        if failures:
            raise refusal(failures)
        return {**whole, **changed}

    def conditions(self, data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the criteria of records whose values stay within their limits.

        Args:
            data: Checked changes.
        """
        found: list[Mapping[str, Any]] = []
        operands: Any = data.get("$inc", {})
        for path, amount in operands.items() if is_mapping(operands) else ():
            target = self.target("$inc", path, [], "")
            # A hook may have added a property that the schema does not have.
            bounds = None if target is None else _bounds_of(target.place)
            found += [] if bounds is None else bounds.criteria(path, amount)
        return found

    def _operands(self, operator: str, operands: object, failures: Failures) -> Any:
        if not is_mapping(operands):
            raise BadRequest(
                f"Invalid value for {shown_name(operator)}: expected an object of fields"
            )
        check = _CHECKS.get(operator)
        if check is None:
            raise BadRequest(
                f"Invalid key {shown_name(operator)} in the data: no schema can check its operand"
            )
        changed: dict[str, Any] = {}
        for name, operand in operands.items():
            if len(failures) > MOST_LISTED:
                break  # the response does not list more
            where = pointer(operator)
            if name == self._id:  # an id never changes: the store says so
                changed[name] = operand
                continue
            target = self.target(operator, name, failures, where)
            if target is None:
                continue
            with _collected(failures, f"{where}{pointer(name)}"):
                changed[target.path] = check(target, operand)
        return changed

    def target(self, operator: str, path: object, failures: Failures, where: str) -> _Target | None:
        """Return where a path leads to, None and a failure if it leads nowhere."""
        place, names, removable = self._root, list[str](), True
        for part in str(path).split("."):
            below: tuple[str, Place] | None = place.below(part)
            # MongoDB's own marks: `tags.$[]` is every item, `tags.$` the one that was found.
            is_mark = part[:1] == "$" and place.item() is not None
            if is_mark:
                below = (part, place.item())
            if below is None or (not is_mark and _is_too_far(place, part)):
                named = {"additionalProperty": path}
                message = "must NOT have additional properties"
                failures.append(
                    failure(where, "#/additionalProperties", "additionalProperties", named, message)
                )
                return None
            removable = not place.has_to_have(below[0])
            names.append(below[0])
            place = below[1]
        return _Target(self, operator, ".".join(names), place, removable)

    def queried(self, query: Mapping[str, Any]) -> Any:
        """Return a query for these records with all conversions made.

        Raises:
            BadRequest: It is not valid.
        """
        try:
            return self._query_check()(query)
        except BadRequest as error:
            path = pointer(next(iter(query))) if len(query) == 1 else ""
            raise without_prefix(error, path) from error


# -- operands --------------------------------------------------------------------------------------


def _value(target: _Target, operand: object) -> Any:
    return target.place.validate(operand)


def _number(target: _Target, operand: object) -> Any:
    bounds = _bounds_of(target.place)
    if bounds is None:
        raise _wrong("type", f"is no number, which {target.operator} needs")
    number = _read_number(operand, bounds)
    if target.operator == "$mul" and not bounds.allow_product(number):
        raise _wrong("minimum", "has limits that $mul may leave; set the value itself")
    return operand


def _items(target: _Target, operand: object) -> Any:
    item = _item_of(target)
    _check_size(target)
    if not is_mapping(operand) or _MODIFIERS.isdisjoint(operand):
        return item.validate(operand)
    items = operand.get("$each")
    if not is_list(items):
        raise _wrong("type", "must have a list as $each")
    return {**operand, "$each": _all_valid(item, items, "/$each")}


def _removed_items(target: _Target, operand: object) -> Any:
    item = _item_of(target)
    _check_size(target)
    if target.operator == "$pullAll":
        if not is_list(operand):
            raise _wrong("type", "must be array")
        return _all_valid(item, operand, "")
    if not is_mapping(operand) or has_operators(operand):
        return target.changes.queried({target.path: operand})[target.path]
    # Items are objects, of which the operand names properties.
    names = {name: f"{target.path}.{name}" for name in operand}
    checked = target.changes.queried({names[name]: value for name, value in operand.items()})
    return {name: checked[path] for name, path in names.items()}


def _last_item(target: _Target, operand: object) -> Any:
    _item_of(target)
    _check_size(target)
    if operand not in (1, -1) or isinstance(operand, bool):
        raise _wrong("enum", "must be 1 or -1")
    return operand


def _nothing(target: _Target, operand: object) -> Any:
    _check_removable(target)
    return operand


def _new_name(target: _Target, operand: object) -> Any:
    _check_removable(target)
    failures: Failures = []
    other = target.changes.target("$rename", operand, failures, "")
    if other is None:
        raise refusal(failures)
    if other.place.alternatives != target.place.alternatives:
        raise _wrong("type", f"has another schema than {other.path}")
    return other.path


def _now(target: _Target, operand: object) -> Any:
    if operand is not True and operand != {"$type": "date"}:
        raise _wrong("const", 'must be true or {"$type": "date"}')
    target.place.validate(datetime.now(UTC))
    return operand


def _bits(target: _Target, operand: object) -> Any:
    bounds = _bounds_of(target.place)
    numbers = list(operand.values()) if is_mapping(operand) else []
    if bounds is None or not numbers or any(type(number) is not int for number in numbers):
        raise _wrong("type", "must be an object of integers, for a number")
    if not bounds.are_open:
        raise _wrong("minimum", "has limits that $bit may leave; set the value itself")
    return operand


@contextmanager
def _collected(failures: Failures, where: str) -> Generator[None]:
    """Add the failures of a value to a list, with the place of the value."""
    try:
        yield
    except BadRequest as error:
        if not is_list(error.data):
            raise  # the value cannot be checked at all
        failures += moved(error.data, where)


def _wrong(keyword: str, message: str) -> BadRequest:
    return refusal([failure("", f"#/{keyword}", keyword, {}, message)])


def _check_removable(target: _Target) -> None:
    if not target.removable:
        raise refusal([missing(target.path.rpartition(".")[2])])


def _item_of(target: _Target) -> Place:
    item: Place | None = target.place.item()
    if item is None:
        raise _wrong("type", f"is no list, which {target.operator} needs")
    return item


def _all_valid(item: Place, values: Sequence[Any], where: str) -> list[Any]:
    valid: list[Any] = []
    failures: Failures = []
    for at, value in enumerate(values):
        if len(failures) > MOST_LISTED:
            break  # the response does not list more
        with _collected(failures, f"{where}/{at}"):
            valid.append(item.validate(value))
    if failures:
        raise refusal(failures)
    return valid


def _check_size(target: _Target) -> None:
    """Refuse an operator that may leave a list longer or shorter than its schema allows."""
    keywords = ["minItems"] if target.operator in _TAKES else ["maxItems"]
    if target.operator == "$push":
        keywords.append("uniqueItems")
    for keyword in keywords:
        if any(schema.get(keyword) for schema in target.place.alternatives):
            raise _wrong(keyword, f"has {keyword}, which {target.operator} may break; set the list")


def _is_too_far(place: Place, part: str) -> bool:
    """Tell whether a part of a path is an index that a list cannot have."""
    index = index_of(part)
    if index is None or place.item() is None:
        return False
    lengths = [schema["maxItems"] for schema in place.alternatives if "maxItems" in schema]
    return index >= max(lengths) if lengths else index > MOST_PADDING


# -- numbers ---------------------------------------------------------------------------------------


class _Bounds(NamedTuple):
    """What the schema says about a number.

    Attributes:
        whole: Whether it is an integer.
        as_text: Whether data may have it as text, as for decimals.
        limits: By the keyword of JSON Schema.
        unit: Of what it is a multiple, None for anything.
    """

    whole: bool
    as_text: bool
    limits: Mapping[str, Decimal]
    unit: Decimal | None

    @property
    def are_open(self) -> bool:
        """Whether every number is allowed."""
        return not self.limits and self.unit is None

    def allow_product(self, factor: Decimal) -> bool:
        """Tell whether a number within these bounds times the factor is so, too."""
        if self.unit is not None and factor % 1:
            return False
        is_from_zero = all(
            name in {"minimum", "exclusiveMinimum"} and limit == 0
            for name, limit in self.limits.items()
        )
        is_kept = factor > 0 or (factor == 0 and "exclusiveMinimum" not in self.limits)
        return not self.limits or (is_from_zero and is_kept)

    def criteria(self, path: str, amount: Any) -> list[Mapping[str, Any]]:
        """Return the criteria of records whose number is within these bounds with an amount more.

        Stores take a missing number and null for 0.
        """
        number = _decimal(amount)
        if number is None:
            return []
        found: list[Mapping[str, Any]] = []
        for keyword, limit in self.limits.items():
            is_low = keyword in {"minimum", "exclusiveMinimum"}
            if number == 0 or is_low is (number > 0):
                continue
            operator = ("$gt" if is_low else "$lt") + ("" if keyword[:2] == "ex" else "e")
            test = {path: {operator: _like(limit - number, amount)}}
            is_allowed = _meets(number, operator, limit)
            found.append({"$or": [test, {path: None}]} if is_allowed else test)
        return found


def _meets(number: Decimal, operator: str, limit: Decimal) -> bool:
    if operator[:3] == "$gt":
        return number > limit or (operator == "$gte" and number == limit)
    return number < limit or (operator == "$lte" and number == limit)


def _like(number: Decimal, example: object) -> object:
    """Return a number in the type of another one."""
    if isinstance(example, str | Decimal):
        return f"{number:f}" if isinstance(example, str) else number
    return int(number) if number == number.to_integral_value() else float(number)


def _decimal(value: object) -> Decimal | None:
    """Return a finite number as an exact one, None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    if isinstance(value, str) and len(value) > 100:  # parsing takes long
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _bounds_of(place: Place) -> _Bounds | None:
    """Return what the schema of a place says about numbers, None if it has none."""
    numbers = [
        schema
        for schema in place.alternatives
        if {"integer", "number"}.intersection(types_of(schema, ("number",)))
        and schema.keys().isdisjoint(("enum", "const"))
    ]
    if not numbers:
        return None
    limits: dict[str, Decimal] = {}
    for keyword in _LIMITS:
        # Of several kinds of numbers, the widest counts: it is not known which one is stored.
        given = [Decimal(str(schema[keyword])) for schema in numbers if keyword in schema]
        if len(given) == len(numbers):
            limits[keyword] = min(given) if "inimum" in keyword else max(given)
    units = {schema.get("multipleOf") for schema in numbers}
    unit = units.pop() if len(units) == 1 else None
    return _Bounds(
        whole=all("number" not in types_of(schema, ("number",)) for schema in numbers),
        as_text=any("string" in types_of(schema, ()) for schema in place.alternatives),
        limits=limits,
        unit=None if unit is None else Decimal(str(unit)),
    )


def _read_number(operand: object, bounds: _Bounds) -> Decimal:
    number = _decimal(operand)
    if number is None or (isinstance(operand, str) and not bounds.as_text):
        raise _wrong("type", "must be number")
    if bounds.whole and number % 1:
        raise _wrong("type", "must be integer")
    if bounds.unit is not None and number % bounds.unit:
        raise _wrong("multipleOf", f"must be multiple of {bounds.unit}")
    return number


_Check: TypeAlias = Callable[[_Target, object], Any]
_CHECKS: Final[Mapping[str, _Check]] = {
    "$set": _value,
    "$setOnInsert": _value,
    "$min": _value,
    "$max": _value,
    "$inc": _number,
    "$mul": _number,
    "$push": _items,
    "$addToSet": _items,
    "$pull": _removed_items,
    "$pullAll": _removed_items,
    "$pop": _last_item,
    "$unset": _nothing,
    "$rename": _new_name,
    "$currentDate": _now,
    "$bit": _bits,
}

KNOWN_OPERATORS: Final = _MODIFIERS | COMMON_OPERATORS | _IN_CONDITIONS | {*_CHECKS, "$type"}
"""What ``update_operators`` may open behind a schema: operators whose operands are checked, and
what these operands may contain."""
