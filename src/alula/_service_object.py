"""What an object needs to be a service: methods that fit, and names that are free."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Any, Final

from alula.types import STANDARD_METHODS

__all__ = ["check_object", "custom_events_of", "read_names"]

_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "find": ("params",),
    "get": ("id", "params"),
    "create": ("data", "params"),
    "update": ("id", "data", "params"),
    "patch": ("id", "data", "params"),
    "remove": ("id", "params"),
    "setup": ("app", "path"),
    "teardown": ("app", "path"),
}
_ARGUMENTS_OF_CUSTOM: Final = ("data", "params")

# Names that no custom method can have, beside those of the handle's own methods.
_TAKEN: Final = frozenset(
    {"all", "app", "events", "hook_table", "methods", "path", "record_schema"}
    | {"secret_ids", "service", "setup", "teardown"}
)


def check_object(
    path: str, service: object, methods: Collection[str] | None, taken: Collection[str]
) -> tuple[str, ...]:
    """Return the standard methods that an object has.

    Args:
        path: Where it is registered, for messages.
        service: The object.
        methods: The methods that are listed, None for none.
        taken: Names that no custom method can have.

    Raises:
        TypeError: The object cannot be a service, or a method takes other arguments.
        ValueError: A listed method does not exist, or its name is taken.
    """
    if isinstance(service, type):
        raise TypeError(
            f"the service at {path!r} is the class {service.__name__}; register an instance:"
            f" {service.__name__}()"
        )
    if service is None or isinstance(service, Mapping | Sequence | Set):
        raise TypeError(
            f"the service at {path!r} is {service!r}; a service is an object with methods"
        )
    if _takes_requests(type(service)):
        raise TypeError(
            f"the object at {path!r} ({type(service).__name__}) takes requests itself, and is no"
            " service; mount it on the web application: express(app).use(path, it)"
        )
    found = tuple(name for name in STANDARD_METHODS if _has(service, name))
    for name in methods or ():
        check_custom_name(path, name, taken)
        if not _has(service, name):
            raise ValueError(
                f"the service at {path!r} lists the method `{name}`, but {type(service).__name__}"
                " has none of that name"
            )
    if not found and not methods:
        raise TypeError(
            f"the object at {path!r} ({type(service).__name__}) has no service method;"
            f" define one of {', '.join(STANDARD_METHODS)},"
            " or list custom ones: use(path, service, methods=[...])"
        )
    for name in dict.fromkeys((*found, *(methods or ()), "setup", "teardown")):
        _check_arguments(path, service, name)
    return found


def check_custom_name(path: str, name: str, taken: Collection[str]) -> None:
    """Refuse a custom method whose name is taken.

    Raises:
        ValueError: It is.
    """
    if name not in STANDARD_METHODS and (name.startswith("_") or name in _TAKEN or name in taken):
        raise ValueError(f"the service at {path!r} lists `{name}`; that name is Alula's own")


def _check_arguments(path: str, service: object, name: str) -> None:
    """See to it that a method takes what it will be called with."""
    method: Any = getattr(service, name, None)
    if not callable(method):
        return
    wanted = _ARGUMENTS.get(name, _ARGUMENTS_OF_CUSTOM)
    define = f"define it as `async def {name}({', '.join(('self', *wanted))})`"
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        raise TypeError(
            f"`{name}` of the service at {path!r} yields; return a list of the records instead"
        )
    try:
        signature = inspect.signature(method)
    except (ValueError, TypeError):  # built-in functions may have none to look at
        return
    try:
        signature.bind(*wanted)
    except TypeError:
        raise TypeError(
            f"`{name}` of the service at {path!r} takes {signature}, but is called with"
            f" ({', '.join(wanted)}); {define}"
        ) from None


def _takes_requests(kind: type) -> bool:
    """Tell whether these are routers or applications of the web, which have a ``get`` as well."""
    if all(callable(getattr(kind, name, None)) for name in ("use", "handle")):
        return True
    call: Any = getattr(kind, "__call__", None)  # noqa: B004 - its parameters are wanted
    return inspect.isfunction(call) and "scope" in inspect.signature(call).parameters


def _has(service: object, name: str) -> bool:
    return callable(getattr(service, name, None))


def read_names(kind: str, path: str, names: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return names that were listed, None where none were.

    Raises:
        TypeError: They are one string, or not names.
    """
    if isinstance(names, str):
        raise TypeError(f"{kind} of the service at {path!r} is a string; give a list: [{names!r}]")
    listed = None if names is None else tuple(names)
    if not all(isinstance(name, str) for name in listed or ()):
        raise TypeError(f"{kind} of the service at {path!r} are names, not {listed!r}")
    return listed


def custom_events_of(service: object) -> tuple[str, ...]:
    """Return the custom events that a service names itself; ``events`` may be anything else too."""
    events = getattr(service, "events", None)
    names = events if isinstance(events, list | tuple) else ()
    return tuple(name for name in names if isinstance(name, str))
