"""Resolvers: what each property of a record becomes, for many records at once.

All properties of all records are begun before anything is waited for. What their functions load
by ``get`` is therefore asked for together, and an adapter can load it in one query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Generator, Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import CoroutineType
from typing import Any, Final, NamedTuple

from alula.errors import BadRequest, FrameworkError
from alula.schema._failures import missing, refusal
from alula.schema._hidden_and_queryable import names_in
from alula.schema._resolvers.properties import Call, Virtual, call_of, hidden, takes_value
from alula.types import SCALAR_TYPES, UNSET, Record

__all__ = ["Resolver", "resolve"]

_ATOMS: Final = SCALAR_TYPES | {dict, list}
"""The types of most values, none of which can be awaited."""
_OVER_NOTHING: Final = (AttributeError, LookupError, TypeError)
"""What a function raises that takes `UNSET` for a value."""


class _Wait(NamedTuple):
    """A property that is not there yet."""

    record: int
    name: str
    value: Awaitable[Any]


class _Started:
    """A coroutine that has been run up to the point where it first waits.

    It must be awaited in the task that has begun it.
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
    """What the properties of one kind of record become.

    Args:
        properties: Functions by the name of the property.
        known: Names that a record can have, None where nobody knows.

    Attributes:
        names: The properties that are resolved.
        virtual_names: Those of them that are computed and in no record before.
        made_names: Those whose functions are not given a value: `virtual` ones and those without
            parameters.
        hidden_names: Those whose resolver is `hidden`.

    Raises:
        TypeError: Something is not a function, or needs more arguments than there are.
        ValueError: A property is not among those known.
    """

    def __init__(self, properties: Mapping[str, Any], known: Collection[str] | None = None) -> None:
        if not isinstance(properties, Mapping):
            raise TypeError(
                f"resolve takes a mapping of properties to functions, not {properties!r}"
            )
        self._calls: dict[str, Call] = {}
        for name, resolver in properties.items():
            if not isinstance(name, str):
                raise TypeError(f"resolve: {name!r} is not the name of a property")
            if isinstance(resolver, Resolver):
                raise TypeError(
                    f"resolve takes functions by property, but that of {name!r} is a resolver;"
                    " resolvers by method go to the hook itself: resolve_data({'create': ...})"
                )
            self._calls[name] = call_of(name, resolver)
        self.names = tuple(self._calls)
        self.virtual_names = frozenset(
            name for name, resolver in properties.items() if isinstance(resolver, Virtual)
        )
        self.made_names = frozenset(
            name for name, resolver in properties.items() if not takes_value(resolver)
        )
        self.hidden_names = frozenset(
            name for name, resolver in properties.items() if resolver is hidden
        )
        self._waiting: set[str] = set()  # properties whose functions have been seen to wait
        if known is not None:
            self.check(known)

    def check(self, known: Collection[str]) -> None:
        """Raise unless every property that is not virtual is known.

        Raises:
            ValueError: One is not; the message says what it may have meant.
        """
        for name in self.names:
            if name not in known and name not in self.virtual_names:
                near = get_close_matches(name, known, 1)
                raise ValueError(
                    f"there is a resolver for {name!r}, but the schema has no such property"
                    + (f"; did you mean {near[0]!r}?" if near else f": {', '.join(known)}")
                    + ". A computed one is marked by virtual(...)"
                )

    async def resolve(
        self, record: Mapping[str, Any], context: Any = None, **options: Any
    ) -> Record:
        """Return one record with its properties resolved; see `resolve_many`."""
        resolved: Record = (await self.resolve_many([record], context, **options))[0]
        return resolved

    async def resolve_many(
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
            records: Mappings; what is something else stays as it is.
            context: The hook context, for the functions.
            names: The properties that are resolved, None for all.
            faults: The errors that concern a property. What else a function raises is an error
                of the program, and is raised as it is.
            required: Properties that every record must have in the end. A function that falls over
                the missing value of one has not made it.

        Raises:
            BadRequest: Functions raised such errors; ``data`` has them by property. Or a property
                is missing that is required; ``data`` lists the failures.
        """
        calls = self._calls.items()
        if names is not None:
            calls = {name: self._calls[name] for name in names if name in self._calls}.items()
        resolved: list[Any] = []
        waits: list[_Wait] = []
        failed: list[tuple[int, str, BaseException]] = []
        begun = False  # whether a coroutine waits that was begun in this task
        for record in records:
            if type(record) is not dict and not isinstance(record, Mapping):
                resolved.append(record)
                continue
            new = dict(record)
            for name, call in calls:
                try:
                    value = call(record.get(name, UNSET), record, context)
                    if type(value) is CoroutineType and name not in self._waiting and not begun:
                        value = self._begun(name, value)
                        begun = type(value) is _Started
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # raised below
                    failed.append((len(resolved), name, error))
                    continue
                if value is UNSET:
                    new.pop(name, None)
                    continue
                if type(value) not in _ATOMS and hasattr(value, "__await__"):
                    waits.append(_Wait(len(resolved), name, value))
                new[name] = value
            resolved.append(new)
        if waits:
            failed += _settle(resolved, waits, await _all_of(waits))
        if required:
            _check_presence(required, records, resolved, failed)
        if failed:
            raise _error_of(failed, faults)
        return resolved

    def _begun(self, name: str, coroutine: CoroutineType[Any, Any, Any]) -> Any:
        """Return the value of a coroutine that never waits, else what is still to be awaited.

        Most coroutine functions of resolvers never wait. A task for each of 50 records would take
        30 times as long as running them here. Functions that were seen to wait get tasks, and so
        does everything behind the first that does: this task can only go on with one.
        """
        try:
            waits_for = coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        self._waiting.add(name)
        return _Started(coroutine, waits_for)


def resolve(properties: Mapping[str, Any], *, schema: Any = None) -> Resolver:
    """Return a resolver for the hooks `resolve_query`, `resolve_data`, `resolve_result` and so on.

    Args:
        properties: Names to functions: ``async def (value, record, context)``, plain ones, those
            of fewer arguments, and what `virtual` returns. ``value`` is `UNSET` where the record
            lacks the property. A function that returns `UNSET` removes it.
        schema: JSON Schema or Pydantic model of the record, so that a name that it does not have
            is found here.

    Raises:
        TypeError: Something is not a function, or needs more arguments than there are.
        ValueError: The schema has no such property.
    """
    return Resolver(properties, None if schema is None else names_in(schema))


async def _all_of(waits: Sequence[_Wait]) -> list[Any]:
    """Return results and exceptions, in order; everything runs at the same time."""
    values: list[Any] = [wait.value for wait in waits]
    here = next((place for place, value in enumerate(values) if type(value) is _Started), 0)
    first = values.pop(here)
    tasks = asyncio.gather(*values, return_exceptions=True)
    try:
        result = await first  # in this very task, which may have begun it
    except Exception as error:  # noqa: BLE001  # as gather returns it
        result = error
    except BaseException:
        tasks.cancel()
        await asyncio.gather(tasks, return_exceptions=True)
        raise
    results: list[Any] = await tasks
    results.insert(here, result)
    return results


def _settle(
    resolved: list[Any], waits: Iterable[_Wait], values: Iterable[Any]
) -> list[tuple[int, str, BaseException]]:
    """Put what was waited for into its place, and return what failed."""
    failed: list[tuple[int, str, BaseException]] = []
    for (record, name, _), value in zip(waits, values, strict=True):
        if isinstance(value, BaseException):
            failed.append((record, name, value))
        elif value is UNSET:
            del resolved[record][name]
        else:
            resolved[record][name] = value
    return failed


def _check_presence(
    required: Collection[str],
    given: Sequence[Any],
    resolved: Sequence[Any],
    failed: list[tuple[int, str, BaseException]],
) -> None:
    """Refuse records that lack something that is required, unless there are other faults.

    Raises:
        BadRequest: With all that is missing.
    """
    fell: dict[tuple[int, str], BaseException] = {}
    for record, name, error in failed:
        if name in required and name not in given[record] and isinstance(error, _OVER_NOTHING):
            fell[record, name] = error
    if len(fell) < len(failed):
        return
    lacking = [
        (place, name)
        for place, record in enumerate(resolved)
        for name in required
        if isinstance(record, Mapping) and (name not in record or (place, name) in fell)
    ]
    if lacking:
        raise refusal([missing(name) for _, name in lacking]) from next(iter(fell.values()), None)


def _error_of(
    failed: Sequence[tuple[int, str, BaseException]], faults: tuple[type[Exception], ...]
) -> BaseException:
    """Return what to raise: what nobody expected first, else all faults of the first record."""
    for _, name, error in failed:
        if not isinstance(error, faults):
            error.add_note(f"raised by the resolver of the property {name!r}")
            return error
    first = min(record for record, _, _ in failed)
    raised = BadRequest("Error resolving data")
    raised.data = {name: _shown(error) for record, name, error in failed if record == first}
    raised.__cause__ = next(error for record, _, error in failed if record == first)
    return raised


def _shown(error: BaseException) -> dict[str, Any]:
    return error.to_dict() if isinstance(error, FrameworkError) else {"message": str(error)}
