"""Tickets: what a page puts into the URL of an `EventSource`, which cannot send headers.

A token in a URL ends up in logs and histories. A ticket there is worth little: it is valid for half
a minute and for one stream. It has the claims of the access token that it was made with, sealed, so
every process can redeem it, and nothing accepts it as a token.
"""

from __future__ import annotations

from typing import Any, Final

from alula._context import Params
from alula._identity import Application
from alula.authentication._hooks import authenticate
from alula.authentication._sealed import OneTimeSeal
from alula.errors import NotAuthenticated
from alula.types import is_mapping

__all__ = ["Tickets"]

_LIFETIME_SECONDS: Final = 30


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
        self._seal = OneTimeSeal("ticket", _LIFETIME_SECONDS)
        self._path = ""

    def offer(self, app: Application, path: str) -> None:
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
        self._seal.setup(self._authentication, path)
        if self._path:  # set up before
            return
        self._path = f"{path}/tickets"
        app.use(self._path, self, methods=["create"])
        handle = app.service(self._path)
        handle.hooks(around={"create": [authenticate(strategy.name, service=path)]})

    async def create(self, data: object, params: Params) -> dict[str, Any]:  # noqa: ARG002  # a service's method
        """Return a ticket for the caller: ``{"ticket", "expiresIn"}``.

        Raises:
            NotAuthenticated: The caller is not signed in.
        """
        payload = (params.authentication or {}).get("payload")
        if not is_mapping(payload):
            raise NotAuthenticated("Not authenticated")
        claims = {name: value for name, value in payload.items() if name != "iat"}
        return {"ticket": self._seal.seal(claims), "expiresIn": _LIFETIME_SECONDS}

    async def redeem(self, ticket: str) -> dict[str, str]:
        """Use a ticket up, and return credentials like those that it was made with.

        Args:
            ticket: The ticket; any text.

        Raises:
            NotAuthenticated: It is not valid, or was used before.
        """
        sealed = self._seal.unseal(ticket)
        if sealed is None:
            raise NotAuthenticated("Invalid ticket; get a new one")
        if not await self._seal.use_up(sealed):
            raise NotAuthenticated("The ticket was used before; get a new one")
        claims = sealed.value
        token: str = self._authentication.create_access_token(claims, claims.get("sub"))
        return {"strategy": self._authentication.token_strategy.name, "accessToken": token}
