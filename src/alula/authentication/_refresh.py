"""The strategy that takes refresh tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alula._context import Params
from alula.authentication._sessions import Sessions
from alula.authentication._strategies import AuthenticationStrategy

__all__ = ["RefreshStrategy"]


class RefreshStrategy(AuthenticationStrategy):
    """Takes a refresh token: ``{"strategy": "refresh", "refreshToken": "..."}``.

    It is used up by that, and the answer has the next one beside the new access token. As the
    proof of a sign-out it ends its session, also where the access token has run out.

    Args:
        sessions: The sessions that the tokens belong to.
    """

    can_be_guessed = False

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    # The interface has a response.
    def parse(self, req: Any, res: Any) -> Mapping[str, Any] | None:  # noqa: ARG002
        """Return the token of a sign-out, which has it in ``Authorization: Refresh <token>``."""
        scope = req.scope
        if scope["method"] == "DELETE":
            for key, value in scope["headers"]:
                if key == b"authorization" and value[:8].lower() == b"refresh ":
                    token = value[8:].decode("latin-1").strip(" \t")
                    return {"strategy": self.name, "refreshToken": token}
        return None

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Use up a token, and load the user of its session.

        Raises:
            NotAuthenticated: It is none, or was used before, or its session has ended.
        """
        record = await self._sessions.sign_in(authentication.get("refreshToken"), params)
        name = self.authentication.entities.name
        return {"authentication": {"strategy": self.name}, name: record}
