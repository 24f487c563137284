"""A remote service, as an application registers it."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Any, Final, Protocol

from alula._context import Params
from alula.types import STANDARD_METHODS, Id

__all__ = ["RestService", "Transport"]


class Transport(Protocol):
    """What carries the calls of a service."""

    async def call(self, name: str, method: str, id: Any, data: Any, params: Params) -> Any:
        """Carry out a call and return its result."""
        ...

    def bind(self, *, synchronous: bool) -> None:
        """Serve a client of one kind."""
        ...

    async def close(self) -> None:
        """Close what was opened."""
        ...


_OWN: Final = frozenset({"connection", "custom_methods", "declare", "name", "request"})


class RestService:
    """A service on the other side of a connection; derive from it to change how it is called.

    Args:
        connection: What sends.
        name: Its path there; segments ``:name`` take their values from ``params.route``.

    Attributes:
        connection: As given.
        name: Without slashes at its ends.
        custom_methods: Names of the custom methods that it was given.
    """

    def __init__(self, connection: Transport, name: str) -> None:
        self.connection = connection
        self.name = name.strip("/")
        self.custom_methods: tuple[str, ...] = ()

    def declare(self, methods: Iterable[str]) -> None:
        """Give it custom methods, which are called by their names on the wire.

        Raises:
            ValueError: A name is taken.
        """
        for method in methods:
            if method in _OWN:
                raise ValueError(f"the service {self.name!r} lists `{method}`; that name is taken")
            if method not in STANDARD_METHODS and not hasattr(self, method):
                setattr(self, method, partial(self._custom, method))
                self.custom_methods += (method,)

    def request(self, method: str, id: Id, data: Any, params: Params) -> Awaitable[Any]:
        """Carry out any call; every method passes here.

        Raises:
            FrameworkError: What the server answers, or why there is no answer.
        """
        return self.connection.call(self.name, method, id, data, params)

    def find(self, params: Params) -> Awaitable[Any]:
        """Return what the query selects."""
        return self.request("find", None, None, params)

    def get(self, id: Id, params: Params) -> Awaitable[Any]:
        """Return one record."""
        return self.request("get", id, None, params)

    def create(self, data: Any, params: Params) -> Awaitable[Any]:
        """Create one record or several."""
        return self.request("create", None, data, params)

    def update(self, id: Id, data: Any, params: Params) -> Awaitable[Any]:
        """Replace a record."""
        return self.request("update", id, data, params)

    def patch(self, id: Id, data: Any, params: Params) -> Awaitable[Any]:
        """Merge data into a record, or into all that the query selects."""
        return self.request("patch", id, data, params)

    def remove(self, id: Id, params: Params) -> Awaitable[Any]:
        """Remove a record, or all that the query selects."""
        return self.request("remove", id, None, params)

    def _custom(self, method: str, data: Any, params: Params) -> Awaitable[Any]:
        return self.request(method, None, data, params)
