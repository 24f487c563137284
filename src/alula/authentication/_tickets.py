"""Tickets: what a page puts into the URL of an `EventSource`, which cannot send headers.

A token in a URL ends up in logs and histories. A ticket there is worth little: it is valid for half
a minute and for one stream. It carries the claims of the access token that it was made with, signed
by a key of its own, so that every process can redeem it, and nothing accepts it as a token.

Each process remembers the used tickets, and tells the others over the bus. A ticket that reaches
two processes within the time of a message could so be used twice; with a service that stores the
budgets of the throttle, they are remembered there, and it cannot.
"""

from __future__ import annotations

import time
from hashlib import blake2b
from typing import Any, Final

from alula._context import Params
from alula._gcra import MemoryTimes, Times
from alula._identity import Application
from alula.authentication._access_tokens import Tokens
from alula.authentication._hooks import authenticate
from alula.errors import NotAuthenticated
from alula.types import is_mapping

__all__ = ["Tickets"]

_LIFETIME_SECONDS: Final = 30
_CAPACITY: Final = 50_000  # used tickets that one process remembers, some 5 MB


class Tickets:
    """The service at ``authentication/tickets``: its `create` gives a ticket to a signed-in user.

    Args:
        authentication: The authentication service.

    Attributes:
        secret_events: True: its events have tickets, so they are never published.
    """

    secret_events = True

    def __init__(self, authentication: Any) -> None:
        self._authentication = authentication
        self._used: Times = MemoryTimes(_CAPACITY)
        self._tokens: Tokens | None = None
        self._topic = ""
        self._sweep_at = 0.0

    async def offer(self, app: Application, path: str) -> None:
        """Register the service.

        Args:
            app: The application.
            path: Where the authentication service is registered.

        Raises:
            ValueError: No strategy checks access tokens, which tickets are made with.
        """
        strategy = self._authentication.token_strategy
        if strategy is None:
            raise ValueError("tickets are made with access tokens: register a JWTStrategy")
        # A key of its own: no ticket is an access token, and no access token a ticket.
        key = self._authentication.tokens.derived_key(b"ticket")
        self._tokens = Tokens(
            key, audience=None, expires_in=_LIFETIME_SECONDS, needs_subject=False, types=["ticket"]
        )
        throttle = self._authentication.throttle
        if throttle is not None and throttle.shared_times is not None:
            self._used = throttle.shared_times
        if self._topic:  # set up before
            return
        self._topic = f"tickets/{path}"
        app.channel_registry.on_signal(self._topic, lambda used: self.remember(*used))
        app.use(f"{path}/tickets", self, methods=["create"])
        handle = app.service(f"{path}/tickets")
        handle.hooks(around={"create": [authenticate(strategy.name, service=path)]})

    async def create(self, data: object, params: Params) -> dict[str, Any]:  # noqa: ARG002  # a service's method
        """Return a ticket for the caller: ``{"ticket", "expiresIn"}``.

        Raises:
            NotAuthenticated: The caller is not signed in.
        """
        payload = (params.authentication or {}).get("payload")
        if self._tokens is None or not is_mapping(payload):
            raise NotAuthenticated("Not authenticated")
        claims = {name: value for name, value in payload.items() if name != "iat"}
        return {"ticket": self._tokens.create({"of": claims}), "expiresIn": _LIFETIME_SECONDS}

    async def redeem(self, ticket: str) -> dict[str, str]:
        """Use a ticket up, and return credentials like those that it was made with.

        Args:
            ticket: The ticket; any text.

        Raises:
            NotAuthenticated: It is not valid, or was used before.
        """
        if self._tokens is None:
            raise NotAuthenticated("Invalid ticket")
        try:
            payload = self._tokens.verify(ticket)
        except NotAuthenticated:
            raise NotAuthenticated("Invalid ticket; get a new one") from None
        now = time.time()
        if now >= self._sweep_at:
            self._sweep_at = now + _LIFETIME_SECONDS
            await self._used.sweep(int(now * 1000))
        # No budget of a throttle in the same store has such a key.
        key = blake2b(f"ticket\0{payload['jti']}".encode(), digest_size=16).hexdigest()
        until = int(payload["exp"] * 1000)
        if not await self._used.compare_and_set(key, 0, until):
            raise NotAuthenticated("The ticket was used before; get a new one")
        self._authentication.app.channel_registry.signal(self._topic, [key, until])
        claims = payload["of"]
        token: str = self._authentication.create_access_token(claims, claims.get("sub"))
        return {"strategy": self._authentication.token_strategy.name, "accessToken": token}

    def remember(self, key: str, until: int) -> None:
        """Remember a ticket that another process has redeemed."""
        if isinstance(self._used, MemoryTimes):  # else they share a store
            self._used.set(key, until)
