"""What resolves one property: functions of several forms, each made callable in the same way."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from alula._user_code import name_of
from alula.hooks import factory_call, hook_factory
from alula.types import UNSET, Unset

__all__ = ["Call", "Virtual", "call_of", "hidden", "takes_value", "virtual"]

Call: TypeAlias = Callable[[Any, Any, Any], Any]
"""A property resolver as it is called: value, record, context."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def hidden() -> Unset:
    """Hide a property: the resolver of what must not leave.

    ``resolve({"password": hidden})``. It is known by its name: `with_schema` keeps such a property
    out of queries and out of descriptions, too.
    """
    return UNSET


class Virtual:
    """The resolver of a property that is computed without the value that may be there.

    Args:
        function: ``(record, context)``, or of fewer arguments.

    Attributes:
        function: As given.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


@hook_factory("virtual(function)")
def virtual(function: Callable[..., Any]) -> Virtual:
    """Return the resolver of a computed property; also as a decorator.

    In a result the property is in no record before. In data it is made by the server: nobody need
    send it, and what is sent does not count.

    Args:
        function: ``async def (record, context)``, or a plain function, or one of fewer arguments.
            Where a query has ``$select``, it is only called if its property is named there.
    """
    return Virtual(function)


def call_of(name: str, resolver: Any) -> Call:
    """Return a function of value, record and context that resolves a property.

    Args:
        name: The property, for messages.
        resolver: A function or what `virtual` returns.

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
        count = _count(name, call, ("record", "context"))
        return (
            lambda _value, record, context: call(record, context),
            lambda _value, record, _context: call(record),
            lambda _value, _record, _context: call(),
        )[2 - count]
    count = _count(name, resolver, ("value", "record", "context"))
    return (
        resolver,
        lambda value, record, _context: resolver(value, record),
        lambda value, _record, _context: resolver(value),
        lambda _value, _record, _context: resolver(),
    )[3 - count]


def _count(name: str, function: Any, offered: tuple[str, ...]) -> int:
    """Return how many of the arguments offered a function takes."""
    shape = f"a function of ({', '.join(offered)}) or of fewer of these"
    if not callable(function):
        raise TypeError(f"the resolver of {name!r} is {function!r}; expected {shape}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # built-in functions may have none: int, bool
        return 1
    count = _taken(signature, offered)
    try:
        signature.bind(*offered[:count])
    except TypeError:
        raise TypeError(
            f"the resolver of {name!r}, {name_of(function)}, takes {signature}; expected {shape}"
        ) from None
    return count


def _taken(signature: inspect.Signature, offered: tuple[str, ...]) -> int:
    """Return how many arguments to give.

    What has a default is the function's own affair (``def shorten(value, length=80)``), unless it
    bears the very name of what is offered in its place.
    """
    count = 0
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return len(offered)
        if count == len(offered) or parameter.kind not in _POSITIONAL:
            break
        if parameter.default is not parameter.empty and parameter.name != offered[count]:
            break
        count += 1
    return count


def takes_value(resolver: Any) -> bool:
    """Tell whether a resolver is given the value of its property, as its signature says."""
    if isinstance(resolver, Virtual):
        return False
    return _count("", resolver, ("value", "record", "context")) > 0
