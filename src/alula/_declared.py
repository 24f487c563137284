"""What the methods of a service declare by their annotations, read once when it is registered.

The annotations say what a method gets and what its clients get. Calls check by them, and all
descriptions show them. Simple ids need no library; other types need Pydantic, of the extra
``schema``, whose room is above this one: `checks_by` tells where the checks come from.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from alula.errors import FrameworkError, MethodNotAllowed, NotFound
from alula.types import UNSET, Page

__all__ = [
    "NO_CHECKS",
    "Checks",
    "Declared",
    "Parameter",
    "answers",
    "checks_by",
    "checks_of",
    "read_declared",
]

Function = TypeVar("Function", bound=Callable[..., Any])
Convert: TypeAlias = Callable[[Any], Any]

_ANSWERS: Final = "__alula_answers__"
_INTEGER: Final = re.compile(r"-?[0-9]{1,100}")
_NONE: Final = type(None)
_OPEN_TYPES: Final[tuple[object, ...]] = (Any, object, inspect.Parameter.empty, UNSET)
_CONTAINERS: Final[tuple[object, ...]] = (
    dict,
    list,
    tuple,
    Page,
    collections.abc.Mapping,
    collections.abc.MutableMapping,
    collections.abc.Sequence,
)
_STREAMS: Final[tuple[object, ...]] = (
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterable,
    collections.abc.AsyncIterator,
)
_AWAITED: Final[tuple[object, ...]] = (collections.abc.Awaitable, collections.abc.Coroutine)


class Parameter(NamedTuple):
    """A keyword-only parameter of a method.

    Attributes:
        name: Its name.
        type: Its annotation.
        default: Its default, `UNSET` if it is required.
    """

    name: str
    type: Any
    default: Any = UNSET


@dataclass(frozen=True)
class Declared:
    """What a method declares; `UNSET` stands for what it leaves open.

    Attributes:
        where: The method and its service, for messages.
        id: The type of the id.
        data: The type of the data.
        query: The type of the whole query.
        parameters: The parameters of the query.
        route: The parameters that are placeholders of the path.
        result: The type of the result; of a method that streams, that of each item.
        status: The status of a response.
        errors: Errors that clients may get.
        streams: Whether it streams: its result is the items one by one.
    """

    where: str
    id: Any = UNSET
    data: Any = UNSET
    query: Any = UNSET
    parameters: tuple[Parameter, ...] = ()
    route: tuple[Parameter, ...] = ()
    result: Any = UNSET
    status: int | None = None
    errors: tuple[type[FrameworkError], ...] = ()
    streams: bool = False

    @property
    def has_query(self) -> bool:
        """Whether it declares its query, which is closed then."""
        return bool(self.parameters) or self.query is not UNSET


class Checks(NamedTuple):
    """The functions that check and convert for one method; None where nothing is declared.

    Attributes:
        id: Converts an id.
        data: Takes data as it was sent, and whether it is of a client; returns what the method
            gets.
        shown_data: Takes what the method gets; returns it as hooks see it.
        query: Takes a query as it was sent; returns the values for ``params.query``, and the
            keywords for the method.
        known_query: Reduces a query to what the method declares, since hooks may add to it.
        route: Takes the values of placeholders; returns keywords for the method.
        result: Cuts a result to its type, or each item of a stream.
        status: The status of a response.
        streams: Whether the method streams.
    """

    id: Convert | None = None
    data: Callable[[Any, bool], Any] | None = None
    shown_data: Convert | None = None
    query: Callable[[Mapping[str, Any]], tuple[dict[str, Any], dict[str, Any]]] | None = None
    known_query: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    route: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    result: Convert | None = None
    status: int | None = None
    streams: bool = False


NO_CHECKS: Final = Checks()

_makers: Final[list[Callable[[Declared], Checks]]] = []


def checks_by(maker: Callable[[Declared], Checks]) -> None:
    """Set the function that makes the checks of declared types."""
    _makers[:] = [maker]


class _Answers(NamedTuple):
    status: int | None
    errors: tuple[type[FrameworkError], ...]


def answers(
    status: int | None = None, *, errors: Iterable[type[FrameworkError]] = ()
) -> Callable[[Function], Function]:
    """Return a decorator for a method of a service: the status and the errors of its responses.

    The status is for results. A hook that sets ``context.http`` has the last word. Errors are for
    descriptions of the API alone: a method may raise any.

    Examples:
        >>> from alula import answers
        >>> from alula.errors import Conflict
        >>> class Payments:
        ...     @answers(202, errors=[Conflict])
        ...     async def create(self, data: dict[str, int], params): ...

    Args:
        status: The status of a result, from 200 to 299.
        errors: Classes of `alula.errors`.

    Raises:
        TypeError: It is not a status of a success, or an error is not such a class.
    """
    listed = tuple(errors)
    is_status = isinstance(status, int) and not isinstance(status, bool) and 200 <= status < 300
    if status is not None and not is_status:
        raise TypeError(f"answers({status!r}): the status of a result is a number from 200 to 299")
    for error in listed:
        if not (isinstance(error, type) and issubclass(error, FrameworkError)):
            raise TypeError(f"answers(errors=...) takes classes of alula.errors, not {error!r}")

    def decorate(function: Function) -> Function:
        setattr(function, _ANSWERS, _Answers(status, listed))
        return function

    return decorate


# -- reading ---------------------------------------------------------------------------------------


def read_declared(
    where: str,
    method: Callable[..., object],
    arguments: Sequence[str],
    placeholders: Collection[str],
) -> Declared | None:
    """Return what a method declares, None for nothing.

    Args:
        where: The method and its service, for messages.
        method: The method.
        arguments: What its positional arguments are: ``id``, ``data``, ``params``.
        placeholders: The placeholders in the path of the service.

    Raises:
        TypeError: An annotation cannot be resolved, or parameters contradict each other.
    """
    function = _function_of(method)
    # Methods of Alula itself, such as those of adapters, have annotations for type checkers.
    if str(getattr(function, "__module__", "")).startswith("alula."):
        return None
    signature = _signature_of(method)
    if signature is None:
        return None
    positional = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
    ]
    found: dict[str, Any] = {}
    for role, parameter in zip(arguments, positional, strict=False):
        if role != "params":
            found[role] = _resolved(parameter.annotation, parameter.name, function, where)
    query, parameters, route = _read_keywords(signature, function, where, placeholders)
    result = _resolved(signature.return_annotation, "return", function, where)
    while typing.get_origin(result) in _AWAITED:
        result = typing.get_args(result)[-1]
    streams, result = _read_items(result, method, where)
    answer: _Answers = getattr(function, _ANSWERS, _Answers(None, ()))
    found["result"] = result
    declared = Declared(
        where,
        **{name: type_ for name, type_ in found.items() if not _is_open(type_)},
        query=query,
        parameters=parameters,
        route=route,
        status=answer.status,
        errors=answer.errors,
        streams=streams,
    )
    return None if declared == Declared(where) else declared


def _read_items(result: Any, method: Any, where: str) -> tuple[bool, Any]:
    """Return whether a method streams, and the type of its items; otherwise that of its result."""
    if result in _STREAMS:
        return True, UNSET
    if typing.get_origin(result) in _STREAMS:
        return True, (*typing.get_args(result), UNSET)[0]
    if not _yields(method):
        return False, result
    if not _is_open(result):
        raise TypeError(
            f"{where} yields, so its type is that of a stream of items:"
            f" AsyncIterator[{getattr(result, '__name__', result)}]"
        )
    return True, UNSET


def _yields(method: Any) -> bool:
    """Tell whether a method is an asynchronous generator."""
    call: Any = getattr(method, "__call__", None)  # noqa: B004  # of an object, it may be one
    return inspect.isasyncgenfunction(method) or inspect.isasyncgenfunction(call)


def _read_keywords(
    signature: inspect.Signature,
    function: Any,
    where: str,
    placeholders: Collection[str],
) -> tuple[Any, tuple[Parameter, ...], tuple[Parameter, ...]]:
    """Return the type of the whole query, its parameters, and those that are placeholders."""
    query: Any = UNSET
    parameters: list[Parameter] = []
    route: list[Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.kind is not parameter.KEYWORD_ONLY:
            continue
        name, is_required = parameter.name, parameter.default is parameter.empty
        if parameter.annotation is parameter.empty:
            # With a default, it is a matter of the service itself.
            if is_required:
                raise TypeError(f"{where}: the parameter {name!r} needs a type: `{name}: str`")
            continue
        type_ = _resolved(parameter.annotation, name, function, where)
        if name == "query" and name not in placeholders:
            query = type_
            continue
        read = Parameter(name, type_, UNSET if is_required else parameter.default)
        (route if name in placeholders else parameters).append(read)
    if query is not UNSET and parameters:
        raise TypeError(
            f"{where}: `query` is the whole query, so {parameters[0].name!r} cannot be beside it;"
            " make it a field of the type of `query`"
        )
    return query, tuple(parameters), tuple(route)


def _function_of(method: Any) -> Any:
    """Return the function behind a method, a partial, a decorator or a callable object."""
    while isinstance(method, functools.partial):
        method = method.func
    method = inspect.unwrap(method)
    if not hasattr(method, "__code__") and not hasattr(method, "__func__"):
        method = getattr(method, "__call__", method)  # noqa: B004  # its annotations are wanted
    return getattr(method, "__func__", method)


def _signature_of(method: Callable[..., object]) -> inspect.Signature | None:
    """Return the signature of a method, None for a built-in one without any."""
    try:
        return inspect.signature(method)
    except (ValueError, TypeError):
        return None


def _resolved(annotation: Any, name: str, function: Any, where: str) -> Any:
    """Return the type that an annotation means."""
    if annotation is inspect.Parameter.empty:
        return UNSET

    def holder() -> None: ...

    holder.__annotations__ = {name: annotation}
    names: dict[str, Any] = getattr(function, "__globals__", {})
    try:
        return typing.get_type_hints(holder, names, include_extras=True)[name]
    except Exception as error:
        raise TypeError(
            f"{where}: the annotation of {name!r} cannot be resolved: {error}; annotations have to"
            " name what exists at run time in the module of the service"
        ) from error


def _is_open(type_: Any) -> bool:
    """Tell whether a type says nothing that could be checked."""
    if any(type_ is each for each in _OPEN_TYPES) or isinstance(type_, TypeVar):
        return True
    if type_ in _CONTAINERS:
        return True
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if origin in {typing.Union, types.UnionType}:
        return all(each is _NONE or _is_open(each) for each in arguments) or Any in arguments
    if origin in _CONTAINERS:
        return all(each is str or each is ... or _is_open(each) for each in arguments) and (
            _is_open(arguments[-1]) or arguments[-1] is ...
        )
    return False


# -- checks ----------------------------------------------------------------------------------------


def checks_of(declared: Declared) -> Checks:
    """Return what checks the calls of a method.

    Raises:
        TypeError: The library for types is not installed, or does not know a type.
    """
    simple_id = _reader_of_ids(declared.id)
    is_simple = (
        declared.data is UNSET
        and declared.result in (UNSET, _NONE)
        and not declared.has_query
        and not declared.route
        and (simple_id is not None or declared.id is UNSET)
    )
    checks = NO_CHECKS if is_simple else _makers[0](declared)
    if simple_id is not None:
        checks = checks._replace(id=simple_id)
    if declared.result is _NONE:
        checks = checks._replace(result=functools.partial(_no_result, declared.where))
    return checks._replace(status=declared.status, streams=declared.streams)


def _reader_of_ids(type_: Any) -> Convert | None:
    """Return what converts ids to a simple type, None for other types."""
    if type_ is _NONE:
        return _no_id
    convert = _SIMPLE_IDS.get(type_) if isinstance(type_, type) else None
    if convert is None:
        return None

    def read(id: Any) -> Any:
        if type(id) is type_:
            return id
        if id is None:
            raise MethodNotAllowed("This method needs an id")
        try:
            return convert(id)
        except (ArithmeticError, AttributeError, TypeError, ValueError):
            raise NotFound(f"No record found for id '{id}'") from None

    return read


def _no_result(where: str, result: Any) -> None:
    if result is not None:
        raise TypeError(
            f"{where}: the result is not None; return what the annotation says, or change the"
            " annotation"
        )


def _no_id(id: Any) -> None:
    if id is not None:
        raise MethodNotAllowed("This method takes no id")


def _integer(value: Any) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value == int(value):
        return int(value)
    raise ValueError(value)


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float | UUID):
        raise TypeError(value)
    return str(value)


_SIMPLE_IDS: Final[Mapping[type, Convert]] = {int: _integer, str: _text, UUID: UUID}
