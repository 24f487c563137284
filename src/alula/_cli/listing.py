"""What an application offers: its services, how their methods are called, and which hooks run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from alula._compose import name_of
from alula._service import ServiceHandle
from alula.types import STANDARD_METHODS

__all__ = [
    "DOCS_SETTING",
    "HookListing",
    "MethodListing",
    "ServiceListing",
    "is_process_local",
    "process_local_services",
    "services_of",
]

DOCS_SETTING: Final = "openapi docs"
"""The setting where `alula.openapi` keeps the address of its page."""

_REQUESTS: Final = {
    "find": ("GET", ""),
    "get": ("GET", "/:id"),
    "create": ("POST", ""),
    "update": ("PUT", "/:id"),
    "patch": ("PATCH", "/:id"),
    "remove": ("DELETE", "/:id"),
}


class HookListing(NamedTuple):
    """One hook of a method.

    Attributes:
        kind: ``around``, ``before``, ``after`` or ``error``.
        level: ``app`` or ``service``, whose hook it is.
        name: The name of the function.
    """

    kind: str
    level: str
    name: str


class MethodListing(NamedTuple):
    """One method of a service.

    Attributes:
        name: Its name.
        verb: The verb of the requests that call it, None where it is closed to the outside.
        path: Their path, None as before.
        header: The value of ``X-Service-Method`` where it is a custom method.
        hooks: The hooks in the order in which they run; around hooks begin there.
    """

    name: str
    verb: str | None
    path: str | None
    header: str | None
    hooks: list[HookListing]


class ServiceListing(NamedTuple):
    """One service.

    Attributes:
        path: Where it is.
        methods: What can be called, those first that are open to the outside.
    """

    path: str
    methods: list[MethodListing]

    @property
    def open(self) -> list[str]:
        """The names of the methods that are open to the outside."""
        return [method.name for method in self.methods if method.verb]


def services_of(app: Any) -> list[ServiceListing]:
    """Return the services of an application in the order of their registration."""
    return [
        ServiceListing(path, [_method(handle, name) for name in _names(handle)])
        for path, handle in app.services.items()
    ]


def process_local_services(app: Any) -> list[str]:
    """Return the paths of the services that say of themselves that they are `process_local`.

    Those of an application behind this one count too; one without services has none.
    """
    handles: dict[str, ServiceHandle] = getattr(app, "services", {})
    return [path for path, handle in handles.items() if is_process_local(handle)]


def is_process_local(service: Any) -> bool:
    """Tell whether a service, or the one behind a handle, keeps its records in one process."""
    while isinstance(service, ServiceHandle):
        service = service.service
    return getattr(service, "process_local", False) is True


def _names(handle: ServiceHandle) -> list[str]:
    """Return the methods in the order of the interface: open ones, then the others."""
    known = {name: at for at, name in enumerate(STANDARD_METHODS)}
    found = sorted(handle.hook_methods(), key=lambda name: known.get(name, len(known)))
    return sorted(found, key=lambda name: name not in handle.methods)


def _method(handle: ServiceHandle, name: str) -> MethodListing:
    hooks = list(_hooks(handle, name))
    if name not in handle.methods:
        return MethodListing(name, None, None, None, hooks)
    verb, rest = _REQUESTS.get(name, ("POST", ""))
    header = None if name in _REQUESTS else name
    return MethodListing(name, verb, f"/{handle.path}{rest}", header, hooks)


def _hooks(handle: ServiceHandle, method: str) -> Iterator[HookListing]:
    """Yield hooks as they run; those of an application behind this one run within."""
    tables = (("app", handle.app.hook_table), ("service", handle.hook_table))

    def named(kind: str, level: str, table: Any) -> list[HookListing]:
        return [HookListing(kind, level, name_of(hook)) for hook in table.of(kind, method)]

    for level, table in tables:
        yield from named("around", level, table)
        yield from named("before", level, table)
    if isinstance(handle.service, ServiceHandle):
        yield from _hooks(handle.service, method)
    for kind in ("after", "error"):
        for level, table in reversed(tables):
            yield from named(kind, level, table)
