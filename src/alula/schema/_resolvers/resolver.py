"""`Resolver`: what each property of a record becomes, for many records at once.

All properties of all records are started before any of them is awaited. So what their functions
load by ``get`` is asked for together, and an adapter can load it in one query.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from types import CoroutineType
from typing import Any, Final, NamedTuple, TypeAlias

from alula._user_code import did_you_mean, name_of
from alula.errors import BadRequest, FrameworkError, Timeout, TooManyRequests
from alula.hooks import factory_call
from alula.schema._failures import missing, refusal
from alula.schema._hidden_and_queryable import Virtual, field_names, hidden
from alula.types import SCALAR_TYPES, UNSET, JSONValue, Record

__all__ = ["Resolver", "property_function", "resolve", "takes_value"]

PropertyFunction: TypeAlias = Callable[[Any, Any, Any], Any]
"""A property's function as the resolver calls it: value, record, context."""

_OBJECTS: Final = (dict, Mapping)  # most are dicts, and the test of a Mapping takes time
_COROUTINE: Final[Any] = CoroutineType  # `Any`: its values would be unknown
_ATOMS: Final = SCALAR_TYPES | {dict, list}
"""The types of most values; they cannot be awaited. A set is faster than `hasattr`."""
_OF_UNSET: Final = (AttributeError, LookupError, TypeError)
"""What a function raises that treats `UNSET` as a value."""
_NOT_OF_THE_DATA: Final = frozenset({Timeout.code, TooManyRequests.code})
"""Statuses of clients' errors that other data would not help."""
_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


class _Pending(NamedTuple):
    """A property whose value is still to be awaited."""

    record: int
    name: str
    value: Awaitable[Any]


class _Started:
    """A coroutine that has run up to the point where it first waits.

    It must be awaited in the task that started it.
    """

    def __init__(self, coroutine: CoroutineType[Any, Any, Any], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Any]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    sent = yield waits_for
                except BaseException as error:  # noqa: BLE001  # a cancellation, for example
                    waits_for = self._coroutine.throw(error)
                else:
                    waits_for = self._coroutine.send(sent)
        except StopIteration as stop:
            return stop.value


class Resolver:
    """Functions that say what the properties of a record become; `resolve` makes it.

    Args:
        properties: Functions by the name of the property.
        known: Names that a record can have, None if any.

    Attributes:
        names: The properties that are resolved.
        virtual_functions: The functions of those of them that are `virtual`, by name.
        virtual_names: The names of these.
        made_names: Those whose functions take no value: `virtual` ones and those without
            parameters.
        record_names: Those whose functions may read other properties: `virtual` ones, and those
            that take the record beside the value.
        hidden_names: Those whose resolver is `hidden`.

    Raises:
        TypeError: A value is not a function, or needs more arguments than there are.
        ValueError: A property is not among the known ones.
    """

    def __init__(self, properties: Mapping[str, Any], known: Collection[str] | None = None) -> None:
        if not isinstance(properties, Mapping):
            raise TypeError(
                f"resolve takes a mapping of properties to functions, not {properties!r}"
            )
        self._functions: dict[str, PropertyFunction] = {}
        for name, resolver in properties.items():
            if not isinstance(name, str):
                raise TypeError(f"resolve: {name!r} is not the name of a property")
            if isinstance(resolver, Resolver):
                raise TypeError(
                    f"resolve takes functions by property, but that of {name!r} is a resolver;"
                    " resolvers by method go to the hook itself: resolve_data({'create': ...})"
                )
            self._functions[name] = property_function(name, resolver)
        self.names = tuple(self._functions)
        self.virtual_functions = {
            name: resolver.function
            for name, resolver in properties.items()
            if isinstance(resolver, Virtual)
        }
        self.virtual_names = frozenset(self.virtual_functions)
        self.made_names = frozenset(
            name for name, resolver in properties.items() if not takes_value(resolver)
        )
        self.record_names = self.virtual_names.union(
            name for name, resolver in properties.items() if _count_arguments(resolver) > 1
        )
        self.hidden_names = frozenset(
            name for name, resolver in properties.items() if resolver is hidden
        )
        self._waiting: set[str] = set()  # properties whose functions were seen to wait
        if known is not None:
            self.check(known)

    def check(self, known: Collection[str]) -> None:
        """Refuse properties that are neither virtual nor known.

        Raises:
            ValueError: There is one; the message suggests a known name.
        """
        for name in self.names:
            if name not in known and name not in self.virtual_names:
                raise ValueError(
                    f"there is a resolver for {name!r}, but the schema has no such property"
                    " (mark a computed one by virtual(...))"
                    + (did_you_mean(name, known) or f"; it has {', '.join(known)}")
                )

    async def resolve(
        self, record: Mapping[str, Any], context: Any = None, **options: Any
    ) -> Record:
        """Return one record with its properties resolved; see `resolve_many`."""
        resolved: Record = (await self.resolve_many([record], context, **options))[0]
        return resolved

    async def resolve_many(  # noqa: C901  # one loop: a call for each property would cost most
        self,
        records: Sequence[Any],
        context: Any = None,
        *,
        names: Collection[str] | None = None,
        faults: tuple[type[Exception], ...] = (FrameworkError,),
        required: Collection[str] = (),
    ) -> list[Any]:
        """Return new records with their properties resolved; the given ones stay as they are.

        A function that returns `UNSET` removes its property.

        Args:
            records: Mappings; other values stay as they are.
            context: The hook context, for the functions.
            names: The properties that are resolved, None for all.
            faults: The errors that are about a property. Other errors of functions are raised as
                they are, and so are a 408, a 429 and those from 500 on: other data would not help.
            required: Properties that every record must have afterwards. A function that fails
                because its property is missing has not made it.

        Raises:
            BadRequest: Functions raised such errors; ``data`` has them by property. Or a required
                property is missing; ``data`` lists the failures.
        """
        functions = self._functions.items()
        if names is not None:
            functions = {
                name: self._functions[name] for name in names if name in self._functions
            }.items()
        resolved: list[Any] = []
        pending: list[_Pending] = []
        failed: list[tuple[int, str, BaseException]] = []
        started = False  # whether a coroutine waits that was started in this task
        record: JSONValue
        for record in records:
            if not isinstance(record, _OBJECTS):
                resolved.append(record)
                continue
            new = {**record}
            for name, function in functions:
                try:
                    # All functions get the record as it was: they run concurrently, in no order.
                    value = function(record.get(name, UNSET), record, context)
                    if type(value) in _ATOMS:  # first, because most values are
                        new[name] = value
                        continue
                    if type(value) is _COROUTINE and name not in self._waiting and not started:
                        value = self._start(name, value)
                        started = type(value) is _Started
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # raised below
                    failed.append((len(resolved), name, error))
                    continue
                if value is UNSET:
                    new.pop(name, None)
                    continue
                if hasattr(value, "__await__"):
                    pending.append(_Pending(len(resolved), name, value))
                # Also one that is still awaited: so the properties keep their order.
                new[name] = value
            resolved.append(new)
        if pending:
            failed += await _settle(resolved, pending)
        if required:
            _check_presence(required, records, resolved, failed)
        if failed:
            raise _error_of(failed, faults)
        return resolved

    def _start(self, name: str, coroutine: CoroutineType[Any, Any, Any]) -> Any:
        """Return the value of a coroutine that never waits, else what is still to be awaited."""
        # Most coroutine functions of resolvers never wait. A task for each of 50 records takes 30
        # times as long as running them here. Functions that were seen to wait get tasks, and so do
        # all behind the first one that waits: this task can continue only one.
        try:
            waits_for = coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        self._waiting.add(name)
        return _Started(coroutine, waits_for)


def resolve(properties: Mapping[str, Any], *, schema: Any = None) -> Resolver:
    """Return a resolver for the hooks `resolve_query`, `resolve_data`, `resolve_result` and so on.

    Examples:
        >>> upper = resolve({"name": lambda name: name.upper()})
        >>> asyncio.run(upper.resolve({"name": "Ada"}))
        {'name': 'ADA'}

    Args:
        properties: Names to functions: ``async def (value, record, context)``, plain functions,
            functions of fewer arguments, `hidden`, and what `virtual` returns. ``value`` is `UNSET`
            where the record lacks the property. A function that returns `UNSET` removes it.
        schema: JSON Schema or Pydantic model of the record, to detect names that it does not have.

    Raises:
        TypeError: A value is not a function, or needs more arguments than there are.
        ValueError: The schema has no such property.
    """
    return Resolver(properties, None if schema is None else field_names(schema))


def property_function(name: str, resolver: object) -> PropertyFunction:
    """Return a function of value, record and context that resolves a property.

    Args:
        name: The property, for messages.
        resolver: A function, or what `virtual` returns.

    Raises:
        TypeError: It is not a function, or needs more arguments than there are.
    """
    if (written := factory_call(resolver)) is not None:
        raise TypeError(
            f"the resolver of {name!r}: {name_of(resolver)} makes one and is not one itself;"
            f" write {written}"
        )
    if isinstance(resolver, Virtual):
        call = resolver.function
        count = _arguments_taken(name, call, ("record", "context"))
        forms: tuple[PropertyFunction, ...] = (
            lambda _value, record, context: call(record, context),
            lambda _value, record, _context: call(record),
            lambda _value, _record, _context: call(),
        )
        return forms[2 - count]
    function: Any = resolver
    count = _arguments_taken(name, function, ("value", "record", "context"))
    forms = (
        function,
        lambda value, record, _context: function(value, record),
        lambda value, _record, _context: function(value),
        lambda _value, _record, _context: function(),
    )
    return forms[3 - count]


def takes_value(resolver: object) -> bool:
    """Return whether a resolver takes the value of its property, by its signature."""
    return _count_arguments(resolver) > 0


def _count_arguments(resolver: object) -> int:
    """Return how many of value, record and context a resolver takes; 0 for a virtual one."""
    if isinstance(resolver, Virtual):
        return 0
    return _arguments_taken("", resolver, ("value", "record", "context"))


def _arguments_taken(name: str, function: object, offered: tuple[str, ...]) -> int:
    """Return how many of the offered arguments a function takes.

    A parameter with a default belongs to the function itself (``def shorten(value, length=80)``),
    unless it has the name of the argument that is offered in its place.
    """
    expected = f"a function of ({', '.join(offered)}) or of fewer of these"
    if not callable(function):
        raise TypeError(f"the resolver of {name!r} is {function!r}; expected {expected}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # built-in functions may have none: int, bool
        return 1
    count = 0
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            count = len(offered)
        if count == len(offered) or parameter.kind not in _POSITIONAL:
            break
        if parameter.default is not parameter.empty and parameter.name != offered[count]:
            break
        count += 1
    try:
        signature.bind(*offered[:count])
    except TypeError:
        raise TypeError(
            f"the resolver of {name!r}, {name_of(function)}, takes {signature}; expected {expected}"
        ) from None
    return count


async def _settle(
    resolved: list[Any], pending: Sequence[_Pending]
) -> list[tuple[int, str, BaseException]]:
    """Await all values concurrently, put them in their places, and return what failed."""
    values: list[Any] = [wait.value for wait in pending]
    # Only this task can continue the coroutine that it started.
    here = next((index for index, value in enumerate(values) if type(value) is _Started), 0)
    first = values.pop(here)
    tasks = asyncio.gather(*values, return_exceptions=True)
    try:
        result = await first  # in this task, which may have started it
    except Exception as error:  # noqa: BLE001  # as gather returns it
        result = error
    except BaseException:
        # A cancelled call must not leave functions running behind it.
        tasks.cancel()
        await asyncio.gather(tasks, return_exceptions=True)
        raise
    results: list[Any] = await tasks
    results.insert(here, result)
    failed: list[tuple[int, str, BaseException]] = []
    for (index, name, _), value in zip(pending, results, strict=True):
        if isinstance(value, BaseException):
            failed.append((index, name, value))
        elif value is UNSET:
            del resolved[index][name]
        else:
            resolved[index][name] = value
    return failed


def _check_presence(
    required: Collection[str],
    given: Sequence[Any],
    resolved: Sequence[Any],
    failed: list[tuple[int, str, BaseException]],
) -> None:
    """Refuse records that lack a required property, unless there are other errors.

    Raises:
        BadRequest: With all missing properties.
    """
    unmade: dict[tuple[int, str], BaseException] = {}
    for index, name, error in failed:
        if name in required and name not in given[index] and isinstance(error, _OF_UNSET):
            unmade[index, name] = error
    if len(unmade) < len(failed):
        return  # another error explains more
    lacking = [
        name
        for index, record in enumerate(resolved)
        for name in required
        if isinstance(record, Mapping) and (name not in record or (index, name) in unmade)
    ]
    if lacking:
        raise refusal(list(map(missing, lacking))) from next(iter(unmade.values()), None)


def _error_of(
    failed: Sequence[tuple[int, str, BaseException]], faults: tuple[type[Exception], ...]
) -> BaseException:
    """Return what to raise: an unexpected error first, else all faults of the first record."""
    for _, name, error in failed:
        is_of_server = isinstance(error, FrameworkError) and (
            error.code >= 500 or error.code in _NOT_OF_THE_DATA
        )
        if is_of_server or not isinstance(error, faults):
            error.add_note(f"raised by the resolver of the property {name!r}")
            return error
    first = min(record for record, _, _ in failed)
    raised = BadRequest("Error resolving data")
    raised.data = {
        name: error.to_dict() if isinstance(error, FrameworkError) else {"message": str(error)}
        for record, name, error in failed
        if record == first
    }
    raised.__cause__ = next(error for record, _, error in failed if record == first)
    return raised
