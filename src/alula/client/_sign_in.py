"""Signing in from a client, at servers of Alula and of FeathersJS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any, Final

from alula._context import HookContext
from alula.client._codec import merge_headers
from alula.client._connection import RestService
from alula.errors import BadGateway, FrameworkError, NotAuthenticated

__all__ = ["AuthenticationClient", "authentication"]

_STALE: Final = range(401, 408)  # what shows that a token is no longer good for anything
_SIGNING_IN: Final[ContextVar[object]] = ContextVar("signing_in", default=None)  # whose hooks run


class AuthenticationClient:
    """Signs in and out, keeps the token, and sends it with every call to the client's own server.

    Args:
        client: The client.
        path: Path of the authentication service.
        storage: Where the token is kept: any mutable mapping of names to texts, such as a
            ``shelve`` or a dict that several clients share.
        storage_key: Its name there.
        header: The header that carries it.
        scheme: The word before it.
        jwt_strategy: The name of the strategy that takes a token.

    Attributes:
        storage: As given.
        result: What the last sign-in answered, None where nobody is signed in.
    """

    def __init__(
        self,
        client: Any,
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
        # Not contended in a synchronous client, so it never waits there.
        self._lock = asyncio.Lock()

    @property
    def authenticated(self) -> bool:
        """Whether somebody is signed in, as far as is known here."""
        return self.result is not None

    @property
    def access_token(self) -> str | None:
        """The token that is stored."""
        return self.storage.get(self._key)

    async def login(
        self,
        data: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        **proof: Any,
    ) -> dict[str, Any]:
        """Sign in; the client emits ``login`` with the answer.

        Args:
            data: The proof, with the name of its ``strategy``.
            params: Params of the call.
            proof: More of the proof.

        Returns:
            What the server answers: ``accessToken``, ``authentication`` and the user.

        Raises:
            NotAuthenticated: The proof is not good. No token is stored then.
            FrameworkError: As any call, and where the answer has no token.
            RuntimeError: It is called by a hook of a sign-in.
        """
        async with self._turn():
            return await self._create({**(data or {}), **proof}, params)

    async def re_authenticate(self, *, force: bool = False) -> dict[str, Any]:
        """Sign in with the token that is stored; who is signed in stays so, and nothing is sent.

        Args:
            force: Ask the server in any case.

        Raises:
            NotAuthenticated: There is no token, or it is no longer good; then it is forgotten.
            FrameworkError: As any call, and where the answer has no token.
            RuntimeError: It is called by a hook of a sign-in.
        """
        async with self._turn():
            if self.result is not None and not force:
                return self.result
            token = self.access_token
            if not token:
                raise NotAuthenticated("there is no access token in the storage; sign in first")
            return await self._create({"strategy": self._strategy, "accessToken": token}, None)

    async def logout(self) -> dict[str, Any] | None:
        """Sign out and forget the token; the client emits ``logout`` with the answer.

        Returns:
            What the server answers, None where it knew nobody by this token.

        Raises:
            FrameworkError: The server could not be asked; the token is kept.
        """
        try:
            answer: dict[str, Any] = await self._client.service(self.path).remove(None)
        except FrameworkError as error:
            if error.code not in _STALE:
                raise
            self.forget()
            return None
        self.forget()
        self._client.emit("logout", answer)
        return answer

    def forget(self) -> None:
        """Forget who is signed in, and the token, without asking the server."""
        self.result = None
        self.storage.pop(self._key, None)

    async def send_token(self, context: HookContext) -> None:
        """Be the before hook of every call that sends the token; not to other servers.

        Calls that begin while somebody signs in wait for that, but for those of its own hooks.
        """
        service = context.service.service
        if not isinstance(service, RestService) or service.connection is not self._client.rest:
            return
        if context.path == self.path:
            if context.method == "create":
                return
        elif self._lock.locked() and _SIGNING_IN.get() is not self:
            async with self._lock:
                pass
        token = self.access_token
        if token:
            own = {self._header: f"{self._scheme} {token}"}
            context.params.headers = merge_headers(own, context.params.headers)

    def _turn(self) -> asyncio.Lock:
        if _SIGNING_IN.get() is self:  # who would wait for itself
            raise RuntimeError(
                f"a hook of a sign-in signs in again; let it leave out the path {self.path!r}"
            )
        return self._lock

    async def _create(
        self, data: Mapping[str, Any], params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        try:
            result = await self._ask(data, params)
        except FrameworkError as error:
            self.result = None
            if error.code in _STALE:
                self.forget()
            raise
        self.result = result
        self.storage[self._key] = result["accessToken"]
        self._client.emit("login", result)
        return result

    async def _ask(self, data: Mapping[str, Any], params: Any) -> dict[str, Any]:
        before = _SIGNING_IN.get()
        _SIGNING_IN.set(self)
        try:
            result = await self._client.service(self.path).create(data, params)
        finally:
            _SIGNING_IN.set(before)
        if isinstance(result, dict) and isinstance(result.get("accessToken"), str):
            return result
        raise BadGateway(
            f"the answer of {self.path!r} has no `accessToken`; give the path of the authentication"
            " service: authentication(path=...)"
        )


def authentication(**options: Any) -> Callable[[Any], None]:
    """Return a plugin that lets a client sign in: ``client.configure(authentication())``.

    Args:
        options: Those of `AuthenticationClient`.
    """

    def configure(client: Any) -> None:
        client.authentication = AuthenticationClient(client, **options)
        client.hooks(before=[client.authentication.send_token])

    return configure
