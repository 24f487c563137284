"""The asynchronous client: the services of a server by path, with hooks and events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from alula._context import HookContext, Params
from alula._registry import Registry
from alula._routes import strip_slashes
from alula._service import ServiceHandle, check_service_type
from alula.client._client_service import ClientService, TypedService
from alula.client._connection import Connection, RemoteService
from alula.client._rest import RestConnection
from alula.client._sign_in import AuthenticationClient
from alula.logs._request_ids import REQUEST_ID_HEADER, current_request_id
from alula.types import STANDARD_METHODS, RecordType

__all__ = ["Client", "create_client", "forward_request_id"]

AnyTypedService = TypeVar("AnyTypedService", bound=TypedService[Any, Any, Any, Any])
Given = Mapping[str, Any] | None


class Client(Registry[TypedService[Any]]):
    """Calls the services of a server like local ones.

    ``async with`` closes it at the end.

    Args:
        synchronous: Whether its transport blocks, as in `create_sync_client`.

    Attributes:
        connection: The connection to its server, None before `configure`; also ``rest`` if that is
            one by `rest`.
        settings: Settings by name.
        services: Services by path, from the first `service(path)` or `use`.
    """

    def __init__(self, *, synchronous: bool = False) -> None:
        super().__init__()
        self.connection: Connection | None = None
        self.synchronous = synchronous
        self._authentication: AuthenticationClient | None = None

    def __repr__(self) -> str:
        connection = self.connection
        return f"the client of {connection.base}" if connection else "a client without a server"

    @property
    def rest(self) -> Connection | None:
        """The connection to its server if that is one by `rest`, otherwise None."""
        return self.connection if isinstance(self.connection, RestConnection) else None

    # -- what it is made of --------------------------------------------------------------------

    def connect(self, connection: Connection) -> None:
        """Connect to a server; ``client.configure(connection)`` calls this.

        Raises:
            RuntimeError: The client has a connection.
            TypeError: The connection serves a synchronous client, or its library only such.
        """
        if self.connection is not None:
            raise RuntimeError(
                f"this client has {self.connection!r} as its transport, and a client has one;"
                " register services of another server: client.use(path, other.service(path))"
            )
        connection.bind(synchronous=self.synchronous)
        connection.belong_to(self.emit, lambda: self._authentication)
        self.connection = connection

    # -- services ------------------------------------------------------------------------------

    @overload
    def service(self, path: str, *, methods: Iterable[str] = ()) -> ClientService: ...
    @overload
    def service(
        self, path: str, record: type[AnyTypedService], *, methods: Iterable[str] = ()
    ) -> AnyTypedService: ...
    @overload
    def service(
        self, path: str, record: type[RecordType], *, methods: Iterable[str] = ()
    ) -> TypedService[RecordType]: ...
    def service(
        self, path: str, record: type[Any] | None = None, *, methods: Iterable[str] = ()
    ) -> ClientService:
        """Return the service at a path of the server.

        Args:
            path: Its path, relative to the base URL.
            record: For type checkers: the type of its records, a TypedDict, or a class of
                `TypedService`.
            methods: Names of its custom methods. The service keeps them.

        Raises:
            RuntimeError: The client has no connection yet.
            TypeError: ``record`` is neither, or ``methods`` is a string.
            ValueError: A method cannot have such a name, or a local service lacks the method, or
                ``record`` declares a custom method that is not among ``methods``.
        """
        path = strip_slashes(path)
        if path not in self.services:
            if self.connection is None:
                raise RuntimeError(
                    "the client has no transport; configure one first:"
                    " client.configure(rest(base_url).fetch())"
                )
            self.use(path, self.connection.service(path))
        handle = self.services[path]
        handle.declare(methods)
        if record is not None:
            check_service_type(handle, record)
        return handle

    def use(
        self,
        path: str,
        service: object,
        *,
        methods: Iterable[str] | None = None,
        events: Iterable[str] | None = None,
    ) -> Self:
        """Register a service of another server, or a local one, at a path.

        Args:
            path: Its path in this client.
            service: What ``service(name)`` of another connection returns, or any service.
            methods: Names of its methods; for a remote service, of its custom methods only.
            events: Custom events that it emits.

        Raises:
            TypeError: The object is not a service.
            ValueError: The path is taken, or a listed method does not exist.
        """
        path = strip_slashes(path)
        if path in self.services:
            raise ValueError(f"there is a service at {path!r} already")
        names: Iterable[str] | None = methods
        if isinstance(service, RemoteService):
            service.connection.bind(synchronous=self.synchronous)
            names = (*STANDARD_METHODS, *service.custom_methods)
        self.services[path] = TypedService(
            self, path, service, methods=names, events=events, app_hooks=self.hook_table
        )
        if isinstance(service, RemoteService):
            self.services[path].declare(methods or ())
        elif isinstance(service, ServiceHandle):
            service.attach(self.services[path])
        return self

    # -- signing in ----------------------------------------------------------------------------

    @property
    def authentication(self) -> AuthenticationClient:
        """The sign-in of this client, with its token.

        Raises:
            RuntimeError: The client was not configured with `authentication`.
        """
        if self._authentication is None:
            raise RuntimeError(
                "this client does not sign in; configure it first:"
                " client.configure(authentication())"
            )
        return self._authentication

    @authentication.setter
    def authentication(self, value: AuthenticationClient) -> None:
        self._authentication = value

    async def login(
        self, data: Given = None, params: Given = None, **credentials: object
    ) -> dict[str, Any]:
        """Sign in: ``login(strategy="local", email=..., password=...)``.

        See `AuthenticationClient.login`.
        """
        return await self.authentication.login(data, params, **credentials)

    async def re_authenticate(self, *, force: bool = False) -> dict[str, Any]:
        """Sign in with the stored token (see `AuthenticationClient.re_authenticate`)."""
        return await self.authentication.re_authenticate(force=force)

    async def logout(self) -> dict[str, Any] | None:
        """Sign out (see `AuthenticationClient.logout`)."""
        return await self.authentication.logout()

    # -- start and end -------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the connection now and wait for it; by `rest`, there is nothing to open.

        Otherwise the first call opens it.

        Raises:
            FrameworkError: The server cannot be reached, or refuses the connection.
            RuntimeError: The client has no connection yet.
        """
        if self.connection is None:
            raise RuntimeError("the client has no transport; configure one first")
        await self.connection.open()

    async def close(self) -> None:
        """Wait for listeners, then close all connections, also those of services of `use`.

        The next call opens new ones.
        """
        if not self.synchronous:
            for handle in self.services.values():
                await handle.wait_for_listeners()
            await self.wait_for_listeners()
        own = self.connection
        connections: dict[Connection, None] = {} if own is None else {own: None}
        for handle in self.services.values():
            if isinstance(handle.service, RemoteService):
                connections[handle.service.connection] = None
        for connection in connections:
            await connection.close()

    async def __aenter__(self) -> Self:
        if self.connection is not None:
            self.connection.loop_runs()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def create_client() -> Client:
    """Return a new client; ``configure`` it with a connection.

    Examples:
        ```python
        from alula.client import create_client, rest


        async def main():
            async with create_client().configure(rest("http://localhost:3030")) as client:
                return await client.service("messages").find(query={"$limit": 10})
        ```
    """
    return Client()


def forward_request_id(context: HookContext) -> None:
    """A before hook that sends the id of the current request along, as ``X-Request-Id``.

    Register it by ``client.hooks(before=[forward_request_id])``. It adds nothing outside of a
    request, or to a call that has such a header.
    """
    request_id = current_request_id()
    headers: Mapping[str, str] = context.params.get("headers") or {}
    if request_id is not None and REQUEST_ID_HEADER not in {name.lower() for name in headers}:
        context.params = Params(context.params, headers={**headers, REQUEST_ID_HEADER: request_id})
