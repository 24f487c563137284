"""Signing in from a client, to servers of Alula and of FeathersJS."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any, Final, Protocol

from alula._context import HookContext
from alula._service import ServiceHandle
from alula.client._codec import merge_headers
from alula.client._connection import Connection, RemoteService
from alula.client._per_process import PerProcess
from alula.errors import BadGateway, FrameworkError, NotAuthenticated
from alula.types import is_dict

__all__ = ["AuthenticationClient", "authentication"]

_TOKEN_REJECTED: Final = range(401, 408)  # statuses after which a token is of no more use
# Whose hooks run: they must not wait for the sign-in that waits for them.
_SIGNING_IN: Final[ContextVar[object]] = ContextVar("signing_in", default=None)


class SigningClient(Protocol):
    """What `AuthenticationClient` needs of a client."""

    connection: Connection | None

    def service(self, path: str) -> ServiceHandle:
        """Return a service of the server."""
        ...

    def emit(self, event: str, *values: Any) -> bool:
        """Call the listeners of an event."""
        ...


class _BlockingLock:
    """An ``asyncio.Lock`` for the threads of a synchronous client: it blocks."""

    def __init__(self) -> None:
        self._lock = PerProcess(threading.Lock)

    def locked(self) -> bool:
        return self._lock.get().locked()

    async def __aenter__(self) -> None:
        self._lock.get().acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.get().release()


class AuthenticationClient:
    """Signs in and out, keeps the token, and sends it with every request to the client's server.

    Args:
        client: The client.
        path: Path of the authentication service.
        storage: Where the token is kept: any mutable mapping of names to texts, such as a
            ``shelve`` or a dict that several clients share.
        storage_key: The key of the token in the storage.
        header: The header with the token.
        scheme: The authentication scheme, the word before the token.
        jwt_strategy: The name of the strategy for tokens.

    Attributes:
        storage: The storage of the token.
        result: The result of the last sign-in, None without one.
    """

    def __init__(
        self,
        client: SigningClient,
        *,
        path: str = "authentication",
        storage: MutableMapping[str, str] | None = None,
        storage_key: str = "alula-jwt",
        header: str = "Authorization",
        scheme: str = "Bearer",
        jwt_strategy: str = "jwt",
    ) -> None:
        self.path = path.strip("/")
        self.storage: MutableMapping[str, str] = {} if storage is None else storage
        self.result: dict[str, Any] | None = None
        self._client = client
        self._key = storage_key
        self._header = header
        self._scheme = scheme
        self._strategy = jwt_strategy
        # Listeners of a synchronous client call services in a thread of their own.
        is_blocking = getattr(client, "synchronous", False)
        self._lock: asyncio.Lock | _BlockingLock = (
            _BlockingLock() if is_blocking else asyncio.Lock()
        )

    @property
    def authenticated(self) -> bool:
        """Whether the client is signed in; the server may have ended the session meanwhile."""
        return self.result is not None

    @property
    def access_token(self) -> str | None:
        """The token in the storage."""
        return self.storage.get(self._key)

    async def login(
        self,
        data: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        **credentials: object,
    ) -> dict[str, Any]:
        """Sign in; the client emits ``login`` with the result.

        Args:
            data: The credentials, with the name of their ``strategy``.
            params: Params of the call.
            credentials: More credentials.

        Returns:
            The result of the server: ``accessToken``, ``authentication`` and the user.

        Raises:
            NotAuthenticated: The credentials are wrong. No token is stored then.
            FrameworkError: As any call, and if the result has no token.
            RuntimeError: A hook of a sign-in called it.
        """
        async with self._exclusively():
            return await self._create({**(data or {}), **credentials}, params)

    async def re_authenticate(self, *, force: bool = False) -> dict[str, Any]:
        """Sign in with the token in the storage; if the client is signed in, send nothing.

        Args:
            force: Ask the server in any case.

        Raises:
            NotAuthenticated: There is no token, or the server rejected it; then it is forgotten.
            FrameworkError: As any call, and if the result has no token.
            RuntimeError: A hook of a sign-in called it.
        """
        async with self._exclusively():
            if self.result is not None and not force:
                return self.result
            token = self.access_token
            if not token:
                raise NotAuthenticated("there is no access token in the storage; sign in first")
            return await self._create({"strategy": self._strategy, "accessToken": token}, None)

    async def logout(self) -> dict[str, Any] | None:
        """Sign out and forget the token; the client emits ``logout`` with the result.

        Returns:
            The result of the server, None if it had rejected the token.

        Raises:
            FrameworkError: The server could not be asked; the token is kept.
        """
        try:
            result: dict[str, Any] = await self._client.service(self.path).remove(None)
        except FrameworkError as error:
            if not self.rejected(error):
                raise
            return None
        self.forget()
        self._client.emit("logout", result)
        return result

    # -- renewed by the connection, where the server knows who has signed in on it ---------------

    def credentials(self) -> dict[str, str]:
        """Return the data of a sign-in with the token in the storage."""
        return {"strategy": self._strategy, "accessToken": self.access_token or ""}

    def renewed(self, result: object) -> None:
        """Take over the result of a sign-in that a new connection made."""
        if is_dict(result):
            self.result = result
            if isinstance(token := result.get("accessToken"), str):
                self.storage[self._key] = token

    def rejected(self, error: FrameworkError) -> bool:
        """Forget the token if an error says that it is not valid any more; tell whether it does."""
        if error.code in _TOKEN_REJECTED:
            self.forget()
        return error.code in _TOKEN_REJECTED

    def forget(self) -> None:
        """Forget the token and the result of the sign-in, without asking the server."""
        self.result = None
        self.storage.pop(self._key, None)

    async def send_token(self, context: HookContext) -> None:
        """Add the token to a call of the client's own server: a before hook of every call.

        Calls that begin during a sign-in wait for it, except for calls of its hooks.
        """
        service = context.service.service
        # Another server must never see the token.
        own = self._client.connection
        if not isinstance(service, RemoteService) or service.connection is not own:
            return
        if context.path == self.path:
            if context.method == "create":
                return
        elif self._lock.locked() and _SIGNING_IN.get() is not self:
            async with self._lock:
                pass
        token = self.access_token
        if token and not service.connection.keeps_sign_in:
            header = {self._header: f"{self._scheme} {token}"}
            context.params.headers = merge_headers(header, context.params.headers)

    def _exclusively(self) -> asyncio.Lock | _BlockingLock:
        # The lock is not reentrant: a sign-in in a hook of a sign-in would wait for itself.
        if _SIGNING_IN.get() is self:
            raise RuntimeError(
                f"a hook of a sign-in signs in again; let it leave out the path {self.path!r}"
            )
        return self._lock

    async def _create(
        self, data: Mapping[str, Any], params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        before = _SIGNING_IN.get()
        _SIGNING_IN.set(self)
        try:
            result = await self._client.service(self.path).create(data, params)
            if not is_dict(result) or not isinstance(result.get("accessToken"), str):
                raise BadGateway(
                    f"the result of {self.path!r} has no `accessToken`; give the path of the"
                    " authentication service: authentication(path=...)"
                )
        except FrameworkError as error:
            self.result = None
            self.rejected(error)
            raise
        finally:
            _SIGNING_IN.set(before)
        self.result = result
        self.storage[self._key] = result["accessToken"]
        self._client.emit("login", result)
        return result


def authentication(**options: Any) -> Callable[[Any], None]:
    """Return a plugin that lets a client sign in: ``client.configure(authentication())``.

    Args:
        options: Those of `AuthenticationClient`.
    """

    def configure(client: Any) -> None:
        client.authentication = AuthenticationClient(client, **options)
        client.hooks(before=[client.authentication.send_token])

    return configure
