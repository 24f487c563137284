"""Lists what an application offers: its services, their methods and requests, and their hooks."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

from alula._identity import key_access
from alula._service import ServiceHandle, owning_handle
from alula._user_code import name_of
from alula.hooks import HookTable
from alula.types import STANDARD_METHODS

__all__ = [
    "HookListing",
    "MethodListing",
    "ServiceListing",
    "identifier_of",
    "is_process_local",
    "list_services",
    "process_local_services",
]

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
        level: Where it is registered: ``app`` or ``service``.
        name: The qualified name of the function.
    """

    kind: str
    level: str
    name: str


class MethodListing(NamedTuple):
    """One method of a service.

    Attributes:
        name: Its name.
        verb: The HTTP verb of its requests, None for a method that is closed to clients.
        path: The path of its requests, None as for ``verb``.
        header: The value of ``X-Service-Method``: of a custom method whose own path is that of
            another service. None for all others.
        hooks: The hooks in the order in which they run; an around hook is listed where it starts.
        scopes: The scopes that an API key needs; empty where no key is accepted.
    """

    name: str
    verb: str | None
    path: str | None
    header: str | None
    hooks: list[HookListing]
    scopes: list[str]


class ServiceListing(NamedTuple):
    """One service.

    Attributes:
        path: The path it is registered at.
        methods: Its methods, those open to clients first.
    """

    path: str
    methods: list[MethodListing]

    @property
    def open(self) -> list[str]:
        """The names of the methods that are open to clients."""
        return [method.name for method in self.methods if method.verb]


def list_services(services: Mapping[str, ServiceHandle]) -> list[ServiceListing]:
    """Return the services of an application in the order of their registration.

    Args:
        services: As ``app.services``: handles by path.
    """
    order = {name: position for position, name in enumerate(STANDARD_METHODS)}
    listings: list[ServiceListing] = []
    for path, handle in services.items():
        names = sorted(
            handle.hook_methods(),
            key=lambda name: (name not in handle.methods, order.get(name, len(order))),
        )
        methods: list[MethodListing] = []
        for name in names:
            hooks = list(_list_hooks(handle, name))
            if name in handle.methods:
                verb, rest = _REQUESTS.get(name, ("POST", f"/{name}"))
                header = name if name not in _REQUESTS and f"{path}{rest}" in services else None
                address = f"/{path}" if header else f"/{path}{rest}"
                keys = key_access(handle, name).scopes.values()
                scopes = [*dict.fromkeys(chain.from_iterable(keys))]
                methods.append(MethodListing(name, verb, address, header, hooks, scopes))
            else:
                methods.append(MethodListing(name, None, None, None, hooks, []))
        listings.append(ServiceListing(path, methods))
    return listings


def process_local_services(services: Mapping[str, ServiceHandle]) -> list[str]:
    """Return the paths of the services whose attribute `process_local` is true.

    Services of a mounted application are included.

    Args:
        services: As ``app.services``: handles by path.
    """
    return [path for path, handle in services.items() if is_process_local(handle)]


def is_process_local(handle: ServiceHandle) -> bool:
    """Tell whether the service behind a handle keeps its records in one process."""
    return getattr(owning_handle(handle).service, "process_local", False) is True


def identifier_of(path: str) -> str:
    """Return a Python identifier for a path: ``teams_team_tasks`` for ``teams/:team/tasks``."""
    name = "_".join(re.findall(r"\w+", path)) or "_"
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


def _list_hooks(handle: ServiceHandle, method: str) -> Iterator[HookListing]:
    """Yield hooks in the order in which they run; those of a mounted application run innermost."""
    tables = (("app", handle.app.hook_table), ("service", handle.hook_table))

    def listed(kind: str, level: str, table: HookTable) -> list[HookListing]:
        return [HookListing(kind, level, name_of(hook)) for hook in table.of(kind, method)]

    for level, table in tables:
        yield from listed("around", level, table)
        yield from listed("before", level, table)
    if isinstance(handle.service, ServiceHandle):
        yield from _list_hooks(handle.service, method)
    # These run from the innermost hook to the outermost.
    for kind in ("after", "error"):
        for level, table in reversed(tables):
            yield from listed(kind, level, table)
