"""What resolves one property: functions of several forms, each made callable in the same way."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from alula.compose import name_of
from alula.types import UNSET

__all__ = ["Call", "Virtual", "call_of", "hides_always", "needs_value", "virtual"]

Call: TypeAlias = Callable[[Any, Any, Any], Any]
"""A property resolver as it is called: value, record, context."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_IDLE = frozenset({"CACHE", "COPY_FREE_VARS", "NOP", "RESUME"})
_VARIABLES = frozenset({*dis.haslocal, *dis.hasfree})


class Virtual:
    """The resolver of a property that no record has before it is resolved.

    Args:
        function: ``(record, context)``, or of fewer arguments.

    Attributes:
        function: As given.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


def virtual(function: Callable[..., Any]) -> Virtual:
    """Return the resolver of a computed property; also as a decorator.

    Args:
        function: ``async def (record, context)``, or a plain function, or one of fewer arguments.
            Where a query has ``$select``, it is only called if its property is named there.
    """
    return Virtual(function)


def call_of(name: str, resolver: Any) -> Call:
    """Return a function of value, record and context that resolves a property.

    A coroutine function that never waits for anything is run at once, as a plain one is: a page
    of records then costs no task.

    Args:
        name: The property, for messages.
        resolver: A function or what `virtual` returns.

    Raises:
        TypeError: It is no function, or needs more arguments than there are.
    """
    if isinstance(resolver, Virtual):
        call, count = _prepare(name, resolver.function, ("record", "context"))
        return (
            lambda _value, record, context: call(record, context),
            lambda _value, record, _context: call(record),
            lambda _value, _record, _context: call(),
        )[2 - count]
    call, count = _prepare(name, resolver, ("value", "record", "context"))
    return (
        call,
        lambda value, record, _context: call(value, record),
        lambda value, _record, _context: call(value),
        lambda _value, _record, _context: call(),
    )[3 - count]


def _prepare(name: str, function: Any, offered: tuple[str, ...]) -> tuple[Callable[..., Any], int]:
    """Return the function, and how many of the arguments offered it takes."""
    shape = f"a function of ({', '.join(offered)}) or of fewer of these"
    if not callable(function):
        raise TypeError(f"the resolver of {name!r} is {function!r}; expected {shape}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # built-in functions may have none: int, bool
        return function, 1
    count = _taken(signature, offered)
    try:
        signature.bind(*offered[:count])
    except TypeError:
        raise TypeError(
            f"the resolver of {name!r}, {name_of(function)}, takes {signature}; expected {shape}"
        ) from None
    return (_run_at_once(function) if _never_waits(function) else function), count


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


def _never_waits(function: Any) -> bool:
    """Tell whether a coroutine function has no ``await`` at all, so that it can not be suspended.

    The interpreter says so: every way of waiting needs its instruction SEND.
    """
    code = getattr(function, "__code__", None)
    if code is None or not code.co_flags & inspect.CO_COROUTINE:
        return False
    return all(instruction.opname != "SEND" for instruction in dis.get_instructions(code))


def needs_value(resolver: Any) -> bool:
    """Tell whether a resolver makes something of the value of its property.

    One that only takes it to get at the record or the context, and never reads it, does not.
    """
    if isinstance(resolver, Virtual):
        return False
    code = getattr(resolver, "__code__", None)
    if code is None:
        return True
    place = int(inspect.ismethod(resolver))
    if code.co_argcount <= place:
        return bool(code.co_flags & inspect.CO_VARARGS)
    name = code.co_varnames[place]
    return any(_names(each, name) for each in dis.get_instructions(code))


def hides_always(resolver: Any) -> bool:
    """Tell whether a resolver is a function that does nothing but return `UNSET`."""
    code = getattr(resolver, "__code__", None)
    if code is None or code.co_flags & inspect.CO_COROUTINE:
        return False
    found = [each for each in dis.get_instructions(code) if each.opname not in _IDLE]
    if [each.opname for each in found] != ["LOAD_GLOBAL", "RETURN_VALUE"]:
        return False
    return resolver.__globals__.get(found[0].argval) is UNSET


def _names(instruction: dis.Instruction, name: str) -> bool:
    """Tell whether an instruction is about a variable; some are about two at once."""
    about = instruction.argval
    return instruction.opcode in _VARIABLES and name in (about if type(about) is tuple else [about])


def _run_at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        try:
            function(*values).send(None)
        except StopIteration as stop:
            return stop.value

    return call
