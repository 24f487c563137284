"""The object behind a service: what it must have, hooks it may bring, and its setup."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence, Set
from contextvars import ContextVar
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    TypeAlias,
    runtime_checkable,
)

from alula._context import HookContext, Params
from alula._declared import Declared, read_declared
from alula._user_code import unfit_signature
from alula.errors import BadRequest
from alula.types import STANDARD_METHODS, RecordType, is_array

__all__ = [
    "REPLACES_SEVERAL",
    "DeferredSetup",
    "Method",
    "RecordFields",
    "RelatedService",
    "ServiceBundle",
    "check_mounted",
    "check_multi",
    "check_object",
    "check_takes_no_requests",
    "custom_events_of",
    "multi_check",
    "read_names",
]

REPLACES_SEVERAL: Final = "You can not replace multiple instances. Did you mean 'patch'?"
"""FeathersJS' text for an `update` of several records."""

Method: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
ByMethod: TypeAlias = Mapping[str, Sequence[Callable[..., Any]]]

_log: Final = logging.getLogger("alula")

_NO_HOOKS: Final[ByMethod] = MappingProxyType({})

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
_PLACEHOLDER: Final = re.compile(r"(?<![^/]):([^/]+)")  # a whole segment; "a:b" is plain text
_ARGUMENTS_OF_CUSTOM: Final = ("data", "params")

# Attributes of handles, which custom methods would hide.
_RESERVED: Final = frozenset(
    {
        "all",
        "app",
        "declared",
        "events",
        "hook_table",
        "methods",
        "path",
        "record_schema",
        "related_names",
        "streaming",
    }
    | {"emitted_by_service", "publishers", "secret_ids"}
    | {"service", "setup", "teardown"}
)


class ServiceBundle(Generic[RecordType]):
    """A service with hooks of its own, for ``use``; `alula.schema.with_schema` returns one.

    Its hooks are registered before all others of the service. ``app.service(path).service`` is
    the service itself.

    Args:
        service: The service.
        hooks: Hooks as one mapping, as `Hookable.hooks` takes it.
        schema: The JSON Schema of its records, for descriptions of the API.
        first: Before hooks by method that run before all other before hooks of the service. They
            may depend on the caller, so ``authenticate`` and the hooks registered before it
            precede them.
        last: Before hooks by method that run after all other before hooks.
        outermost: Around hooks by method that run outside all others, those of applications and of
            their mounts included.

    Attributes:
        service: As given.
        hooks: As given.
        schema: As given.
        first: As given.
        last: As given.
        outermost: As given.
    """

    def __init__(
        self,
        service: Any,
        hooks: Mapping[str, Any],
        schema: Any = None,
        *,
        first: ByMethod = _NO_HOOKS,
        last: ByMethod = _NO_HOOKS,
        outermost: ByMethod = _NO_HOOKS,
    ) -> None:
        self.service = service
        self.hooks = hooks
        self.schema = schema
        self.first = first
        self.last = last
        self.outermost = outermost

    def __repr__(self) -> str:
        return f"with_schema({type(self.service).__name__}(), ...)"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"{self!r} has no {name!r}: it is called where it is registered:"
                f" app.use(path, service), then app.service(path).{name}",
                name=name,
            )


class RecordFields(NamedTuple):
    """What a schema says about the records that a service stores.

    Attributes:
        stored: The properties that the schema wants stored.
        given: All properties that a new record can have, None if it can have any.
    """

    stored: Collection[str]
    given: Collection[str] | None


@runtime_checkable
class RelatedService(Protocol):
    """A service whose queries may name what belongs to other services.

    Attributes:
        related_names: ``$include``, and properties of related records such as ``author.name``. The
            service checks them itself, so schemas of its own records do not know them.
    """

    related_names: frozenset[str]


def check_multi(context: HookContext) -> None:
    """Refuse a list as data where the service would, before hooks work on each of its records.

    Services without a method `check_multi` decide by themselves, later.

    Raises:
        BadRequest: It is the list of an `update` or a `patch`, which takes an object.
        MethodNotAllowed: The service does not accept lists for this method.
    """
    check = multi_check(context.service.service)
    if check is None:
        return
    method = context.method
    if method not in {"update", "patch"} or not is_array(context.data):
        check(method, context.params)
        return
    if context.id is None and method == "patch":
        check(method, context.params)
    if method == "update":
        raise BadRequest(REPLACES_SEVERAL)
    raise BadRequest("The data of patch must be an object, not a list")


def multi_check(service: object) -> Callable[[str, Params], object] | None:
    """Return the method `check_multi` of a service whose standard methods may have several records.

    It takes the name of a method and the params of a call, and raises `MethodNotAllowed` if the
    options of the call do not allow several records. None for services without it, which are not
    adapters.
    """
    # Not by a protocol and isinstance, which takes 7 microseconds.
    check: Any = getattr(service, "check_multi", None)
    return check if callable(check) else None


class Mountable(Protocol):
    """A handle of another application, as its calls need it.

    Attributes:
        app: The other application.
        path: The path of the service there.
    """

    app: Any
    path: str

    def run(self, context: HookContext) -> Coroutine[Any, Any, None]:
        """Run a call whose context is made."""
        ...

    def hook_methods(self) -> Collection[str]:
        """Return the names of its methods."""
        ...


def check_mounted(path: str, handle: Mountable, methods: Collection[str] | None) -> tuple[str, ...]:
    """Return the standard methods that a handle of another application has.

    Raises:
        ValueError: A listed method does not exist.
    """
    existing = handle.hook_methods()
    for name in methods or ():
        if name not in existing:
            raise ValueError(
                f"the service at {path!r} lists the method `{name}`, but {handle!r} has"
                " none of that name"
            )
    return tuple(name for name in STANDARD_METHODS if name in existing)


def check_takes_no_requests(path: str, service: object) -> None:
    """Refuse what has middleware and routes, which a call of a service would leave out.

    Args:
        path: Where it is registered, for the message.
        service: The object.

    Raises:
        TypeError: It is a router, or the application of a web framework.
    """
    # Routers and web applications have a `get` as well; those of others are ASGI callables.
    type_: Any = type(service)
    is_router = all(callable(getattr(type_, name, None)) for name in ("use", "handle"))
    call: Any = getattr(type_, "__call__", None)  # noqa: B004  # its parameters are wanted
    is_asgi = inspect.isfunction(call) and "scope" in inspect.signature(call).parameters
    if is_router or is_asgi:
        raise TypeError(
            f"the object at {path!r} ({type_.__name__}) takes requests itself, so it is not a"
            " service; mount it on the web application: express(app).use(path, it)"
        )


def check_object(
    path: str, service: object, methods: Collection[str] | None, reserved: Collection[str]
) -> tuple[tuple[str, ...], dict[str, Declared]]:
    """Return the standard methods that an object has, and what its methods declare.

    Args:
        path: Where it is registered, for messages.
        service: The object.
        methods: The methods that are listed, None without a list.
        reserved: Names that no custom method can have.

    Raises:
        TypeError: The object cannot be a service, or a method takes other arguments.
        ValueError: A listed method does not exist, or its name is reserved.
    """
    type_name = type(service).__name__
    if isinstance(service, type):
        raise TypeError(
            f"the service at {path!r} is the class {service.__name__}; register an instance:"
            f" {service.__name__}()"
        )
    if service is None or isinstance(service, Mapping | Sequence | Set):
        raise TypeError(
            f"the service at {path!r} is {service!r}; a service is an object with methods"
        )
    check_takes_no_requests(path, service)
    standard = tuple(name for name in STANDARD_METHODS if callable(getattr(service, name, None)))
    for name in methods or ():
        is_reserved = name.startswith("_") or name in _RESERVED or name in reserved
        if name not in STANDARD_METHODS and is_reserved:
            raise ValueError(f"the service at {path!r} lists `{name}`; that name is Alula's own")
        if not callable(getattr(service, name, None)):
            raise ValueError(
                f"the service at {path!r} lists the method `{name}`, but {type_name} has none of"
                " that name"
            )
    if not standard and not methods:
        raise TypeError(
            f"the object at {path!r} ({type_name}) has no service method;"
            f" define one of {', '.join(STANDARD_METHODS)},"
            " or list custom ones: use(path, service, methods=[...])"
        )
    placeholders = _PLACEHOLDER.findall(path)
    declared: dict[str, Declared] = {}
    for name in dict.fromkeys((*standard, *(methods or ()), "setup", "teardown")):
        method: Any = getattr(service, name, None)
        if callable(method):
            arguments = _ARGUMENTS.get(name, _ARGUMENTS_OF_CUSTOM)
            _check_arguments(path, name, method, arguments)
            where = f"`{name}` of the service at {path!r}"
            read = "params" in arguments and read_declared(where, method, arguments, placeholders)
            if read:
                declared[name] = read
    return standard, declared


def _check_arguments(
    path: str, name: str, method: Callable[..., object], arguments: Sequence[str]
) -> None:
    """Check that a method takes the arguments that it is called with."""
    if inspect.isgeneratorfunction(method):
        raise TypeError(
            f"`{name}` of the service at {path!r} yields; make it `async def` to stream what it"
            " yields, or return a list"
        )
    if inspect.isasyncgenfunction(method) and "params" not in arguments:
        raise TypeError(f"`{name}` of the service at {path!r} yields, but it has no result")
    if (
        signature := unfit_signature(method, *arguments, keywords="params" in arguments)
    ) is not None:
        raise TypeError(
            f"`{name}` of the service at {path!r} takes {signature}, but is called with"
            f" ({', '.join(arguments)}); define it as"
            f" `async def {name}({', '.join(('self', *arguments))})`"
        )


def read_names(what: str, path: str, names: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return listed names of methods or events, None without a list.

    Raises:
        TypeError: They are one string, or not strings.
    """
    if isinstance(names, str):
        raise TypeError(f"{what} of the service at {path!r} is a string; give a list: [{names!r}]")
    listed = None if names is None else tuple(names)
    if not all(isinstance(name, str) for name in listed or ()):
        raise TypeError(f"{what} of the service at {path!r} are names, not {listed!r}")
    return listed


def custom_events_of(service: object) -> tuple[str, ...]:
    """Return the names in the attribute ``events`` of a service, which may be anything."""
    events = getattr(service, "events", None)
    names = events if is_array(events) else ()
    return tuple(name for name in names if isinstance(name, str))


# The setups that run in this context: calls of a setup to its own service must not wait for it.
_inside: Final[ContextVar[tuple[DeferredSetup, ...]]] = ContextVar("inside", default=())


class DeferredSetup:
    """A setup that calls wait for. If it fails, the next call tries again.

    Args:
        name: Whose setup it is, for the log.
        setup: The coroutine function.
        run_in_background: Starts a task with a name.
    """

    def __init__(
        self,
        name: str,
        setup: Callable[[], Coroutine[Any, Any, None]],
        run_in_background: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
    ) -> None:
        self._name = name
        self._setup = setup
        self._run_in_background = run_in_background
        self._task: asyncio.Task[None] | None = None
        self._succeeded = False

    def begin(self) -> asyncio.Task[None]:
        """Return the task of the setup; a new one if there is none or it failed."""

        async def run() -> None:
            _inside.set((*_inside.get(), self))
            try:
                await self._setup()
            except Exception:
                _log.exception(
                    "%s, registered late, failed to set up; a call tries again", self._name
                )
                raise
            self._succeeded = True

        if self._task is None or (self._task.done() and not self._succeeded):
            self._task = self._run_in_background(run(), f"the set-up of {self._name}")
            # Retrieves the exception: it is in the log already, and asyncio would report it again.
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._task

    async def wait(self) -> None:
        """Wait until it succeeded. Cancelling a caller does not stop it.

        Raises:
            Exception: Any that the setup raises.
            RuntimeError: It was cancelled; the caller was not.
        """
        if self in _inside.get():
            return
        task = self.begin()
        # Not `await task`: a caller that is cancelled would cancel the setup that others wait for.
        await asyncio.wait([task])
        if task.cancelled():  # its CancelledError would look as if the caller were cancelled
            raise RuntimeError(f"the set-up of {self._name} was cancelled; a call tries again")
        task.result()
