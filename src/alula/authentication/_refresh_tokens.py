"""Refresh tokens, their rotation, and the detection of reuse (RFC 9700, section 4.14.2).

A refresh token is the sealed text ``<session>.<rotation>``. So the store holds nothing that could
be stolen, and a made-up token is refused without a look-up. Each use rotates the token: the number
of rotations in the session goes up by one, and the response has the next token. A token of an
earlier rotation was used already, by its owner or by a thief. The server cannot know which, so the
session ends for both.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from secrets import token_bytes
from typing import Any, Final

from alula._context import Params
from alula._identity import SentRequest
from alula.authentication._attempt import (
    Attempt,
    Extension,
    Session,
    current_attempt,
    session_ended,
)
from alula.authentication._base_strategy import AuthenticationStrategy
from alula.authentication._sealed import Seal
from alula.authentication._sessions import Sessions
from alula.errors import NotAuthenticated, NotFound

__all__ = ["RefreshStrategy", "RefreshTokens"]

_log: Final = logging.getLogger("alula.authentication")


class RefreshTokens(Extension):
    """Adds a refresh token to each sign-in, and rotates it.

    Args:
        sessions: The sessions that the tokens renew.
    """

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self._seal = Seal(token_bytes(32))  # until the setup, which knows the secret

    async def setup(self, authentication: Any) -> None:
        """Derive the key of the tags from the secret."""
        self._seal = Seal(authentication.derived_key(b"alula refresh token"))

    async def response(self, attempt: Attempt) -> dict[str, Any]:
        """Return the response with the refresh token behind the access token."""
        response, session = attempt.response, attempt.session
        if session is None:
            return response
        access_token = response.pop("accessToken")
        return {"accessToken": access_token, "refreshToken": self.create(session), **response}

    def create(self, session: Session) -> str:
        """Return the current refresh token of a session."""
        return self._seal.seal(f"{session.id}.{session.rotation}")

    async def rotate(self, refresh_token: object) -> Session:
        """Use up a refresh token, and return its session, for which `create` makes the next token.

        Raises:
            NotAuthenticated: It is not a refresh token, its session has ended, or it was used
                before. The last ends the session.
        """
        session_id, rotation = self.read(refresh_token)
        sessions = self.sessions
        while True:
            record = await sessions.get(session_id)
            if record["rotation"] != rotation:
                return await self._detect_reuse(record, rotation)
            now = sessions.milliseconds()
            changes = {
                "rotation": rotation + 1,
                "rotatedAt": now,
                "expiresAt": sessions.renewed_until(record["createdAt"], now),
            }
            try:
                # Compare-and-set: of two uses at the same time only one finds this rotation.
                await sessions.handle.patch(session_id, changes, query={"rotation": rotation})
            except NotFound:
                continue  # the other use was faster, or the session has ended
            return sessions.session_of({**record, **changes})

    def read(self, token: object) -> tuple[str, int]:
        """Return the session and the rotation of a token whose tag is right.

        Raises:
            NotAuthenticated: It is not a refresh token.
        """
        if (text := self._seal.unseal(token)) is not None:
            session_id, _, rotation = text.rpartition(".")
            return session_id, int(rotation)
        raise NotAuthenticated("Invalid refresh token")

    async def _detect_reuse(self, record: Mapping[str, Any], rotation: int) -> Session:
        """End the session of a token that was used before, unless that was within the grace."""
        sessions = self.sessions
        session = sessions.session_of(record)
        elapsed = sessions.milliseconds() - record["rotatedAt"]
        if rotation == session.rotation - 1 and elapsed < sessions.grace:
            return session
        await sessions.remove(session.id)
        _log.warning(
            "a refresh token of user %s was used twice: their session has been ended, since the"
            " token may have been stolen",
            ascii(session.user_id),
        )
        raise session_ended()


class RefreshStrategy(AuthenticationStrategy):
    """Accepts a refresh token: ``{"strategy": "refresh", "refreshToken": "..."}``.

    The token is used up, and the response has the next one beside the new access token. As the
    credentials of a sign-out it ends its session, even if the access token has expired.

    Args:
        tokens: Rotates the tokens.
    """

    can_be_guessed = False

    def __init__(self, tokens: RefreshTokens) -> None:
        self._tokens = tokens

    # A strategy's `parse` gets a response, too.
    def parse(self, req: SentRequest, res: object) -> Mapping[str, Any] | None:  # noqa: ARG002  # as above
        """Return the token of a sign-out, which sends ``Authorization: Refresh <token>``."""
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
        """Rotate a token, and load the user of its session.

        Raises:
            NotAuthenticated: As `RefreshTokens.rotate`, or the user does not exist.
        """
        session = await self._tokens.rotate(authentication.get("refreshToken"))
        entities = self.authentication.entities
        try:
            record = await entities.get(session.user_id, params)
        except NotAuthenticated:
            await self._tokens.sessions.remove(session.id)
            raise
        attempt = current_attempt(self.authentication)
        if attempt is not None:
            attempt.session = session
        return {"authentication": {"strategy": self.name}, entities.name: record}
