"""The strategy that takes access tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from alula._context import Params
from alula.authentication._strategy import AuthenticationStrategy
from alula.errors import NotAuthenticated

__all__ = ["JWTStrategy"]


class JWTStrategy(AuthenticationStrategy):
    """Takes an access token: ``{"strategy": "jwt", "accessToken": "..."}``.

    Of a request it reads one header. Its value is a scheme, a colon if somebody sends one, and a
    token with spaces between them, or a token alone.

    Args:
        header: The name of the header.
        schemes: Schemes that it may have, in any case.
    """

    can_be_guessed = False

    def __init__(
        self, *, header: str = "Authorization", schemes: Iterable[str] = ("Bearer", "JWT")
    ) -> None:
        self._header = header.lower().encode("ascii")
        names = [scheme.lower() for scheme in schemes]
        self._schemes = frozenset((*names, *(f"{name}:" for name in names)))

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Check a token, and load the user that it names.

        Raises:
            NotAuthenticated: The token is not in order, or its user is gone.
        """
        token = authentication.get("accessToken")
        if token in (None, "", 0):
            raise NotAuthenticated("No access token")
        service = self.authentication
        payload = service.verify_access_token(token)
        proof = {"strategy": self.name, "accessToken": token, "payload": payload}
        result: dict[str, Any] = {"accessToken": token, "authentication": proof}
        record: Any = None
        entities = service.entities
        if entities is not None:
            record = result[entities.name] = await entities.get(payload["sub"], params)
        for extension in service.extensions:
            await extension.use_of_token(payload, record, params)
        return result

    # The interface has a response.
    def parse(self, req: Any, res: Any) -> Mapping[str, Any] | None:  # noqa: ARG002
        """Return the token of a request, None where the header has none."""
        # The raw headers: most requests need no others, so no table of them is made.
        name = self._header
        values = [value for key, value in req.scope["headers"] if key == name]
        if not values:
            return None
        if len(values) > 1:  # which one counts is not ours to guess
            return {"strategy": self.name, "accessToken": None}
        scheme, *rest = values[0].decode("latin-1").strip(" \t").split(" ")
        if not scheme:
            return None
        if not rest:
            return {"strategy": self.name, "accessToken": scheme}
        if scheme.lower() not in self._schemes:
            return None
        return {"strategy": self.name, "accessToken": next(filter(None, rest))}
