"""ASGI applications that are served below a path, before any middleware: transports."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from starlette.types import ASGIApp

from alula.express._request import split_path

__all__ = ["Endpoints"]


class _Endpoint(NamedTuple):
    prefix: str  # with a slash at its end
    app: ASGIApp


class Endpoints:
    """The endpoints of an application, and of those that are mounted in it.

    Attributes:
        is_used: Whether there may be any; most applications have none, and need not look.
    """

    def __init__(self) -> None:
        self.is_used = False
        self._endpoints: list[_Endpoint] = []
        self._mounted: list[tuple[str, Endpoints]] = []
        self._closing: list[Callable[[], object]] = []

    def add_closing(self, closing: Callable[[], object]) -> None:
        """Call a function when a server begins to stop: it ends responses that take long."""
        self._closing.append(closing)

    def add(self, prefix: str, app: ASGIApp, closing: Callable[[], object] | None) -> None:
        """Serve an ASGI application below a path.

        Raises:
            ValueError: The path does not start with a slash, or another endpoint has it, a part of
                it, or a path around it.
        """
        if not prefix.startswith("/"):
            raise ValueError(f"the endpoint {prefix!r} must start with a slash")
        prefix = prefix.rstrip("/") + "/"
        for endpoint in self._endpoints:
            if prefix.startswith(endpoint.prefix) or endpoint.prefix.startswith(prefix):
                raise ValueError(
                    f"there is an endpoint at {endpoint.prefix!r} already, so {prefix!r} is taken;"
                    " give another path"
                )
        self.is_used = True
        self._endpoints.append(_Endpoint(prefix, app))
        if closing is not None:
            self._closing.append(closing)

    def mount(self, path: str, endpoints: Endpoints) -> None:
        """Serve the endpoints of another application below a path as well."""
        self.is_used = True
        self._mounted.append((path.rstrip("/"), endpoints))

    def find(self, scope: MutableMapping[str, Any]) -> ASGIApp | None:
        """Return the endpoint of a request or a websocket, None if it is for another part."""
        if scope["type"] == "lifespan":
            return None
        path = split_path(scope)[1]
        return self.at(f"{unquote(path) if '%' in path else path}/")

    def close(self) -> None:
        """Tell all endpoints that the server stops."""
        for closing in self._closing:
            closing()
        for _, endpoints in self._mounted:
            endpoints.close()

    def at(self, path: str) -> ASGIApp | None:
        """Return the endpoint of a path, which has a slash at both ends."""
        for endpoint in self._endpoints:
            if path.startswith(endpoint.prefix):
                return endpoint.app
        for prefix, endpoints in self._mounted:
            if path.startswith(prefix + "/"):
                found = endpoints.at(path[len(prefix) :])
                if found is not None:
                    return found
        return None
