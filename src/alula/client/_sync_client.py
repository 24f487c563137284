"""The synchronous client: `Client`, with a transport that blocks the thread that calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from alula.client._client import Client
from alula.client._connection import Connection
from alula.client._per_process import PerProcess
from alula.client._sign_in import AuthenticationClient
from alula.client._sync_service import SyncService, TypedSyncService
from alula.client._transport import run_sync
from alula.types import RecordType

__all__ = ["SyncClient", "create_sync_client"]

Listener = TypeVar("Listener", bound=Callable[..., Any])


class SyncClient:
    """Calls the services of a server and blocks until the response; otherwise like `Client`.

    ``with`` closes it at the end. Any number of threads may call it at the same time.

    Attributes:
        client: The `Client` that it runs, for hooks by decorator: ``sync.client.before()``.
    """

    def __init__(self) -> None:
        self.client = Client(synchronous=True)
        self._services: dict[str, TypedSyncService[Any]] = {}
        self._lock = PerProcess(threading.Lock)

    def __repr__(self) -> str:
        return repr(self.client)

    @property
    def rest(self) -> Connection | None:
        """The connection to its server if that is one by `rest`, otherwise None."""
        return self.client.rest

    @property
    def connection(self) -> Connection | None:
        """The connection to its server, None before `configure`."""
        return self.client.connection

    @property
    def settings(self) -> dict[str, Any]:
        """Settings by name."""
        return self.client.settings

    def configure(self, plugin: Callable[[Client], Any]) -> Self:
        """Call ``plugin`` with the client (see `Client.configure`)."""
        self.client.configure(plugin)
        return self

    def set(self, name: str, value: Any) -> Self:
        """Set a setting."""
        self.client.set(name, value)
        return self

    def get(self, name: str) -> Any:
        """Return a setting, None if it is not set."""
        return self.client.get(name)

    def hooks(self, hooks: Any = None, /, **kinds: Any) -> Self:
        """Register hooks for all services; they are plain functions."""
        self.client.hooks(hooks, **kinds)
        return self

    def on(self, event: str, listener: Listener) -> Listener:
        """Call ``listener`` whenever ``event`` is emitted."""
        return self.client.on(event, listener)

    def once(self, event: str, listener: Listener) -> Listener:
        """Call ``listener`` the next time that ``event`` is emitted, and not again."""
        return self.client.once(event, listener)

    def off(self, event: str, listener: Callable[..., Any] | None = None) -> None:
        """Stop calling one listener of an event, or all of them."""
        self.client.off(event, listener)

    def emit(self, event: str, *values: Any) -> bool:
        """Call the listeners of an event with ``values``; return whether there are any."""
        return self.client.emit(event, *values)

    @overload
    def service(self, path: str, *, methods: Iterable[str] = ()) -> SyncService: ...
    @overload
    def service(
        self, path: str, record: type[RecordType], *, methods: Iterable[str] = ()
    ) -> TypedSyncService[RecordType]: ...
    def service(
        self, path: str, record: type[Any] | None = None, *, methods: Iterable[str] = ()
    ) -> SyncService:
        """Return a service of the server (see `Client.service`)."""
        record_type: type[Any] = record or dict
        with self._lock.get():
            handle = self.client.service(path, record_type, methods=methods)
            if handle.path not in self._services:
                self._services[handle.path] = TypedSyncService(handle)
            return self._services[handle.path]

    def use(
        self,
        path: str,
        service: object,
        *,
        methods: Iterable[str] | None = None,
        events: Iterable[str] | None = None,
    ) -> Self:
        """Register a service of another server, or of this program (see `Client.use`)."""
        self.client.use(path, service, methods=methods, events=events)
        return self

    @property
    def authentication(self) -> AuthenticationClient:
        """The sign-in of this client (see `Client.authentication`)."""
        return self.client.authentication

    def login(
        self,
        data: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        **credentials: object,
    ) -> dict[str, Any]:
        """Sign in (see `AuthenticationClient.login`)."""
        return run_sync(self.client.login(data, params, **credentials))

    def re_authenticate(self, *, force: bool = False) -> dict[str, Any]:
        """Sign in with the stored token."""
        return run_sync(self.client.re_authenticate(force=force))

    def logout(self) -> dict[str, Any] | None:
        """Sign out."""
        return run_sync(self.client.logout())

    def open(self) -> None:
        """Open the connection now and wait for it (see `Client.open`)."""
        run_sync(self.client.open())

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        run_sync(self.client.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def create_sync_client() -> SyncClient:
    """Return a new client whose calls block; ``configure`` it with a connection."""
    return SyncClient()
