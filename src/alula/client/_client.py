"""A client: the services of a server by name, with hooks and events on this side."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from alula._app import Registry
from alula._context import HookContext, Params
from alula._routes import strip_slashes
from alula._service import ServiceHandle
from alula.client._client_service import ClientService, TypedService
from alula.client._connection import Connection, RestService
from alula.client._sign_in import AuthenticationClient
from alula.logs._request_ids import REQUEST_ID_HEADER, current_request_id
from alula.types import STANDARD_METHODS

__all__ = ["Client", "create_client", "forward_request_id"]

T = TypeVar("T", bound=Mapping[str, Any])
Given = Mapping[str, Any] | None


class Client(Registry[TypedService[Any]]):
    """Calls the services of a server as if they were here.

    ``async with`` closes it at the end.

    Args:
        synchronous: Whether its transport blocks; `create_sync_client` makes such ones.

    Attributes:
        rest: The connection that it was configured with, None before that.
        settings: Settings by name.
        services: The services that were asked for or registered, by path.
    """

    def __init__(self, *, synchronous: bool = False) -> None:
        super().__init__()
        self.rest: Connection | None = None
        self.synchronous = synchronous
        self._authentication: AuthenticationClient | None = None

    def __repr__(self) -> str:
        return f"the client of {self.rest.base}" if self.rest else "a client without a server"

    # -- what it is made of --------------------------------------------------------------------

    def connect(self, connection: Connection) -> None:
        """Take a connection as the transport; `configure` with it calls this.

        Raises:
            RuntimeError: There is one.
            TypeError: It can not serve a client of this kind.
        """
        if self.rest is not None:
            raise RuntimeError(
                f"this client has {self.rest!r} as its transport, and a client has one; register"
                " services of another server: client.use(path, other.service(path))"
            )
        connection.bind(synchronous=self.synchronous)
        self.rest = connection

    # -- services ------------------------------------------------------------------------------

    @overload
    def service(self, path: str, *, methods: Iterable[str] = ()) -> ClientService: ...
    @overload
    def service(
        self, path: str, record: type[T], *, methods: Iterable[str] = ()
    ) -> TypedService[T]: ...
    def service(
        self, path: str, record: type[Any] | None = None, *, methods: Iterable[str] = ()
    ) -> ClientService:
        """Return a service of the server; the same one for the same path.

        Args:
            path: Its path, below the base URL.
            record: The type of its records, for type checkers: a TypedDict.
            methods: Names of its custom methods, on the wire and here. They stay with the service.

        Raises:
            RuntimeError: There is no transport yet.
            TypeError: The type is no mapping, or ``methods`` is a string.
            ValueError: A method can not have such a name, or the service is not a remote one and
                has none of it.
        """
        if record is not None:
            _check_record(record)
        path = strip_slashes(path)
        if path not in self.services:
            if self.rest is None:
                raise RuntimeError(
                    "the client has no transport; configure one first:"
                    " client.configure(rest(base_url).fetch())"
                )
            self.use(path, self.rest.service(path))
        handle = self.services[path]
        handle.declare(methods)
        return handle

    def use(
        self,
        path: str,
        service: Any,
        *,
        methods: Iterable[str] | None = None,
        events: Iterable[str] | None = None,
    ) -> Self:
        """Register a service of another server, or one of this program, at a path.

        Args:
            path: Its name here.
            service: What ``service(name)`` of another connection returns, or any service.
            methods: What it has, custom methods included; of a remote service, its custom ones.
            events: Custom events that it emits.

        Raises:
            TypeError: The object can not be a service.
            ValueError: The path is taken, or a listed method does not exist.
        """
        path = strip_slashes(path)
        if path in self.services:
            raise ValueError(f"there is a service at {path!r} already")
        own: Iterable[str] | None = methods
        if isinstance(service, RestService):
            service.connection.bind(synchronous=self.synchronous)
            own = (*STANDARD_METHODS, *service.custom_methods)
        self.services[path] = TypedService(
            self, path, service, methods=own, events=events, app_hooks=self.hook_table
        )
        if isinstance(service, RestService):
            self.services[path].declare(methods or ())
        elif isinstance(service, ServiceHandle):
            service.attach(self.services[path])
        return self

    # -- signing in ----------------------------------------------------------------------------

    @property
    def authentication(self) -> AuthenticationClient:
        """Who is signed in.

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

    async def login(self, data: Given = None, params: Given = None, **proof: Any) -> Any:
        """Sign in: ``login(strategy="local", email=..., password=...)``.

        See `AuthenticationClient.login`.
        """
        return await self.authentication.login(data, params, **proof)

    async def re_authenticate(self, *, force: bool = False) -> Any:
        """Sign in with the token that is stored (see `AuthenticationClient.re_authenticate`)."""
        return await self.authentication.re_authenticate(force=force)

    async def logout(self) -> Any:
        """Sign out (see `AuthenticationClient.logout`)."""
        return await self.authentication.logout()

    # -- the end -------------------------------------------------------------------------------

    async def close(self) -> None:
        """Wait for listeners, then close connections; those of services registered by ``use`` too.

        A client can be used again afterwards.
        """
        if not self.synchronous:
            for handle in self.services.values():
                await handle.wait_for_listeners()
            await self.wait_for_listeners()
        connections: dict[Connection, None] = {} if self.rest is None else {self.rest: None}
        for handle in self.services.values():
            if isinstance(handle.service, RestService):
                connections[handle.service.connection] = None
        for connection in connections:
            await connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def create_client() -> Client:
    """Return a new client; ``configure`` it with a connection."""
    return Client()


def forward_request_id(context: HookContext) -> None:
    """Send the id of the current request along, as ``X-Request-Id``: a before hook.

    ``client.hooks(before=[forward_request_id])``. Without a current request, and where the call
    has such a header of its own, nothing is added.
    """
    known = current_request_id()
    headers = context.params.get("headers") or {}
    if known is not None and REQUEST_ID_HEADER not in {name.lower() for name in headers}:
        context.params = Params(context.params, headers={**headers, REQUEST_ID_HEADER: known})


def _check_record(record: Any) -> None:
    kind = typing.get_origin(record) or record
    if not (typing.is_typeddict(kind) or (isinstance(kind, type) and issubclass(kind, dict))):
        raise TypeError(
            f"service(path, {record!r}): records arrive as dicts, so their type is a TypedDict"
        )
